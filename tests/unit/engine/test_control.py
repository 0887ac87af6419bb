"""The two handles by which a run is ended."""

import functools
import threading

import pytest
import trio

from agentcompass.engine.control import Control


async def _work(control, *, cleanup_seconds=0.0, log):
    begin = trio.current_time()
    with control.soft:
        await trio.sleep(1000)
    if control.reason:
        with control.budget.shielded() as scope:
            await trio.sleep(cleanup_seconds)
        log.append("cut" if scope.cancelled_caught else "cleaned")
    return trio.current_time() - begin


async def _after(seconds, function, *args):
    await trio.sleep(seconds)
    function(*args)


async def _run(control, *requests, cleanup_seconds=0.0):
    """Run work under `control`, with (second, reason) requests from inside; return its length and its log."""
    log = []
    results = []

    async def main():
        return await _work(control, cleanup_seconds=cleanup_seconds, log=log)

    async with trio.open_nursery() as nursery:
        for seconds, reason in requests:
            nursery.start_soon(_after, seconds, control.cancel_now, reason)
        results.append(await control.run(main))
        nursery.cancel_scope.cancel()
    return results[0], log


async def test_nobody_asks_and_the_run_ends_by_itself(autojump_clock):
    control = Control(10)
    seconds, log = await _run(control)
    assert seconds == pytest.approx(1000)
    assert (control.reason, log) == (None, [])
    assert not control.budget.is_started


async def test_the_first_request_is_soft(autojump_clock):
    control = Control(10)
    seconds, log = await _run(control, (5, "sigint"), cleanup_seconds=3)
    assert seconds == pytest.approx(8)
    assert (control.reason, log) == ("sigint", ["cleaned"])


async def test_the_grace_cuts_a_cleanup_that_takes_too_long(autojump_clock):
    seconds, log = await _run(Control(10), (5, "timeout"), cleanup_seconds=30)
    assert seconds == pytest.approx(15)
    assert log == ["cut"]


async def test_the_second_request_ends_the_grace(autojump_clock):
    seconds, log = await _run(Control(100), (5, "sigint"), (7, "sigint"), cleanup_seconds=50)
    assert seconds == pytest.approx(7)
    assert log == ["cut"]


async def test_the_first_cause_is_reported(autojump_clock):
    control = Control(10)
    await _run(control, (5, "timeout"), (6, "sigint"), (7, "sigterm"), cleanup_seconds=3)
    assert control.reason == "timeout"


async def test_the_observer_is_told_once_after_the_reason_is_known(autojump_clock):
    control = Control(10)
    told = []
    control.on_cancel = lambda reason: told.append(
        (reason, control.reason, control.soft.cancel_called)
    )
    await _run(control, (1, "sigterm"), (2, "sigint"), cleanup_seconds=3)
    assert told == [("sigterm", "sigterm", True)]


async def test_a_request_made_before_the_start_ends_the_run_at_its_first_wait(autojump_clock):
    control = Control(10)
    control.request_cancel("caller")
    seconds, log = await _run(control)
    assert seconds == pytest.approx(0)
    assert (control.reason, log) == ("caller", ["cleaned"])


async def test_two_requests_before_the_start_leave_no_grace(autojump_clock):
    control = Control(10)
    control.request_cancel("caller")
    control.request_cancel("caller")
    _, log = await _run(control, cleanup_seconds=3)
    assert log == ["cut"]


def test_requests_from_many_threads_before_during_and_after_the_run_are_all_safe():
    control = Control(5)
    log = []
    start = threading.Barrier(5)

    def ask():
        start.wait()
        for _ in range(200):
            control.request_cancel("caller")

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    start.wait()
    trio.run(control.run, functools.partial(_work, control, log=log))
    for thread in threads:
        thread.join()
    control.request_cancel("sigint")
    assert control.reason == "caller"
    assert len(log) == 1


def test_a_request_while_another_is_being_taken_is_not_lost():
    """As a signal handler makes it: in the same thread, at any line."""
    control = Control(5)
    control.on_cancel = lambda _reason: control.request_cancel("sigint")
    log = []
    control.request_cancel("sigterm")
    trio.run(control.run, functools.partial(_work, control, cleanup_seconds=3, log=log))
    assert log == ["cut"]
