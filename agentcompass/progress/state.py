"""What a tracker remembers: a request as it stands, its running score, an attempt that is active. Data only."""

from __future__ import annotations

import math
from typing import Final

import attrs

from agentcompass.metrics.intervals import normal, wilson
from agentcompass.records import RequestStatus, Usage, Verdict

_MAX_CAUSES: Final = 100
"""Failure causes counted apart in one request; a component may invent any number of them."""
OTHER_CAUSES: Final = "other causes"


@attrs.define(eq=False)
class RunningScore:
    """The mean of a primary metric over what is graded so far."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0
    is_binary: bool = True
    _is_spread_known: bool = True

    def add(self, value: float) -> None:
        """Count one graded attempt."""
        self.n += 1
        self.total += value
        self.squares += value * value
        self.is_binary = self.is_binary and value in (0.0, 1.0)

    def add_mean(self, mean: float, n: int) -> None:
        """Count `n` attempts of which only the mean is known."""
        total = mean * n
        self.n += n
        self.total += total
        self.squares += total
        self.is_binary = self.is_binary and abs(total - round(total)) < 1e-6 * n
        self._is_spread_known = self._is_spread_known and self.is_binary

    @property
    def mean(self) -> float | None:
        """None while nothing is graded."""
        return self.total / self.n if self.n else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % interval: Wilson for a binary metric, else normal; None where the spread is not known.

        Attempts count as independent here; the report, which knows the tasks, clusters by them.
        """
        if not self.n:
            return None
        if self.is_binary:
            return wilson(round(self.total), self.n)
        if self.n < 2 or not self._is_spread_known:
            return None
        mean = self.total / self.n
        variance = max(0.0, self.squares / self.n - mean * mean) * self.n / (self.n - 1)
        return normal(mean, math.sqrt(variance / self.n), (None, None))


@attrs.define(eq=False, kw_only=True)
class ActiveAttempt:
    """An attempt that runs now. Times are seconds since the epoch."""

    request: str
    task: str
    attempt: int
    execution: int
    started_at: float
    phase: str = ""
    """Empty until its first phase."""
    phase_started_at: float
    detail: str = ""
    """What it waits for inside its phase; empty when it does not wait."""
    model_retries: int = 0


@attrs.define(eq=False, kw_only=True)
class Cause:
    """Executions of one request that failed alike."""

    code: str
    count: int = 0
    first_task: str = ""
    first_message: str = ""


@attrs.define(eq=False, kw_only=True)
class RequestState:
    """One request as it stands. Counts are attempts unless they say otherwise."""

    name: str
    run_id: str = ""
    run_dir: str | None = None
    metric: str = "score"
    planned: int = 0
    reused: int = 0
    verdicts: dict[Verdict, int] = attrs.field(
        factory=lambda: {"graded": 0, "infra": 0, "cancelled": 0, "skipped": 0}
    )
    """Of this run, reused attempts not included."""
    retried: int = 0
    """Executions that were followed by another one of the same attempt."""
    running_score: RunningScore = attrs.field(factory=RunningScore)
    causes: dict[str, Cause] = attrs.field(factory=dict)
    usage: Usage = attrs.field(factory=Usage)
    status: RequestStatus | None = None
    """None while it runs."""

    @property
    def done(self) -> int:
        """Attempts with a verdict, reused ones included."""
        return self.reused + sum(self.verdicts.values())

    @property
    def graded(self) -> int:
        """Attempts with a score, reused ones included."""
        return self.reused + self.verdicts["graded"]

    @property
    def fraction(self) -> float:
        """Done of planned, in [0, 1]; 0 while nothing is planned."""
        return min(1.0, self.done / self.planned) if self.planned else 0.0

    def count_failure(self, code: str, task: str, message: str) -> Cause:
        """Count an execution without score under its cause, and return the cause."""
        if code not in self.causes and len(self.causes) >= _MAX_CAUSES:
            code = OTHER_CAUSES
        cause = self.causes.setdefault(
            code, Cause(code=code, first_task=task, first_message=message)
        )
        cause.count += 1
        return cause
