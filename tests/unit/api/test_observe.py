"""What a run or a launch of another process looks like from its files, at any moment of its life."""

import json
import os

import attrs
import pytest

from agentcompass.api.observe import observe
from agentcompass.errors import StoreError
from agentcompass.metrics.intervals import wilson
from agentcompass.progress import events
from agentcompass.records import ProcessIdentity, Usage
from agentcompass.store import orchestration
from agentcompass.store.identity import this_process
from agentcompass.store.info import info_to_json
from agentcompass.store.leases import LeaseBook
from agentcompass.store.lock import RunLock
from agentcompass.store.orchestration import OrchestrationFile, OrchestrationInfo, RequestEntry
from support.storage import Disk, graded, infra, lease, run_info, run_plan, write_run

BEGIN = 1_767_225_600.0
"""2026-01-01T00:00:00Z, when the runs of `support.storage` start."""
GONE = ProcessIdentity(boot_id="another boot", pid=4711, started=1)
CALLS = Usage(calls=2, input_tokens=100, output_tokens=20, cost_usd=0.25)


def at(seconds):
    return f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}+00:00"


def started(task, seconds, attempt=1, execution=1):
    return events.AttemptStarted(
        at=BEGIN + seconds, request="demo", task=task, attempt=attempt, execution=execution
    )


def phase(task, name, seconds, attempt=1, detail=""):
    return events.PhaseStarted(
        at=BEGIN + seconds, request="demo", task=task, attempt=attempt, phase=name, detail=detail
    )


def tell(disk, *told):
    for event in told:
        disk.store.event(event.as_dict())
    disk.settle()


@pytest.fixture
def six(tmp_path):
    """A run of six tasks that is under way in this process."""
    tasks = [f"t{n}" for n in range(6)]
    with Disk(tmp_path / "results" / "demo" / "r1", plan=run_plan(*tasks)) as disk:
        yield disk


def look(disk, seconds=60.0):
    return observe(disk.paths.run_dir, BEGIN + seconds)


# --- a run that is under way


def test_a_run_that_has_just_begun_has_everything_before_it(six):
    found = look(six, 5)
    (request,) = found.requests
    assert (found.kind, found.status, found.process_state) == ("run", "running", "alive")
    assert (found.process, found.elapsed_seconds) == (this_process(), 5.0)
    assert (request.planned, request.done, request.running, request.waiting) == (6, 0, 0, 6)
    assert (request.score, found.per_second, found.left_seconds) == (None, None, None)
    assert (request.finish_command, found.activities, found.troubles) == (None, (), ())


def test_what_is_done_runs_and_waits_is_told_apart(six):
    six.append(graded("t0", finished_at=at(10), usage=CALLS))
    six.append(graded("t1", value=0.0, finished_at=at(20), usage=CALLS))
    six.append(infra("t2", finished_at=at(30), will_retry=True))
    tell(six, *(started(f"t{n}", n) for n in range(4)), phase("t3", "run", 12))
    found = look(six, 60)
    (request,) = found.requests
    assert (request.done, request.running, request.waiting) == (2, 1, 3)
    assert request.waiting_for_retry == 1
    assert request.verdicts == {"graded": 2, "infra": 0, "cancelled": 0, "skipped": 0}
    assert (request.metric, request.score, request.ci95) == ("accuracy", 0.5, wilson(1, 2))
    assert (request.usage.total_tokens, request.usage.cost_usd) == (255, 0.5)
    (active,) = found.activities
    assert (active.task, active.seconds, active.phase, active.phase_seconds) == (
        "t3",
        57,
        "run",
        48,
    )


def test_the_oldest_phase_comes_first_and_says_what_it_waits_for(six):
    tell(
        six,
        *(started("t0", 0), phase("t0", "open", 1), phase("t0", "run", 40)),
        *(started("t1", 0, execution=2), phase("t1", "open", 2, detail="the open rate")),
        events.ModelRetried(
            at=BEGIN + 50,
            request="demo",
            task="t0",
            attempt=1,
            code="rate-limited",
            message="429",
            wait_seconds=1.0,
        ),
    )
    found = look(six, 60)
    assert [(one.task, one.execution, one.waits_for) for one in found.activities] == [
        ("t1", 2, "the open rate"),
        ("t0", 1, ""),
    ]
    assert found.activities[1].model_retries == 1
    assert found.model_retries == {"rate-limited": 1}


