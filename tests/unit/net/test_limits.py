"""Who may call an endpoint now."""

import math

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from agentcompass.net.endpoint_limits import Limits
from agentcompass.net.limits import EndpointLimiter
from agentcompass.net.pauses import Pauses
from agentcompass.net.shares import Company, Standing
from agentcompass.net.turns import PauseTooLongError
from agentcompass.net.window import Findings


class Longest:
    """Chance that always takes the upper end."""

    def uniform(self, _low, high):
        return high


def limiter_of(cap, **limits):
    return EndpointLimiter(Limits(cap=cap, **limits), pauses=Pauses(random=Longest()))


async def hold(limiter, seconds=1.0, *, log=None, name=None, act=None):
    async with limiter.place() as place:
        if log is not None:
            log.append((name, trio.current_time()))
        await trio.sleep(seconds)
        if act is not None:
            act(place)


async def cut(limiter, pause_seconds=0.0):
    async with limiter.place() as place:
        place.refused(pause_seconds)


@pytest.mark.parametrize("cap", [0, -1])
def test_a_limit_below_one_is_refused(cap):
    with pytest.raises(ValueError, match="at least one"):
        limiter_of(cap)


async def test_exactly_the_cap_runs_at_once(autojump_clock):
    limiter, peak = limiter_of(7), 0

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
    limiter, log = limiter_of(1), []
    async with trio.open_nursery() as nursery:
        for number in range(10):
            nursery.start_soon(lambda n=number: hold(limiter, log=log, name=n))
            await wait_all_tasks_blocked()
    assert [name for name, _ in log] == list(range(10))


async def refused_all_at_once(limiter, count):
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(lambda: hold(limiter, act=lambda place: place.refused(0.0)))


async def test_calls_that_were_in_flight_together_cut_once(autojump_clock):
    limiter = limiter_of(16)
    await refused_all_at_once(limiter, 16)
    assert limiter.limit == 12


async def test_a_further_refusal_cuts_only_after_a_call_that_began_later_was_answered(
    autojump_clock,
):
    limiter = limiter_of(16)
    await refused_all_at_once(limiter, 16)
    await refused_all_at_once(limiter, 12)
    assert limiter.limit == 12
    await hold(limiter, act=lambda place: place.succeeded())
    await refused_all_at_once(limiter, 12)
    assert limiter.limit == 9


async def test_cuts_end_at_one_which_still_lets_one_in(autojump_clock):
    limiter = limiter_of(4)
    for _ in range(20):
        await hold(limiter, act=lambda place: place.succeeded())
        await cut(limiter)
    assert limiter.limit == 1
    await hold(limiter)


async def test_a_cut_starts_from_what_was_really_in_use(autojump_clock):
    limiter = limiter_of(100)
    await refused_all_at_once(limiter, 8)
    assert limiter.limit == 6


async def test_the_limit_grows_back_to_the_cap_while_it_binds(autojump_clock):
    limiter = limiter_of(8)
    await cut(limiter)
    assert limiter.limit == 1
    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(lambda: hold(limiter, act=lambda place: place.succeeded()))
    assert limiter.limit == 8


async def test_the_limit_does_not_grow_while_nobody_needs_it(autojump_clock):
    limiter = limiter_of(64)
    await refused_all_at_once(limiter, 64)
    assert limiter.limit == 48
    for _ in range(500):
        await hold(limiter, 0.1, act=lambda place: place.succeeded())
    assert limiter.limit == 48


async def test_after_a_cut_calls_go_out_evenly_in_the_time_that_one_takes(autojump_clock):
    limiter, log = limiter_of(16), []
    await hold(limiter, 8.0, act=lambda place: place.succeeded())
    await refused_all_at_once(limiter, 16)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(lambda n=number: hold(limiter, 8.0, log=log, name=n))
    times = [at - began for _, at in log]
    between = 8 / (1.2 * 12)
    assert times == pytest.approx([between * n for n in range(6)])


async def test_before_the_first_cut_nothing_is_spread(autojump_clock):
    limiter, log = limiter_of(16), []
    async with trio.open_nursery() as nursery:
        for number in range(16):
            nursery.start_soon(lambda n=number: hold(limiter, log=log, name=n))
    assert {at for _, at in log} == {log[0][1]}


async def test_a_pause_holds_everybody_and_then_keeps_the_order(autojump_clock):
    limiter, log = limiter_of(4), []
    await cut(limiter, pause_seconds=30)
    assert limiter.pause_seconds == 30
    async with trio.open_nursery() as nursery:
        for number in range(6):
            nursery.start_soon(lambda n=number: hold(limiter, log=log, name=n))
            await wait_all_tasks_blocked()
    assert [name for name, _ in log] == list(range(6))
    assert min(at for _, at in log) >= 30


