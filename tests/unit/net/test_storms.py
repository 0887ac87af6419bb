"""Limiters against endpoints that allow only so much: nearly all of it is used, and no call is given up. In virtual time."""

import random

import pytest
import trio

from agentcompass.net.endpoint_limits import Limits
from agentcompass.net.limits import EndpointLimiter
from agentcompass.net.pauses import Pauses
from agentcompass.net.shares import Company
from support.rated import (
    ConcurrencyServer,
    CrowdedServer,
    FixedMinuteServer,
    Outcome,
    TokenBucketServer,
    work,
)

CALLS = 1000
MAX_RETRIES = 5

SERVERS = {
    "20 a second, whole seconds": (lambda: TokenBucketServer(20, 20), 20, 1.0, 1.2),
    "20 a second, no hint": (lambda: TokenBucketServer(20, 20, "none"), 20, 1.0, 1.2),
    "20 a second, exact, hardly a burst": (
        lambda: TokenBucketServer(20, 5, "exact"),
        20,
        1.0,
        1.35,
    ),
    "100 a second, exact": (lambda: TokenBucketServer(100, 20, "exact"), 100, 0.2, 1.3),
    "300 a minute by the clock": (lambda: FixedMinuteServer(300), 5, 10.0, 1.3),
    "300 a minute by the clock, no hint": (lambda: FixedMinuteServer(300, "none"), 5, 10.0, 1.3),
    "12 at once": (lambda: ConcurrencyServer(12), 12, 1.0, 1.35),
}
"""The server, the calls a second that it allows, how long one takes, and the most time in parts of the ideal."""


def limiter_of(seed, **limits):
    pauses = Pauses(random=random.Random(seed))
    return EndpointLimiter(Limits(cap=256, **limits), pauses=pauses)


@pytest.mark.parametrize("at_once", [64, 200])
@pytest.mark.parametrize("name", SERVERS)
async def test_a_storm_of_refusals_costs_little_and_no_call(autojump_clock, name, at_once):
    make, rate, seconds, most = SERVERS[name]
    outcome = Outcome()
    options = {"calls": CALLS, "at_once": at_once, "mean_seconds": seconds}
    await work(limiter_of(1), make(), outcome, **options)
    assert outcome.done == CALLS
    assert outcome.counted <= MAX_RETRIES
    assert trio.current_time() <= most * CALLS / rate


@pytest.mark.parametrize(("part", "most"), [(0.3, 6.0), (0.6, 12.0)])
async def test_refusals_that_come_however_few_calls_there_are_do_not_narrow_it_for_good(
    autojump_clock, part, most
):
    at_once, outcome = 64, Outcome()
    await work(limiter_of(1), CrowdedServer(part), outcome, calls=CALLS, at_once=at_once)
    assert outcome.done == CALLS
    assert outcome.counted <= MAX_RETRIES
    assert trio.current_time() <= most * CALLS / at_once


async def test_who_says_what_is_allowed_is_hardly_ever_refused(autojump_clock):
    outcome = Outcome()
    await work(
        limiter_of(1, rpm=1200), TokenBucketServer(20, 20), outcome, calls=CALLS, at_once=200
    )
    assert outcome.refusals == 0
    assert trio.current_time() <= 1.1 * CALLS / 20


async def exchange(limiters, killed=()):
    """What the board does, four times a second."""
    while True:
        await trio.sleep(0.25)
        alive = [limiter for limiter in limiters if limiter not in killed]
        told = [limiter.standing() for limiter in alive]
        for at, limiter in enumerate(alive):
            others = tuple(told[:at] + told[at + 1 :])
            limiter.heed(Company(others=others, rank=at))


@pytest.mark.parametrize(
    ("make", "rate"),
    [(lambda: TokenBucketServer(20, 20), 20), (lambda: ConcurrencyServer(12), 12)],
    ids=["20 a second", "12 at once"],
)
async def test_three_users_together_use_what_is_allowed_in_equal_parts(autojump_clock, make, rate):
    limiters = [limiter_of(seed) for seed in range(3)]
    server, outcomes = make(), [Outcome() for _ in limiters]
    async with trio.open_nursery() as board:
        board.start_soon(exchange, limiters)
        async with trio.open_nursery() as nursery:
            for seed, (limiter, outcome) in enumerate(zip(limiters, outcomes, strict=True)):

                async def use(limiter=limiter, outcome=outcome, seed=seed):
                    await work(limiter, server, outcome, calls=CALLS, at_once=64, seed=seed)

                nursery.start_soon(use)
        board.cancel_scope.cancel()
    assert [outcome.done for outcome in outcomes] == [CALLS] * 3
    assert max(outcome.counted for outcome in outcomes) <= MAX_RETRIES
    assert trio.current_time() <= 1.4 * 3 * CALLS / rate
    ends = [outcome.last_at for outcome in outcomes]
    assert min(ends) >= 0.75 * max(ends)


async def test_users_with_a_rate_share_it_by_what_they_need(autojump_clock):
    limiters = [limiter_of(seed, rpm=600) for seed in range(2)]
    server, outcomes = TokenBucketServer(10, 10), [Outcome(), Outcome()]
    async with trio.open_nursery() as board:
        board.start_soon(exchange, limiters)

        async def seldom():
            for _ in range(60):
                await work(limiters[0], server, outcomes[0], calls=1, at_once=1, mean_seconds=0.1)
                await trio.sleep(0.9)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(seldom)
            await work(limiters[1], server, outcomes[1], calls=520, at_once=64)
            assert trio.current_time() <= 66
        board.cancel_scope.cancel()
    assert outcomes[0].last_at <= 75
    assert outcomes[0].refusals + outcomes[1].refusals <= 5


async def test_the_share_of_a_user_that_dies_comes_back(autojump_clock):
    limiters, killed = [limiter_of(seed, rpm=600) for seed in range(2)], []
    outcomes = [Outcome(), Outcome()]
    server = TokenBucketServer(10, 10)
    async with trio.open_nursery() as board:
        board.start_soon(exchange, limiters, killed)
        async with trio.open_nursery() as doomed:
            for at in range(2):

                async def use(at=at):
                    options = {"calls": 1000, "at_once": 64, "seed": at}
                    await work(limiters[at], server, outcomes[at], **options)

                (doomed if at == 0 else board).start_soon(use)
            await trio.sleep(20)
            doomed.cancel_scope.cancel()
        killed.append(limiters[0])
        before = outcomes[1].done
        await trio.sleep(30)
        assert before <= 120
        assert outcomes[1].done - before >= 280
        board.cancel_scope.cancel()
