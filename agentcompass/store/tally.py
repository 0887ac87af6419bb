"""One pass over a journal: what became of each planned attempt, and what it cost.

Answers and details are dropped at once, so that memory grows with the number of attempts only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, final

import attrs

from agentcompass.metrics.board import TaskOutcome
from agentcompass.metrics.scores import is_success
from agentcompass.records import ExecutionRecord, Failure, Usage, Verdict
from agentcompass.store.info import RunPlan
from agentcompass.store.reader import supersedes
from agentcompass.store.report import FailureGroup

MAX_MESSAGE: Final = 300
"""Characters kept of a failure's message."""


class _Ending(NamedTuple):
    """How an attempt ended, as far as scores and causes need it."""

    verdict: Verdict
    execution: int
    values: Mapping[str, float] | None
    failure: Failure | None
    stopped_by: str | None


@final
class Tally:
    """Adds up the records of a run.

    Args:
        plan: What was to be done; records of anything else only count as `unplanned`.
        is_regraded: Whether all that agents used was used in an earlier run.
    """

    def __init__(self, plan: RunPlan, *, is_regraded: bool = False) -> None:
        self._plan, self._is_regraded = plan, is_regraded
        self._position = {task_id: at for at, (task_id, _category) in enumerate(plan.tasks)}
        self._endings: list[_Ending | None] = [None] * (len(plan.tasks) * plan.k)
        self._failures: dict[Failure, Failure] = {}
        self._retried: list[tuple[int, Failure]] = []
        self.usage = Usage()
        self.reused_usage = self.judge_usage = Usage()
        self.executions = self.reused = self.unplanned = 0
        self.execution_seconds = 0.0

    def add(self, record: ExecutionRecord) -> None:
        """Count one record, in journal order."""
        task = self._position.get(record.task_id)
        if task is None or record.attempt > self._plan.k:
            self.unplanned += 1
            return
        used = record.usage + record.judge_usage
        self.usage += used
        self.judge_usage += record.judge_usage
        self.execution_seconds += record.wall_seconds
        if record.reused_from is None:
            self.executions += 1
        else:
            self.reused += 1
        if record.reused_from is not None:
            self.reused_usage += used
        elif self._is_regraded:
            self.reused_usage += record.usage
        slot = task * self._plan.k + record.attempt - 1
        if record.will_retry and (failure := self._shared(record.failure)):
            self._retried.append((slot, failure))
        known = self._endings[slot]
        if known is None or supersedes(record, known):
            self._endings[slot] = _Ending(
                record.verdict,
                record.execution,
                record.metrics,
                self._shared(record.failure),
                record.stopped_by,
            )

    def outcomes(self) -> Iterator[TaskOutcome]:
        """Yield every planned task, in plan order."""
        for (_task_id, category), endings in zip(self._plan.tasks, self._rows(), strict=True):
            yield TaskOutcome(
                category=category,
                verdicts=[None if ending is None else ending.verdict for ending in endings],
                values=[None if ending is None else ending.values for ending in endings],
            )

    def stopped_by(self) -> dict[str, int]:
        """How many graded attempts were stopped early, by cause, most frequent first."""
        stopped = Counter(
            ending.stopped_by
            for ending in self._endings
            if ending is not None and ending.verdict == "graded" and ending.stopped_by
        )
        return dict(stopped.most_common())

    def failures(self) -> tuple[FailureGroup, ...]:
        """Why attempts have no score, grouped by cause, most frequent first, each with its first example."""
        counts: Counter[tuple[str, str | None, str]] = Counter()
        examples: dict[tuple[str, str | None, str], FailureGroup] = {}
        for (task_id, _category), endings in zip(self._plan.tasks, self._rows(), strict=True):
            for attempt, ending in enumerate(endings, 1):
                if self._is_settled(ending, endings):
                    continue
                group = _group(ending, task_id, attempt)
                key = (group.verdict, group.phase, group.code)
                counts[key] += 1
                examples.setdefault(key, group)
        return tuple(
            attrs.evolve(examples[key], count=count) for key, count in counts.most_common()
        )

    def retried(self) -> tuple[FailureGroup, ...]:
        """Why executions failed that were followed by one with a score: grouped like `failures`."""
        counts: Counter[tuple[str | None, str]] = Counter()
        examples: dict[tuple[str | None, str], FailureGroup] = {}
        for slot, failure in self._retried:
            ending = self._endings[slot]
            if ending is None or ending.verdict != "graded":
                continue
            task, attempt = divmod(slot, self._plan.k)
            key = (failure.phase, failure.code)
            counts[key] += 1
            if key not in examples:
                examples[key] = FailureGroup(
                    verdict="infra",
                    phase=failure.phase,
                    code=failure.code,
                    count=1,
                    task_id=self._plan.tasks[task][0],
                    attempt=attempt + 1,
                    message=failure.message,
                )
        return tuple(
            attrs.evolve(examples[key], count=count) for key, count in counts.most_common()
        )

    def _rows(self) -> Iterator[Sequence[_Ending | None]]:
        k = self._plan.k
        for start in range(0, len(self._endings), k):
            yield self._endings[start : start + k]

    def _is_settled(self, ending: _Ending | None, endings: Sequence[_Ending | None]) -> bool:
        """Whether an attempt has its verdict, or needs none because its task succeeded before."""
        if ending is not None and ending.verdict == "graded":
            return True
        if self._plan.attempt_strategy == "avg" or (ending and ending.verdict != "skipped"):
            return False
        primary = self._plan.primary
        values = (other.values.get(primary.name) for other in endings if other and other.values)
        return any(value is not None and is_success(primary, value) for value in values)

    def _shared(self, failure: Failure | None) -> Failure | None:
        """The same object for equal failures: a dead endpoint says one thing a hundred thousand times."""
        if failure is None:
            return None
        short = Failure(
            phase=failure.phase, code=failure.code, message=failure.message[:MAX_MESSAGE]
        )
        return self._failures.setdefault(short, short)


def _group(ending: _Ending | None, task_id: str, attempt: int) -> FailureGroup:
    failure = None if ending is None else ending.failure
    return FailureGroup(
        verdict="skipped" if ending is None else ending.verdict,
        phase=failure.phase if failure else None,
        code=failure.code if failure else "not-started",
        count=1,
        task_id=task_id,
        attempt=attempt,
        message=failure.message if failure else "nothing of it was recorded",
    )
