"""The scheduler on a virtual clock: capacities, fairness, order, and work that waits holding nothing."""

import math
import random
from collections import Counter

import attrs
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from agentcompass.engine.limits import TokenBucket
from agentcompass.engine.scheduler import Lane, Scheduler, Slots


@attrs.define
class Trace:
    """What happened: (time, lane, job) of starts and ends, and the highest numbers in flight."""

    starts: list[tuple[float, str, int]] = attrs.field(factory=list)
    running: Counter[str] = attrs.field(factory=Counter)
    most: Counter[str] = attrs.field(factory=Counter)
    gaps: int = 0


async def simulate(lanes, slots, seconds_of, *, workers=None, retries=lambda lane, job: None):
    """Run all lanes to their end with `workers` workers and return the trace."""
    scheduler = Scheduler(slots)
    trace = Trace()
    left = sum(lane.fresh for lane in lanes)

    async def work():
        nonlocal left
        while (assignment := await scheduler.next()) is not None:
            lane, job = assignment.lane, assignment.job
            trace.starts.append((trio.current_time(), lane.name, job))
            for name in ("all", lane.name, lane.provider or "-"):
                trace.running[name] += 1
                trace.most[name] = max(trace.most[name], trace.running[name])
            await trio.sleep(seconds_of(lane.name, job))
            for name in ("all", lane.name, lane.provider or "-"):
                trace.running[name] -= 1
            delay = retries(lane.name, job)
            if delay is not None:
                scheduler.put_back(lane, job, trio.current_time() + delay)
            else:
                left -= 1
            scheduler.done(assignment)
            if left == 0:
                scheduler.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(scheduler.ring)
        async with trio.open_nursery() as crew:
            for _ in range(workers or int(slots.tasks.total_tokens)):
                crew.start_soon(work)
            for lane in lanes:
                scheduler.add(lane)
        nursery.cancel_scope.cancel()
    assert slots.tasks.borrowed_tokens == 0
    assert all(limiter.borrowed_tokens == 0 for limiter in slots.providers.values())
    return trace


def ends(trace, name, seconds):
    return max(at for at, lane, _ in trace.starts if lane == name) + seconds


async def test_a_small_request_is_not_held_up_by_a_large_one(autojump_clock):
    a = Lane("a", range(400), size=400)
    b = Lane("b", range(40), size=40)
    trace = await simulate([a, b], Slots(10, {}), lambda *_: 1)
    assert ends(trace, "a", 1) == 44
    assert ends(trace, "b", 1) == 8


async def test_a_limited_provider_blocks_nobody_who_does_not_need_it(autojump_clock):
    a = Lane("a", range(400), size=400, provider="docker")
    b = Lane("b", range(40), size=40, provider="host")
    trace = await simulate([a, b], Slots(10, {"docker": 2}), lambda *_: 1)
    assert ends(trace, "a", 1) == 200
    assert ends(trace, "b", 1) == 5
    assert trace.most["docker"] == 2


async def test_weights_share_the_slots(autojump_clock):
    a = Lane("a", range(300), size=300, weight=3)
    b = Lane("b", range(100), size=100, weight=1)
    trace = await simulate([a, b], Slots(8, {}), lambda *_: 1)
    assert trace.most["a"] == 6
    assert ends(trace, "a", 1) == ends(trace, "b", 1) == 50


async def test_what_waits_for_its_turn_to_open_holds_no_slot(autojump_clock):
    a = Lane("a", range(10), size=10, rate=TokenBucket(0.1))
    b = Lane("b", range(390), size=390)
    trace = await simulate([a, b], Slots(4, {}), lambda *_: 1)
    assert [at for at, lane, _ in trace.starts if lane == "a"] == list(range(0, 100, 10))
    assert ends(trace, "b", 1) == 100


async def test_a_turn_to_open_that_another_took_is_waited_for_again(autojump_clock):
    rate = TokenBucket(0.1)
    lane = Lane("a", range(3), size=3, rate=rate)

    async def take_beside():
        for _ in range(2):
            await trio.sleep(5)
            await rate.take()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take_beside)
        trace = await simulate([lane], Slots(1, {}), lambda *_: 1)
    took = sorted({0, 10, 20, 30, 40} - {at for at, _, _ in trace.starts})
    assert len(trace.starts) == 3
    assert len(took) == 2


async def test_a_job_that_waits_for_its_retry_holds_no_slot(autojump_clock):
    failed = set()

    def retry_once(_lane, job):
        if job == 0 and job not in failed:
            failed.add(job)
            return 100
        return None

    lane = Lane("a", range(3), size=3)
    trace = await simulate([lane], Slots(1, {}), lambda *_: 1, retries=retry_once)
    assert trace.starts == [(0, "a", 0), (1, "a", 1), (2, "a", 2), (101, "a", 0)]


async def test_a_due_retry_goes_before_fresh_work(autojump_clock):
    failed = set()

    def retry_once(_lane, job):
        if job == 0 and job not in failed:
            failed.add(job)
            return 0
        return None

    lane = Lane("a", range(3), size=3)
    trace = await simulate([lane], Slots(1, {}), lambda *_: 1, retries=retry_once)
    assert [job for _, _, job in trace.starts] == [0, 0, 1, 2]


