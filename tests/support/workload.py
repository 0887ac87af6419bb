"""An evaluation with real processes to interrupt: tasks whose scoring starts commands and daemons that must not survive."""

from __future__ import annotations

import itertools
import json
import os
import random
import time
from collections import Counter
from pathlib import Path

import attrs

from support.commandline import Program

_numbers = itertools.count(1)


def survivors(marker: str) -> list[int]:
    """Processes with a marker in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def await_no_survivors(marker: str, seconds: float = 5.0) -> list[int]:
    """Wait until no process has the marker; returns those that stay."""
    end = time.monotonic() + seconds
    while (left := survivors(marker)) and time.monotonic() < end:
        time.sleep(0.02)
    return left


@attrs.define
class Workload:
    """`count` tasks, two of three right, each with a command that leaves a daemon, in a folder of its own."""

    folder: Path
    count: int = 24
    marker: str = attrs.field(
        factory=lambda: f"{os.getpid()}{next(_numbers)}{random.randint(0, 10**6)}"
    )

    program: Program = attrs.field(init=False)

    def __attrs_post_init__(self):
        with (self.folder / "tasks.jsonl").open("w") as file:
            for number in range(self.count):
                command = (
                    f"(setsid sleep 9{self.marker} &) ; sleep 0.15 ; exit {int(number % 3 == 0)}"
                )
                task = {"id": f"task-{number}", "prompt": "x", "command": command, "solution": "y"}
                file.write(json.dumps(task) + "\n")
        self.program = Program(self.folder)

    @property
    def expected_score(self) -> float:
        return sum(number % 3 != 0 for number in range(self.count)) / self.count

    def arguments(self, *options: str) -> tuple[str, ...]:
        return (
            "run", "jsonl", "oracle", "none",
            "--benchmark-params", json.dumps({"path": "tasks.jsonl"}),
            "--env-params", json.dumps({"root": str(self.folder / "sandboxes")}),
            "--task-concurrency", "4", "--results-dir", str(self.folder / "results"), *options,
        )  # fmt: skip

    def run_dirs(self) -> list[Path]:
        """Run directories, oldest first."""
        return sorted((self.folder / "results").glob("*/*/"), key=lambda path: path.stat().st_mtime)

    def records(self, run_dir: Path) -> list[dict]:
        journal = run_dir / "attempts.jsonl"
        lines = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
        return [
            json.loads(line) for line in lines
        ]  # what follows the last line end was never announced

    def sandboxes(self) -> list[Path]:
        root = self.folder / "sandboxes"
        return list(root.iterdir()) if root.exists() else []

    def leases(self) -> list[Path]:
        return list((self.folder / "results").glob("*/*/leases/*.json"))

    def resume(self) -> dict:
        """Finish with --reuse and return the result."""
        done = self.program(*self.arguments("--reuse", "--format", "json", "--progress", "none"))
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["summary"]["score"] == self.expected_score
        assert result["summary"]["coverage"] == 1.0
        return result

    def check_unique(self, run_dir: Path) -> Counter:
        """Every attempt has at most one graded record; returns the verdicts."""
        records = self.records(run_dir)
        graded = [record["task_id"] for record in records if record["verdict"] == "graded"]
        assert len(graded) == len(set(graded))
        return Counter(record["verdict"] for record in records)
