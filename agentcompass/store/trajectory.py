"""The steps of one execution, written while it runs, so that a cut run leaves what it saw."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import final

from agentcompass.errors import StoreError
from agentcompass.records import JSON
from agentcompass.store import jsonl
from agentcompass.store.files import append_all, explained, open_append
from agentcompass.store.writer import Job, Writer

_log = logging.getLogger("agentcompass.store")


def _nothing(_error: StoreError | None) -> None:
    """For writers of steps who do not wait."""


@final
class Trajectory:
    """`trajectory.jsonl` of one execution; file and directory are made with the first step.

    The file is open only while a step is written: a thousand attempts in flight need no thousand descriptors.

    Args:
        writer: Whose thread writes.
        path: Of the file.
        scrub: Removes secrets.
        make_dir: Makes the file's directory.
        on_step: Told the directory that each step goes to, which may not be there yet.
    """

    def __init__(
        self,
        writer: Writer,
        path: Path,
        scrub: jsonl.Scrub,
        *,
        make_dir: Callable[[Path], None],
        on_step: Callable[[Path], None],
    ) -> None:
        self.path = path
        self._make_dir = make_dir
        self._on_step = on_step
        self._writer = writer
        self._scrub = scrub
        self._lines: list[bytes] = []
        self._is_closed = False
        self._has_warned = False

    def write(
        self, step: Mapping[str, JSON], done: Callable[[StoreError | None], None] = _nothing
    ) -> None:
        """Queue a step. It is encoded before this returns, so the caller may change it afterwards.

        Args:
            step: A JSON object of any size; encoding a big one takes its time and belongs in a worker thread.
            done: Called in the writer's thread when it is written, with None or what went wrong. A step that is not
                JSON is replaced by one of type `unwritable-step` that says why, and counts as gone wrong.
        """
        if self._is_closed:
            done(StoreError(f"{self.path} is closed"))
            return
        problem = None
        try:
            line = jsonl.encode(step, self._scrub)
        except jsonl.NotJSONError as error:
            problem = f"a trajectory step is not JSON at {error}"
            line = jsonl.encode({"type": "unwritable-step", "reason": problem}, self._scrub)
        self._on_step(self.path.parent)

        def write() -> Trajectory:
            self._lines.append(line)
            return self

        def tell(error: StoreError | None) -> None:
            done(error or (StoreError(problem) if problem else None))

        self._writer.submit(Job(write=write, done=tell, size=len(line)))

    def close(self) -> None:
        """Take no more steps; those queued are still written."""
        self._is_closed = True

    def commit(self) -> None:
        """Write the steps of a batch in one go: opening the file costs more than a small step.

        Raises:
            StoreError: They are lost.
        """
        data, self._lines = b"".join(self._lines), []
        try:
            with explained("write", self.path):
                descriptor = self._open()
                try:
                    append_all(descriptor, data)
                finally:
                    os.close(descriptor)
        except StoreError as error:
            if not self._has_warned:
                self._has_warned = True
                _log.warning("steps are lost: %s", error.message)
            raise

    def _open(self) -> int:
        try:
            return open_append(self.path)
        except FileNotFoundError:
            self._make_dir(self.path.parent)
            return open_append(self.path)