async def test_a_lane_added_later_gets_its_share_at_once(autojump_clock):
    scheduler = Scheduler(Slots(2, {}))
    started = []

    async def work():
        while (assignment := await scheduler.next()) is not None:
            started.append((trio.current_time(), assignment.lane.name))
            await trio.sleep(10)
            scheduler.done(assignment)

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(work)
        scheduler.add(Lane("a", range(100), size=100))
        await trio.sleep(15)
        scheduler.add(Lane("b", range(2), size=2))
        await trio.sleep(10)
        assert (20, "b") in started
        nursery.cancel_scope.cancel()


async def test_more_workers_than_slots_run_no_more_than_there_are_slots(autojump_clock):
    a, b = Lane("a", range(20), size=20), Lane("b", range(20), size=20, provider="docker")
    trace = await simulate([a, b], Slots(4, {"docker": 1}), lambda *_: 1, workers=9)
    assert trace.most["all"] == 4
    assert ends(trace, "b", 1) == 20


async def test_an_idle_worker_is_cancelled_without_taking_anything(autojump_clock):
    slots = Slots(4, {})
    scheduler = Scheduler(slots)
    with trio.move_on_after(1) as scope:
        await scheduler.next()
    assert scope.cancelled_caught
    assert slots.tasks.borrowed_tokens == 0


async def test_a_cancelled_caller_gets_no_job_even_when_one_is_free():
    scheduler = Scheduler(Slots(1, {}))
    lane = Lane("a", range(1), size=1)
    scheduler.add(lane)
    with trio.CancelScope() as scope:
        scope.cancel()
        await scheduler.next()
    assert lane.fresh == 1


async def test_jobs_are_pulled_one_at_a_time(autojump_clock):
    pulled = 0

    def jobs():
        nonlocal pulled
        for number in range(1_000_000):
            pulled += 1
            yield number

    lane = Lane("a", jobs(), size=1_000_000)
    scheduler = Scheduler(Slots(3, {}))
    scheduler.add(lane)
    for _ in range(3):
        assert await scheduler.next() is not None
    assert pulled == 3


@given(
    st.data(),
    st.integers(1, 6),
    st.lists(
        st.tuples(
            st.integers(0, 12),
            st.sampled_from([None, "docker", "host"]),
            st.sampled_from([1.0, 2.0, 0.5]),
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 3),
    st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_invariants_of_any_schedule(data, concurrency, shapes, docker_limit, seed):
    """Never above a capacity, no slot idle while eligible work exists, order kept, everything returned."""
    chance = random.Random(seed)
    lanes = [
        Lane(str(i), range(n), size=n, provider=provider, weight=weight)
        for i, (n, provider, weight) in enumerate(shapes)
    ]
    slots = Slots(concurrency, {"docker": docker_limit})
    if not any(lane.fresh for lane in lanes):
        return
    retried = Counter()

    def retries(lane, job):
        if chance.random() < 0.2 and retried[lane, job] < 2:
            retried[lane, job] += 1
            return chance.choice([0, 0.5, 7])
        return None

    async def main():
        return await simulate(
            lanes, slots, lambda *_: chance.choice([0, 0.1, 1, 3]), retries=retries
        )

    trace = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert trace.most["all"] <= concurrency
    if docker_limit:
        assert trace.most["docker"] <= docker_limit
    for lane in lanes:
        first = [job for _, name, job in trace.starts if name == lane.name]
        seen = list(dict.fromkeys(first))
        assert seen == sorted(seen), "order inside a lane"
        assert lane.fresh == 0
        assert lane.waiting == 0
        assert lane.running == 0
    total = sum(n for n, _, _ in shapes) + sum(retried.values())
    assert len(trace.starts) == total


@given(st.integers(1, 5), st.lists(st.integers(1, 10), min_size=2, max_size=4))
@settings(max_examples=40, deadline=None)
def test_equal_requests_run_equally_many_while_both_have_work(concurrency, sizes):
    lanes = [Lane(str(i), range(n), size=n) for i, n in enumerate(sizes)]
    seen = []

    async def main():
        scheduler = Scheduler(Slots(concurrency, {}))
        left = sum(sizes)

        async def work():
            nonlocal left
            while (assignment := await scheduler.next()) is not None:
                busy = [lane.running for lane in lanes if lane.fresh]
                if len(busy) > 1:
                    seen.append(max(busy) - min(busy))
                await trio.sleep(1)
                left -= 1
                scheduler.done(assignment)
                if left == 0:
                    scheduler.close()

        for lane in lanes:
            scheduler.add(lane)
        async with trio.open_nursery() as crew:
            for _ in range(concurrency):
                crew.start_soon(work)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert all(difference <= 1 for difference in seen)


def test_a_lane_says_when_its_next_job_is_due():
    lane = Lane("a", iter(()), size=0)
    assert lane.due_at == math.inf
    lane.put_back(1, 30.0)
    lane.put_back(2, 20.0)
    assert lane.due_at == 20.0
    assert lane.waiting == 2


def test_slots_without_a_limit_are_bounded_by_tasks_alone():
    slots = Slots(2, {"docker": 0})
    slots.take("x", "docker")
    slots.take("y", None)
    assert not slots.is_free("docker")
    with pytest.raises(trio.WouldBlock):
        slots.take("z", None)
