"""Answers that are awaited under cancellation, in virtual time."""

import pytest
import trio

from agentcompass.containers.errors import DockerError
from agentcompass.containers.settle import beside, made, settled


async def answer_after(seconds, value="made", log=None):
    await trio.sleep(seconds)
    if log is not None:
        log.append(value)
    return value


async def test_an_answer_is_returned(autojump_clock):
    assert await settled(lambda: answer_after(3)) == "made"


async def test_a_refusal_is_raised_as_itself(autojump_clock):
    async def refuse():
        await trio.sleep(1)
        raise DockerError("no")

    with pytest.raises(DockerError, match="no"):
        await settled(refuse)


async def test_cancelled_before_it_was_asked_nothing_is_asked(autojump_clock):
    log = []
    with trio.CancelScope() as scope:
        scope.cancel()
        await settled(lambda: answer_after(1, log=log))
    assert log == []


async def test_cancelled_while_it_is_awaited_the_answer_is_returned_all_the_same(autojump_clock):
    log = []
    with trio.move_on_after(1) as scope:
        log.append(await settled(lambda: answer_after(5)))
        await trio.sleep(0)
    assert scope.cancelled_caught
    assert log == ["made"]
    assert trio.current_time() == pytest.approx(5, abs=0.1)


async def test_an_answer_that_never_comes_does_not_hold_up_a_cancellation_for_ever(autojump_clock):
    begin = trio.current_time()
    with trio.move_on_after(1) as scope:
        await settled(trio.sleep_forever, seconds=7)
    assert scope.cancelled_caught
    assert trio.current_time() - begin == pytest.approx(1 + 7)


async def test_what_was_made_while_being_cancelled_is_undone(autojump_clock):
    log = []
    with trio.move_on_after(1) as scope:
        await made(lambda: answer_after(5, log=log), lambda: answer_after(2, "undone", log))
    assert scope.cancelled_caught
    assert log == ["made", "undone"]


async def test_what_was_made_in_peace_stays(autojump_clock):
    log = []
    assert await made(lambda: answer_after(5, 7, log), lambda: answer_after(2, "undone", log)) == 7
    assert log == [7]


async def test_an_undoing_that_fails_does_not_hide_the_cancellation(autojump_clock):
    async def refuse():
        raise DockerError("cannot")

    with trio.move_on_after(1) as scope:
        await made(lambda: answer_after(5), refuse)
    assert scope.cancelled_caught


async def test_an_answer_and_an_undoing_that_never_come_share_the_time_for_both(autojump_clock):
    begin = trio.current_time()
    for make in (trio.sleep_forever, lambda: answer_after(5)):
        with trio.move_on_after(1) as scope:
            await made(make, trio.sleep_forever, seconds=10)
        assert scope.cancelled_caught
        assert trio.current_time() - begin <= 1 + 10
        begin = trio.current_time()


async def test_what_runs_beside_ends_with_the_work(autojump_clock):
    ticks = []

    async def tick():
        while True:
            ticks.append(trio.current_time())
            await trio.sleep(1)

    assert await beside(lambda: answer_after(3.5), tick) == "made"
    assert len(ticks) == 4


async def test_a_failure_of_the_work_is_no_group(autojump_clock):
    async def fail():
        raise KeyError("x")

    with pytest.raises(KeyError):
        await beside(fail, trio.sleep_forever)