async def test_a_longer_pause_replaces_a_shorter_one_and_never_the_reverse(autojump_clock):
    limiter, log = limiter_of(4), []
    async with trio.open_nursery() as nursery:
        for pause in (5, 20, 1):
            nursery.start_soon(lambda p=pause: hold(limiter, act=lambda place: place.refused(p)))
        await trio.sleep(2)
        await hold(limiter, log=log, name="after")
    assert log[0][1] == pytest.approx(21)


async def test_a_pause_that_begins_while_callers_wait_holds_them_too(autojump_clock):
    limiter, log = limiter_of(1), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: hold(limiter, act=lambda place: place.refused(10)))
        await wait_all_tasks_blocked()
        for number in range(3):
            nursery.start_soon(lambda n=number: hold(limiter, log=log, name=n))
            await wait_all_tasks_blocked()
    assert [at for _, at in log] == pytest.approx([11, 12, 13])


async def test_a_pause_longer_than_a_callers_patience_is_told_at_once(autojump_clock):
    limiter = limiter_of(2)
    await cut(limiter, pause_seconds=100)
    with pytest.raises(PauseTooLongError) as caught:
        async with limiter.place(patience_seconds=50):
            pass
    assert caught.value.seconds == 100
    assert trio.current_time() == 0
    assert limiter.waiting == limiter.in_use == 0


async def test_a_caller_in_the_queue_learns_of_a_pause_that_is_too_long(autojump_clock):
    limiter = limiter_of(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: hold(limiter, act=lambda place: place.refused(1e9)))
        await wait_all_tasks_blocked()
        with pytest.raises(PauseTooLongError):
            async with limiter.place(patience_seconds=600):
                pass
    assert trio.current_time() == pytest.approx(1)


async def test_a_cancelled_waiter_takes_nothing(autojump_clock):
    limiter, log = limiter_of(1), []
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
    limiter = limiter_of(1)
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
    limiter, log = limiter_of(1), []
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
    limiter = limiter_of(1)
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
    limiter = limiter_of(1)
    entry = await limiter.enter(limiter.turn(), 0, math.inf)
    assert await cancelled_while(limiter, lambda: limiter.leave(entry)) == []
    assert (limiter.in_use, limiter.waiting) == (0, 0)
    await hold(limiter)


async def test_somebody_who_is_refused_as_he_is_cancelled_is_only_cancelled(autojump_clock):
    limiter = limiter_of(1)
    entry = await limiter.enter(limiter.turn(), 0, math.inf)
    assert await cancelled_while(limiter, lambda: limiter.pause(60)) == []
    limiter.leave(entry)
    assert (limiter.in_use, limiter.waiting) == (0, 0)
    await hold(limiter)


# --- refusals


async def test_a_refusal_that_names_no_time_pauses_everybody_longer_each_time(autojump_clock):
    limiter, pauses = limiter_of(4), []
    for _ in range(6):
        async with limiter.place() as place:
            place.refused(None)
            pauses.append(limiter.pause_seconds)
    assert pauses == pytest.approx([0.5, 2, 8, 32, 60, 60])


async def test_a_success_makes_the_next_pause_short_again(autojump_clock):
    limiter = limiter_of(4)
    for _ in range(3):
        async with limiter.place() as place:
            place.refused(None)
    await hold(limiter, act=lambda place: place.succeeded())
    async with limiter.place() as place:
        place.refused(None)
        assert limiter.pause_seconds == pytest.approx(0.5)


async def test_refusals_of_calls_that_went_out_together_make_one_pause(autojump_clock):
    limiter = limiter_of(8)
    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(lambda: hold(limiter, act=lambda place: place.refused(None)))
    assert trio.current_time() == pytest.approx(1)
    assert limiter.pause_seconds == pytest.approx(0.5)


async def test_a_refused_call_goes_before_those_that_came_later(autojump_clock):
    limiter, log = limiter_of(1), []
    first = limiter.turn()

    async def refused_once():
        async with limiter.place(first) as place:
            await trio.sleep(1)
            place.refused(5.0)
        await trio.sleep(4)
        async with limiter.place(first):
            log.append("first")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(refused_once)
        await wait_all_tasks_blocked()
        for number in range(3):
            nursery.start_soon(lambda n=number: hold(limiter, log=log, name=n))
            await wait_all_tasks_blocked()
    assert log[0] == "first"


