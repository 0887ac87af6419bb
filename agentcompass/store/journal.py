"""The append-only files of a run: the journal, which must not lose a line, and the events, which may."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import final

from agentcompass.errors import StoreError
from agentcompass.records import JSON
from agentcompass.regular import append_all
from agentcompass.store import jsonl
from agentcompass.store.files import append_to, open_append, store_error

_log = logging.getLogger("agentcompass.store")


@final
class JournalLostError(StoreError):
    """Somebody removed or replaced the journal while the run wrote it: what was recorded is not where it was."""


@final
class Journal:
    """`attempts.jsonl`, open for appending. After the first failure it takes no more lines.

    Used by one thread. That the path still leads to the file is looked at with each commit: writing to a file that
    has no name any more succeeds, and helps nobody.

    Args:
        path: Must not exist yet.

    Raises:
        StoreError: It exists, or cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._failure: StoreError | None = None
        self._durable = 0
        self._is_lost = False
        try:
            self._descriptor = open_append(path, exclusive=True)
        except FileExistsError:
            raise StoreError(
                f"{path.parent} already holds a run", hint="Choose another run id."
            ) from None
        except OSError as error:
            raise store_error("create", path, error) from error

    def append(self, line: bytes) -> None:
        """Write a line; it is durable after the next `commit`.

        Raises:
            StoreError: It is not written, and nothing of it is left in the file.
        """
        if self._failure is None:
            try:
                append_all(self._descriptor, line)
            except OSError as error:
                self._failure = store_error("write", self.path, error)
        self._raise_failure()

    def commit(self) -> None:
        """Make all lines durable; after `close`, say how its own commit went.

        Raises:
            StoreError: Those since the last commit may be lost; they are cut off, so that what was announced as
                failed is not found later.
        """
        if self._descriptor >= 0:
            self._is_lost = not self._sync()
        if self._is_lost:
            self._raise_failure()

    def close(self) -> None:
        """Commit and close the file; appending fails from now on.

        Lines of the same batch learn how it went when they are committed.
        """
        if self._descriptor >= 0:
            self._is_lost = not self._sync()
            descriptor, self._descriptor = self._descriptor, -1
            with contextlib.suppress(OSError):  # what it held is synced, or has failed
                os.close(descriptor)
        if self._failure is None:
            self._failure = StoreError(f"{self.path} is closed")

    def discard(self) -> None:
        """Close the file and remove it: no line of it was ever of a run."""
        self.close()
        with contextlib.suppress(OSError):
            self.path.unlink()

    def _sync(self) -> bool:
        try:
            os.fsync(self._descriptor)
            size = os.lseek(self._descriptor, 0, os.SEEK_END)
            self._check_place(size)
        except OSError as error:
            self._failure = store_error("write", self.path, error)
        except JournalLostError as error:
            self._failure = error
        else:
            self._durable = size
            return True
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self._durable)
        return False

    def _check_place(self, size: int) -> None:
        """Check that the journal is what its path leads to.

        Raises:
            JournalLostError: It is not.
        """
        try:
            there = os.lstat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            what = "removed"
        else:
            # Not every network file system gives a file the same numbers by name and by descriptor; the size of a file
            # that has just grown is the same only by chance.
            is_ours = os.path.samestat(there, os.fstat(self._descriptor)) or there.st_size == size
            if is_ours:
                return
            what = "replaced"
        raise JournalLostError(
            f"{self.path} was {what} while the run wrote it",
            hint="What it had recorded is gone from there: run the same command again.",
        )

    def _raise_failure(self) -> None:
        if self._failure is not None:
            # A new one each time: a raised exception collects tracebacks.
            raise type(self._failure)(self._failure.message, hint=self._failure.hint)


@final
class EventLog:
    """`events.jsonl` and its like: written in batches, not synced, given up at the first failure, which is logged once.

    Args:
        path: In an existing directory.
        what: What its lines are, for the log.
    """

    def __init__(self, path: Path, what: str = "progress events") -> None:
        self._path, self._what = path, what
        self._buffer: list[bytes] = []
        self._is_broken = False

    def append(self, event: Mapping[str, JSON], scrub: jsonl.Scrub) -> None:
        """Keep an event for the next commit."""
        if self._is_broken:
            return
        try:
            self._buffer.append(jsonl.encode(event, scrub))
        except jsonl.NotJSONError as error:
            self._give_up(f"one is not JSON at {error}")

    def commit(self) -> None:
        """Write what was kept."""
        data, self._buffer = b"".join(self._buffer), []
        if not data:
            return
        try:
            append_to(self._path, data)
        except OSError as error:
            self._give_up(store_error("write", self._path, error).message)

    def _give_up(self, reason: str) -> None:
        self._is_broken = True
        _log.warning("no more %s are recorded: %s", self._what, reason)
