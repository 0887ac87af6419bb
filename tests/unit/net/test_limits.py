"""How many calls an endpoint takes at once."""

import math

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agentcompass.net.limits import EndpointLimiter, PauseTooLongError


async def hold(limiter, seconds=1.0, *, log=None, name=None, act=None):
    async with limiter.place() as place:
        if log is not None:
            log.append((name, trio.current_time()))
        await trio.sleep(seconds)
        if act is not None:
            act(place)


async def cut(limiter, pause_seconds=0.0):
    async with limiter.place() as place:
        place.rate_limited(pause_seconds)


@pytest.mark.parametrize("cap", [0, -1])
def test_a_limit_below_one_is_refused(cap):
    with pytest.raises(ValueError, match="at least one"):
        EndpointLimiter(cap)


async def test_exactly_the_cap_runs_at_once(autojump_clock):
    limiter, peak = EndpointLimiter(7), 0

    async def call():
        nonlocal peak
        async with limiter.place():
            peak = max(peak, limiter.in_use)
            await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(call)
    assert peak == 7
    assert limiter.in_use == limiter.waiting == 0
    assert trio.current_time() == pytest.approx(math.ceil(50 / 7))


async def test_first_come_first_served(autojump_clock):
    limiter, log = EndpointLimiter(1), []
    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(lambda n=number: hold(limiter, log=log, name=n))
            await wait_all_tasks_blocked()
    assert [name for name, _ in log] == list(range(10))


async def test_calls_of_one_round_cut_once(autojump_clock):
    limiter = EndpointLimiter(16)
    async with trio.open_nursery() as nursery:
        for _ in range(16):
            nursery.start_soon(lambda: hold(limiter, act=lambda place: place.rate_limited()))
    assert limiter.limit == 8


async def test_a_later_call_cuts_again_down_to_one(autojump_clock):
    limiter = EndpointLimiter(4)
    for _ in range(10):
        await cut(limiter)
    assert limiter.limit == 1
    await hold(limiter)  # still lets one in


async def test_a_cut_starts_from_what_was_really_in_use(autojump_clock):
    limiter = EndpointLimiter(100)
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(lambda: hold(limiter, act=lambda place: place.rate_limited()))
    assert limiter.limit == 5


async def test_the_limit_grows_back_to_the_cap_while_it_binds(autojump_clock):
    limiter = EndpointLimiter(8)
    for _ in range(4):
        await cut(limiter)
    assert limiter.limit == 1
    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(lambda: hold(limiter, act=lambda place: place.succeeded()))
    assert limiter.limit == 8


async def test_the_limit_does_not_grow_while_nobody_needs_it(autojump_clock):
    limiter = EndpointLimiter(64)
    async with trio.open_nursery() as nursery:
        for _ in range(64):
            nursery.start_soon(lambda: hold(limiter, act=lambda place: place.rate_limited()))
    assert limiter.limit == 32
    for _ in range(500):
        await hold(limiter, 0.1, act=lambda place: place.succeeded())
    assert limiter.limit == 32


async def test_a_pause_holds_everybody_and_then_keeps_the_order(autojump_clock):
    limiter, log = EndpointLimiter(4), []
    await cut(limiter, pause_seconds=30)
    assert limiter.pause_seconds == 30
    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(lambda n=number: hold(limiter, log=log, name=n))
            await wait_all_tasks_blocked()
    assert [name for name, _ in log] == list(range(6))
    assert min(at for _, at in log) >= 30


async def test_a_longer_pause_replaces_a_shorter_one_and_never_the_reverse(autojump_clock):
    limiter, log = EndpointLimiter(4), []
    async with trio.open_nursery() as nursery:
        for pause in (5, 20, 1):
            nursery.start_soon(
                lambda p=pause: hold(limiter, act=lambda place: place.rate_limited(p))
            )
        await trio.sleep(2)
        await hold(limiter, log=log, name="after")
    assert log[0][1] == pytest.approx(21)


