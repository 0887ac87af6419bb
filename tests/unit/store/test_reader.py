import json

import attrs
import pytest

from agentcompass.errors import StoreError
from agentcompass.store.identity import this_process
from agentcompass.store.reader import final_records, read_run
from support.storage import Disk, graded, infra, run_info, write_run


def edit(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_the_verdict_of_an_attempt_is_its_graded_record_wherever_it_stands():
    late = infra(execution=3)
    records = [infra(execution=1), graded(execution=2), late, infra("t2", execution=2), infra("t2")]
    finals = final_records(records)
    assert finals[("t1", 1)].verdict == "graded"
    assert finals[("t2", 1)].execution == 2


def test_unknown_fields_are_ignored_and_missing_ones_have_defaults(tmp_path):
    paths = write_run(tmp_path / "r1", [graded()])
    line = json.loads(paths.journal_file.read_text())
    del line["phase_seconds"]
    line["usage"]["novel"] = 3
    paths.journal_file.write_text(json.dumps({**line, "mood": "good"}) + "\n")
    edit(paths.run_file, novelty=1)
    edit(paths.plan_file, novelty=1)
    assert list(read_run(tmp_path / "r1").records()) == [graded()]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"k": 10**9}, "more than 100,000,000 attempts are planned"),
        ({"k": 0}, "k or metrics make no sense"),
        ({"metrics": []}, "k or metrics make no sense"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(tmp_path, changes, why):
    paths = write_run(tmp_path / "r1")
    edit(paths.plan_file, **changes)
    with pytest.raises(StoreError, match=f"plan.json cannot be used: {why}"):
        read_run(tmp_path / "r1")


def test_a_run_directory_that_cannot_be_looked_at_is_an_error_that_names_it(tmp_path):
    (tmp_path / "r1").symlink_to("x" * 300)
    with pytest.raises(StoreError, match=r"cannot read .*run\.json: File name too long"):
        read_run(tmp_path / "r1")


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": 2},
        {"verdict": "maybe"},
        {"attempt": 0},
        {"attempt": "1"},
        {"task_id": None},
        {"metrics": None},
        {"metrics": {"accuracy": "high"}},
        {"failure": {"phase": "run"}},
        {"execution": True},
        {"usage": []},
    ],
    ids=str,
)
def test_a_line_that_makes_no_sense_is_reported_with_its_number(tmp_path, changes):
    paths = write_run(tmp_path / "r1", [graded(), graded("t2")])
    first, second = paths.journal_file.read_text().splitlines()
    broken = json.dumps({**json.loads(first), **changes})
    paths.journal_file.write_text(f"{second}\n{broken}\n{second}\n")
    corrupt = []
    records = list(read_run(tmp_path / "r1").records(corrupt.append))
    assert [record.task_id for record in records] == ["t2", "t2"]
    assert [line.number for line in corrupt] == [2]


def test_a_run_of_a_newer_schema_is_refused_with_the_file_named(tmp_path):
    paths = write_run(tmp_path / "r1")
    edit(paths.run_file, schema=2)
    with pytest.raises(StoreError, match=r"run\.json cannot be used: schema 2 is newer"):
        read_run(tmp_path / "r1")


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"schema": 1, "owner": {}}'])
@pytest.mark.parametrize("name", ["run.json", "plan.json"])
def test_a_corrupt_run_is_an_error_that_names_the_file(tmp_path, name, content):
    paths = write_run(tmp_path / "r1")
    (paths.run_dir / name).write_text(content)
    with pytest.raises(StoreError, match=name.replace(".", r"\.")):
        read_run(tmp_path / "r1")


def test_a_directory_without_a_run_says_what_is_wanted(tmp_path):
    with pytest.raises(StoreError, match="not a run directory"):
        read_run(tmp_path)


def test_a_run_is_running_while_its_process_lives(tmp_path):
    with Disk(tmp_path / "r1") as disk:
        assert read_run(disk.paths.run_dir).status == "running"


def test_a_run_whose_process_is_gone_is_interrupted(tmp_path):
    dead = attrs.evolve(this_process(), boot_id="gone")
    paths = write_run(tmp_path / "r1", info=run_info(owner=dead))
    run = read_run(paths.run_dir)
    assert run.info.status == "running"
    assert run.status == "interrupted"


def test_a_run_in_another_pid_namespace_is_running_while_it_holds_its_lock(tmp_path):
    elsewhere = attrs.evolve(this_process(), pid=2**22 + 1)
    with Disk(tmp_path / "r1", info=run_info(owner=elsewhere)) as disk:
        assert read_run(disk.paths.run_dir).status == "running"
    assert read_run(disk.paths.run_dir).status == "interrupted"


@pytest.mark.parametrize("status", ["completed", "failed", "timed_out", "cancelled"])
def test_a_finished_run_keeps_its_status(tmp_path, status):
    paths = write_run(tmp_path / "r1", info=run_info(status=status))
    assert read_run(paths.run_dir).status == status


def test_a_run_can_be_read_while_it_is_written(tmp_path):
    with Disk(tmp_path / "r1") as disk:
        run = read_run(disk.paths.run_dir)
        assert list(run.records()) == []
        disk.append(graded())
        assert len(list(run.records())) == 1
