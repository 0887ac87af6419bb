"""Requests side by side use every slot and share them as promised, as well as a list schedule can (`support.ideal`)."""

import re

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.errors import PreflightError
from support.examples import examples
from support.ideal import Stream, list_schedule
from support.simulation import (
    PROVIDERS,
    BoxesA,
    Referee,
    SimulatedBenchmark,
    request_of,
    run_engine,
    run_scheduler,
)
from support.virtual import results

DAY = 86_400.0

streams = st.lists(
    st.builds(
        Stream,
        tasks=st.integers(1, 40),
        mean_seconds=st.sampled_from([1.0, 10.0, 60.0]),
        step_seconds=st.sampled_from([0.0, 0.0, 5.0]),
        failing=st.sampled_from([0.0, 0.1, 0.5]),
        retries=st.integers(0, 3),
        delay_seconds=st.sampled_from([0.0, 1.0, 100.0]),
        provider=st.sampled_from([None, "a", "b"]),
        weight=st.sampled_from([1.0, 1.0, 2.0, 0.5]),
        loads_for=st.sampled_from([0.0, 7.0, 300.0]),
        seed=st.integers(0, 2**16),
    ),
    min_size=1,
    max_size=6,
).map(lambda made: [attrs.evolve(s, name=f"r{at}") for at, s in enumerate(made)])
places = st.fixed_dictionaries({}, optional={"a": st.integers(0, 4), "b": st.integers(0, 4)})
rates = st.fixed_dictionaries(
    {}, optional={"a": st.sampled_from([0.0, 0.1, 3.0]), "b": st.sampled_from([0.05, 1.0])}
)


@given(streams, st.integers(1, 8), places, rates, st.integers(0, 2**16))
@examples(0.4)
def test_nobody_waits_while_a_slot_is_free_and_who_has_least_goes_first(
    streams, slots, places, rates, seed
):
    referee = Referee(len(streams))
    given = run_scheduler(streams, slots, places, rates, referee=referee, seed=seed)
    assert referee.problems == []
    ideal = list_schedule(streams, slots, places, rates)
    assert given.executions == ideal.executions == referee.starts
    assert given.busy_seconds == pytest.approx(ideal.busy_seconds)


@given(streams, st.integers(1, 8), places, rates)
@examples(0.4)
def test_where_nothing_happens_at_once_the_schedule_is_the_list_schedule(
    streams, slots, places, rates
):
    """Where things happen at the same moment either order is right, and leads elsewhere."""
    streams = [
        attrs.evolve(s, step_seconds=0.0, loads_for=s.loads_for + at / 1000, delay_seconds=1.0)
        for at, s in enumerate(streams)
    ]
    given = run_scheduler(streams, slots, places, rates)
    ideal = list_schedule(streams, slots, places, rates)
    assert given.makespan == pytest.approx(ideal.makespan)


def twenty(tasks, **fields):
    """Twenty requests, a third of them in sandboxes of a provider with few places, a third of another's."""
    return [
        Stream(
            name=f"r{at}",
            tasks=tasks,
            **({
                "mean_seconds": 600.0, "failing": 0.1, "retries": 2, "delay_seconds": 30.0, "seed": at,
                "provider": (None, "a", "b")[at % 3],
            } | fields),
        )
        for at in range(20)
    ]  # fmt: skip


def test_days_of_twenty_requests_take_no_longer_than_the_list_schedule():
    streams, places = twenty(500), {"a": 16, "b": 0}
    referee = Referee(20)
    given = run_scheduler(streams, 64, places, {}, referee=referee)
    ideal = list_schedule(streams, 64, places, {})
    assert referee.problems == []
    assert referee.most_apart == 1
    assert given.utilisation(64) >= 0.99 * ideal.utilisation(64)
    assert given.makespan > DAY


def test_without_limits_the_slots_are_busy_to_the_last():
    streams = twenty(500, provider=None)
    given = run_scheduler(streams, 16, {}, {})
    assert given.utilisation(16) > 0.99


def test_requests_have_slots_by_their_weights():
    streams = [
        attrs.evolve(s, weight=1.0 + at % 4) for at, s in enumerate(twenty(200, provider=None))
    ]
    referee = Referee(20)
    run_scheduler(streams, 50, {}, {}, referee=referee)
    assert referee.problems == []
    whole = sum(referee.slot_seconds.values())
    for stream in streams:
        share = stream.weight / sum(other.weight for other in streams)
        assert referee.slot_seconds[stream.name] / whole == pytest.approx(share, abs=1 / 50 / 2)