def test_an_attempt_whose_end_is_on_disk_does_not_run_whatever_the_events_say(six):
    tell(six, started("t0", 0), phase("t0", "run", 1))
    six.append(graded("t0", finished_at=at(10)))
    assert look(six).activities == ()


def test_the_next_execution_of_an_attempt_runs(six):
    six.append(infra("t0", finished_at=at(10), will_retry=True))
    tell(six, started("t0", 0), started("t0", 15, execution=2), phase("t0", "open", 16))
    found = look(six)
    assert [(one.task, one.execution, one.phase) for one in found.activities] == [("t0", 2, "open")]
    assert found.requests[0].waiting_for_retry == 0


def test_the_rate_counts_from_the_start_and_gives_the_expected_end(six):
    for n in range(3):
        six.append(graded(f"t{n}", finished_at=at(10 * (n + 1))))
    found = look(six, 60)
    assert found.per_second == pytest.approx(3 / 60)
    assert found.left_seconds == pytest.approx(60)


def test_attempts_that_pass_does_not_need_are_not_waited_for(tmp_path):
    plan = run_plan("t0", "t1", k=4, strategy="pass")
    with Disk(tmp_path / "r1", plan=plan) as disk:
        for attempt, value in ((1, 0.0), (2, 1.0)):
            disk.append(graded("t0", attempt, value, finished_at=at(10)))
        disk.append(graded("t1", 1, 0.0, finished_at=at(12)))
        found = look(disk, 30)
    (request,) = found.requests
    assert (request.planned, request.done, request.not_needed, request.waiting) == (8, 3, 2, 3)
    assert found.left_seconds == pytest.approx(30.0)


def test_reused_attempts_are_done_and_count_in_the_score(six):
    six.append(graded("t0", reused_from="r0"))
    six.append(graded("t1", value=0.0, finished_at=at(10)))
    (request,) = look(six).requests
    assert (request.done, request.reused, request.verdicts["graded"]) == (2, 1, 1)
    assert (request.score, request.ci95) == (0.5, wilson(1, 2))


def test_trouble_is_told_by_cause_the_latest_first_with_its_latest_example(six):
    for n, code in enumerate(["stalled", "rate-limited", "rate-limited"]):
        six.append(infra(f"t{n}", code=code, message=f"said {n}", finished_at=at(10 * (n + 1))))
    tell(
        six,
        events.Notice(at=BEGIN + 50, request="demo", level="warning", text="the disk is slow"),
        events.Notice(at=BEGIN + 51, request="demo", level="info", text="nothing special"),
    )
    troubles = [(one.code, one.count, one.task, one.message) for one in look(six).troubles]
    assert troubles == [
        ("warning", 1, "", "the disk is slow"),
        ("rate-limited", 2, "t2", "said 2"),
        ("stalled", 1, "t0", "said 0"),
    ]
    assert [one.seconds_ago for one in look(six, 60).troubles] == [10, 30, 50]


def test_causes_without_end_are_counted_together(tmp_path):
    tasks = [f"t{n}" for n in range(150)]
    with Disk(tmp_path / "r1", plan=run_plan(*tasks)) as disk:
        for n, task in enumerate(tasks):
            disk.append(infra(task, code=f"cause-{n}"))
        troubles = {one.code: one.count for one in look(disk).troubles}
    assert (len(troubles), troubles["other causes"]) == (101, 50)


def test_a_run_that_is_being_ended_says_how_long_cleanup_may_take(six):
    tell(
        six,
        events.CleanupStarted(at=BEGIN + 50, reason="sigterm", sandboxes=2, grace_seconds=30.0),
    )
    ending = look(six, 60).ending
    assert (ending.reason, ending.seconds_left) == ("sigterm", 20.0)


def test_open_sandboxes_are_counted_those_that_nobody_can_read_included(six):
    book = LeaseBook(six.paths.leases_dir)
    book.write(lease("l1"))
    book.write(lease("l2", keep=True))
    (six.paths.leases_dir / "l3.json").write_text("{")
    assert look(six).requests[0].sandboxes == 2