async def test_a_pause_that_begins_while_callers_wait_holds_them_too(autojump_clock):
    limiter, log = EndpointLimiter(1), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: hold(limiter, act=lambda place: place.rate_limited(10)))
        await wait_all_tasks_blocked()
        for number in range(3):
            nursery.start_soon(lambda n=number: hold(limiter, log=log, name=n))
            await wait_all_tasks_blocked()
    assert [at for _, at in log] == pytest.approx([11, 12, 13])


async def test_a_pause_longer_than_a_callers_patience_is_told_at_once(autojump_clock):
    limiter = EndpointLimiter(2)
    await cut(limiter, pause_seconds=100)
    with pytest.raises(PauseTooLongError) as caught:
        async with limiter.place(patience_seconds=50):
            pass
    assert caught.value.seconds == 100
    assert trio.current_time() == 0
    assert limiter.waiting == limiter.in_use == 0


async def test_a_caller_in_the_queue_learns_of_a_pause_that_is_too_long(autojump_clock):
    limiter = EndpointLimiter(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: hold(limiter, act=lambda place: place.rate_limited(1e9)))
        await wait_all_tasks_blocked()
        with pytest.raises(PauseTooLongError):
            async with limiter.place(patience_seconds=600):
                pass
    assert trio.current_time() == pytest.approx(1)


async def test_a_cancelled_waiter_takes_nothing(autojump_clock):
    limiter, log = EndpointLimiter(1), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold, limiter, 10)
        await wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await hold(limiter)
        assert limiter.waiting == 0
        nursery.start_soon(lambda: hold(limiter, log=log, name="next"))
    assert log == [("next", 10)]
    assert limiter.in_use == 0


async def test_a_waiter_cancelled_as_it_is_let_in_gives_its_place_back(autojump_clock):
    limiter = EndpointLimiter(1)
    scope = trio.CancelScope()

    async def waiter():
        with scope:
            await hold(limiter, 100)

    async with trio.open_nursery() as nursery:
        async with limiter.place():
            nursery.start_soon(waiter)
            await wait_all_tasks_blocked()
        scope.cancel()  # let in by now, but not running yet
    assert limiter.in_use == 0
    await hold(limiter)


async def test_the_first_in_the_queue_being_cancelled_does_not_lose_the_end_of_a_pause(
    autojump_clock,
):
    limiter, log = EndpointLimiter(1), []
    await cut(limiter, pause_seconds=60)
    async with trio.open_nursery() as nursery:

        async def impatient():
            with trio.move_on_after(5):
                await hold(limiter)

        nursery.start_soon(impatient)
        await wait_all_tasks_blocked()
        nursery.start_soon(lambda: hold(limiter, log=log, name="second"))
    assert log == [("second", 60)]


async def test_a_cancelled_caller_is_not_let_in_even_when_there_is_room():
    limiter = EndpointLimiter(1)
    with trio.CancelScope() as scope:
        scope.cancel()
        async with limiter.place():
            pytest.fail("let in")
    assert scope.cancelled_caught
    assert limiter.in_use == 0


async def cancelled_while(limiter, happens):
    """Wait for a place, be cancelled, and let something happen before that is noticed."""
    taken = []

    async def wait(scope):
        with scope:
            async with limiter.place(patience_seconds=10):
                taken.append(1)

    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, scope)
        await wait_all_tasks_blocked()
        assert limiter.waiting == 1
        scope.cancel()
        happens()
    return taken


async def test_a_place_that_is_given_to_somebody_who_was_just_cancelled_is_not_lost(autojump_clock):
    limiter = EndpointLimiter(1)
    await limiter.enter(math.inf)
    assert await cancelled_while(limiter, limiter.leave) == []
    assert (limiter.in_use, limiter.waiting) == (0, 0)
    await hold(limiter)


async def test_somebody_who_is_refused_as_he_is_cancelled_is_only_cancelled(autojump_clock):
    limiter = EndpointLimiter(1)
    round_number = await limiter.enter(math.inf)
    assert await cancelled_while(limiter, lambda: limiter.cut(round_number, 60)) == []
    limiter.leave()
    assert (limiter.in_use, limiter.waiting) == (0, 0)
    await hold(limiter)
