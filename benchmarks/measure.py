"""Runs one measurement in a process of its own and takes what the operating system says about it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
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


def run(argv: Sequence[str], **environ: str) -> Cost:
    """Run a program to its end.

    Raises:
        RuntimeError: It failed.
    """
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environ}
    started = time.perf_counter()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=env, text=True) as child:
        assert child.stdout is not None
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(argv)} ended with {child.returncode}")
    return Cost(
        wall_seconds=time.perf_counter() - started,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        peak_bytes=usage.ru_maxrss * 1024,
        output=output,
    )


def python(*arguments: str, **environ: str) -> Cost:
    """Run this Python."""
    return run([sys.executable, *arguments], **environ)


def best(times: int, *arguments: str, **environ: str) -> Cost:
    """The cheapest of several runs, by CPU: what disturbs a measurement only ever adds."""
    return min(
        (python(*arguments, **environ) for _ in range(times)), key=lambda cost: cost.cpu_seconds
    )


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return rows as aligned text."""
    cells = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in cells
    ]
    return "\n".join(lines)
