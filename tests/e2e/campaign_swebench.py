"""The long form of test_swebench.py. Run by `just campaign`.

Two real instances, each with patches of every kind, evaluated by us and by the official program with its own Docker loop;
and five hundred synthetic instances, sixteen at once, killed in the middle and gone on with.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from agentcompass.components.benchmarks.swebench.repository import PATCH
from agentcompass.store.export import export_run
from agentcompass.store.reader import read_run
from support import swebench
from support.commandline import Program
from support.docker import engine_host
from support.docker_runs import DockerRuns
from support.docker_sandboxes import docker_sandbox
from support.swebench import PYLINT, SYMPY, TRIVIAL_PATCH, run_rows, trivial_row

pytestmark = pytest.mark.docker

COUNT = int(os.environ.get("CAMPAIGN_COUNT", "500"))
AT_ONCE = 16
MALFORMED = (
    "diff --git a/setup.py b/setup.py\n--- a/setup.py\n+++ b/setup.py\n"
    "@@ -1,2 +1,2 @@\n nothing like it\n-at all\n+x\n"
)
EDITS = {
    SYMPY: {
        "wrong": "sed -i 's/^_name_with_digits_p = .*/&  # mended/' sympy/printing/conventions.py",
        "breaking": "git apply /gold.diff && "
        "sed -i 's/^def requires_partial(expr):/&\\n    return None/' sympy/printing/conventions.py",
        "committed": "git apply /gold.diff && git -c user.name=a -c user.email=a@b commit -qam x",
    },
    PYLINT: {
        "wrong": "sed -i 's/^def get_visibility(name):/&\\n    # mended/' pylint/pyreverse/utils.py",
        "breaking": "git apply /gold.diff && "
        "sed -i \"s/^def get_visibility(name):/&\\n    return 'public'/\" pylint/pyreverse/utils.py",
        "no-git": "git apply /gold.diff && rm -rf .git",
    },
}
"""What an agent may do to the repository."""


# --- ours and theirs


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", [SYMPY, PYLINT])
def test_the_official_evaluation_says_the_same(tmp_path, name, capsys):
    row = swebench.real_row(name)
    patches = trio.run(_collected, row, EDITS[name])
    rows = [{**row, "instance_id": f"{name}-{kind}", "patch": p} for kind, p in patches.items()]
    records = run_rows(tmp_path, rows)
    ours = {key: bool(record["metrics"]["resolved"]) for key, record in records.items()}
    (run_dir,) = tmp_path.glob("results/*/*")
    export_run(read_run(run_dir), "swebench", tmp_path)
    lines = (tmp_path / "predictions.jsonl").read_text().splitlines()
    given = [json.loads(line) for line in lines]
    # what no run of ours would make
    for kind, text in (("malformed", MALFORMED), ("empty", "")):
        rows.append({**row, "instance_id": f"{name}-{kind}"})
        given.append(
            {"instance_id": f"{name}-{kind}", "model_name_or_path": "x", "model_patch": text}
        )
        ours[f"{name}-{kind}"] = trio.run(_judged, row, text)
    theirs = official_verdicts(tmp_path, rows, given)
    assert ours == theirs
    wanted = {"gold", "committed", "no-git"} & {*patches}
    assert {key for key, is_resolved in ours.items() if is_resolved} == {
        f"{name}-{kind}" for kind in wanted
    }
    with capsys.disabled():
        print(f"\n{name}: both say resolved of {sorted(wanted)}, unresolved of all others")


async def _collected(row, edits):
    """The patches that an agent's edits become, by the benchmark's own way."""
    from agentcompass.components.benchmarks.swebench import repository

    patches = {"gold": row["patch"]}
    for kind, edit in edits.items():
        async with docker_sandbox(image=row["image"]) as session:
            await repository.prepare(session, "/testbed")
            await session.write_text("/gold.diff", row["patch"])
            done = await session.exec(edit, cwd="/testbed")
            assert done.returncode == 0, done.stderr
            await repository.collect(session, "/testbed")
            patches[kind] = await session.read_text(PATCH)
    return patches


async def _judged(row, patch):
    from agentcompass.components.benchmarks.swebench import judgement, repository
    from agentcompass.components.benchmarks.swebench.instances import tasks_of

    [task] = tasks_of([row], "rows")
    async with docker_sandbox(image=row["image"]) as session:
        await session.write_text(PATCH, patch)
        evaluation = await judgement.judge(
            task.data,
            repository.Collected(patch=patch.encode()),
            session,
            directory="/testbed",
            test_timeout_seconds=600.0,
        )
    return bool(evaluation.metrics["resolved"])


def official_verdicts(folder: Path, rows, predictions):
    """Evaluate with the official program; it makes no report, and so says unresolved, of what it cannot apply."""
    (folder / "official.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "given.jsonl").write_text("".join(json.dumps(one) + "\n" for one in predictions))
    done = subprocess.run(
        [
            sys.executable, "-m", "swebench.harness.run_evaluation", "--dataset_name", "official.jsonl",
            "--predictions_path", "given.jsonl", "--run_id", "official", "--max_workers", "2",
        ],
        cwd=folder, capture_output=True, text=True, check=False, timeout=1800,
        env={**os.environ, "DOCKER_HOST": engine_host(), "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = dict.fromkeys((one["instance_id"] for one in predictions), False)
    for file in folder.glob("logs/run_evaluation/*/*/*/report.json"):
        for name, report in json.loads(file.read_text()).items():
            found[name] = report["resolved"]
    return found


# --- many


@pytest.mark.timeout(7200)
def test_many_instances_and_a_kill_in_the_middle_give_the_same_table(tmp_path, capsys):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _many()))
    began = time.monotonic()
    sizes = _watched(_start(whole))
    seconds = time.monotonic() - began
    first = _start(killed)
    while len(_lines(killed)) < COUNT // 3:
        assert first.poll() is None, first.communicate()
        time.sleep(0.1)
    first.kill()
    first.communicate(timeout=60)
    done = len(_lines(killed))
    again = _start(killed, "--reuse")
    _, errors = again.communicate(timeout=3600)
    assert again.returncode == 0, errors
    assert _table(whole) == _table(killed)
    for folder in (whole, killed):
        runs = DockerRuns(folder, count=0)
        assert runs.containers() == []
        assert runs.leases() == []
    quarter = len(sizes) // 4
    early, late = max(sizes[quarter : 2 * quarter]), max(sizes[-quarter:])
    assert late < early * 1.15 + 10, sizes
    with capsys.disabled():
        print(
            f"\n{COUNT} instances, {AT_ONCE} at once: {seconds:.0f} s, resident {early:.0f} MB in the second quarter, "
            f"{late:.0f} MB in the last; killed after {done}, the same table, no container left"
        )


def _many():
    """Rows, of which some solutions are wrong, empty changes, or make the tests fail at once."""
    kinds = (
        TRIVIAL_PATCH,
        TRIVIAL_PATCH.replace("a + b", "a * b"),
        TRIVIAL_PATCH.replace("a + b", "1 / 0"),
        TRIVIAL_PATCH.replace("+    return a + b", "+    return a - b  "),
    )
    return [trivial_row(f"toy__calc-{n}", patch=kinds[n % len(kinds)]) for n in range(COUNT)]


def _start(folder, *options):
    return Program(folder).start(
        "run", "swebench_verified", "oracle", "none", "--env", "docker",
        "--benchmark-params", json.dumps({"dataset_path": "rows.jsonl"}),
        "--env-params", json.dumps({"host": engine_host(), "network": "none"}),
        "--task-concurrency", str(AT_ONCE), "--progress", "none", "--results-dir", "results", *options,
    )  # fmt: skip


def _watched(child):
    """Wait for a run; return its resident memory in MB, each second."""
    sizes = []
    while child.poll() is None:
        status = Path(f"/proc/{child.pid}/status").read_text()
        sizes += [int(line.split()[1]) / 1000 for line in status.splitlines() if "VmRSS" in line]
        time.sleep(1.0)
    assert child.returncode == 0, child.communicate()
    child.communicate()
    return sizes


def _lines(folder):
    return [
        line
        for journal in folder.glob("results/*/*/attempts.jsonl")
        for line in journal.read_bytes().split(b"\n")[:-1]
    ]


def _table(folder):
    """Metrics of the last run, by task, and its scores."""
    run_dir = max(folder.glob("results/*/*"), key=lambda path: path.name)
    records = [json.loads(line) for line in (run_dir / "attempts.jsonl").read_bytes().splitlines()]
    scores = json.loads((run_dir / "metrics.json").read_text())["scores"]
    tasks = {one["task_id"]: one["metrics"] for one in records if one["verdict"] == "graded"}
    return tasks, {name: score["value"] for name, score in scores.items()}
