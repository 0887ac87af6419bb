"""All scores of a run: counts, coverage, each metric, each category, over one common denominator.

With attempt strategy `avg` every planned attempt counts. With `pass` attempts stop at the first success, so the
task is what counts: it is resolved by its first success, or by k failures; attempts after a success are not
missing, they were never needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import attrs

from agentcompass.data import frozen
from agentcompass.metrics.intervals import resamples_for
from agentcompass.metrics.scores import Row, Score, is_success, score
from agentcompass.records import Metric, Verdict
from agentcompass.spec.resolved import AttemptStrategy

UNCATEGORIZED = "(none)"
"""Where tasks without a category are counted, if others have one."""


@frozen(kw_only=True)
class TaskOutcome:
    """What is known about one planned task; the sequences have one entry for each of its k attempts."""

    category: str | None
    verdicts: Sequence[Verdict | None]
    """None: nothing was ever recorded."""
    values: Sequence[Mapping[str, float] | None]
    """By metric name; None unless graded."""


@frozen(kw_only=True)
class Counts:
    """Where the planned attempts went: planned = graded + infra + cancelled + skipped."""

    tasks: int = 0
    """Planned tasks."""
    planned: int = 0
    """Tasks times k."""
    graded: int = 0
    """With a score."""
    infra: int = 0
    """Sandbox, endpoint, evaluator or store failed."""
    cancelled: int = 0
    """Cut short by the end of the run."""
    skipped: int = 0
    """Never started, `not_needed` included."""
    not_needed: int = 0
    """Strategy `pass`: attempts after the first success."""
    resolved: int = 0
    """Tasks with a final answer: all attempts graded or, with `pass`, one success or k failures."""


@frozen(kw_only=True)
class Board:
    """Counts and scores of a set of tasks."""

    counts: Counts
    coverage: float
    """In 0..1: graded / planned or, with `pass`, resolved / tasks; 0 when nothing is planned."""
    scores: Mapping[str, Score]
    """By metric name, in the order in which the benchmark declares them."""
    categories: Mapping[str, Board] = attrs.field(factory=dict)
    """By category, sorted; empty when no task has one."""


def score_tasks(
    tasks: Sequence[TaskOutcome],
    metrics: Sequence[Metric],
    *,
    k: int,
    strategy: AttemptStrategy,
) -> Board:
    """Score a run.

    Args:
        tasks: Every planned task, those without any record included.
        metrics: What the benchmark declares.
        k: Attempts planned for each task.
        strategy: `avg` or `pass`.

    Returns:
        The board, with a board for each category if any task has one.
    """
    resamples = resamples_for(len(tasks))
    board = _board(tasks, metrics, k, strategy, resamples)
    by_category: dict[str, list[TaskOutcome]] = {}
    for task in tasks:
        name = UNCATEGORIZED if task.category is None else task.category
        by_category.setdefault(name, []).append(task)
    if all(task.category is None for task in tasks):
        return board
    return attrs.evolve(
        board,
        categories={
            name: _board(by_category[name], metrics, k, strategy, resamples)
            for name in sorted(by_category)
        },
    )


def _board(
    tasks: Sequence[TaskOutcome],
    metrics: Sequence[Metric],
    k: int,
    strategy: AttemptStrategy,
    resamples: int,
) -> Board:
    if strategy == "avg":
        scores = {
            metric.name: score(metric, _table(tasks, metric), resamples=resamples)
            for metric in metrics
        }
        counts = _count(tasks, k)
        return Board(counts=counts, coverage=_share(counts.graded, counts.planned), scores=scores)
    primary = _primary(metrics)
    deciding = [_deciding_attempt(primary, row) for row in _table(tasks, primary)]
    scores = {}
    for metric in metrics:
        table = _table(tasks, metric)
        decided = [
            (None if at is None else row[at],) for at, row in zip(deciding, table, strict=True)
        ]
        scores[metric.name] = score(metric, decided, resamples=resamples)
        if metric is primary and k > 1:
            within = {j: _solved_within(metric, table, j) for j in range(1, k + 1)}
            scores[metric.name] = attrs.evolve(scores[metric.name], pass_at_k=within)
    decided_at = [(task, at) for task, at in zip(tasks, deciding, strict=True) if at is not None]
    counts = attrs.evolve(
        _count(tasks, k),
        resolved=len(decided_at),
        not_needed=sum(_skipped_after(task, at) for task, at in decided_at),
    )
    return Board(counts=counts, coverage=_share(len(decided_at), len(tasks)), scores=scores)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _primary(metrics: Sequence[Metric]) -> Metric:
    return next((metric for metric in metrics if metric.primary), metrics[0])


def _table(tasks: Sequence[TaskOutcome], metric: Metric) -> list[Row]:
    name = metric.name
    return [[None if v is None else v.get(name) for v in task.values] for task in tasks]


def _deciding_attempt(primary: Metric, row: Row) -> int | None:
    """The attempt (from 0) whose values stand for a task under `pass`; None while it is not resolved."""
    for at, value in enumerate(row):
        if value is not None and is_success(primary, value):
            return at
    return None if None in row else len(row) - 1


def _solved_within(metric: Metric, table: Sequence[Row], j: int) -> float | None:
    """The share of tasks that succeed in their first j attempts; None while it is open for one of them.

    Whether the first j attempts contain a success is an unbiased, if noisier, estimate of pass@j; it is the one
    that can be had when attempts stop at a success.
    """
    solved = 0
    for row in table:
        first = row[:j]
        if any(value is not None and is_success(metric, value) for value in first):
            solved += 1
        elif None in first:
            return None
    return solved / len(table) if table else None


def _count(tasks: Sequence[TaskOutcome], k: int) -> Counts:
    """Counts under strategy `avg`."""
    verdicts = Counter(verdict or "skipped" for task in tasks for verdict in task.verdicts)
    return Counts(
        tasks=len(tasks),
        planned=len(tasks) * k,
        graded=verdicts["graded"],
        infra=verdicts["infra"],
        cancelled=verdicts["cancelled"],
        skipped=verdicts["skipped"],
        resolved=sum(all(v == "graded" for v in task.verdicts) for task in tasks),
    )


def _skipped_after(task: TaskOutcome, at: int) -> int:
    """How many attempts after a success were not made; after k failures there are none."""
    return sum(verdict in {None, "skipped"} for verdict in task.verdicts[at + 1 :])
