"""The reading side of a trajectory: step by step, in bounded memory, whatever stands in the file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

from agentcompass.records import JSON
from agentcompass.store import jsonl

MAX_STEP_BYTES: Final = 1024 * 1024
"""A longer step is left out: parsing it would cost many times its size in memory, and hold up other threads."""
MAX_STEPS: Final = 20_000
MAX_BYTES: Final = 256 * 1024 * 1024
"""Of one file that are read, steps left out included."""


def read_steps(path: Path, left_out: str) -> Iterator[Mapping[str, JSON]]:
    """Yield the steps of a trajectory.

    A step that is too long, or no JSON object, is replaced by one of type `left_out` with the number of its `bytes`;
    one more stands at the end for all that is beyond `MAX_STEPS` or `MAX_BYTES`. A torn last line is dropped.

    Args:
        path: A file; one that is not there, or is no regular file, has no steps.
        left_out: The type of what stands for steps that are not shown.

    Raises:
        OSError: It cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return
        for _ in range(MAX_STEPS):
            line, size = _next_line(file)
            if size == 0:
                return
            yield _step(line) or {"type": left_out, "bytes": size}
            if file.tell() > MAX_BYTES:
                break
        rest = status.st_size - file.tell()
        if rest > 0:
            yield {"type": left_out, "bytes": rest}


def _next_line(file: BinaryIO) -> tuple[bytes | None, int]:
    """The next complete line, None if it is too long, and its length; 0 at the end."""
    line = file.readline(MAX_STEP_BYTES)
    if line.endswith(b"\n"):
        return line, len(line)
    size = len(line)
    while line and not line.endswith(b"\n"):
        line = file.readline(MAX_STEP_BYTES)
        size += len(line)
    return (None, size) if line else (None, 0)


def _step(line: bytes | None) -> Mapping[str, JSON] | None:
    try:
        step = None if line is None else jsonl.decode(line)
    except ValueError:
        return None
    return step if isinstance(step, Mapping) else None
