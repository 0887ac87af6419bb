"""The reading side of a trajectory: step by step, in bounded memory, whatever stands in the file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final

from agentcompass.records import JSON, ExecutionRecord
from agentcompass.regular import NotRegularError, open_regular
from agentcompass.store import jsonl
from agentcompass.store.layout import RunPaths

MAX_STEP_BYTES: Final = 1024 * 1024
"""A longer step is left out: parsing it would cost many times its size in memory, and hold up other threads."""
MAX_STEPS: Final = 20_000
MAX_BYTES: Final = 256 * 1024 * 1024
"""Of one file that are read, steps left out included."""


def steps_of(
    record: ExecutionRecord, paths: RunPaths, left_out: str
) -> Iterator[Mapping[str, JSON]]:
    """Yield the steps of an execution, wherever they stand.

    Args:
        record: Of the execution. One that was taken over from an earlier run left its steps there, and has none here.
        paths: Of the run.
        left_out: As for `read_steps`.

    Raises:
        OSError: They cannot be read.
    """
    if record.reused_from is not None:
        return
    if record.steps_at is not None:
        yield from _short(paths.trajectories_file, record)
    elif record.attempt_dir is not None:
        key = (record.task_id, record.attempt, record.execution)
        yield from read_steps(paths.trajectory_file(*key), left_out)


def read_steps(path: Path, left_out: str) -> Iterator[Mapping[str, JSON]]:
    """Yield the steps of a trajectory that has a file of its own.

    A step that is too long, or no JSON object, is replaced by one of type `left_out` with the number of its `bytes`;
    one more stands at the end for all that is beyond `MAX_STEPS` or `MAX_BYTES`. A torn last line is dropped.

    Args:
        path: A file; one that is not there, or is no regular file, has no steps.
        left_out: The type of what stands for steps that are not shown.

    Raises:
        OSError: It cannot be read.
    """
    file = _opened(path)
    if file is None:
        return
    with file:
        for _ in range(MAX_STEPS):
            line, size = _next_line(file)
            if size == 0:
                return
            step = None if line is None else _object(line)
            yield {"type": left_out, "bytes": size} if step is None else step
            if file.tell() > MAX_BYTES:
                break
        rest = os.fstat(file.fileno()).st_size - file.tell()
        if rest > 0:
            yield {"type": left_out, "bytes": rest}


def _short(path: Path, record: ExecutionRecord) -> Iterator[Mapping[str, JSON]]:
    """The steps of a short trajectory; none if the line is not what the record says: a power cut may have taken it."""
    begin, size = record.steps_at or (0, 0)
    if begin < 0 or not 0 < size <= MAX_STEP_BYTES or (file := _opened(path)) is None:
        return
    with file:
        line = _object(os.pread(file.fileno(), size, begin)) or {}
    key = (line.get("task_id"), line.get("attempt"), line.get("execution"))
    steps = line.get("steps")
    if key == (record.task_id, record.attempt, record.execution) and isinstance(steps, list):
        yield from (step for step in steps if isinstance(step, Mapping))


def _opened(path: Path) -> BinaryIO | None:
    """A regular file, open for reading; None if there is none."""
    try:
        return open_regular(path, follow=False)
    except (FileNotFoundError, NotRegularError):
        return None


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


def _object(line: bytes) -> Mapping[str, JSON] | None:
    """The JSON object of a line; None if it holds none."""
    try:
        value = jsonl.decode(line)
    except ValueError:
        return None
    return value if isinstance(value, Mapping) else None
