"""Any requests, any faults, ended at any moment: the engine keeps its promises.

Everything runs in virtual time (`support.virtual`), and what must come of it is worked out by `support.oracle`. A
failing case is printed as plain data: `check(Case(...))` repeats it, step by step.
"""

import itertools
import json
from collections import Counter, defaultdict

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.components.base import Where
from agentcompass.store.reader import final_records, read_run
from support import oracle
from support.chaos import Act, Case, Moment, RequestCase, Script, leases, run_case
from support.examples import examples
from support.virtual import results

SPARE_SECONDS = 5.0
"""What users are promised beyond the grace."""


# --- cases

FAULTS = ("raise", "exit", "group", "quota", "hopeless", "stray", "hang")
MANNERS = ("fine", "swallow", "turn", "linger")
HOWS = {
    "plan": ("raise", "exit", "group", "quota", "hopeless"),
    "run": (*MANNERS, *FAULTS, "junk"),
    "evaluate": (*MANNERS, *FAULTS, "junk", "nan"),
} | dict.fromkeys(("open", "prepare", "collect", "close", "remove"), (*MANNERS, *FAULTS))

seconds = st.sampled_from([0.0, 1.0, 5.0])
acts = st.one_of(
    *(
        st.tuples(st.just(phase), st.builds(Act, seconds, st.sampled_from(hows)))
        for phase, hows in HOWS.items()
    )
)
faulty = st.builds(
    Script, acts=st.lists(acts, max_size=3).map(dict), dies_after=st.none(), is_right=st.booleans()
)
calm = st.dictionaries(
    st.sampled_from(["open", "prepare", "run", "collect", "evaluate", "close"]),
    st.builds(Act, seconds),
    max_size=4,
)
mortal = st.builds(
    Script,
    acts=calm,
    dies_after=st.sampled_from([None, 0.25, 1.25, 5.25]),
    is_right=st.booleans(),
)
requests = st.builds(
    RequestCase,
    tasks=st.integers(1, 5),
    scripts=st.lists(st.one_of(faulty, mortal), min_size=1, max_size=5).map(tuple),
    k=st.integers(1, 3),
    strategy=st.sampled_from(["avg", "pass"]),
    is_agent_boxed=st.booleans(),
    where=st.sampled_from(Where),
    environment=st.sampled_from("ab"),
    limit_seconds=st.sampled_from([3.5, 9.5]),
    max_retries=st.integers(0, 2),
    delays=st.sampled_from([(0.0, 0.0), (1.0, 4.0)]),
    patterns=st.sampled_from([(), ("hopeless",), ("bad-", "x")]),
    weight=st.sampled_from([1.0, 2.0, 0.5]),
    min_coverage=st.sampled_from([1.0, 0.5]),
    keep=st.sampled_from([False, False, False, True]),
    load=st.builds(
        Act,
        seconds,
        st.sampled_from([*["fine"] * 6, "raise", "exit", "group", "hopeless", "stray", "linger"]),
    ),
)
moments = st.one_of(
    st.builds(Moment, st.integers(0, 600)),
    st.builds(Moment, st.sampled_from([0.25, 1.0, 3.5, 5.0, 12.0]), st.just("seconds")),
)
delays = st.lists(st.sampled_from([0.0, 0.125, 0.5]), min_size=1, max_size=3).map(tuple)
cases = st.builds(
    Case,
    requests=st.lists(requests, min_size=1, max_size=4).map(tuple),
    task_concurrency=st.integers(1, 5),
    provider_limits=st.dictionaries(st.sampled_from("ab"), st.integers(0, 2)),
    open_rates=st.dictionaries(st.sampled_from("ab"), st.sampled_from([0.0, 0.5, 3.0])),
    timeout_seconds=st.sampled_from([0.0, 0.0, 7.25, 20.25]),
    grace_seconds=st.sampled_from([0.75, 10.0]),
    thread_delays=delays,
    writer_delays=delays,
    cancel=st.one_of(st.none(), moments),
    cancel_again=st.one_of(st.none(), moments),
    reason=st.sampled_from(["sigint", "sigterm", "caller"]),
    seed=st.integers(0, 2**16),
)


@given(cases)
@examples(3)
def test_any_run_keeps_every_promise(case):
    check(case)


