import json
import logging
import os
import threading
import time

import attrs
import pytest

from agentcompass.errors import StoreError
from agentcompass.store.codec import decode_record, encode_record
from agentcompass.store.reader import read_run
from agentcompass.store.steps import steps_of
from agentcompass.store.trajectory import SHORT_BYTES, SHORT_STEPS
from support.storage import Disk, graded, infra, lines


@pytest.fixture
def disk(tmp_path):
    with Disk(tmp_path / "r1") as disk:
        yield disk


def write(disk, *steps, task="t1", execution=1):
    trajectory = disk.store.trajectory(task, 1, execution)
    for step in steps:
        trajectory.write(step)
    return trajectory


def numbered(count):
    return [{"type": "x", "n": number} for number in range(count)]


def read(disk, record):
    return list(steps_of(record, disk.paths, "left-out"))


def test_short_trajectories_share_a_file_and_leave_no_directory(disk):
    written = []
    for task in ("a/b", "t1"):
        write(disk, *numbered(SHORT_STEPS), task=task)
        written.append(disk.append(graded(task))[1])
    assert [read(disk, record) for record in written] == [numbered(SHORT_STEPS)] * 2
    assert not disk.paths.tasks_dir.exists()
    assert all(record.attempt_dir is None for record in written)
    assert lines(disk.paths.trajectories_file) == [
        {"task_id": task, "attempt": 1, "execution": 1, "steps": numbered(SHORT_STEPS)}
        for task in ("a/b", "t1")
    ]
    assert [record.steps_at for record in read_run(disk.paths.run_dir).records()] == [
        record.steps_at for record in written
    ]


def test_a_trajectory_is_streamed_into_its_own_file_from_the_first_step_too_many(disk):
    steps = write(disk, *numbered(SHORT_STEPS))
    disk.settle()
    assert not steps.path.exists()
    steps.write({"type": "x", "n": SHORT_STEPS})
    disk.settle()
    assert lines(steps.path) == numbered(SHORT_STEPS + 1)
    steps.write({"type": "last"})
    disk.settle()
    assert lines(steps.path)[-1] == {"type": "last"}
    _, record = disk.append(graded())
    assert record.steps_at is None
    assert (disk.paths.run_dir / record.attempt_dir / "trajectory.jsonl") == steps.path
    assert len(read(disk, record)) == SHORT_STEPS + 2
    assert not disk.paths.trajectories_file.exists()


def test_a_trajectory_of_many_bytes_is_streamed_however_few_its_steps(disk):
    steps = write(disk, {"out": "x" * SHORT_BYTES})
    disk.settle()
    assert lines(steps.path) == [{"out": "x" * SHORT_BYTES}]


def test_a_retry_never_overwrites_the_evidence_of_an_earlier_execution(disk):
    for execution in (1, 2):
        write(disk, *numbered(SHORT_STEPS + execution), execution=execution)
    disk.settle()
    folder = disk.paths.attempt_dir("t1", 1)
    assert {path.name: len(lines(path)) for path in folder.iterdir()} == {
        "trajectory.jsonl": SHORT_STEPS + 1,
        "trajectory-2.jsonl": SHORT_STEPS + 2,
    }


def test_each_execution_has_its_own_short_trajectory(disk):
    write(disk, {"n": "first"}, execution=1)
    _, failed = disk.append(infra(will_retry=True))
    write(disk, {"n": "second"}, execution=2)
    _, good = disk.append(graded(execution=2))
    assert (read(disk, failed), read(disk, good)) == ([{"n": "first"}], [{"n": "second"}])


def test_an_execution_without_steps_has_no_trajectory(disk):
    write(disk)
    _, record = disk.append(graded())
    assert (record.steps_at, record.attempt_dir, read(disk, record)) == (None, None, [])
    assert not disk.paths.trajectories_file.exists()


