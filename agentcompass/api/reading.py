"""One run directory read for what goes on in it: its journal as finished attempts, its events as those at work."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, final

import attrs

from agentcompass.api.standing import RequestStanding, Trouble
from agentcompass.errors import StoreError
from agentcompass.metrics.finite import mean
from agentcompass.metrics.scores import is_success
from agentcompass.progress import events
from agentcompass.progress.events import AttemptFinished, Event, RunPrepared
from agentcompass.progress.tracker import AttemptKey, Tracker
from agentcompass.records import ExecutionRecord, Verdict
from agentcompass.regular import open_regular
from agentcompass.store import codec, jsonl
from agentcompass.store.leases import LeaseBook
from agentcompass.store.reader import StoredRun
from agentcompass.store.request import finish_command
from agentcompass.store.summary import summarize

_MAX_TROUBLES: Final = 100
"""Causes told apart in one run; a component may invent any number of them."""
_REPLAYED: Final[Mapping[str, type[Event]]] = {
    cls.kind: cls
    for cls in (
        events.AttemptStarted,
        events.PhaseStarted,
        events.ModelRetried,
        events.CleanupStarted,
        events.Notice,
    )
}
"""Events that say what goes on. What is over is in the journal."""
_VERDICTS: Final[tuple[Verdict, ...]] = ("graded", "infra", "cancelled", "skipped")


def seconds_of(time: str | None) -> float | None:
    """Return an ISO 8601 time as seconds since the epoch; None if it is none."""
    try:
        return datetime.fromisoformat(time or "").timestamp()
    except (ValueError, OverflowError):
        return None


def _is_past(line: bytes, active: Collection[AttemptKey]) -> bool:
    """Whether a line of events is not worth parsing, as most are: of a long run there are millions."""
    if line.startswith(b'{"event":"phase_started"'):
        return not active
    return line.startswith(b'{"event":"attempt_finished"')


@final
class Reading:
    """A run, read once. First all of `finishes`, then `events`, then the rest.

    Args:
        run: What it is and what it is to do.
        name: Of the request.
    """

    def __init__(self, run: StoredRun, name: str) -> None:
        self._run, self._name = run, name
        self.status = run.status
        self._tasks = frozenset(task for task, _category in run.plan.tasks)
        self._executions: dict[tuple[str, int], int] = {}
        """Of each attempt, how many are over."""
        self._again: set[tuple[str, int]] = set()
        """Attempts that are to be executed again."""
        self._attempted: Counter[str] = Counter()
        self._solved: set[str] = set()
        self._reused: list[float] = []
        self._troubles: dict[str, tuple[int, float, str, str]] = {}
        self._problem: str | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether its journal says more than its `run.json`: it runs, or was cut off."""
        return self.status in {"running", "interrupted"}

    def finishes(self) -> Iterator[AttemptFinished]:
        """Yield what the journal says, in its order; nothing after the line where it cannot be read any more."""
        at = seconds_of(self._run.info.started_at) or 0.0
        try:
            for record in self._run.records():
                if record.task_id not in self._tasks or record.attempt > self._run.plan.k:
                    continue
                at = max(at, seconds_of(record.finished_at) or 0.0)
                self._note(record, at)
                if record.reused_from is None:
                    yield self._finished(record, at)
        except StoreError as error:
            self._problem = error.message

    def events(self, active: Collection[AttemptKey]) -> Iterator[Event]:
        """Yield what was told about attempts that are not over.

        Args:
            active: The attempts that have begun so far, kept up to date by whoever gets the events.
        """
        yield self._prepared()
        if self.status != "running":
            return
        # without the file there is less to tell, and nothing wrong
        with contextlib.suppress(OSError), open_regular(self._run.paths.events_file) as file:
            for line in file:
                if line.endswith(b"\n") and not _is_past(line, active):
                    event = self._event(line, active)
                    if event is not None:
                        yield event

    def standing(self, tracker: Tracker) -> RequestStanding:
        """Return how it stands, given what finished and what was told."""
        info, paths = self._run.info, self._run.paths
        standing = RequestStanding(
            name=self._name,
            run_id=info.run_id,
            run_dir=str(paths.run_dir),
            status=self.status,
            error=self._problem or info.error,
            metric=self._run.plan.primary.name,
            sandboxes=self._sandboxes(),
        )
        if self.is_under_way:
            return self._under_way(standing, tracker)
        try:
            return self._over(standing)
        except StoreError as error:
            return attrs.evolve(standing, error=error.message)

    def troubles(self, now: float) -> Sequence[Trouble]:
        """Return why executions failed, by cause."""
        return [
            Trouble(
                request=self._name,
                code=code,
                count=count,
                seconds_ago=max(0.0, now - at),
                task=task,
                message=message,
            )
            for code, (count, at, task, message) in self._troubles.items()
        ]

    # --- the journal

    def _note(self, record: ExecutionRecord, at: float) -> None:
        key = record.key
        if key not in self._executions:
            self._attempted[record.task_id] += 1
        self._executions[key] = max(record.execution, self._executions.get(key, 0))
        (self._again.add if record.will_retry else self._again.discard)(key)
        value = record.metrics[self._run.plan.primary.name] if record.metrics else None
        if value is not None and is_success(self._run.plan.primary, value):
            self._solved.add(record.task_id)
        if record.reused_from is not None and value is not None:
            self._reused.append(value)
        if record.verdict == "infra" and record.failure is not None:
            self._trouble(record.failure.code, at, record.task_id, record.failure.message)

    def _trouble(self, code: str, at: float, task: str, message: str) -> None:
        if code not in self._troubles and len(self._troubles) >= _MAX_TROUBLES:
            code = "other causes"
        count = self._troubles[code][0] + 1 if code in self._troubles else 1
        self._troubles[code] = (count, at, task, message)

    def _finished(self, record: ExecutionRecord, at: float) -> AttemptFinished:
        failure = record.failure
        return AttemptFinished(
            at=at,
            request=self._name,
            task=record.task_id,
            attempt=record.attempt,
            execution=record.execution,
            verdict=record.verdict,
            score=record.metrics[self._run.plan.primary.name] if record.metrics else None,
            code=failure.code if failure else None,
            message=failure.message if failure else None,
            stopped_by=record.stopped_by,
            will_retry=record.will_retry,
            usage=record.usage + record.judge_usage,
            wall_seconds=record.wall_seconds,
        )

    # --- the events

    def _prepared(self) -> RunPrepared:
        info, plan = self._run.info, self._run.plan
        return RunPrepared(
            at=seconds_of(info.started_at) or 0.0,
            request=self._name,
            run_id=info.run_id,
            run_dir=str(self._run.paths.run_dir),
            planned=len(plan.tasks) * plan.k,
            reused=len(self._reused),
            metric=plan.primary.name,
            reused_score=mean(self._reused),
        )

    def _event(self, line: bytes, active: Collection[AttemptKey]) -> Event | None:
        try:
            value = jsonl.decode(line)
        except ValueError:
            return None
        cls = _REPLAYED.get(str(value.get("event"))) if isinstance(value, dict) else None
        if cls is None:
            return None
        if cls is events.PhaseStarted and not self._is_active(value, active):
            return None  # most are of attempts that are over
        try:
            event = codec.build(cls, value, request=self._name)
        except (
            ValueError
        ):  # damaged, or of another version: what it says is missing from the picture
            return None
        if isinstance(event, events.AttemptStarted):
            over = self._executions.get((event.task, event.attempt), 0)
            return event if event.execution > over else None
        if isinstance(event, events.Notice):
            if event.level != "info":
                self._trouble(event.level, event.at, "", event.text)
            return None
        return event

    def _is_active(self, value: Mapping[str, Any], active: Collection[AttemptKey]) -> bool:
        task, attempt = value.get("task"), value.get("attempt")
        is_key = isinstance(task, str) and isinstance(attempt, int)
        return is_key and (self._name, task, attempt) in active

    # --- the whole

    def _sandboxes(self) -> int:
        unreadable: list[Path] = []
        book = LeaseBook(self._run.paths.leases_dir)
        leases = book.list(lambda path, _reason: unreadable.append(path))
        return len(unreadable) + sum(not lease.keep for lease in leases)

    def _under_way(self, standing: RequestStanding, tracker: Tracker) -> RequestStanding:
        run, state = self._run, tracker.request(self._name)
        active = {
            (attempt.task, attempt.attempt)
            for attempt in tracker.active.values()
            if attempt.request == self._name
        }
        graded = state.verdicts.get("graded", 0) + state.reused
        is_running = self.status == "running"
        done = state.done if is_running else graded
        not_needed = 0
        if run.plan.attempt_strategy == "pass":
            not_needed = sum(run.plan.k - self._attempted[task] for task in self._solved)
        return attrs.evolve(
            standing,
            planned=state.planned,
            done=done,
            running=len(active),
            waiting=max(0, state.planned - done - len(active) - not_needed),
            waiting_for_retry=len(self._again - active),
            not_needed=not_needed,
            reused=state.reused,
            verdicts=dict(state.verdicts),
            score=state.running_score.mean,
            ci95=state.running_score.interval,
            usage=state.usage,
            finish_command=None
            if is_running
            else finish_command(run.info, run.paths.run_dir, is_any_graded=graded > 0),
        )

    def _over(self, standing: RequestStanding) -> RequestStanding:
        report = summarize(self._run.paths.run_dir, write=False)
        counts, score = report.counts, report.primary_score
        missing = counts["planned"] - counts["graded"] - counts["not_needed"]
        is_whole = self.status == "completed"
        return attrs.evolve(
            standing,
            planned=counts["planned"],
            done=counts["graded"],
            waiting=missing if report.finish_command else 0,
            not_needed=counts["not_needed"],
            reused=report.reused,
            verdicts={
                verdict: counts[verdict] - (report.reused if verdict == "graded" else 0)
                for verdict in _VERDICTS
            },
            score=score.value if is_whole else score.graded_value,
            ci95=score.ci95 if is_whole else None,
            usage=report.usage,
            finish_command=report.finish_command,
        )