def test_half_a_line_at_the_end_of_each_file_is_what_is_being_written(six):
    six.append(graded("t0", finished_at=at(10)))
    tell(six, started("t1", 11))
    for path in (six.paths.journal_file, six.paths.events_file):
        with path.open("ab") as file:
            file.write(b'{"task_id": "t5", "att')
    (request,) = look(six).requests
    assert (request.done, request.running) == (1, 1)


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "7",
        '"attempt_started"',
        '{"event": 7}',
        '{"event": ["attempt_started"]}',
        '{"event": "attempt_started", "at": "now", "task": "t1", "attempt": 1, "execution": 1}',
        '{"event": "attempt_started", "at": 1, "task": null, "attempt": 1, "execution": 1}',
        '{"event": "phase_started", "at": 1, "task": ["t1"], "attempt": 1, "phase": "run"}',
        '{"event": "phase_started", "at": 1, "task": "t0", "attempt": 1, "phase": "dancing"}',
        '{"event": "cleanup_started"}',
        "not JSON",
    ],
)
def test_a_damaged_event_is_left_out_and_the_others_count(six, line):
    tell(six, started("t0", 3))
    with six.paths.events_file.open("a") as file:
        file.write(line + "\n")
    tell(six, started("t1", 4))
    found = look(six)
    assert {one.task for one in found.activities} == {"t0", "t1"}
    assert found.ending is None


def test_without_events_the_journal_still_tells(six):
    six.append(graded("t0", finished_at=at(10)))
    six.paths.events_file.mkdir()
    (request,) = look(six).requests
    assert (request.done, request.waiting) == (1, 5)


def test_records_of_what_nobody_planned_do_not_count(six):
    six.append(graded("stranger", finished_at=at(10)))
    six.append(graded("t0", attempt=7, finished_at=at(10)))
    assert look(six).requests[0].done == 0


def test_times_that_are_none_are_no_obstacle(six):
    six.append(graded("t0", finished_at="yesterday"))
    info = attrs.evolve(six.info, started_at="soon")
    six.store.update(info)
    found = look(six, 60)
    assert (found.requests[0].done, found.elapsed_seconds) == (1, None)


# --- a run that is not under way


def test_a_run_whose_process_is_gone_is_interrupted_and_says_how_to_go_on(tmp_path):
    run_dir = tmp_path / "results" / "demo" / "r1"
    paths = write_run(
        run_dir,
        [graded("t0", finished_at=at(10)), infra("t1", finished_at=at(20), will_retry=True)],
        plan=run_plan("t0", "t1", "t2"),
        info=run_info("r1", owner=GONE),
    )
    found = observe(run_dir, BEGIN + 3600)
    (request,) = found.requests
    assert (found.status, found.process_state, found.process.pid) == ("interrupted", "gone", 4711)
    assert (request.done, request.running, request.waiting, request.score) == (1, 0, 2, 1.0)
    assert request.finish_command.startswith("agentcompass run b h m")
    assert request.finish_command.endswith("--reuse r1")
    assert (found.per_second, found.left_seconds, found.elapsed_seconds) == (None, None, None)
    assert paths.run_dir == run_dir


def test_a_process_that_holds_the_lock_is_elsewhere_if_it_cannot_be_seen(tmp_path):
    paths = write_run(tmp_path / "r1", info=run_info("r1", owner=GONE))
    lock = RunLock(paths.lock_file)
    found = observe(tmp_path / "r1", BEGIN + 10)
    assert (found.status, found.process_state) == ("running", "elsewhere")
    lock.release()


def test_a_run_that_failed_has_the_score_of_what_is_graded_and_misses_the_rest(tmp_path):
    info = run_info("r1", status="failed", finished_at=at(90), error="coverage is too low")
    write_run(
        tmp_path / "r1",
        [graded("t0", usage=CALLS), graded("t1", reused_from="r0"), infra("t2")],
        plan=run_plan("t0", "t1", "t2", "t3"),
        info=info,
    )
    found = observe(tmp_path / "r1", BEGIN + 3600)
    (request,) = found.requests
    assert (found.status, found.elapsed_seconds) == ("failed", 90.0)
    assert (request.planned, request.done, request.waiting, request.reused) == (4, 2, 2, 1)
    assert request.verdicts == {"graded": 1, "infra": 1, "cancelled": 0, "skipped": 1}
    assert (request.score, request.error) == (1.0, "coverage is too low")
    assert request.finish_command.endswith("--reuse r1")


