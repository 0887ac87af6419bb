"""How sure a mean is: Wilson and bootstrap intervals, and the standard error over tasks."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Final, TypeAlias

from agentcompass.metrics.finite import finite, mean, total

Interval: TypeAlias = tuple[float, float]

Z95: Final = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""
BOOTSTRAP_SEED: Final = 20240607
"""Fixed, so that the same journal always gives the same interval."""
MAX_RESAMPLES: Final = 2000
MIN_RESAMPLES: Final = 1000
"""With fewer, the ends of the interval are noise; the normal approximation is better then, and n is large."""
DRAW_BUDGET: Final = 1_000_000
"""Random draws per metric of a run: about 0.1 s."""


def resamples_for(n_tasks: int) -> int:
    """Return how often tasks are resampled in a run of `n_tasks` tasks; 0 means not at all."""
    affordable = min(MAX_RESAMPLES, DRAW_BUDGET // max(n_tasks, 1))
    return affordable if affordable >= MIN_RESAMPLES else 0


def wilson(successes: float, n: int) -> Interval | None:
    """Return the 95 % score interval of a proportion; None if `successes` lies outside 0..n, and it is none.

    Args:
        successes: How many of the trials succeeded.
        n: Independent trials, at least 1.

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference", without
    continuity correction.
    """
    if not 0 <= successes <= n:
        return None
    p = successes / n
    z2 = Z95 * Z95
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = Z95 / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    low = 0.0 if successes <= 0 else max(0.0, centre - half)
    high = 1.0 if successes >= n else min(1.0, centre + half)
    return low, high


def proportion_stderr(p: float, n: int) -> float:
    """Return the standard error of a proportion: sqrt(p (1 - p) / n)."""
    return math.sqrt(max(0.0, p * (1 - p)) / n)


def clustered_stderr(task_means: Sequence[float]) -> float | None:
    """Return the standard error of the mean with a task as the cluster: sqrt(sum((m_i - m)^2) / (n (n - 1))).

    None for fewer than two tasks, where it is undefined, and where it is too large for a float. Attempts at one task
    are not independent; their mean is one observation.

    Source: Miller 2024, "Adding Error Bars to Evals", section 2.2, for clusters of equal size.
    """
    n = len(task_means)
    centre = mean(task_means)
    if n < 2 or centre is None:
        return None
    # A product, since the power of a large float raises where the product is infinite.
    squares = total((m - centre) * (m - centre) for m in task_means)
    return None if squares is None else math.sqrt(squares / (n * (n - 1)))


def bootstrap(task_means: Sequence[float], resamples: int) -> Interval:
    """Return the 95 % percentile interval of the mean, tasks resampled with replacement.

    Args:
        task_means: One value a task, at least one; small enough to be summed, as those with a standard error are.
        resamples: How many samples are drawn; the seed is fixed.

    Source: Efron and Tibshirani 1993, "An Introduction to the Bootstrap", section 13.3.
    """
    n = len(task_means)
    smallest, largest = min(task_means), max(task_means)
    draw = random.Random(BOOTSTRAP_SEED).choices
    means = sorted(sum(draw(task_means, k=n)) / n for _ in range(resamples))
    tail = 0.025 * resamples
    # Summing rounds: the mean of three equal values may come out a little beside them.
    low, high = (
        min(max(means[at], smallest), largest)
        for at in (math.floor(tail), math.ceil(resamples - tail) - 1)
    )
    return low, high


def normal(
    value: float, stderr: float, scale: tuple[float | None, float | None]
) -> Interval | None:
    """Return value ± 1.96 standard errors, cut at the ends of the scale where it has ends; None if too large for a float."""
    ends = [end for end in scale if end is not None]
    low, high = value - Z95 * stderr, value + Z95 * stderr
    if len(ends) == 2:
        low, high = max(low, min(ends)), min(high, max(ends))
    return None if finite(low) is None or finite(high) is None else (low, high)
