"""Size and bad days at full scale; each prints a table and fails on any loss. Run by `just campaign`."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentcompass.testing import FakeEndpoint, chat
from support.commandline import Program

TASKS = int(os.environ.get("CAMPAIGN_TASKS", "100000"))
TURNS = 10_000
MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
open(sys.argv[1], "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(code)
"""
"""Runs a program and writes down the peak memory of its largest process, in KiB."""

pytestmark = pytest.mark.timeout(3600)


def show(capsys, title, **figures):
    with capsys.disabled():
        print(f"\n{title}")
        for name, value in figures.items():
            print(f"  {name.replace('_', ' '):28} {value}")


def write_tasks(folder, tasks):
    with (folder / "tasks.jsonl").open("w") as file:
        for task in tasks:
            file.write(json.dumps(task) + "\n")


def run(program, *options, harness="oracle", **environ):
    """Run the tasks; returns the finished process, seconds and its peak memory."""
    began = time.monotonic()
    peak_file = program.folder / "peak"
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, peak_file, *program.arguments(
            "run", "jsonl", harness, "m", "--benchmark-params", '{"path": "tasks.jsonl"}', "--format", "json",
            "--progress", "none", *options,
        )],
        cwd=program.folder, env=program.environment(**environ), capture_output=True, text=True, timeout=3000, check=False,
    )  # fmt: skip
    return done, time.monotonic() - began, f"{int(peak_file.read_text()) / 1024:.0f} MiB"


def run_dir(program):
    return max((program.folder / "results").glob("*/*/"), key=lambda path: path.stat().st_mtime)


def journal(program):
    return [
        json.loads(line)
        for line in (run_dir(program) / "attempts.jsonl").read_bytes().split(b"\n")[:-1]
    ]


def test_a_hundred_thousand_trivial_tasks(tmp_path, capsys):
    write_tasks(tmp_path, ({"id": f"t{n}", "prompt": "x", "answer": str(n)} for n in range(TASKS)))
    program = Program(tmp_path)
    done, seconds, peak = run(program, "--task-concurrency", "64")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)["summary"]
    assert summary["counts"]["graded"] == TASKS
    assert summary["score"] == 1.0
    assert len({record["task_id"] for record in journal(program)}) == TASKS
    show(
        capsys,
        f"{TASKS} tasks",
        seconds=f"{seconds:.0f}",
        ms_per_task=f"{1000 * seconds / TASKS:.2f}",
        peak=peak,
    )


def test_a_full_disk_stops_the_run_and_loses_nothing(tmp_path, capsys):
    count, size = 400, 60_000
    write_tasks(
        tmp_path,
        ({"id": f"t{n}", "prompt": "x", "answer": f"{n} " + "y" * size} for n in range(count)),
    )
    program, results = Program(tmp_path), tmp_path / "results"
    results.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "none", results], check=True)
    try:
        done, _, _ = run(program)
        assert done.returncode == 1
        assert "No space left" in done.stderr
        kept = len(journal(program))
        assert 0 < kept < count
        subprocess.run(["mount", "-o", "remount,size=200m", results], check=True)
        done, _, _ = run(program, "--reuse")
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)["summary"]
        assert summary["reused"] == kept
        assert summary["score"] == 1.0
    finally:
        subprocess.run(["umount", results], check=True)
    show(capsys, "a full disk", attempts=count, kept_when_full=kept, executed_after=count - kept)


def test_lines_of_forty_megabytes(tmp_path, capsys):
    size = 40_000_000
    write_tasks(
        tmp_path,
        [
            {
                "id": "flood",
                "prompt": "x",
                "command": f"head -c {size} /dev/zero | tr '\\0' x",
                "solution": "y",
            }
        ]
        + [
            {"id": f"t{n}", "prompt": "What?", "answer": "end", "scorer": "contains"}
            for n in range(3)
        ],
    )
    program = Program(tmp_path)
    with FakeEndpoint(chat("x" * size + " end")) as endpoint:
        more = ("--model-base-url", endpoint.base_url)
        done, seconds, peak = run(program, *more, harness="openai_chat")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["counts"]["graded"] == 4
    trajectories = sorted(
        path.stat().st_size for path in run_dir(program).rglob("trajectory.jsonl")
    )
    longest = max(
        len(line) for line in (run_dir(program) / "attempts.jsonl").read_bytes().split(b"\n")
    )
    assert trajectories[-1] > size
    assert longest < 1_000_000
    shown = Program(tmp_path)("summary", str(run_dir(program)))
    assert shown.returncode == 0
    show(
        capsys, "answers of 40 MB", seconds=f"{seconds:.1f}", peak=peak, longest_journal_line=longest,
        longest_trajectory=trajectories[-1],
    )  # fmt: skip


TALKER = f"""
from agentcompass import AgentOutcome, Harness

class Talker(Harness):
    id = "talker"
    needs_model = False
    async def run(self, task_input, session, model, emit):
        for turn in range({TURNS}):
            await emit({{"type": "turn", "number": turn, "text": "x" * 1000}})
        return AgentOutcome(answer="y")
"""


def test_trajectories_of_ten_thousand_turns(tmp_path, capsys):
    (tmp_path / "talker.py").write_text(TALKER)
    write_tasks(tmp_path, ({"id": f"t{n}", "prompt": "x", "answer": "y"} for n in range(16)))
    program = Program(tmp_path)
    path = f"{program.environment()['PYTHONPATH']}:{tmp_path}"
    done, seconds, peak = run(program, harness="talker:Talker", PYTHONPATH=path)
    assert done.returncode == 0, done.stderr
    for trajectory in run_dir(program).rglob("trajectory.jsonl"):
        lines = trajectory.read_bytes().split(b"\n")[:-1]
        numbers = [json.loads(line)["number"] for line in lines]
        assert numbers == list(range(TURNS))
    turns = 16 * TURNS
    show(
        capsys,
        f"{turns} steps",
        seconds=f"{seconds:.1f}",
        us_per_step=f"{1e6 * seconds / turns:.0f}",
        peak=peak,
    )


@pytest.mark.parametrize("jump", ["-2d", "+2d", "-40y"])
def test_a_clock_that_jumps_while_it_runs(tmp_path, capsys, jump):
    library = next(map(str, Path("/usr/lib").rglob("libfaketime.so.1")), None)
    assert library, "install Debian's package faketime"
    write_tasks(
        tmp_path,
        (
            {"id": f"t{n}", "prompt": "x", "command": "sleep 0.1", "solution": "y"}
            for n in range(40)
        ),
    )
    clock = tmp_path / "clock"
    clock.write_text("+0d")
    program = Program(tmp_path)
    environ = {
        "LD_PRELOAD": library, "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1", "DONT_FAKE_MONOTONIC": "1",
    }  # fmt: skip
    child = program.start(
        "run", "jsonl", "oracle", "m", "--benchmark-params", '{"path": "tasks.jsonl"}', "--format", "json",
        "--progress", "none", "--task-concurrency", "4", "--timeout-seconds", "60", environ=environ,
    )  # fmt: skip
    time.sleep(1)
    clock.write_text(jump)
    stdout, stderr = child.communicate(timeout=120)
    assert child.returncode == 0, stderr
    summary = json.loads(stdout)["summary"]
    assert summary["counts"]["graded"] == 40
    done, _, _ = run(program, "--reuse")
    assert json.loads(done.stdout)["summary"]["reused"] == 40
    show(
        capsys, f"the clock jumps by {jump}", graded=40, elapsed_seconds=summary["elapsed_seconds"]
    )