def test_a_run_that_ends_while_it_is_looked_at_is_not_called_interrupted(tmp_path, monkeypatch):
    info = run_info("r1", owner=GONE)
    paths = write_run(tmp_path / "r1", info=info)
    over = attrs.evolve(info, status="completed", finished_at=at(5))

    def last_word_is_written(_path):
        paths.run_file.write_text(json.dumps(info_to_json(over)))
        return False

    monkeypatch.setattr("agentcompass.store.reader.is_held", last_word_is_written)
    assert observe(tmp_path / "r1", BEGIN + 60).status == "completed"


def test_a_journal_that_cannot_be_read_is_said_and_the_rest_is_shown(six):
    six.paths.journal_file.rename(six.paths.run_dir / "elsewhere")
    six.paths.journal_file.mkdir()
    (request,) = look(six).requests
    assert "attempts.jsonl" in request.error
    assert request.planned == 6
    six.paths.journal_file.rmdir()
    (six.paths.run_dir / "elsewhere").rename(six.paths.journal_file)


def test_a_journal_of_a_run_that_is_over_that_cannot_be_read_is_said_too(tmp_path):
    paths = write_run(tmp_path / "r1", info=run_info("r1", status="completed"))
    paths.journal_file.unlink()
    paths.journal_file.mkdir()
    (request,) = observe(tmp_path / "r1", BEGIN).requests
    assert "attempts.jsonl" in request.error


@pytest.mark.parametrize(
    ("name", "text", "word"),
    [
        ("run.json", "{", "run.json"),
        ("run.json", '{"schema": 99, "owner": {"schema": 99}}', "newer"),
        ("plan.json", "[]", "plan.json"),
    ],
)
def test_a_directory_that_cannot_be_read_is_an_error_that_names_the_file(
    tmp_path, name, text, word
):
    paths = write_run(tmp_path / "r1")
    (paths.run_dir / name).write_text(text)
    with pytest.raises(StoreError, match=word):
        observe(tmp_path / "r1", BEGIN)


def test_looking_leaves_no_trace(six):
    tell(six, started("t0", 1))
    before = {path: path.stat().st_mtime_ns for path in six.paths.run_dir.rglob("*")}
    look(six)
    assert {path: path.stat().st_mtime_ns for path in six.paths.run_dir.rglob("*")} == before


@pytest.mark.parametrize("name", ["run.json", "plan.json", "attempts.jsonl", "orchestration.json"])
@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_regular_file_is_an_error_and_nothing_waits_for_it(tmp_path, name, put):
    paths = write_run(tmp_path / "r1", [graded("t0")], info=run_info("r1", owner=GONE))
    (paths.run_dir / name).unlink(missing_ok=True)
    put(paths.run_dir / name)
    try:
        (request,) = observe(paths.run_dir, BEGIN).requests
        said = request.error
    except StoreError as error:
        said = error.message
    assert f"{name}: it is not a regular file" in said


def test_a_run_without_anything_graded_is_finished_by_the_same_command_again(tmp_path):
    for name, status in (("r1", "running"), ("r2", "cancelled")):
        info = run_info(name, owner=GONE, status=status)
        write_run(tmp_path / name, [infra("t0")], plan=run_plan("t0", "t1"), info=info)
        (request,) = observe(tmp_path / name, BEGIN).requests
        assert "--reuse" not in request.finish_command
        assert (request.done, request.waiting, request.score) == (0, 2, None)


# --- a launch


def launched(results_dir, owner=None, **entries):
    info = OrchestrationInfo(
        id="o1",
        name="nightly",
        started_at=at(0),
        owner=owner or this_process(),
        requests=entries,
    )
    return OrchestrationFile(results_dir, info, lambda text: text)


