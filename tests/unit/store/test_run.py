import errno
import logging
import math
import os
import threading
from pathlib import Path

import attrs
import pytest

from agentcompass.errors import StoreError
from agentcompass.secrets import Scrubber
from agentcompass.store.lock import is_held
from agentcompass.store.reader import read_run
from agentcompass.store.run import MAX_ANSWER_BYTES, RunStore
from agentcompass.store.trajectory import SHORT_STEPS
from agentcompass.store.writer import Job
from support.storage import Disk, graded, infra, lines, run_info, run_plan, write_run


@pytest.fixture
def disk(tmp_path):
    with Disk(tmp_path / "ns/r1") as one:
        yield one


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
        for task in ("t1", "long"):
            steps = disk.store.trajectory(task, 1, 1)
            for _ in range(1 if task == "t1" else 9):
                steps.write({"type": "x", "text": "sk-live-123456"})
            disk.append(graded(task))
    everything = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"sk-live-123456" not in everything
    first, second, *_ = read_run(disk.paths.run_dir).records()
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


def test_an_answer_of_64_kilobytes_is_whole_in_the_journal(disk):
    answer = "x" * MAX_ANSWER_BYTES
    assert disk.append(graded(answer=answer))[1].answer == answer
    assert disk.append(graded("t2", answer=answer + "x"))[1].answer != answer + "x"
    assert not disk.paths.answer_file("t1", 1, 1).exists()


def test_a_secret_in_a_long_answer_cannot_hide_at_the_cut(tmp_path):
    scrubber = Scrubber()
    scrubber.register("sk-live-123456")
    answer = "x" * (MAX_ANSWER_BYTES // 2 - 5) + "sk-live-123456" + "y" * MAX_ANSWER_BYTES
    with Disk(tmp_path / "r1", scrubber=scrubber) as disk:
        _, written = disk.append(graded(answer=answer))
    assert "sk-li" not in written.answer
    assert "sk-live" not in disk.paths.answer_file("t1", 1, 1).read_text()


def test_a_long_answer_that_is_taken_over_stays_as_it_was_shortened(tmp_path):
    with Disk(tmp_path / "r1") as disk:
        _, first = disk.append(graded(answer="x" * 10 * MAX_ANSWER_BYTES))
    with Disk(tmp_path / "r2") as disk:
        _, second = disk.append(attrs.evolve(first, reused_from="r1"))
    assert second.answer == first.answer
    assert not disk.paths.tasks_dir.exists()


def test_a_record_that_could_not_be_written_names_what_a_component_kept(disk):
    folder = disk.paths.attempt_dir("t1", 1)
    folder.mkdir(parents=True)
    _, written = disk.append(graded(answer=12))
    assert disk.paths.run_dir / written.attempt_dir == folder


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


def test_events_that_wait_for_a_slow_disk_count_as_what_they_hold(tmp_path):
    hangs = threading.Event()
    with Disk(tmp_path / "r1") as disk:
        disk.writer.submit(Job(write=lambda: hangs.wait() and None))
        for n in range(10_000):
            disk.store.event({"event": "notice", "n": n})
        assert disk.writer.pending_bytes > 10_000 * 500
        assert disk.writer.pending < 200
        hangs.set()
        disk.settle()
        assert [event["n"] for event in lines(disk.paths.events_file)] == list(range(10_000))
    assert disk.writer.pending_bytes == 0


class Telling(dict):
    """An event during whose writing something is done, once."""

    def __init__(self, then, **fields):
        super().__init__(event="notice", **fields)
        self._then = [then]

    def items(self):
        while self._then:
            self._then.pop()()
        return super().items()


def test_events_told_while_others_are_being_written_come_after_them(disk):
    def tell(n):
        disk.store.event(Telling(lambda: n < 50 and tell(n + 1), n=n))

    tell(0)
    for _ in range(60):
        disk.settle()
    assert [event["n"] for event in lines(disk.paths.events_file)] == list(range(51))


def test_however_fast_events_are_told_a_record_is_not_kept_waiting(disk):
    durable = threading.Event()

    def tell():
        disk.store.event(Telling(lambda: durable.is_set() or tell()))

    tell()
    disk.store.append(graded(), lambda _error, _record: durable.set())
    assert durable.wait(60)


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


def test_a_full_disk_leaves_the_old_run_json_and_no_torn_step(tiny_file_system, caplog):
    with Disk(tiny_file_system / "r1") as disk:
        steps = disk.store.trajectory("t1", 1, 1)
        for number in range(SHORT_STEPS + 1):
            steps.write({"n": number})
        disk.settle()
        steps.write({"n": "x" * 100_000})
        disk.settle()
        assert "No space left" in caplog.text
        assert [step["n"] for step in lines(steps.path)] == list(range(SHORT_STEPS + 1))
        with pytest.raises(StoreError, match="No space left"):
            disk.store.update(attrs.evolve(disk.info, error="x" * 100_000))
        assert read_run(disk.paths.run_dir).info == disk.info


def test_a_failed_creation_gives_up_its_lock(tiny_file_system):
    run_dir = tiny_file_system / "r1"
    for _ in range(2):
        with pytest.raises(StoreError, match="No space left"), Disk(run_dir, plan=plan_of(10_000)):
            pass
    assert not is_held(run_dir / "lock")


def test_a_place_where_creation_failed_can_be_used_when_there_is_room(tiny_file_system):
    filler = tiny_file_system / "filler"
    run_dir = tiny_file_system / "r1"
    filler.write_bytes(b"x" * 60 * 1024)
    with pytest.raises(StoreError, match="No space left"), Disk(run_dir, plan=plan_of(200)):
        pass
    filler.unlink()
    with Disk(run_dir, plan=plan_of(200)) as disk:
        assert disk.append(graded("task-000001"))[0] is None


def plan_of(tasks):
    return run_plan(*(f"task-{n:06}" for n in range(tasks)))


def test_closing_gives_up_when_the_disk_hangs_and_can_be_tried_again(tmp_path):
    hangs = threading.Event()
    with Disk(tmp_path / "r1") as disk:
        disk.writer.submit(Job(write=lambda: hangs.wait() and None))
        assert not disk.store.close(0.05)
        assert is_held(disk.paths.lock_file)
        hangs.set()
        assert disk.store.close(20)
        assert not is_held(disk.paths.lock_file)


def test_a_disk_that_fails_on_closing_costs_neither_records_nor_the_lock(tmp_path, monkeypatch):
    with Disk(tmp_path / "r1") as disk:
        assert disk.append(graded())[0] is None
        journal = os.stat(disk.paths.journal_file)
        close = os.close

        def failing(descriptor):
            is_journal = os.path.samestat(os.fstat(descriptor), journal)
            close(descriptor)
            if is_journal:
                raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "close", failing)
        assert disk.store.close(20)
    assert not is_held(disk.paths.lock_file)
    assert [record.key for record in read_run(disk.paths.run_dir).records()] == [("t1", 1)]


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
