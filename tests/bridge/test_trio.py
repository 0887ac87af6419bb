"""Trio hosts, and scripts without a loop, on a bad day."""

import signal
import threading

import pytest
import trio

from agentcompass.bridge import run_async, run_sync
from support.hosting import Engine
from support.scripts import run_script


async def test_the_deadline_of_a_callers_scope_is_a_soft_cancellation(autojump_clock):
    engine = Engine(work_seconds=1000, cleanup_seconds=3)
    begin = trio.current_time()
    with trio.move_on_after(10) as scope:
        await run_async(engine, grace_seconds=20)
    assert scope.cancelled_caught
    assert engine.control.reason == "caller"
    assert engine.is_cleaned
    assert trio.current_time() - begin == pytest.approx(13)


async def test_the_reason_is_known_before_the_engine_sees_the_cancellation(autojump_clock):
    seen = []

    async def engine(control, emit):
        with control.soft:
            try:
                await trio.sleep(1000)
            finally:
                seen.append(control.reason)

    with trio.move_on_after(1):
        await run_async(engine, grace_seconds=1)
    assert seen == ["caller"]


async def test_a_caller_that_is_cancelled_just_as_the_engine_ends_sees_its_cancellation(
    autojump_clock,
):
    with trio.CancelScope() as scope:

        async def engine(control, emit):
            scope.cancel()
            return "too late"

        await run_async(engine, grace_seconds=1)
    assert scope.cancelled_caught


async def test_many_at_once_have_controls_of_their_own(autojump_clock):
    engines = [Engine(str(n), work_seconds=n) for n in range(1, 21)]
    results = []

    async def call(engine):
        results.append(await run_async(engine, grace_seconds=1))

    with trio.move_on_after(10.5):
        async with trio.open_nursery() as nursery:
            for engine in engines:
                nursery.start_soon(call, engine)
    assert results == [f"{n} ended by None" for n in range(1, 11)]
    assert all(engine.is_cleaned for engine in engines[10:])


def test_the_synchronous_call_works_off_the_main_thread():
    results = []
    engine = Engine(work_seconds=0.01)
    thread = threading.Thread(target=lambda: results.append(run_sync(engine, grace_seconds=1)))
    thread.start()
    thread.join(10)
    assert results == ["engine ended by None"]


HOSTED = """
import trio
from agentcompass.bridge import run_async, run_sync

async def engine(control, emit):
    print("ready", flush=True)
    with control.soft:
        await trio.sleep(60)
    with control.budget.shielded() as scope:
        await trio.sleep(0.2)
        print("cleaned", control.reason, flush=True)

async def main():
    await run_async(engine, grace_seconds=20)
"""


@pytest.mark.parametrize("call", ["trio.run(main)", "run_sync(engine, grace_seconds=20)"])
def test_an_interrupt_that_nobody_handles_arrives_bare_after_the_cleanup(call):
    guarded = f"""
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
except BaseExceptionGroup as group:
    group = group.subgroup(KeyboardInterrupt)
    print("a group", flush=True)
"""
    ended = run_script(HOSTED + guarded, interrupts=1, number=signal.SIGINT)
    assert ended.returncode == 0, ended.stderr
    assert ended.lines == ["ready", "cleaned caller", "interrupted"]
