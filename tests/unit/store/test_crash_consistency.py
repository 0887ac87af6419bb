"""A run on a disk that fails at any call, and a crash or power cut after any call: nothing announced is lost.

The run is a small one of the real engine in virtual time. Every point is tried, one after another, not a sample.
"""

import errno
import tempfile
from pathlib import Path

import pytest

from agentcompass.components.base import Where
from agentcompass.errors import StoreError
from agentcompass.records import ExecutionRecord
from agentcompass.secrets import Scrubber
from agentcompass.store.layout import RunPaths
from agentcompass.store.reader import final_records, read_run
from agentcompass.store.run import MAX_ANSWER_BYTES, RunStore
from agentcompass.store.steps import steps_of
from agentcompass.store.summary import summarize
from support import oracle
from support.chaos import Act, Case, RequestCase, Script, run_case
from support.disk import Disk, Short, crashes, lay_out, notes
from support.storage import run_info, run_plan
from support.virtual import VirtualThreads, VirtualWriter

REQUEST = RequestCase(
    tasks=3,
    where=Where.REUSE,
    max_retries=1,
    scripts=(
        Script(is_right=True),
        Script(),
        Script(acts={"run": Act(5.0)}),
        Script(acts={"run": Act(1.0, "quota")}),
    ),
    min_coverage=0.0,
)
CASE = Case(requests=(REQUEST,), task_concurrency=2, writer_delays=(0.0, 0.5))
FAILING = ("write", "create", "mkdir", "rename", "sync", "truncate", "unlink")