async def test_a_refusal_counts_against_a_call_only_while_the_endpoint_takes_no_one(autojump_clock):
    limiter = limiter_of(4)
    turn, counted = limiter.turn(), []

    async def refused():
        async with limiter.place(turn) as place:
            counted.append(place.refused(0.0))

    await refused()
    await hold(limiter, act=lambda place: place.succeeded())
    await refused()
    await refused()
    assert counted == [True, False, True]


async def test_a_refusal_does_not_count_while_an_earlier_call_is_at_work(autojump_clock):
    limiter = limiter_of(16)
    async with trio.open_nursery() as nursery:
        for seconds in (100, *[2] * 7):
            nursery.start_soon(hold, limiter, seconds)
        await trio.sleep(1)
        turn = limiter.turn()
        for _ in range(3):
            async with limiter.place(turn) as place:
                assert not place.refused(0.0)
        nursery.cancel_scope.cancel()
    async with limiter.place(turn) as place:
        assert place.refused(0.0)


# --- rates


async def test_no_more_requests_go_out_in_a_minute_than_are_allowed_and_hardly_fewer(
    autojump_clock,
):
    limiter, log = limiter_of(1000, rpm=600), []
    async with trio.open_nursery() as nursery:
        for _ in range(3000):
            nursery.start_soon(lambda: hold(limiter, 1.0, log=log))
    times = [at for _, at in log]
    for begin in (0, 17.3, 60, 121.7):
        assert sum(begin <= at < begin + 60 for at in times) <= 600
    assert times[-1] == pytest.approx(300, rel=0.01)


async def test_tokens_are_charged_as_expected_and_corrected_when_they_are_known(autojump_clock):
    limiter, log = limiter_of(1000, tpm=6000), []

    async def call(expected, really):
        place = limiter.place(tokens=expected)
        async with place:
            log.append(trio.current_time())
        place.used(really)

    for _ in range(10):
        await call(100, 1000)
    assert log[-1] == pytest.approx(90, rel=0.01)
    log.clear()
    began = trio.current_time()
    for _ in range(11):
        await call(1000, 100)
    assert log[-1] - began == pytest.approx(20, rel=0.05)


async def test_what_a_refused_call_was_charged_is_given_back(autojump_clock):
    limiter = limiter_of(10, tpm=6000)
    async with limiter.place(tokens=3000) as place:
        place.refused(0.0)
    async with limiter.place(tokens=3000):
        assert trio.current_time() == 0


async def test_a_call_larger_than_a_minute_of_tokens_is_let_in_and_owed(autojump_clock):
    limiter = limiter_of(10, tpm=600)
    for _ in range(2):
        async with limiter.place(tokens=6000):
            pass
    assert trio.current_time() == pytest.approx(600, rel=0.01)


async def test_somebody_cancelled_while_waiting_for_a_rate_uses_none_up(autojump_clock):
    limiter, log = limiter_of(10, rpm=60), []
    await hold(limiter, 0)
    async with trio.open_nursery() as nursery:
        for _ in range(5):

            async def leave_early():
                with trio.move_on_after(0.5):
                    await hold(limiter)

            nursery.start_soon(leave_early)
        await wait_all_tasks_blocked()
        nursery.start_soon(lambda: hold(limiter, log=log, name="next"))
    assert log == [("next", pytest.approx(1))]


async def test_a_waiter_let_in_as_it_is_cancelled_gives_back_what_it_was_charged(autojump_clock):
    limiter = limiter_of(1, tpm=6000)
    await limiter.enter(limiter.turn(), 0, math.inf)
    scope = trio.CancelScope()

    async def waiter():
        with scope:
            async with limiter.place(tokens=6000):
                pytest.fail("let in")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiter)
        await wait_all_tasks_blocked()
        scope.cancel()
        limiter.leave(next(iter(limiter._inside.values())))
    async with limiter.place(tokens=6000):
        assert trio.current_time() == 0


@pytest.mark.parametrize(
    ("limits", "binds"),
    [({"rpm": 60}, "rpm"), ({"tpm": 60}, "tpm"), ({}, "limit")],
    ids=["rpm", "tpm", "limit"],
)
async def test_it_says_what_binds_those_who_wait(autojump_clock, limits, binds):
    limiter = limiter_of(1, **limits)
    assert limiter.use.binds is None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold, limiter, 0 if limits else 10)
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as waiting:

            async def wait():
                async with limiter.place(tokens=60):
                    pass

            waiting.start_soon(wait)
            waiting.start_soon(wait)
            await wait_all_tasks_blocked()
            use = limiter.use
    assert (use.binds, use.cap) == (binds, 1)
    assert use.waiting >= 1


