"""The score of one metric: from a table of verdicts (a row a task, an entry an attempt) to numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import attrs

from agentcompass.data import frozen
from agentcompass.metrics import intervals, passk
from agentcompass.metrics.finite import finite, mean, total
from agentcompass.metrics.intervals import Interval
from agentcompass.records import Metric

Row: TypeAlias = Sequence[float | None]
"""Values of one task by attempt; None where there is no verdict."""

Method: TypeAlias = Literal["wilson", "bootstrap", "normal"]

_Spread: TypeAlias = tuple[float | None, Interval | None, Method | None]
_NO_SPREAD: Final[_Spread] = (None, None, None)


@frozen(kw_only=True)
class Score:
    """What one metric says about a set of tasks.

    None stands for what is undefined, unknown or too large for a float, never for 0.
    """

    value: float | None = None
    """Mean over everything planned: a missing verdict counts as the worst of a binary metric, and makes a scalar
    metric unavailable."""
    graded_value: float | None = None
    """Mean over what has a verdict."""
    bounds: tuple[float | None, float | None] | None = None
    """What `value` would be if every missing verdict were the worst, and the best. One of them is None if
    something is missing and the metric's scale has no such end."""
    stderr: float | None = None
    """Standard error of `value`."""
    ci95: Interval | None = None
    """95 % confidence interval of `value`."""
    ci95_method: Method | None = None
    """How it was computed."""
    avg_at_k: float | None = None
    """Mean over all k attempts of every task; for k > 1, when all of them have a verdict."""
    pass_at_k: Mapping[int, float | None] = attrs.field(factory=dict)
    """By j in 1..k: the chance that one of j attempts succeeds; for binary metrics and k > 1."""
    pass_hat_k: float | None = None
    """The chance that all k attempts succeed; for binary metrics and k > 1."""


def is_success(metric: Metric, value: float) -> bool:
    """Whether a value is at the best end of its scale, or positive where the scale has none.

    It is what strategy `pass` stops at, and what pass@k counts.
    """
    if metric.best is None:
        return value > 0
    is_descending = metric.worst is not None and metric.worst > metric.best
    return value <= metric.best if is_descending else value >= metric.best


def score(metric: Metric, rows: Sequence[Row], *, resamples: int) -> Score:
    """Score a table.

    Args:
        metric: What the values are.
        rows: A row a task, all of the same length k.
        resamples: For the bootstrap; 0 uses the normal approximation instead (`intervals.resamples_for`).

    Returns:
        The score; all None for an empty table.
    """
    k = len(rows[0]) if rows else 0
    planned = len(rows) * k
    if not planned:
        return Score()
    present = [value for row in rows for value in row if value is not None]
    missing = planned - len(present)
    worst = metric.worst or 0.0
    bounds = (
        _filled(present, missing, metric.worst, planned),
        _filled(present, missing, metric.best, planned),
    )
    result = Score(
        graded_value=mean(present),
        bounds=bounds,
        avg_at_k=mean(present) if k > 1 and not missing else None,
    )
    if metric.kind == "binary" and k > 1:
        result = _with_pass_rates(result, metric, rows, k)
    if missing and metric.kind == "scalar":
        return result
    value = _filled(present, missing, worst, planned)
    if value is None:
        return result
    means = [sum([worst if v is None else v for v in row]) / k for row in rows]
    stderr, ci95, method = _spread(metric, value, means, is_single=k == 1, resamples=resamples)
    return attrs.evolve(result, value=value, stderr=stderr, ci95=ci95, ci95_method=method)


def _filled(
    present: Sequence[float], missing: int, end: float | None, planned: int
) -> float | None:
    """The mean with every missing value at one end of the scale; None if there is no such end."""
    known = total(present)
    if known is None or (missing and end is None):
        return None
    return finite((known + missing * (end or 0.0)) / planned)


def _with_pass_rates(result: Score, metric: Metric, rows: Sequence[Row], k: int) -> Score:
    groups: Counter[tuple[int, int]] = Counter()
    for row in rows:
        judged = [value for value in row if value is not None]
        groups[len(judged), sum(is_success(metric, value) for value in judged)] += 1
    return attrs.evolve(
        result,
        pass_at_k={j: passk.mean_over_tasks(groups, j, passk.pass_at_k) for j in range(1, k + 1)},
        pass_hat_k=passk.mean_over_tasks(groups, k, passk.pass_hat_k),
    )


def _spread(
    metric: Metric, value: float, means: Sequence[float], *, is_single: bool, resamples: int
) -> _Spread:
    """Standard error and interval of `value`, which is the mean of `means`."""
    n = len(means)
    is_binary = metric.kind == "binary"
    if is_binary and is_single:
        wilson = intervals.wilson(sum(means), n)
        return (intervals.proportion_stderr(value, n), wilson, "wilson") if wilson else _NO_SPREAD
    stderr = intervals.clustered_stderr(means)
    if is_binary and (n == 1 or len(set(means)) == 1):
        # Resampling equal values would claim certainty; here a task is one trial.
        wilson = intervals.wilson(value * n, n)
        return (stderr, wilson, "wilson") if wilson else _NO_SPREAD
    if stderr is None:
        return _NO_SPREAD
    scale = (metric.worst, metric.best)
    interval = (
        intervals.bootstrap(means, resamples)
        if resamples
        else intervals.normal(value, stderr, scale)
    )
    method: Method = "bootstrap" if resamples else "normal"
    return stderr, interval, method if interval else None