@pytest.fixture
def place():
    """A function that makes an empty directory where files cost little."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="crash-", dir=memory if memory.is_dir() else None
    ) as directory:
        numbers = iter(range(100_000))

        def make():
            made = Path(directory) / str(next(numbers))
            made.mkdir()
            return made

        yield make


def announced(event):
    return f"{event.task} {event.attempt} {event.execution}"


def recorded(directory, fault=lambda _number, _call: None):
    """Run the case on a disk; return the disk and what was seen."""
    disk = Disk(directory, fault)

    def also(event):
        if event.kind == "attempt_finished":
            disk.note(announced(event))

    with disk.installed():
        return disk, run_case(CASE, directory, also=also)


def key(record):
    return f"{record.task_id} {record.attempt} {record.execution}"


def steps(paths, records):
    """The steps of each record."""
    return {key(record): list(steps_of(record, paths, "left-out")) for record in records}


def check_what_is_left(how, directory, promised, written, said):
    """What was announced can be read, in the order of writing, and the summary agrees with it.

    A trajectory is there whole or, after a power cut only, not at all.
    """
    paths = RunPaths(directory / "r0" / "first")
    try:
        run = read_run(paths.run_dir)
    except StoreError:
        assert not promised
        return
    corrupt = []
    records = list(run.records(corrupt.append))
    assert corrupt == []
    assert records == written[: len(records)]
    assert set(promised) <= {key(record) for record in records}
    for which, found in steps(paths, records).items():
        assert found == said[which] or (found == [] and how.startswith("power cut"))
    check_summary(paths, records)


def check_summary(paths, records):
    final = {
        which: (record.verdict, record.metrics["pass"] if record.metrics else None)
        for which, record in final_records(records).items()
    }
    expected = oracle.scores(REQUEST, final)
    report = summarize(paths.run_dir, write=False)
    assert report.coverage == pytest.approx(expected.coverage)
    assert report.primary_score.value == pytest.approx(expected.value)
    assert {name: report.counts[name] for name in expected.counts} == expected.counts


def check_resume(directory):
    """A run that reuses what is left comes to what an undisturbed one would have."""
    seen = run_case(CASE, directory, run_id="second", reuse=True)
    assert seen.result.status == "completed"
    assert seen.problems == []
    records = list(read_run(seen.paths(0).run_dir).records())
    final = {which: record.verdict for which, record in final_records(records).items()}
    assert final == {which: h[-1].verdict for which, h in oracle.planned(REQUEST).items()}
    check_summary(seen.paths(0), records)


# --- crashes


def test_after_a_crash_at_any_point_everything_announced_is_there_and_the_rest_can_be_done(place):
    directory = place()
    disk, seen = recorded(directory)
    assert seen.result.status == "completed"
    written = list(read_run(seen.paths(0).run_dir).records())
    assert len(written) == sum(map(len, oracle.planned(REQUEST).values()))
    said = steps(seen.paths(0), written)
    assert any(said.values())
    tried = 0
    for how, number, files in crashes(disk.calls):
        promised = set(notes(disk.calls[:number]))
        remains = place()
        lay_out(files, remains)
        try:
            check_what_is_left(how, remains, promised, written, said)
            check_resume(remains)
        except BaseException as error:
            near = [
                f"{call.name} {call.path}" for call in disk.calls[max(0, number - 3) : number + 1]
            ]
            error.add_note(f"{how} after call {number} of {len(disk.calls)}: ... {near}")
            raise
        tried += 1
    assert tried > 50


def test_a_long_answer_that_is_announced_survives_a_power_cut(place):
    directory = place()
    disk, threads = Disk(directory), VirtualThreads()
    threads.is_inside = True  # the writer does its jobs at once
    answer = "x" * (MAX_ANSWER_BYTES + 1)
    paths = RunPaths(directory / "results" / "demo" / "r1")
    with disk.installed():
        store = RunStore.create(
            VirtualWriter(threads),
            paths,
            run_info("r1"),
            run_plan("a task/with a slash"),
            Scrubber(),
        )
        record = ExecutionRecord(
            task_id="a task/with a slash",
            attempt=1,
            execution=1,
            verdict="graded",
            metrics={"accuracy": 1.0},
            answer=answer,
        )
        store.append(record, lambda error, _record: disk.note(error))
        assert store.close()
    file = paths.answer_file(record.task_id, 1, 1).relative_to(directory)
    for how, number, files in crashes(disk.calls):
        if "None" in notes(disk.calls[:number]):
            assert files.get(str(file)) == answer.encode(), how


# --- a disk that fails


def failing_at(number, trouble, *, for_ever):
    def fault(at, call):
        is_time = at >= number if for_ever else at == number
        return trouble if is_time and call.name in FAILING else None

    return fault


def torn_and_full(number):
    """From a call on there is no room; the write under way still gets half of its bytes in."""

    def fault(at, call):
        if at == number and call.name == "write":
            return Short(len(call.data) // 2)
        full = at >= number and call.name in {"write", "create", "mkdir"}
        return errno.ENOSPC if full else None

    return fault


def points(place):
    disk, _ = recorded(place())
    return range(disk.count)


@pytest.mark.parametrize(
    "trouble",
    [
        lambda number: failing_at(number, errno.EIO, for_ever=False),
        lambda number: failing_at(number, errno.EIO, for_ever=True),
        lambda number: failing_at(number, errno.ENOSPC, for_ever=False),
        torn_and_full,
    ],
    ids=["one EIO", "EIO for ever", "one ENOSPC", "a full disk"],
)
def test_whatever_call_fails_the_run_ends_and_nothing_announced_is_lost(place, trouble):
    for number in points(place):
        directory = place()
        disk, seen = recorded(directory, trouble(number))
        promised = set(notes(disk.calls))
        try:
            assert seen.problems == []
            outcome = seen.result.requests["r0"]
            assert outcome.status in {"completed", "failed"}
            assert outcome.status == "completed" or outcome.error
            check_what_is_there(directory, promised, outcome)
            check_resume(directory)
        except BaseException as error:
            error.add_note(f"call {number} failed: {disk.calls[-1]}")
            raise


def check_what_is_there(directory, promised, outcome):
    paths = RunPaths(directory / "r0" / "first")
    try:
        run = read_run(paths.run_dir)
    except StoreError:
        assert not promised
        return
    corrupt = []
    records = list(run.records(corrupt.append))
    assert corrupt == []
    assert promised <= {key(record) for record in records}
    for found in steps(paths, records).values():
        assert {step["type"] for step in found} <= {"note"}
    check_summary(paths, records)
    if outcome.status == "completed":
        assert len(promised) == len(records)


def test_short_writes_are_completed(place):
    directory = place()
    _, seen = recorded(directory, lambda _number, call: Short(7) if call.name == "write" else None)
    assert seen.result.status == "completed"
    check_summary(seen.paths(0), list(read_run(seen.paths(0).run_dir).records()))
