"""Producers wait while the disk is behind, and go on when it has caught up."""

import trio

from agentcompass.engine.durable import BACKLOG_BYTES, Flow
from agentcompass.store.writer import Job, Writer


async def test_producers_wait_while_too_much_is_to_be_written():
    writer, passed = Writer(), []
    flow = Flow(writer)

    async def produce():
        await flow.wait()
        passed.append(writer.pending_bytes)

    await produce()
    writer.submit(Job(write=lambda: None, size=BACKLOG_BYTES))
    await produce()  # as much as may wait
    writer.submit(Job(write=lambda: None, size=1))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(produce)
        await trio.sleep(0.05)
        assert passed == [0, BACKLOG_BYTES]
        writer.start()
    assert passed == [0, BACKLOG_BYTES, 0]
    assert writer.close(10)


async def test_waiting_for_the_disk_can_be_cancelled():
    writer = Writer()
    writer.submit(Job(write=lambda: None, size=BACKLOG_BYTES + 1))
    with trio.move_on_after(0.01) as scope:
        await Flow(writer).wait()
    assert scope.cancelled_caught
