"""pass@k and pass^k of one task, from n judged attempts of which c succeeded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import comb, fsum


def pass_at_k(n: int, c: int, k: int) -> float | None:
    """Return the chance that at least one of k attempts succeeds: 1 - C(n-c, k) / C(n, k).

    Args:
        n: Judged attempts.
        c: Successes among them, 0..n.
        k: Attempts of which one must succeed, at least 1.

    Returns:
        The unbiased estimate; None where fewer than k attempts are judged.

    Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code", equation 1.
    """
    return None if n < k else 1.0 - comb(n - c, k) / comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float | None:
    """Return the chance that all of k attempts succeed: C(c, k) / C(n, k); None where fewer than k are judged.

    Source: Yao et al. 2024, "tau-bench: A Benchmark for Tool-Agent-User Interaction in Real-World Domains".
    """
    return None if n < k else comb(c, k) / comb(n, k)


def mean_over_tasks(
    groups: Mapping[tuple[int, int], int],
    k: int,
    estimate: Callable[[int, int, int], float | None],
) -> float | None:
    """Return the mean of an estimate over tasks; None as soon as one task has too few judged attempts.

    Args:
        groups: How many tasks have n judged attempts with c successes, by (n, c).
        k: Handed to `estimate`.
        estimate: `pass_at_k` or `pass_hat_k`.
    """
    weighted: list[float] = []
    for (n, c), tasks in groups.items():
        value = estimate(n, c, k)
        if value is None:
            return None
        weighted.append(value * tasks)
    total = sum(groups.values())
    return fsum(weighted) / total if total else None