async def test_it_says_how_long_a_pause_is_left(autojump_clock):
    limiter = limiter_of(4)
    await cut(limiter, pause_seconds=10)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold, limiter)
        await trio.sleep(2.5)
        assert (limiter.use.binds, limiter.use.pause_seconds, limiter.use.limit) == ("pause", 8, 1)


# --- others


def others(*standings, rank=0):
    return Company(others=tuple(standings), rank=rank)


async def test_nobody_is_let_in_before_it_is_known_what_others_do(autojump_clock):
    limiter, log = limiter_of(4), []
    limiter.hold()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: hold(limiter, log=log))
        await trio.sleep(3)
        assert limiter.use.binds == "start"
        limiter.heed(Company())
    assert [at for _, at in log] == [3]


async def test_a_window_that_others_have_found_is_shared_with_them(autojump_clock):
    limiter = limiter_of(64)
    limiter.heed(
        others(
            Standing(cap=64, in_use=6, waiting=50, findings=Findings(cuts=1, base=12, ceiling=16))
        )
    )
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(hold, limiter, 100)
        await trio.sleep(99)
        assert limiter.in_use == limiter.limit == 6
        assert (limiter.use.binds, limiter.use.others) == ("others", 1)
        limiter.heed(Company())  # it has died
        await trio.sleep(0)
        assert limiter.limit == 12
        nursery.cancel_scope.cancel()


async def test_places_that_another_still_has_are_not_given_twice(autojump_clock):
    limiter = limiter_of(64)
    found = Findings(cuts=1, base=12, ceiling=16)
    limiter.heed(others(Standing(cap=64, in_use=12, findings=found)))
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(hold, limiter, 1000)
        await trio.sleep(500)
        assert limiter.in_use == 1  # never none
        limiter.heed(others(Standing(cap=64, in_use=9, findings=found)))
        await trio.sleep(500)
        assert limiter.in_use == 3
        nursery.cancel_scope.cancel()


async def test_a_pause_that_another_was_asked_for_is_kept(autojump_clock):
    limiter, log = limiter_of(4), []
    limiter.heed(others(Standing(cap=4, resume_at=trio.current_time() + 7)))
    await hold(limiter, log=log)
    assert log[0][1] == pytest.approx(7)


async def test_a_rate_is_divided_by_what_each_needs(autojump_clock):
    limiter, log = limiter_of(1000, rpm=600), []
    limiter.heed(others(Standing(cap=9, wants_requests=100), Standing(cap=9, wants_requests=100)))
    async with trio.open_nursery() as nursery:
        for _ in range(400):
            nursery.start_soon(lambda: hold(limiter, log=log))
        await wait_all_tasks_blocked()
        limiter.heed(
            others(Standing(cap=9, wants_requests=100), Standing(cap=9, wants_requests=100))
        )
    assert log[-1][1] == pytest.approx(60, rel=0.02)


async def test_what_it_tells_of_itself_says_what_it_waits_for(autojump_clock):
    limiter = limiter_of(8, rpm=60, tpm=6000)
    assert limiter.standing().wants_requests == pytest.approx(1)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(hold, limiter, 10)
        await wait_all_tasks_blocked()
        told = limiter.standing()
    assert (told.in_use, told.waiting, told.wants_requests) == (1, 2, math.inf)
    assert told.wants_tokens < math.inf


async def test_limits_of_several_users_are_the_narrowest_of_all(autojump_clock):
    limiter = limiter_of(64, tpm=1000)
    limiter.narrow(Limits(cap=8, rpm=60))
    limiter.narrow(Limits(cap=100, tpm=2000))
    assert limiter.limits == Limits(cap=8, rpm=60, tpm=1000)
    assert limiter.limit == 8


async def test_a_further_user_does_not_let_anybody_in_before_it_is_known_what_others_do(
    autojump_clock,
):
    limiter = limiter_of(4)
    limiter.hold()
    limiter.narrow(Limits(cap=2))
    with trio.move_on_after(5) as scope:
        async with limiter.place():
            pytest.fail("let in")
    assert scope.cancelled_caught


async def test_a_pause_of_others_that_is_too_long_is_told_those_who_wait(autojump_clock):
    limiter = limiter_of(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(hold, limiter, 100)
        await wait_all_tasks_blocked()

        async def waits():
            with pytest.raises(PauseTooLongError):
                async with limiter.place(patience_seconds=60):
                    pass
            assert trio.current_time() == 0
            nursery.cancel_scope.cancel()

        nursery.start_soon(waits)
        await wait_all_tasks_blocked()
        limiter.heed(others(Standing(cap=4, resume_at=trio.current_time() + 600)))