def test_a_step_of_forty_megabytes_is_written_whole(disk):
    steps = write(disk, {"out": "x" * 40_000_000})
    disk.settle()
    assert steps.path.stat().st_size > 40_000_000


def test_a_step_that_is_not_json_leaves_a_note_in_its_place(disk):
    write(disk, {"a": {1, 2}}, {"n": 2})
    _, record = disk.append(graded())
    note, good = read(disk, record)
    assert note["type"] == "unwritable-step"
    assert "$.a: set" in note["reason"]
    assert good == {"n": 2}


def test_a_closed_trajectory_takes_no_steps(disk):
    steps = write(disk)
    steps.close()
    with pytest.raises(StoreError, match="is closed"):
        steps.write({"n": 1})


def test_a_planted_link_is_not_followed(disk, tmp_path, caplog):
    outside = tmp_path / "outside"
    folder = disk.paths.attempt_dir("t1", 1)
    folder.mkdir(parents=True)
    (folder / "trajectory.jsonl").symlink_to(outside)
    disk.paths.trajectories_file.symlink_to(outside)
    write(disk, *numbered(SHORT_STEPS + 1))
    disk.settle()
    write(disk, {"n": 1}, task="t2")
    error, record = disk.append(graded("t2"))
    assert (error, record.steps_at) == (None, None)
    assert not outside.exists()
    assert [r.message.split(":")[0] for r in caplog.records] == [
        "steps are lost",
        "steps of short trajectories are lost",
    ]


def test_steps_that_find_no_room_cost_the_steps_and_not_the_attempt(tiny_file_system, caplog):
    caplog.set_level(logging.WARNING)
    with Disk(tiny_file_system / "r1") as disk:
        kept = []
        for number in range(100):
            write(disk, {"text": "x" * (SHORT_BYTES - 200)}, task=f"t{number}")
            error, record = disk.append(graded(f"t{number}"))
            if error is not None or record.steps_at is None:
                break
            kept.append(record)
        assert error is None
        assert record.steps_at is None
        assert all(read(disk, record) for record in kept)
        assert caplog.text.count("steps of short trajectories are lost") == 1


def test_steps_that_found_no_room_leave_a_note_where_they_are_missing(tiny_file_system, caplog):
    filler = tiny_file_system / "filler"
    with Disk(tiny_file_system / "r1") as disk:
        steps = write(disk, *numbered(SHORT_STEPS + 1))
        disk.settle()
        filler.write_bytes(b"x" * (os.statvfs(tiny_file_system).f_bavail * 4096))
        for size in (5000, 6000):
            steps.write({"pad": "x" * size})
            steps.write({"pad": "x" * size})
            disk.settle()
        filler.unlink()
        for text in ("room again", "and on"):
            steps.write({"n": text})
            disk.settle()
        _, record = disk.append(graded())
        *first, gap, again, last = read(disk, record)
    assert first == numbered(SHORT_STEPS + 1)
    assert (gap["type"], gap["steps"]) == ("lost-steps", 4)
    assert "No space left on device" in gap["reason"]
    assert (again, last) == ({"n": "room again"}, {"n": "and on"})
    assert caplog.text.count("steps are lost") == 1


def test_short_trajectories_that_cannot_be_written_cost_no_later_ones(disk, caplog):
    disk.paths.trajectories_file.mkdir()
    for task in ("t1", "t2"):
        write(disk, {"n": 1}, task=task)
        assert disk.append(graded(task))[1].steps_at is None
    disk.paths.trajectories_file.rmdir()
    write(disk, {"n": 3}, task="t3")
    _, record = disk.append(graded("t3"))
    assert read(disk, record) == [{"n": 3}]
    assert caplog.text.count("steps of short trajectories are lost") == 1


def test_a_file_of_short_trajectories_that_was_removed_is_begun_anew(disk):
    write(disk, {"n": 1})
    disk.append(graded())
    disk.paths.trajectories_file.unlink()
    write(disk, {"n": 2}, task="t2")
    _, record = disk.append(graded("t2"))
    assert (record.steps_at[0], read(disk, record)) == (0, [{"n": 2}])


