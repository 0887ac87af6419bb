"""Patches of a run as the predictions that the official evaluation of SWE-bench reads."""

import json

import pytest

from agentcompass.errors import ConfigurationError, StoreError
from agentcompass.store.export import export_run
from agentcompass.store.reader import read_run
from support.storage import graded, infra, run_plan, write_run

SANDBOX = "/var/tmp/agentcompass/patch.diff"


def record(run_dir, task, patch, attempt=1, **fields):
    """A record with a patch among its artifacts."""
    path = run_dir / "tasks" / task / f"attempt-{attempt}" / "artifacts-1" / "0-patch"
    path.parent.mkdir(parents=True)
    path.write_bytes(patch)
    kept = {SANDBOX: str(path.relative_to(run_dir)), "notes.txt": "nowhere"}
    return graded(task, attempt, artifacts=kept, **fields)


def exported(run_dir, records, **parts):
    write_run(run_dir, records, **parts)
    done = export_run(read_run(run_dir), "swebench", run_dir / "out")
    files = {path.name: path.read_text().splitlines() for path in (run_dir / "out").iterdir()}
    return done, {name: [json.loads(line) for line in lines] for name, lines in files.items()}


def test_each_attempt_is_a_prediction(tmp_path):
    records = [
        record(tmp_path, "a__b-1", "+é\n".encode()),
        record(tmp_path, "a__b-2", b""),
    ]
    done, files = exported(tmp_path, records)
    assert (done.files, done.missing) == (1, ())
    assert files == {
        "predictions.jsonl": [
            {"instance_id": "a__b-1", "model_name_or_path": "h+m", "model_patch": "+é\n"},
            {"instance_id": "a__b-2", "model_name_or_path": "h+m", "model_patch": ""},
        ]
    }


def test_several_attempts_are_a_file_each(tmp_path):
    records = [record(tmp_path, "t1", b"%d" % n, attempt=n) for n in (1, 2)]
    done, files = exported(tmp_path, records, plan=run_plan("t1", k=2))
    assert done.files == 2
    assert [one["model_patch"] for one in files["predictions-attempt-2.jsonl"]] == ["2"]


def test_what_is_not_there_is_named(tmp_path):
    records = [
        record(tmp_path, "t1", b"x"),
        record(tmp_path, "t2", b"\xff latin"),
        infra("t3"),
        graded("t4", artifacts={SANDBOX: "tasks/t4/gone"}),
        graded("t5", reused_from="another", artifacts={SANDBOX: "tasks/t5/x"}),
    ]
    done, files = exported(tmp_path, records, plan=run_plan("t1", "t2", "t3", "t4", "t5"))
    assert len(files["predictions.jsonl"]) == 1
    assert {missing.task_id: missing.reason for missing in done.missing} == {
        "t2": "its patch is not in UTF-8, which this format needs",
        "t3": "it left no patch",
        "t4": "its patch cannot be read: No such file or directory",
        "t5": "the run another that executed it is not beside this one",
    }


def test_an_attempt_that_was_taken_over_is_found_in_its_own_run(tmp_path):
    earlier = tmp_path / "n" / "r1"
    write_run(earlier, [record(earlier, "t1", b"+old\n")], plan=run_plan("t1"))
    taken = graded(
        "t1",
        reused_from="r1",
        artifacts=dict.fromkeys([SANDBOX], "tasks/t1/attempt-1/artifacts-1/0-patch"),
    )
    _, files = exported(tmp_path / "n" / "r2", [taken], plan=run_plan("t1"))
    assert files["predictions.jsonl"][0]["model_patch"] == "+old\n"


def test_a_run_without_patches_has_nothing_to_export(tmp_path):
    write_run(tmp_path, [graded("t1")])
    with pytest.raises(StoreError, match="nothing to export as swebench: it left no patch"):
        export_run(read_run(tmp_path), "swebench")
    with pytest.raises(ConfigurationError, match="did you mean 'swebench'"):
        export_run(read_run(tmp_path), "swe-bench")
