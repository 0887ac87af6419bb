"""What a run amounts to: scores, counts, causes of failure, cost. Data, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import attrs

from agentcompass.data import frozen
from agentcompass.metrics.board import Board
from agentcompass.metrics.scores import Score
from agentcompass.records import JSON, SCHEMA_VERSION, Metric, Phase, Usage, Verdict
from agentcompass.store.info import RunInfo, RunPlan, RunStatus
from agentcompass.store.jsonl import CorruptLine
from agentcompass.store.layout import RunPaths


@frozen(kw_only=True)
class FailureGroup:
    """Attempts without a score, or executions that were retried, for the same cause; with one of them as an example."""

    verdict: Verdict
    """How they ended."""
    phase: Phase | None
    """None: nothing was recorded."""
    code: str
    """The cause."""
    count: int
    """How many there are."""
    task_id: str
    """Of the example."""
    attempt: int
    """Of the example."""
    message: str
    """Of the example."""


@frozen(kw_only=True)
class Report:
    """A run, summed up from its journal and its plan."""

    paths: RunPaths
    info: RunInfo
    plan: RunPlan
    status: RunStatus
    board: Board
    failures: tuple[FailureGroup, ...] = ()
    """Most frequent first."""
    retried: tuple[FailureGroup, ...] = ()
    """Executions that failed and were followed by one with a score, by cause, most frequent first."""
    stopped_by: Mapping[str, int] = attrs.field(factory=dict)
    """Graded attempts whose agent was stopped early, by cause, most frequent first."""
    executions: int = 0
    """Of this run: retries included, reused ones not."""
    reused: int = 0
    """Attempts taken over from an earlier run."""
    usage: Usage = attrs.field(factory=Usage)
    """Of every execution, retries and reused attempts included."""
    judge_usage: Usage = attrs.field(factory=Usage)
    """The part of `usage` that judges used."""
    reused_usage: Usage = attrs.field(factory=Usage)
    """The part of `usage` that an earlier run had paid for."""
    execution_seconds: float = 0.0
    """Wall time summed over every execution, reused ones included."""
    unplanned: int = 0
    """Records of attempts that the plan does not have; they count nowhere."""
    corrupt_lines: tuple[CorruptLine, ...] = ()
    """Journal lines that could not be read."""
    analysis: Mapping[str, JSON] | None = None
    """What the analyzers noticed, as `analysis_file` has it; None if nothing was analysed, or not all of it yet."""
    finish_command: str | None = None
    """Executes what is missing and reuses the rest; None if nothing is missing."""

    @property
    def counts(self) -> dict[str, int]:
        """Where the planned attempts went: `metrics.board.Counts` by name."""
        return attrs.asdict(self.board.counts)

    @property
    def coverage(self) -> float:
        """Share of what was planned that has a verdict, in 0..1."""
        return self.board.coverage

    @property
    def primary_score(self) -> Score:
        """The score that heads the report."""
        return self.board.scores[self.plan.primary.name]

    @property
    def elapsed_seconds(self) -> float | None:
        """From start to end of this run; None while it is not over."""
        if self.info.finished_at is None:
            return None
        try:
            start = datetime.fromisoformat(self.info.started_at)
            return (datetime.fromisoformat(self.info.finished_at) - start).total_seconds()
        except (ValueError, TypeError):  # no time, or one with and one without time zone
            return None

    def concluded(self, info: RunInfo) -> Report:
        """Return the same report under the run's last state: no second pass over the journal."""
        return attrs.evolve(self, info=info, status=info.status)

    def as_json(self) -> dict[str, JSON]:
        """Return what stands in `metrics.json`."""
        return {
            "schema": SCHEMA_VERSION,
            "run_id": self.info.run_id,
            **self.metrics_json(),
            **self.summary_json(),
        }

    def metrics_json(self) -> dict[str, JSON]:
        """Return the scores: of each metric, over all tasks and by category."""
        return {
            "primary": self.plan.primary.name,
            "k": self.plan.k,
            "attempt_strategy": self.plan.attempt_strategy,
            "scores": _scores(self.board, self.plan.metrics),
            "categories": {
                name: {
                    "coverage": board.coverage,
                    "counts": attrs.asdict(board.counts),
                    "scores": _scores(board, self.plan.metrics),
                }
                for name, board in self.board.categories.items()
            },
        }

    def summary_json(self) -> dict[str, JSON]:
        """Return everything but the scores by metric."""
        score = self.primary_score
        return {
            "status": self.status,
            "error": self.info.error,
            "score": score.value,
            "ci95": None if score.ci95 is None else list(score.ci95),
            "coverage": self.coverage,
            "counts": self.counts,
            "failures": [attrs.asdict(group) for group in self.failures],
            "retried": [attrs.asdict(group) for group in self.retried],
            "stopped_by": dict(self.stopped_by),
            "executions": self.executions,
            "reused": self.reused,
            "usage": _usage(self.usage),
            "judge_usage": _usage(self.judge_usage),
            "reused_usage": _usage(self.reused_usage),
            "execution_seconds": self.execution_seconds,
            "elapsed_seconds": self.elapsed_seconds,
            "analysis": self.analysis,
            "unplanned_records": self.unplanned,
            "corrupt_lines": [attrs.asdict(line) for line in self.corrupt_lines],
            "finish_command": self.finish_command,
        }


def _scores(board: Board, metrics: tuple[Metric, ...]) -> dict[str, JSON]:
    return {metric.name: _score(metric, board.scores[metric.name]) for metric in metrics}


def _score(metric: Metric, score: Score) -> dict[str, JSON]:
    data: dict[str, Any] = attrs.asdict(score)
    data["pass_at_k"] = {str(j): value for j, value in score.pass_at_k.items()}
    for name in ("bounds", "ci95"):
        data[name] = None if data[name] is None else list(data[name])
    return {"kind": metric.kind, **data}


def _usage(usage: Usage) -> dict[str, JSON]:
    return {**attrs.asdict(usage), "total_tokens": usage.total_tokens}
