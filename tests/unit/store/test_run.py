import json
import logging
import math
import os
import subprocess
from pathlib import Path

import attrs
import pytest

from agentcompass.errors import StoreError
from agentcompass.secrets import Scrubber
from agentcompass.store.reader import read_run
from agentcompass.store.run import MAX_ANSWER_BYTES, RunStore
from support.storage import Disk, graded, infra, run_info, run_plan, waited, write_run


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.fixture
def disk(tmp_path):
    with Disk(tmp_path / "ns/r1") as one:
        yield one


@pytest.fixture
def tiny_file_system(tmp_path):
    """A file system of 64 KiB that really fills up."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    mount = tmp_path / "tiny"
    mount.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount)]
    if subprocess.run(command, check=False, capture_output=True, timeout=20).returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield mount
    subprocess.run(["umount", "-l", str(mount)], check=True, timeout=20)


def test_a_record_is_in_the_journal_when_it_is_announced(disk):
    record = graded(answer="42", details={"expected": [42]})
    assert disk.append(record) == (None, record)
    assert list(read_run(disk.paths.run_dir).records()) == [record]


def test_run_and_plan_are_there_before_the_first_record(disk):
    run = read_run(disk.paths.run_dir)
    assert run.info == disk.info
    assert run.plan == disk.plan
    assert list(run.records()) == []


def test_odd_texts_come_back_as_they_were(disk):
    record = graded(answer="a\u2028b\x85c\ud800\x00\r\n", details={"\udcff": "\u2029"})
    error, _ = disk.append(record)
    assert error is None
    assert list(read_run(disk.paths.run_dir).records()) == [record]


def test_a_record_of_five_megabytes_is_a_line(disk):
    record = graded(details={"log": "x" * 5_000_000})
    disk.append(record)
    disk.append(graded("t2"))
    assert [r.task_id for r in read_run(disk.paths.run_dir).records()] == ["t1", "t2"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (graded(value=math.nan), "$.metrics.accuracy: nan"),
        (graded(value="1"), "$.metrics.accuracy"),
        (graded(details={"a": [object()]}), "$.details.a[0]: object"),
        (graded(details={1: 2}), "$.details: key 1"),
        (attrs.evolve(graded(), metrics=None), "metrics belong"),
        (attrs.evolve(infra(), failure=None), "a failure belongs"),
        (attrs.evolve(graded(), usage=None), "record could not be written"),
        (graded(answer=12), "record could not be written"),
    ],
    ids=["nan", "text", "object", "key", "no-metrics", "no-failure", "no-usage", "answer"],
)
def test_a_record_that_cannot_be_written_becomes_an_infra_record_that_says_why(disk, bad, reason):
    error, written = disk.append(bad)
    assert error is None
    assert (written.verdict, written.failure.phase) == ("infra", "record")
    assert written.failure.code == "unwritable-record"
    assert reason in written.failure.message
    assert written.key == bad.key
    assert list(read_run(disk.paths.run_dir).records()) == [written]


def test_the_replacement_keeps_what_the_attempt_cost(disk):
    _, written = disk.append(attrs.evolve(infra(), details={"x": {1}}, wall_seconds=3.0))
    assert written.usage.input_tokens == 10
    assert written.wall_seconds == 3.0


def test_a_record_without_a_usable_identity_is_an_error(disk):
    error, _ = disk.append(graded(task=5))
    assert isinstance(error, StoreError)
    assert disk.append(graded())[0] is None


def test_secrets_are_removed_by_value_and_nothing_is_for_its_name(tmp_path):
    scrubber = Scrubber()
    scrubber.register("sk-live-123456", "graded")
    record = graded(
        answer="key sk-live-123456",
        details={"sk-live-123456": "sk-live-123456", "max_token": 5, "sort_key": "name"},
    )
    failed = infra("t2", message="401 for sk-live-123456")
    info = run_info("r1", request={"headers": "sk-live-123456"}, error="sk-live-123456")
    with Disk(tmp_path / "r1", scrubber=scrubber, info=info) as disk:
        disk.append(record)
        disk.append(failed)
        disk.store.event({"event": "notice", "text": "sk-live-123456"})
        steps = disk.store.trajectory("t1", 1, 1)
        waited(lambda done: steps.write({"type": "x", "text": "sk-live-123456"}, done))
    everything = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"sk-live-123456" not in everything
    first, second = read_run(disk.paths.run_dir).records()
    assert (first.verdict, first.answer) == ("graded", "key [secret]")
    assert first.details == {"[secret]": "[secret]", "max_token": 5, "sort_key": "name"}
    assert second.failure.message == "401 for [secret]"


def test_a_long_answer_is_kept_whole_beside_the_journal(disk):
    answer = "start " + "ä" * MAX_ANSWER_BYTES + " end"
    _, written = disk.append(graded(answer=answer, execution=2))
    assert written.answer.startswith("start ä")
    assert written.answer.endswith("ä end")
    assert "answer-2.txt" in written.answer
    assert len(written.answer.encode()) < MAX_ANSWER_BYTES + 200
    assert disk.paths.answer_file("t1", 1, 2).read_text() == answer
    assert (disk.paths.run_dir / written.attempt_dir / "answer-2.txt").exists()


def test_a_secret_in_a_long_answer_cannot_hide_at_the_cut(tmp_path):
    scrubber = Scrubber()
    scrubber.register("sk-live-123456")
    answer = "x" * (MAX_ANSWER_BYTES // 2 - 5) + "sk-live-123456" + "y" * MAX_ANSWER_BYTES
    with Disk(tmp_path / "r1", scrubber=scrubber) as disk:
        _, written = disk.append(graded(answer=answer))
    assert "sk-li" not in written.answer
    assert "sk-live" not in disk.paths.answer_file("t1", 1, 1).read_text()


def test_a_short_answer_makes_no_directory(disk):
    _, written = disk.append(graded(answer="short"))
    assert written.attempt_dir is None
    assert not disk.paths.tasks_dir.exists()


def test_a_directory_with_an_existing_run_is_refused(tmp_path):
    paths = write_run(tmp_path / "r1", [graded()])
    before = paths.journal_file.read_bytes()
    with pytest.raises(StoreError, match="already holds a run"), Disk(tmp_path / "r1"):
        pass
    assert paths.journal_file.read_bytes() == before


def test_a_second_writer_is_refused_and_told_who_holds_it(disk):
    with pytest.raises(StoreError, match=f"written by process {os.getpid()}"):
        RunStore.create(disk.writer, disk.paths, disk.info, disk.plan, Scrubber())
    assert disk.append(graded())[0] is None


def test_an_empty_directory_may_become_a_run(tmp_path):
    (tmp_path / "r1").mkdir()
    write_run(tmp_path / "r1")


def test_a_place_without_permission_is_an_error_that_names_it(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(StoreError, match=r"cannot create .*file/ns/r1"),
        Disk(tmp_path / "file/ns/r1"),
    ):
        pass


def test_a_read_only_directory_is_an_error_with_a_hint():
    with pytest.raises(StoreError) as caught, Disk(Path("/proc/agentcompass/r1")):
        pass
    assert "cannot create /proc/agentcompass/r1" in str(caught.value)


def test_update_replaces_run_json_whole_and_leaves_nothing_else(disk):
    done = attrs.evolve(disk.info, status="completed", finished_at="2026-01-01T01:00:00+00:00")
    disk.store.update(done)
    assert read_run(disk.paths.run_dir).info == done
    assert not list(disk.paths.run_dir.glob("*.tmp"))
    assert not list(disk.paths.run_dir.glob(".*"))


def test_events_keep_their_order(disk):
    for n in range(50):
        disk.store.event({"event": "notice", "n": n})
    disk.append(graded())
    assert [event["n"] for event in lines(disk.paths.events_file)] == list(range(50))


def test_events_that_cannot_be_written_are_noted_once_and_hurt_nobody(disk, caplog):
    disk.paths.events_file.mkdir()
    for _ in range(3):
        disk.store.event({"event": "notice"})
        assert disk.append(graded())[0] is None
    assert caplog.text.count("no more progress events") == 1


def test_an_event_that_is_not_json_is_noted_and_hurts_nobody(disk, caplog):
    disk.store.event({"event": object()})
    assert disk.append(graded())[0] is None
    assert "$.event" in caplog.text


def test_a_trajectory_is_on_disk_while_it_is_written(disk):
    steps = disk.store.trajectory("t1", 1, 1)
    assert not disk.paths.tasks_dir.exists()
    assert waited(lambda done: steps.write({"type": "message", "n": 1}, done)) is None
    assert lines(steps.path) == [{"type": "message", "n": 1}]
    assert waited(lambda done: steps.write({"n": 2}, done)) is None
    assert len(lines(steps.path)) == 2


def test_a_record_names_the_directory_that_its_trajectory_made(disk):
    disk.store.trajectory("a/b", 1, 1).write({"type": "x"})
    _, written = disk.append(graded("a/b"))
    assert (disk.paths.run_dir / written.attempt_dir / "trajectory.jsonl").exists()


def test_a_retry_never_overwrites_the_evidence_of_an_earlier_execution(disk):
    for execution in (1, 2):
        steps = disk.store.trajectory("t1", 1, execution)
        waited(lambda done, n=execution, steps=steps: steps.write({"n": n}, done))
    folder = disk.paths.attempt_dir("t1", 1)
    assert {p.name: lines(p) for p in folder.iterdir()} == {
        "trajectory.jsonl": [{"n": 1}],
        "trajectory-2.jsonl": [{"n": 2}],
    }


def test_a_step_of_forty_megabytes_is_written_whole(disk):
    steps = disk.store.trajectory("t1", 1, 1)
    assert waited(lambda done: steps.write({"out": "x" * 40_000_000}, done)) is None
    assert steps.path.stat().st_size > 40_000_000


def test_a_step_that_is_not_json_leaves_a_note_in_its_place(disk):
    steps = disk.store.trajectory("t1", 1, 1)
    error = waited(lambda done: steps.write({"a": {1, 2}}, done))
    assert "$.a: set" in str(error)
    assert lines(steps.path)[0]["type"] == "unwritable-step"
    assert waited(lambda done: steps.write({"n": 2}, done)) is None


def test_a_closed_trajectory_takes_no_steps(disk):
    steps = disk.store.trajectory("t1", 1, 1)
    steps.close()
    assert isinstance(waited(lambda done: steps.write({"n": 1}, done)), StoreError)


def test_a_planted_link_is_not_followed(disk, tmp_path):
    outside = tmp_path / "outside"
    folder = disk.paths.attempt_dir("t1", 1)
    folder.mkdir(parents=True)
    (folder / "trajectory.jsonl").symlink_to(outside)
    steps = disk.store.trajectory("t1", 1, 1)
    assert isinstance(waited(lambda done: steps.write({"n": 1}, done)), StoreError)
    assert not outside.exists()


def test_a_full_disk_ends_the_journal_at_its_last_good_line(tiny_file_system, caplog):
    caplog.set_level(logging.ERROR)
    with Disk(tiny_file_system / "r1") as disk:
        announced, errors = 0, []
        for _ in range(40):
            error, _ = disk.append(graded(details={"pad": "x" * 4000}))
            if error is None:
                assert not errors, "nothing is taken after a failure"
                announced += 1
            else:
                errors.append(error)
        assert announced > 0
        assert len({str(error) for error in errors}) == 1
        assert "No space left on device" in str(errors[0])
        assert "attempts.jsonl" in str(errors[0])
        assert "--reuse" in str(errors[0])
        data = disk.paths.journal_file.read_bytes()
        assert data.endswith(b"\n")
        assert len(list(read_run(disk.paths.run_dir).records())) == announced


def test_a_full_disk_leaves_the_old_run_json_and_no_torn_step(tiny_file_system):
    with Disk(tiny_file_system / "r1") as disk:
        steps = disk.store.trajectory("t1", 1, 1)
        assert waited(lambda done: steps.write({"n": 1}, done)) is None
        error = waited(lambda done: steps.write({"n": "x" * 100_000}, done))
        assert "No space left" in str(error)
        assert lines(steps.path) == [{"n": 1}]
        with pytest.raises(StoreError, match="No space left"):
            disk.store.update(attrs.evolve(disk.info, error="x" * 100_000))
        assert read_run(disk.paths.run_dir).info == disk.info


def test_a_failed_creation_gives_up_its_lock(tiny_file_system):
    plan = run_plan(*(f"task-{n:06}" for n in range(10_000)))
    run_dir = tiny_file_system / "r1"
    for _ in range(2):
        with pytest.raises(StoreError) as caught, Disk(run_dir, plan=plan):
            pass
        assert "is being written" not in str(caught.value)


def test_closing_after_the_writer_still_gives_up_the_lock(tmp_path):
    disk = Disk(tmp_path / "r1")
    with disk:
        assert disk.writer.close(10)
        error, _ = disk.append(graded())
        assert isinstance(error, StoreError)
    with pytest.raises(StoreError, match="already holds a run"), Disk(tmp_path / "r1"):
        pass


def test_closing_twice_is_fine_and_appending_afterwards_fails(disk):
    assert disk.store.close(10)
    assert disk.store.close(10)
    error, _ = disk.append(graded())
    assert "closed" in str(error)
