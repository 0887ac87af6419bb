"""Runs one measurement in a process of its own and takes what the operating system says about it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

ROOT = Path(__file__).resolve().parents[1]


@attrs.frozen(kw_only=True)
class Cost:
    """Of a whole process."""

    wall_seconds: float
    cpu_seconds: float
    """User and system."""
    peak_bytes: int
    output: str

    @property
    def json(self) -> Any:
        """The last line that it printed."""
        return json.loads(self.output.strip().splitlines()[-1])


def run(
    argv: Sequence[str],
    until: Callable[[subprocess.Popen[str]], None] | None = None,
    **environ: str,
) -> Cost:
    """Run a program to its end, or to a point of its life at which it is killed.

    Args:
        argv: The program.
        until: Waits for that point.
        environ: Variables beside those of this process; one that is empty is taken away.

    Raises:
        RuntimeError: It failed.
    """
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
    env = {name: value for name, value in env.items() if value}
    started = time.perf_counter()
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=said, env=env, text=True) as child,
    ):
        assert child.stdout is not None
        if until is not None:
            until(child)
            child.kill()
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != (0 if until is None else -signal.SIGKILL):
            said.seek(0)
            raise RuntimeError(f"{shlex.join(argv)} ended with {child.returncode}: {said.read()}")
    return Cost(
        wall_seconds=time.perf_counter() - started,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_bytes=usage.ru_maxrss * 1024,
        output=output,
    )


def python(*arguments: str, **environ: str) -> Cost:
    """Run this Python."""
    return run([sys.executable, *arguments], **environ)


def cheapest(times: int, programs: Mapping[str, Callable[[], Cost]]) -> dict[str, Cost]:
    """The cheapest run of each program, by CPU: what disturbs a measurement only ever adds.

    The programs take turns, so that a busy moment of the machine is everybody's; a first round, which warms caches,
    does not count.
    """
    rounds = [{name: program() for name, program in programs.items()} for _ in range(times + 1)]
    return {
        name: min((costs[name] for costs in rounds[1:]), key=lambda cost: cost.cpu_seconds)
        for name in programs
    }


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows as aligned text."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    ]
    return "\n".join(lines)