def test_a_launch_adds_up_its_requests_and_tells_them_apart(tmp_path):
    one = Disk(tmp_path / "one" / "r1", plan=run_plan("t0", "t1", "t2"))
    two = Disk(tmp_path / "two" / "r1", plan=run_plan("t0", "t1", "t2"))
    with one, two:
        file = launched(
            tmp_path,
            one=RequestEntry(run_id="r1", status="running", run_dir=str(one.paths.run_dir)),
            two=RequestEntry(run_id="r1", status="running", run_dir=str(two.paths.run_dir)),
            three=RequestEntry(run_id="r1"),
            four=RequestEntry(run_id="r1", status="failed", error="no Docker"),
        )
        one.append(graded("t0", finished_at=at(10)))
        one.append(graded("t1", finished_at=at(30)))
        two.append(infra("t0", finished_at=at(20)))
        tell(two, started("t1", 21), phase("t1", "evaluate", 30))
        found = observe(file.path.parent, BEGIN + 60)
        file.close()
    assert (found.kind, found.name, found.status) == ("launch", "nightly", "running")
    states = {one.name: (one.status, one.done, one.running, one.waiting) for one in found.requests}
    assert states == {
        "one": ("running", 2, 0, 1),
        "two": ("running", 1, 1, 1),
        "three": ("preparing", 0, 0, 0),
        "four": ("failed", 0, 0, 0),
    }
    assert found.requests[3].error == "no Docker"
    assert found.per_second == pytest.approx(3 / 60)
    assert [(one.request, one.task) for one in found.activities] == [("two", "t1")]
    assert [(one.request, one.code) for one in found.troubles] == [("two", "sandbox-failed")]


def test_a_launch_whose_process_is_gone_is_interrupted_with_all_that_was_under_way(tmp_path):
    paths = write_run(tmp_path / "one" / "r1", info=run_info("r1", owner=GONE))
    over = run_info("r1", owner=GONE, status="completed", finished_at=at(9))
    done = write_run(tmp_path / "two" / "r1", [graded("t0")], plan=run_plan("t0"), info=over)
    file = launched(
        tmp_path,
        GONE,
        one=RequestEntry(run_id="r1", status="running", run_dir=str(paths.run_dir)),
        two=RequestEntry(run_id="r1", status="running", run_dir=str(done.run_dir)),
        three=RequestEntry(run_id="r1"),
    )
    file.close()
    found = observe(file.path.parent, BEGIN + 60)
    states = {one.name: one.status for one in found.requests}
    assert found.status == "interrupted"
    assert states == {"one": "interrupted", "two": "completed", "three": "interrupted"}


def test_a_request_whose_directory_is_gone_says_so_and_keeps_its_score(tmp_path):
    entry = RequestEntry(
        run_id="r1",
        status="completed",
        run_dir=str(tmp_path / "gone"),
        metric="accuracy",
        score=0.5,
        ci95=(0.2, 0.8),
    )
    file = launched(tmp_path, one=entry)
    (request,) = observe(file.path.parent, BEGIN).requests
    file.close()
    assert (request.status, request.score, request.ci95) == ("unreadable", 0.5, (0.2, 0.8))
    assert "run.json" in request.error


@pytest.mark.parametrize(
    "damage",
    [
        "{",
        "[]",
        '{"owner": 1, "requests": {}}',
        '{"owner": {"boot_id": "", "pid": 1, "started": 1}, "requests": []}',
        '{"owner": {"boot_id": "", "pid": 1, "started": 1}, "requests": {"a": {"run_id": 1}}}',
    ],
)
def test_a_damaged_launch_is_an_error_that_names_the_file(tmp_path, damage):
    (tmp_path / orchestration.FILE_NAME).write_text(damage)
    with pytest.raises(StoreError, match=r"orchestration\.json cannot be used"):
        observe(tmp_path, BEGIN)


def test_a_launch_that_may_not_be_read_is_an_error(tmp_path):
    (tmp_path / orchestration.FILE_NAME).mkdir()
    with pytest.raises(StoreError, match="cannot read"):
        observe(tmp_path, BEGIN)
    assert os.listdir(tmp_path) == [orchestration.FILE_NAME]
