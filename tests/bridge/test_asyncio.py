"""Asyncio hosts on a bad day: loops closed under an evaluation, impatient frameworks, interpreters that exit."""

import asyncio
import threading
import time

import anyio
import pytest

from agentcompass.bridge import require_no_loop, run_async, run_sync
from agentcompass.errors import ConfigurationError, NestedLoopError
from support.hosting import Engine
from support.scripts import run_script


def _wait_for(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def test_a_loop_that_is_closed_under_an_evaluation_ends_it_with_its_cleanup():
    engine = Engine()
    loop = asyncio.new_event_loop()
    task = loop.create_task(run_async(engine, grace_seconds=5, on_event=lambda _event: loop.stop()))
    loop.run_forever()
    loop.close()
    _wait_for(lambda: engine.is_cleaned)
    assert engine.control.reason == "caller"
    task._log_destroy_pending = False  # the test's own doing


def test_a_framework_that_repeats_its_cancellation_at_every_tick_does_not_cut_the_cleanup_short():
    engine = Engine(cleanup_seconds=0.4)

    async def app():
        with anyio.move_on_after(0.1) as scope:
            await run_async(engine, grace_seconds=5)
        return scope.cancelled_caught

    assert asyncio.run(app())
    assert engine.is_cleaned


def test_repeated_cancellation_in_a_loop_that_stands_still_at_times_does_not_either():
    engine = Engine(cleanup_seconds=0.8)

    async def stand_still():
        while True:
            time.sleep(0.15)  # what a good application would not do
            await asyncio.sleep(0.01)

    async def app():
        async with asyncio.TaskGroup() as group:
            other = group.create_task(stand_still())
            with anyio.move_on_after(0.1):
                await run_async(engine, grace_seconds=20)
            other.cancel()

    asyncio.run(app())
    assert engine.is_cleaned


def test_an_evaluation_does_not_block_the_hosts_loop():
    async def engine(control, emit):
        end = time.monotonic() + 0.3
        while time.monotonic() < end:  # an engine that computes
            sum(range(1000))

    async def app():
        pauses = []
        task = asyncio.ensure_future(run_async(engine, grace_seconds=5))
        while not task.done():
            begin = time.monotonic()
            await asyncio.sleep(0.01)
            pauses.append(time.monotonic() - begin)
        return len(pauses)

    assert asyncio.run(app()) >= 3


def test_the_engine_has_a_thread_of_its_own_that_is_gone_afterwards():
    async def engine(control, emit):
        return threading.current_thread()

    async def app():
        return await run_async(engine, grace_seconds=5)

    thread = asyncio.run(app())
    assert thread is not threading.main_thread()
    assert not thread.is_alive()


def test_a_synchronous_call_inside_a_loop_names_its_twin_at_once():
    async def app():
        run_sync(Engine(), grace_seconds=5, async_twin="async_launch")

    with pytest.raises(NestedLoopError, match=r"await async_launch\(\.\.\.\)"):
        asyncio.run(app())


async def test_a_synchronous_call_inside_trio_names_its_twin_at_once():
    with pytest.raises(NestedLoopError, match=r"trio event loop(.|\n)*await async_run_evaluation"):
        run_sync(Engine(), grace_seconds=5)


def test_a_synchronous_call_in_a_plain_callback_of_a_loop_is_nested_too():
    seen = []

    def callback():
        try:
            require_no_loop("async_run_evaluation")
        except NestedLoopError as error:
            seen.append(error)

    async def app():
        asyncio.get_running_loop().call_soon(callback)
        await asyncio.sleep(0.01)

    asyncio.run(app())
    assert len(seen) == 1


def test_a_synchronous_call_in_a_worker_thread_of_an_asyncio_program_runs():
    async def engine(control, emit):
        return "ran"

    async def app():
        return await asyncio.to_thread(run_sync, engine, grace_seconds=5)

    assert asyncio.run(app()) == "ran"


def test_an_await_without_any_loop_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="trio or an asyncio program"):
        run_async(Engine(), grace_seconds=5).send(None)


HOSTED = """
import asyncio, sys, time, trio
from agentcompass.bridge import run_async

async def engine(control, emit):
    print("ready", flush=True)
    with control.soft:
        await trio.sleep(60)
    with control.budget.shielded() as scope:
        await trio.sleep({cleanup})
        print("cleaned", flush=True)
    print("ended by", control.reason, "cut short:", scope.cancelled_caught, flush=True)
"""

AS_MAIN = """
try:
    asyncio.run(run_async(engine, grace_seconds=20))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_under_asyncio_run_is_a_keyboard_interrupt_after_the_cleanup():
    ended = run_script(HOSTED.format(cleanup=0.2) + AS_MAIN, interrupts=1)
    assert ended.returncode == 0
    assert ended.lines == ["ready", "cleaned", "ended by caller cut short: False", "interrupted"]


def test_a_second_ctrl_c_under_asyncio_run_ends_the_cleanup():
    ended = run_script(HOSTED.format(cleanup=30) + AS_MAIN, interrupts=2)
    assert ended.returncode == 0
    assert ended.lines == ["ready", "ended by caller cut short: True", "interrupted"]
    assert ended.seconds < 10


AS_ABANDONED = """
async def main():
    loop = asyncio.get_running_loop()
    asyncio.ensure_future(run_async(engine, grace_seconds=20, on_event=None))
    await asyncio.sleep(0.5)
    loop.stop()          # nobody will ever run this loop again

loop = asyncio.new_event_loop()
loop.create_task(main())
loop.run_forever()
print("leaving", flush=True)
"""


AFTER_MAIN = """
import asyncio, threading, trio
from agentcompass.bridge import run_async

async def engine(control, emit):
    threading.main_thread().join()
    with control.soft:
        await trio.sleep(0.3)
        return "to its end"
    return "cut short"

def app():
    print(asyncio.run(run_async(engine, grace_seconds=5)))

print("ready", flush=True)
threading.Thread(target=app).start()
"""


def test_a_thread_that_the_interpreter_waits_for_finishes_its_evaluation():
    ended = run_script(AFTER_MAIN)
    assert (ended.returncode, ended.lines) == (0, ["ready", "to its end"]), ended.stderr


def test_an_interpreter_that_exits_waits_for_the_cleanup_and_no_longer():
    ended = run_script(HOSTED.format(cleanup=0.2) + AS_ABANDONED)
    assert ended.returncode == 0
    assert ended.lines[-2:] == ["cleaned", "ended by caller cut short: False"]
    assert ended.seconds < 15
