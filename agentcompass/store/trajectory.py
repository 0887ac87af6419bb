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
    """

    def __init__(self, writer: Writer, path: Path, scrub: jsonl.Scrub) -> None:
        self.path = path
        self._writer = writer
        self._scrub = scrub
        self._is_closed = False
        self._has_warned = False

    def write(
        self, step: Mapping[str, JSON], done: Callable[[StoreError | None], None] = _nothing
    ) -> None:
        """Queue a step. Never blocks; the caller must not change the step until `done`.

        Args:
            step: A JSON object of any size.
            done: Called in the writer's thread when it is written, with None or what went wrong. A step that is not
                JSON is replaced by one of type `unwritable-step` that says why, and counts as gone wrong.
        """
        if self._is_closed:
            done(StoreError(f"{self.path} is closed"))
            return
        self._writer.submit(
            Job(write=lambda: self._write(step), done=done, size=jsonl.weight(step))
        )

    def close(self) -> None:
        """Take no more steps; those queued are still written."""
        self._is_closed = True

    def _write(self, step: Mapping[str, JSON]) -> None:
        try:
            line = jsonl.encode(step, self._scrub)
        except jsonl.NotJSONError as error:
            reason = f"a trajectory step is not JSON at {error}"
            self._append(jsonl.encode({"type": "unwritable-step", "reason": reason}, self._scrub))
            raise StoreError(reason) from None
        self._append(line)

    def _append(self, line: bytes) -> None:
        try:
            with explained("write", self.path):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                descriptor = open_append(self.path)
                try:
                    append_all(descriptor, line)
                finally:
                    os.close(descriptor)
        except StoreError as error:
            if not self._has_warned:
                self._has_warned = True
                _log.warning("steps are lost: %s", error.message)
            raise
