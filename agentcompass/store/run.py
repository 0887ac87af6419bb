"""The writing side of one run directory."""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

import attrs

from agentcompass.errors import StoreError
from agentcompass.records import JSON, ExecutionRecord, Failure
from agentcompass.secrets import Scrubber
from agentcompass.store import codec, jsonl
from agentcompass.store.files import explained, make_directory, replace_file, sync_names
from agentcompass.store.info import RunInfo, RunPlan, info_to_json, plan_to_json
from agentcompass.store.journal import EventLog, Journal
from agentcompass.store.layout import RunPaths
from agentcompass.store.lock import RunLock
from agentcompass.store.trajectory import ShortTrajectories, Trajectory
from agentcompass.store.writer import Job, Writer

__all__ = ["RunInfo", "RunPlan", "RunStore"]

MAX_ANSWER_BYTES: Final = 64 * 1024
"""Of an answer in the journal; a longer one stands whole in the attempt's directory, head and tail here."""
EVENT_BYTES: Final = 512
"""That an event takes up in memory until it is written, roughly."""
EVENTS_AT_ONCE: Final = 64
"""That may wait for one job of the writer."""

RecordDone = Callable[[StoreError | None, ExecutionRecord], None]


@final
class RunStore:
    """An open run directory: records, events, trajectories and the state of one run.

    `append`, `event`, `findings` and `trajectory` never block and may be called from any thread; `create`, `update` and `close`
    wait for the disk and belong into a worker thread.
    """

    def __init__(self, writer: Writer, paths: RunPaths, scrubber: Scrubber, lock: RunLock) -> None:
        self.paths = paths
        self._writer = writer
        self.scrubber, self._scrub = scrubber, scrubber.scrub
        self._lock = lock
        self._journal = Journal(paths.journal_file)
        self._events = EventLog(paths.events_file)
        self._told: collections.deque[Mapping[str, JSON]] = collections.deque()
        self._is_telling = False
        self._findings = EventLog(paths.findings_file, "findings")
        self._short = ShortTrajectories(paths.trajectories_file)
        self._trajectories: dict[tuple[str, int, int], Trajectory] = {}
        """Of executions that have no record yet."""
        self._updating = threading.Lock()
        self._is_closed = False

    @classmethod
    def create(
        cls, writer: Writer, paths: RunPaths, info: RunInfo, plan: RunPlan, scrubber: Scrubber
    ) -> RunStore:
        """Make a run directory and its parents, and write what is to be done.

        Args:
            writer: Whose thread writes; may serve many runs.
            paths: The directory may exist, if no run is in it.
            info: With status `running`.
            plan: All tasks.
            scrubber: Knows the secrets.

        Raises:
            StoreError: The directory holds a run, somebody writes it, or it cannot be written.
        """
        with explained("create", paths.run_dir):
            make_directory(paths.run_dir)
        with contextlib.ExitStack() as undo:
            lock = RunLock(paths.lock_file)
            undo.callback(lock.release)
            store = cls(writer, paths, scrubber, lock)
            undo.callback(store._journal.discard)
            with explained("write", paths.plan_file):
                replace_file(paths.plan_file, jsonl.encode(plan_to_json(plan)), sync=True)
            store.update(info)
            undo.pop_all()
        return store

    def append(self, record: ExecutionRecord, done: RecordDone) -> None:
        """Write a record to the journal.

        Args:
            record: One that cannot be encoded is replaced by an `infra` record that says why. Its trajectory takes no
                more steps.
            done: Called in the writer's thread when the record is durable, with None and the record as it was
                written; or with the reason why nothing was written. Once the journal itself has failed, every further
                record fails for the same reason.
        """
        written = [record]
        key = (record.task_id, record.attempt, record.execution)
        trajectory = self._trajectories.pop(key, None)
        if trajectory is not None:
            trajectory.close()

        def write() -> Journal:
            line, written[0] = self._prepare(self._located(record, trajectory))
            self._journal.append(line)
            return self._journal

        self._writer.submit(
            Job(
                write=write,
                done=lambda error: done(error, written[0]),
                size=jsonl.weight([record.answer, record.details, record.task_id]) + 1024,
            )
        )

    def event(self, event: Mapping[str, JSON]) -> None:
        """Write an event, sooner or later. A failure is logged once and hurts nobody."""
        self._told.append(event)
        if not self._is_telling:  # else the job that is queued takes this one too
            self._is_telling = True
            self._writer.submit(Job(write=self._write_events, size=EVENT_BYTES))
        elif len(self._told) % EVENTS_AT_ONCE == 0:  # which it takes up with memory meanwhile
            size = EVENTS_AT_ONCE * EVENT_BYTES
            self._writer.submit(Job(write=self._write_events, size=size))

    def _write_events(self) -> EventLog:
        self._is_telling = False  # first: whoever comes now asks for a job of its own
        for _ in range(len(self._told)):
            self._events.append(self._told.popleft(), self._scrub)
        return self._events

    def findings(self, lines: Sequence[Mapping[str, JSON]], done: Callable[[], None]) -> None:
        """Write lines of `analysis.jsonl`, sooner or later. A failure is logged once and hurts nobody.

        Args:
            lines: Made by `store.analysis.findings_line`.
            done: Called in the writer's thread when they are written, or never will be.
        """

        def write() -> EventLog:
            for line in lines:
                self._findings.append(line, self._scrub)
            return self._findings

        size = 256 * sum(len(line["findings"]) for line in lines)
        self._writer.submit(Job(write=write, done=lambda _error: done(), size=size))

    def trajectory(self, task_id: str, attempt: int, execution: int) -> Trajectory:
        """Return where the steps of an execution go. What is few is written with the record of the execution."""
        path = self.paths.trajectory_file(task_id, attempt, execution)
        trajectory = Trajectory(self._writer, path, self._scrub, self.paths.make_dir)
        self._trajectories[task_id, attempt, execution] = trajectory
        return trajectory

    def update(self, info: RunInfo) -> None:
        """Replace `run.json`, durably and at once for readers.

        Raises:
            StoreError: It could not be written; the old one stands.
        """
        data: dict[str, Any] = info_to_json(info)
        for name in ("request", "identity", "versions", "error"):
            data[name] = jsonl.plain(data[name], self._scrub)
        with self._updating, explained("write", self.paths.run_file):
            replace_file(self.paths.run_file, jsonl.encode(data), sync=True)

    def close(self, timeout_seconds: float = 10.0) -> bool:
        """Wait for what this run has queued, close its files and give up its lock.

        Args:
            timeout_seconds: How long to wait at most.

        Returns:
            Whether that is done. If not, the lock stays until the process ends.
        """
        is_done = threading.Event()
        self._writer.submit(Job(write=self._close_files, done=lambda _error: is_done.set()))
        if not is_done.wait(timeout_seconds):
            return False
        if self._writer.is_finished:  # it may have refused the job: then nobody else uses the files
            self._close_files()
        return self._is_closed

    def _close_files(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._events.commit()
            self._findings.commit()
            self._journal.close()
            self._lock.release()

    def _prepare(self, record: ExecutionRecord) -> tuple[bytes, ExecutionRecord]:
        """The line for a record, and the record that it holds. Keeps a long answer apart."""
        try:
            record = self._with_attempt_dir(record)
            complete = self._with_short_answer(record)
            return codec.encode_record(complete, self._scrub), complete
        except (ValueError, TypeError, AttributeError) as error:
            reason = f"the record could not be written: {error}"
        for replacement in _replacements(record, reason):
            try:
                return codec.encode_record(replacement, self._scrub), replacement
            except (ValueError, TypeError, AttributeError):
                continue
        raise StoreError(reason)

    def _with_short_answer(self, record: ExecutionRecord) -> ExecutionRecord:
        answer = record.answer
        if answer is None or len(answer) * 4 <= MAX_ANSWER_BYTES:
            return record
        if record.reused_from is not None:  # shortened when it was new
            return record
        data = self._scrub(answer).encode(errors="backslashreplace")
        if len(data) <= MAX_ANSWER_BYTES:
            return record
        path = self.paths.answer_file(record.task_id, record.attempt, record.execution)
        with explained("write", path):
            self.paths.make_dir(path.parent)
            replace_file(path, data, sync=True)
            sync_names(path.parent, self.paths.run_dir)
        half = MAX_ANSWER_BYTES // 2
        note = f"\n[... {len(data) - 2 * half} bytes left out: all of it is in {path.name} ...]\n"
        head, tail = data[:half].decode(errors="ignore"), data[-half:].decode(errors="ignore")
        return self._with_dir(attrs.evolve(record, answer=head + note + tail), path.parent)

    def _located(self, record: ExecutionRecord, trajectory: Trajectory | None) -> ExecutionRecord:
        """The record, saying where the steps of its execution are; those that are few are written now."""
        if trajectory is None:
            return record
        if trajectory.has_file:
            return self._with_dir(record, trajectory.path.parent)
        return attrs.evolve(record, steps_at=self._short.append(record, trajectory.short))

    def _with_attempt_dir(self, record: ExecutionRecord) -> ExecutionRecord:
        """The record, naming the directory that a component made for what it kept."""
        if record.attempt_dir is not None or record.reused_from is not None:
            return record
        path = self.paths.attempt_dir(record.task_id, record.attempt)
        return self._with_dir(record, path) if path.is_dir() else record

    def _with_dir(self, record: ExecutionRecord, path: Path) -> ExecutionRecord:
        return attrs.evolve(record, attempt_dir=str(path.relative_to(self.paths.run_dir)))


def _replacements(record: ExecutionRecord, reason: str) -> tuple[ExecutionRecord, ...]:
    """What is written for a record that cannot be: with its usage and times, and if that fails too, without."""
    failure = Failure(
        phase="record", code="unwritable-record", message=reason[:2000], retryable=False
    )
    least = ExecutionRecord(
        task_id=record.task_id,
        attempt=record.attempt,
        execution=record.execution,
        verdict="infra",
        failure=failure,
    )
    more = attrs.evolve(
        record,
        verdict="infra",
        failure=failure,
        metrics=None,
        details={},
        answer=None,
        stopped_by=None,
        will_retry=False,
    )
    return more, least
