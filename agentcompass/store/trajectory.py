"""The writing side of trajectories: a short one shares a file with those of the whole run, a long one is streamed into its own.

Most attempts at a question-and-answer task have three steps. A file and two directories for each would cost more than
all else that is done for such an attempt, and make a result that no one can copy; a long one, which somebody may want
to watch, is written while it runs, so that a cut run leaves what it saw.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, final

from agentcompass.errors import StoreError
from agentcompass.records import JSON, ExecutionRecord
from agentcompass.store import jsonl
from agentcompass.store.files import append_to, explained
from agentcompass.store.writer import Job, Writer

SHORT_STEPS: Final = 4
"""A trajectory with more of them is no short one."""
SHORT_BYTES: Final = 16 * 1024
"""Nor is one with more in all its lines."""

_log = logging.getLogger("agentcompass.store")


@final
class Trajectory:
    """The steps of one execution; takes them from any thread.

    The first ones wait in memory for the end. With the first step too many they go to a file, as all that follow do at
    once. The file is open only while a step is written: a thousand attempts in flight need no thousand descriptors.
    Steps that could not be written leave a step of type `lost-steps` in their place, if any can be written later.

    Args:
        writer: Whose thread writes.
        path: Of the file.
        scrub: Removes secrets.
        make_dir: Makes the file's directory.
    """

    def __init__(
        self, writer: Writer, path: Path, scrub: jsonl.Scrub, make_dir: Callable[[Path], None]
    ) -> None:
        self.path = path
        self.has_file = False
        """Whether its steps go to `path`, which may not be there yet."""
        self.short: list[bytes] = []
        """All its lines, while it has no file."""
        self._short_bytes = 0
        self._writer, self._scrub, self._make_dir = writer, scrub, make_dir
        self._taking = threading.Lock()
        self._is_closed = False
        self._lines: list[bytes] = []
        """This and what follows is the writer's."""
        self._lost = 0
        self._lost_for = ""

    def write(self, step: Mapping[str, JSON]) -> None:
        """Take a step. It is encoded before this returns, so the caller may change it afterwards.

        Args:
            step: A JSON object of any size; encoding a big one takes its time and belongs in a worker thread. One that is
                not JSON is replaced by one of type `unwritable-step` that says why.

        Raises:
            StoreError: The trajectory is closed.
        """
        try:
            line = jsonl.encode(step, self._scrub)
        except jsonl.NotJSONError as error:
            reason = f"a trajectory step is not JSON at {error}"
            line = jsonl.encode({"type": "unwritable-step", "reason": reason}, self._scrub)
        with self._taking:
            if self._is_closed:
                raise StoreError(f"the trajectory {self.path} is closed: it takes no more steps")
            if not self.has_file:
                self.short.append(line)
                self._short_bytes += len(line)
                if len(self.short) <= SHORT_STEPS and self._short_bytes <= SHORT_BYTES:
                    return
                self.has_file = True
                line = b"".join(self.short)
                self.short.clear()
            self._stream(line)

    def close(self) -> None:
        """Take no more steps; those queued are still written."""
        with self._taking:
            self._is_closed = True

    def commit(self) -> None:
        """Write the steps of a batch in one go: opening the file costs more than a small step.

        Raises:
            StoreError: They are lost.
        """
        data, self._lines = b"".join(self._lines), []
        try:
            with explained("write", self.path):
                self._append(self._gap() + data)
        except StoreError as error:
            if not self._lost_for:
                _log.warning("steps are lost: %s", error.message)
            self._lost_for = error.message
            self._lost += data.count(b"\n")
            raise
        self._lost = 0

    def _gap(self) -> bytes:
        """What stands for steps that were lost since the last one that was written."""
        if self._lost == 0:
            return b""
        gap = {"type": "lost-steps", "steps": self._lost, "reason": self._lost_for}
        return jsonl.encode(gap, self._scrub)

    def _stream(self, line: bytes) -> None:
        def write() -> Trajectory:
            self._lines.append(line)
            return self

        self._writer.submit(Job(write=write, size=len(line)))

    def _append(self, data: bytes) -> None:
        try:
            append_to(self.path, data)
        except FileNotFoundError:
            self._make_dir(self.path.parent)
            append_to(self.path, data)


@final
class ShortTrajectories:
    """`trajectories.jsonl`: a line for each execution whose steps were few. Used by one thread.

    Args:
        path: Of the file, which is made with the first line.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._has_warned = False

    def append(self, record: ExecutionRecord, steps: Sequence[bytes]) -> tuple[int, int] | None:
        """Write a line with the steps of an execution.

        Args:
            record: Of the execution.
            steps: Their lines.

        Returns:
            Where it begins, and its length in bytes; None if there are no steps, or if they could not be written,
            which is logged once.
        """
        if not steps:
            return None
        key = {"task_id": record.task_id, "attempt": record.attempt, "execution": record.execution}
        head = jsonl.encode(key).removesuffix(b"}\n") + b',"steps":['
        line = head + b",".join(step[:-1] for step in steps) + b"]}\n"
        try:
            with explained("write", self._path):
                return append_to(self._path, line), len(line)
        except StoreError as error:
            if not self._has_warned:
                self._has_warned = True
                _log.warning("steps of short trajectories are lost: %s", error.message)
            return None