@pytest.mark.parametrize("rates", [{}, {"b": 0.1}], ids=["any-rate", "slow-to-open"])
def test_the_whole_engine_keeps_it_too(rates):
    streams, places = twenty(20, mean_seconds=20.0), {"a": 1, "b": 0}
    referee = Referee(20)
    with results() as directory:
        result, given = run_engine(streams, 4, places, rates, directory, referee=referee)
    ideal = list_schedule(streams, 4, places, rates)
    assert referee.problems == []
    assert given.executions == ideal.executions == referee.starts
    longest = (
        60.0  # things that happen at the same moment come in another order: so much it may make
    )
    assert given.makespan <= ideal.makespan + longest
    assert {outcome.status for outcome in result.requests.values()} == {"completed"}


def test_the_whole_engine_keeps_weights_too():
    streams = [
        Stream(name=f"r{at}", tasks=60, mean_seconds=20.0, weight=weight, seed=at)
        for at, weight in enumerate((3.0, 1.0))
    ]
    referee = Referee(2)
    with results() as directory:
        run_engine(streams, 8, {}, {}, directory, referee=referee)
    assert referee.problems == []
    assert referee.slot_seconds["r0"] == pytest.approx(3 * referee.slot_seconds["r1"])


def test_people_are_told_what_binds_those_who_wait():
    told = []

    def note(event):
        if event.kind == "limits_changed":
            told.append((trio.current_time(), event.running, dict(event.waiting)))

    streams = [
        Stream(name="plain", tasks=2, mean_seconds=200.0, seed=1),
        Stream(name="placed", tasks=4, mean_seconds=200.0, provider="a"),
        Stream(name="paced", tasks=3, mean_seconds=200.0, provider="b"),
        Stream(name="tried-again", tasks=1, mean_seconds=1.0, failing=1.0, retries=1, delay_seconds=500.0),
        Stream(name="crowd", tasks=9, mean_seconds=200.0, loads_for=1000.0),
    ]  # fmt: skip
    with results() as directory:
        run_engine(streams, 8, {"a": 1}, {"b": 0.001}, directory, listener=note)
    a, b = PROVIDERS["a"], PROVIDERS["b"]
    seen = {cause for _, _, waiting in told for cause in waiting}
    assert seen == {f"provider:{a}", f"open rate:{b}", "retry", "task_concurrency"}
    assert all(running == 8 for _, running, waiting in told if "task_concurrency" in waiting)
    assert all(waiting["retry"] == 1 and at <= 510 for at, _, waiting in told if "retry" in waiting)
    assert max(waiting.get(f"open rate:{b}", 0) for _, _, waiting in told) == 2


# --- requests that do not begin


class Unbuildable(SimulatedBenchmark):
    def __init__(self, params):
        raise ValueError("the constructor of this one fails")


class Hanging(SimulatedBenchmark):
    async def load_tasks(self, ctx):
        await trio.sleep(3600)
        raise TimeoutError("the data server did not answer for an hour")


class Impossible(BoxesA):
    async def preflight(self):
        raise PreflightError("there is no such provider on this machine")


def test_requests_that_cannot_begin_hold_up_nobody_and_each_says_why(tmp_path):
    good = [Stream(name=f"good{at}", tasks=30, mean_seconds=20.0, seed=at) for at in range(3)]
    bad = {
        "unbuildable": ({"benchmark": Unbuildable}, "benchmark '.*Unbuildable' could not be set up: .*the constructor"),
        "hanging": ({"benchmark": Hanging}, "benchmark 'simulated' could not load its tasks: .*for an hour"),
        "impossible": ({"environment": Impossible}, "there is no such provider"),
    }  # fmt: skip
    requests = [
        request_of(Stream(name=name, provider="a"), **parts) for name, (parts, _) in bad.items()
    ]
    ended = {}

    def note(event):
        if event.kind == "request_finished":
            ended[event.request] = trio.current_time()

    result, given = run_engine(good, 6, {}, {}, tmp_path, also=requests, listener=note)
    assert result.status == "partial_failure"
    assert [outcome.name for outcome in result.requests.values()] == [*(g.name for g in good), *bad]
    for stream in good:
        assert result.requests[stream.name].status == "completed"
        assert ended[stream.name] < 3600
    assert given.makespan == pytest.approx(list_schedule(good, 6, {}, {}).makespan, rel=0.05)
    for name, (_, words) in bad.items():
        assert result.requests[name].status == "failed"
        assert re.search(words, result.requests[name].error), result.requests[name].error
        assert not (tmp_path / name).exists()
    assert ended["unbuildable"] == ended["impossible"] == 0
    assert ended["hanging"] == 3600