@given(cases)
@examples(0.5)
def test_what_was_ended_early_is_finished_by_a_reuse_as_if_it_had_never_been_ended(case):
    with results() as directory:
        run_case(case, directory)
        plain = case.uninterrupted()
        seen = run_case(plain, directory, run_id="second", reuse=True)
        check_outcomes(seen)
        for at, it in enumerate(case.requests):
            if loads(it):
                records = list(read_run(seen.paths(at).run_dir).records())
                check_scores(seen, at, records)
                assert_as_uninterrupted(it, verdicts(records))


def assert_as_uninterrupted(it, final):
    plain = {key: (h[-1].verdict, h[-1].value) for key, h in oracle.planned(it).items()}
    if it.strategy == "pass":  # a failure before the success that was taken over is not repeated
        expected, scores = (attrs.evolve(oracle.scores(it, v), counts={}) for v in (plain, final))
        assert scores == expected
    else:
        assert final == plain


@given(cases)
@examples(0.2)
def test_the_same_case_gives_the_same_history(case):
    with results() as one, results() as other:
        assert run_case(case, one).history() == run_case(case, other).history()


# --- promises


def check(case):
    with results() as directory:
        seen = run_case(case, directory)
        assert seen.problems == []
        check_outcomes(seen)
        check_limits(seen)
        check_cleanup(seen)
        for at, it in enumerate(case.requests):
            check_order(seen, at)
            if seen.paths(at).run_file.exists():
                records = list(read_run(seen.paths(at).run_dir).records())
                check_records(seen, it, records)
                check_events(seen, at, records)
                check_scores(seen, at, records)


def loads(it):
    return it.load.how in {"fine", "linger"}


def verdicts(records):
    """The final verdict and value of each attempt."""
    return {
        key: (record.verdict, record.metrics["pass"] if record.metrics else None)
        for key, record in final_records(records).items()
    }


def check_outcomes(seen):
    assert list(seen.result.requests) == [made.name for made in seen.requests]
    assert {event.request for event in seen.of("request_finished")} == set(seen.result.requests)
    if seen.cancelled_at is None:
        assert seen.result.ended_by is None
        for at, it in enumerate(seen.case.requests):
            assert_uncancelled_status(seen, at, it)
    else:
        assert seen.result.ended_by in {seen.case.reason, "timeout"}


def assert_uncancelled_status(seen, at, it):
    outcome = seen.result.requests[f"r{at}"]
    if not loads(it):
        assert outcome.status == "failed"
        assert not seen.paths(at).run_dir.exists()
        return
    final = {key: (h[-1].verdict, h[-1].value) for key, h in oracle.planned(it).items()}
    good = oracle.scores(it, final).coverage >= it.min_coverage
    assert outcome.status == ("completed" if good else "failed"), outcome.error


def check_limits(seen):
    case, world, engine = seen.case, seen.world, seen.engine
    assert world.most_working <= case.task_concurrency
    for name, limit in case.provider_limits.items():
        assert not limit or world.most_boxed[name] <= limit
    for name, rate in case.open_rates.items():
        for earlier, later in itertools.pairwise(seen.opened_at[name] if rate else ()):
            assert later - earlier > 1 / rate - 1e-6
    slots = engine.scheduler.slots
    for limiter in (slots.tasks, *slots.providers.values(), engine.shared.limits.file_threads):
        assert limiter.borrowed_tokens == 0
    assert engine.scheduler.running == 0
    assert not +world.working
    assert engine.writer.pending == engine.writer.pending_bytes == 0


def check_cleanup(seen):
    case, world = seen.case, seen.world
    if seen.cancelled_at is not None:
        assert seen.ended_at <= seen.cancelled_at + case.grace_seconds + SPARE_SECONDS
    if seen.hurried_at is not None:
        assert seen.ended_at <= seen.hurried_at + SPARE_SECONDS
    left = {lease.name: lease for lease in leases(seen)}
    assert set(world.existing) <= set(left)
    told = {name for event in seen.of("sandboxes_left") for name in event.names}
    kept = {event.name for event in seen.of("sandbox_kept")}
    assert kept == world.kept
    assert told == set(left) - kept
    for name in told:
        assert seen.is_cut or could_not_be_removed(seen, name), name