class Unhurried(list):
    """A list whose every change lets other threads go first."""

    def append(self, item):
        super().append(item)
        time.sleep(0.001)

    def clear(self):
        time.sleep(0.001)
        super().clear()


@pytest.mark.parametrize("count", [SHORT_STEPS + 1, 4 * SHORT_STEPS])
def test_steps_from_many_threads_are_all_there_once(disk, count):
    for task in range(5):
        trajectory = disk.store.trajectory(f"t{task}", 1, 1)
        trajectory.short = Unhurried()
        together = threading.Barrier(count)

        def say(number, trajectory=trajectory, together=together):
            together.wait()
            trajectory.write({"n": number})

        threads = [threading.Thread(target=say, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _, record = disk.append(graded(f"t{task}"))
        assert sorted(step["n"] for step in read(disk, record)) == list(range(count))


@pytest.mark.parametrize("count", [1, SHORT_STEPS + 1], ids=["short", "long"])
def test_a_step_that_comes_after_the_record_is_refused(disk, count):
    steps = write(disk, *numbered(count))
    _, record = disk.append(graded())
    with pytest.raises(StoreError, match="takes no more steps"):
        steps.write({"n": "late"})
    disk.settle()
    assert read(disk, record) == numbered(count)


def test_a_record_that_could_not_be_written_still_says_where_the_steps_are(disk):
    write(disk, {"n": 1}, task="short")
    write(disk, *numbered(SHORT_STEPS + 1), task="long")
    written = [
        disk.append(attrs.evolve(graded(task), details={"x": object()}))[1]
        for task in ("short", "long")
    ]
    assert [record.failure.code for record in written] == ["unwritable-record"] * 2
    assert [len(read(disk, record)) for record in written] == [1, SHORT_STEPS + 1]
    assert list(read_run(disk.paths.run_dir).records()) == written


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda record: attrs.evolve(record, steps_at=(10**9, 50)), "beyond the end"),
        (lambda record: attrs.evolve(record, steps_at=(2**62, 50)), "beyond any file"),
        (lambda record: attrs.evolve(record, steps_at=(-1, 50)), "before the beginning"),
        (lambda record: attrs.evolve(record, steps_at=(0, 10**12)), "longer than any"),
        (lambda record: attrs.evolve(record, steps_at=(3, record.steps_at[1])), "inside a line"),
        (lambda record: attrs.evolve(record, execution=2), "of another execution"),
        (lambda record: attrs.evolve(record, reused_from="r0"), "of another run"),
    ],
)
def test_a_record_whose_line_is_not_there_has_no_steps(disk, change, why):
    write(disk, {"n": 1})
    _, record = disk.append(graded())
    assert read(disk, change(record)) == [], why


def test_a_lost_file_of_short_trajectories_has_no_steps(disk):
    write(disk, {"n": 1})
    _, record = disk.append(graded())
    disk.paths.trajectories_file.unlink()
    assert read(disk, record) == []


@pytest.mark.parametrize(
    ("edited", "left"),
    [('"steps":5   ', []), ('"stops":[{"n":1}]', []), ('"steps":[7, {"n":1}]', [{"n": 1}])],
)
def test_an_edited_line_of_short_trajectories_gives_what_is_usable(disk, edited, left):
    write(disk, {"n": 1})
    _, record = disk.append(graded())
    file = disk.paths.trajectories_file
    line = file.read_text().replace('"steps":[{"n":1}]', edited)
    file.write_text(line)
    assert read(disk, attrs.evolve(record, steps_at=(0, len(line)))) == left


def test_where_the_steps_are_survives_the_journal():
    record = graded(steps_at=(12, 34))
    assert decode_record(json.loads(encode_record(record, lambda text: text))) == record
