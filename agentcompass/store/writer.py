"""The one thread that writes the results of an orchestration.

It takes everything that is queued, writes it, makes each file durable once (group commit), and only then tells
whoever asked. Thousands of small records a second therefore cost a few fsyncs, and no event loop waits for a disk.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias, final

from agentcompass.data import frozen
from agentcompass.errors import StoreError

_log = logging.getLogger("agentcompass.store")

MAX_BATCH_BYTES: Final = 32 * 1024 * 1024
"""What is written before those who wait are told, so that a long queue drains step by step."""


class Target(Protocol):
    """A file that jobs write to."""

    def commit(self) -> None:
        """Make what was written since the last commit as durable as this file has to be.

        Raises:
            StoreError: It is not; the jobs of this batch that wrote to it have failed.
        """


def _nothing(_error: StoreError | None) -> None:
    """For jobs whose end interests nobody."""


@frozen(kw_only=True, eq=False)
class Job:
    """Something to write."""

    write: Callable[[], Target | None]
    """Called in the writer's thread; returns the file to commit before `done`, or None."""
    done: Callable[[StoreError | None], None] = _nothing
    """Called in the writer's thread when it is durable, or has failed; must be quick and not raise."""
    size: int = 0
    """Bytes that it holds in memory, roughly."""


_Finished: TypeAlias = tuple[Job, Target | None, StoreError | None]


@final
class Writer:
    """A queue of jobs and the thread that does them in order. Usable from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[Job] = deque()
        self._taken: deque[Job] = deque()
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self.pending = 0
        """Jobs that are not done."""
        self.pending_bytes = 0
        """What they hold in memory, roughly: when it grows, the disk is slower than the work."""

    def start(self) -> None:
        """Start the thread; jobs may have been submitted before."""
        # A daemon, since a disk that hangs for ever must not keep the process; with the context of the run, by which
        # the log knows whose messages its are.
        self._thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(self._work,),
            name="agentcompass-writer",
            daemon=True,
        )
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job. Never blocks. After `close` the job fails at once, in the caller's thread."""
        with self._changed:
            is_closed = self._is_closing
            if not is_closed:
                self._queue.append(job)
                self.pending += 1
                self.pending_bytes += job.size
                self._changed.notify()
        if is_closed:
            job.done(StoreError("results are closed: nothing more is written"))

    def close(self, timeout_seconds: float) -> bool:
        """Take no more jobs and wait until those queued are done.

        Args:
            timeout_seconds: How long to wait at most.

        Returns:
            Whether everything is done. May be called again, to wait longer.
        """
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout_seconds)
        return self.is_finished and not self._queue

    @property
    def is_finished(self) -> bool:
        """Whether it is closed and its thread is gone: nothing is written any more."""
        return self._is_closing and (self._thread is None or not self._thread.is_alive())

    def _work(self) -> None:
        while batch := self._take():
            self._do(batch)

    def _do(self, batch: list[Job]) -> None:
        """Write a batch, make it durable, tell."""
        finished = [(job, *self._write(job)) for job in batch]
        errors = self._commit(finished)
        size = sum(job.size for job in batch)
        with self._changed:
            self.pending -= len(batch)
            self.pending_bytes -= size
        for job, target, error in finished:
            self._tell(job, error or errors.get(target))

    def _take(self) -> list[Job]:
        """Wait for jobs; an empty list says that the writer is closed and all is done."""
        if not self._taken:
            with self._changed:
                while not self._queue and not self._is_closing:
                    self._changed.wait()
                # Swapped, not emptied: who submits must not wait for a long queue to be walked.
                self._taken, self._queue = self._queue, deque()
        batch: list[Job] = []
        size = 0
        while self._taken and size < MAX_BATCH_BYTES:
            batch.append(self._taken.popleft())
            size += batch[-1].size
        return batch

    @staticmethod
    def _write(job: Job) -> tuple[Target | None, StoreError | None]:
        try:
            return job.write(), None
        except Exception as error:  # noqa: BLE001  # one bad job, whatever it raises, must not stop the only writer
            return None, _as_store_error(error)

    @staticmethod
    def _commit(finished: list[_Finished]) -> dict[Target | None, StoreError]:
        errors: dict[Target | None, StoreError] = {}
        for target in dict.fromkeys(target for _job, target, _error in finished):
            if target is not None:
                try:
                    target.commit()
                except Exception as error:  # noqa: BLE001  # nor one bad file
                    errors[target] = _as_store_error(error)
        return errors

    @staticmethod
    def _tell(job: Job, error: StoreError | None) -> None:
        try:
            job.done(error)
        except Exception:  # noqa: BLE001  # a listener's fault must not stop the only writer
            _log.exception("a callback of the results writer failed")


def _as_store_error(error: Exception) -> StoreError:
    if isinstance(error, StoreError):
        return error
    return StoreError(f"could not be written: {type(error).__name__}: {error}")
