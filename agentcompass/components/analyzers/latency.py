"""How long attempts, their phases and their slowest model calls take."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, final

from agentcompass.components.analysis import (
    AnalyzerParams,
    Figures,
    Finding,
    FinishedAttempt,
    Summarizer,
)
from agentcompass.components.analyzers.reading import number, seconds_of
from agentcompass.components.base import Analyzer
from agentcompass.data import frozen
from agentcompass.spec.ranges import NonNegativeFloat

CALL: Final = "slowest step"


@frozen(kw_only=True)
class LatencyParams(AnalyzerParams):
    """Parameters of `latency`."""

    floor_seconds: NonNegativeFloat = 10.0
    """What takes no longer is never called slow, however fast the others are."""


@final
class Latency(Analyzer[LatencyParams]):
    """Gives the seconds of each attempt, phase and slowest step; the summary tells which are far out."""

    id = "latency"
    Params: ClassVar[type] = LatencyParams

    def analyze(self, attempt: FinishedAttempt) -> Iterable[Finding]:
        """Return the figures of an execution."""
        record = attempt.record
        yield Finding(label="attempt", value=number(record.wall_seconds))
        for phase, seconds in record.phase_seconds.items():
            yield Finding(label=f"phase {phase}", value=number(seconds))
        steps = filter(None, map(seconds_of, attempt.steps()))
        slowest = max(steps, default=None)
        if slowest is not None:
            yield Finding(label=CALL, value=slowest)

    def summarizer(self) -> Summarizer:
        """Return the distribution of each figure."""
        return Figures(lambda seconds: f"{seconds:,.2f} s", floor=self.params.floor_seconds)