def could_not_be_removed(seen, name):
    request, *which = seen.world.execution_of[name]
    it = seen.case.requests[int(request[1:])]
    removal = it.script(*which).act("remove")
    is_slow = removal.seconds > it.limit_seconds
    return is_slow or removal.how in {
        "raise",
        "exit",
        "group",
        "quota",
        "hopeless",
        "stray",
        "hang",
    }


def check_order(seen, at):
    """First executions start in the order of tasks and attempts; `pass` keeps it for each task."""
    first = [(e.task, e.attempt) for e in seen.of("attempt_started", at) if e.execution == 1]
    assert len(first) == len(set(first))
    if seen.case.requests[at].strategy == "avg":
        assert first == sorted(first)
    else:
        tasks = [task for task, attempt in first if attempt == 1]
        assert tasks == sorted(tasks)


def check_records(seen, it, records):
    """Each attempt has the executions it must have; cancelled is the last one, if the run was."""
    made = defaultdict(list)
    for record in records:
        made[record.key].append(record)
    expected = oracle.planned(it)
    assert set(made) <= set(expected)
    for key, history in expected.items():
        check_attempt(seen, history, made[key])
    if seen.cancelled_at is None:
        assert set(made) == set(expected)


def check_attempt(seen, history, records):
    assert [record.execution for record in records] == [*range(1, len(records) + 1)]
    was_cancelled = bool(records) and records[-1].verdict == "cancelled"
    if was_cancelled:
        *records, last = records
        assert seen.cancelled_at is not None
        assert last.failure.code == seen.result.ended_by
        assert len(records) < len(history)
    elif seen.cancelled_at is None:
        assert len(records) == len(history)
    for record, ends in zip(records, history, strict=False):
        assert short(record) == ends


def short(record):
    failure = record.failure
    return oracle.Expected(
        record.verdict,
        value=record.metrics["pass"] if record.metrics else None,
        stopped_by=record.stopped_by,
        phase=failure.phase if failure else None,
        code=failure.code if failure else None,
        retryable=failure.retryable if failure else False,
        will_retry=record.will_retry,
    )


def check_events(seen, at, records):
    def which(item):
        return (getattr(item, "task_id", None) or item.task, item.attempt, item.execution)

    written = Counter((*which(r), r.verdict, r.will_retry) for r in records if not r.reused_from)
    told = Counter((*which(e), e.verdict, e.will_retry) for e in seen.of("attempt_finished", at))
    started = Counter(which(e) for e in seen.of("attempt_started", at))
    assert not told - written
    assert all(n == 1 for n in (written + started - started).values() or [1])
    if not seen.is_cut:
        assert told == written
        assert set(started) == {which(record) for record in records}
        assert_recorded(seen, at)


def assert_recorded(seen, at):
    """What was told of attempts stands in `events.jsonl`, in the same order."""
    kinds = {"attempt_started", "phase_started", "attempt_finished"}
    told = [e.as_dict() for e in seen.events if e.kind in kinds and e.request == f"r{at}"]
    lines = map(json.loads, seen.paths(at).events_file.read_text().splitlines())
    assert [line for line in lines if line["event"] in kinds] == json.loads(json.dumps(told))


def check_scores(seen, at, records):
    """The report is what an independent count of the journal gives."""
    outcome = seen.result.requests[f"r{at}"]
    if outcome.result is None:
        assert seen.is_cut
        return
    it, final = seen.case.requests[at], verdicts(records)
    expected = oracle.scores(it, final)
    score, summary = outcome.result["metrics"]["scores"]["pass"], outcome.result["summary"]
    given = oracle.Scores(
        value=pytest.approx(score["value"]),
        graded_value=pytest.approx(score["graded_value"]),
        bounds=pytest.approx(tuple(score["bounds"])),
        coverage=pytest.approx(summary["coverage"]),
        counts={name: summary["counts"][name] for name in expected.counts},
        pass_at_k={j: pytest.approx(v) for j, v in score["pass_at_k"].items()},
    )
    assert attrs.asdict(given) == attrs.asdict(expected)
    assert summary["executions"] == sum(not record.reused_from for record in records)
