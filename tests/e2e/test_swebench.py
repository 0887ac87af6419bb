"""SWE-bench in containers of a real engine: a real issue with its real tests.

Another one, what the official program says of both, and five hundred synthetic ones are in campaign_swebench.py.
"""

from __future__ import annotations

import json

import pytest
import trio

from agentcompass.store.export import export_run
from agentcompass.store.reader import read_run
from support import swebench
from support.docker_sandboxes import docker_sandbox
from support.swebench import SYMPY, run_rows

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def row():
    return swebench.real_row(SYMPY)


@pytest.fixture(scope="module")
def patches(row):
    """Patches of the repository: right and wrong ones."""

    async def made(edit):
        async with docker_sandbox(image=row["image"]) as session:
            await session.write_text("/gold.diff", row["patch"])
            done = await session.exec(f"{edit} && git diff", cwd="/testbed")
            assert done.returncode == 0, done.stderr
            return done.stdout

    file = "sympy/printing/conventions.py"
    return {
        "right": row["patch"],
        "wrong": trio.run(made, f"sed -i 's/^_name_with_digits_p = .*/&  # mended/' {file}"),
        "breaking": trio.run(
            made,
            f"git apply /gold.diff && sed -i 's/^def requires_partial(expr):/&\\n    return None/' {file}",
        ),
    }


@pytest.fixture(scope="module")
def run(row, patches, tmp_path_factory):
    """A run in which the reference solutions are these patches."""
    folder = tmp_path_factory.mktemp("run")
    rows = [
        {**row, "instance_id": f"sympy__sympy-{name}", "patch": p} for name, p in patches.items()
    ]
    return folder, run_rows(folder, rows)


def test_the_reference_patch_resolves_a_real_issue_and_no_other_does(run):
    _, records = run
    found = {
        name.removeprefix("sympy__sympy-"): record["metrics"] for name, record in records.items()
    }
    assert found == {
        "right": {
            "resolved": 1,
            "applied": 1,
            "submitted": 1,
            "fail_to_pass": 1,
            "pass_to_pass": 1,
        },
        "wrong": {
            "resolved": 0,
            "applied": 1,
            "submitted": 1,
            "fail_to_pass": 0,
            "pass_to_pass": 1,
        },
        "breaking": {
            "resolved": 0,
            "applied": 1,
            "submitted": 1,
            "fail_to_pass": 1,
            "pass_to_pass": 0,
        },
    }


def test_the_log_of_the_tests_and_the_official_report_are_kept(run):
    folder, records = run
    (kept,) = folder.glob("results/*/*/tasks/sympy__sympy-wrong/attempt-1/evaluation-1")
    assert "test_super_sub F" in (kept / "test_output.txt").read_text()
    assert json.loads((kept / "report.json").read_text())["resolved"] is False
    assert records["sympy__sympy-wrong"]["details"]["fail_to_pass"]["failures"] == [
        "test_super_sub"
    ]


def test_the_patches_are_exported_as_the_official_evaluation_reads_them(run, patches, tmp_path):
    folder, _ = run
    (run_dir,) = folder.glob("results/*/*")
    assert export_run(read_run(run_dir), "swebench", tmp_path).files == 1
    lines = (tmp_path / "predictions.jsonl").read_text().splitlines()
    predictions = {one["instance_id"]: one for one in map(json.loads, lines)}
    assert set(predictions) == {f"sympy__sympy-{name}" for name in patches}
    assert predictions["sympy__sympy-right"]["model_name_or_path"].startswith("oracle")
    changed = [line for line in patches["right"].splitlines() if line.startswith(("+", "-"))]
    assert all(line in predictions["sympy__sympy-right"]["model_patch"] for line in changed[2:])


def test_an_agent_that_does_nothing_scores_zero_and_is_known_by_its_empty_patch(tmp_path, row):
    records = run_rows(tmp_path, [row, swebench.trivial_row()], harness="nop")
    assert {record["details"]["result"] for record in records.values()} == {"empty patch"}
    assert {record["metrics"]["submitted"] for record in records.values()} == {0.0}
