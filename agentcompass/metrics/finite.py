"""Sums and means of numbers of any size: None where the result is too large for a float, never an exception."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def finite(value: float) -> float | None:
    """Return a number; None for infinities and NaN."""
    return value if math.isfinite(value) else None


def total(values: Iterable[float]) -> float | None:
    """Return the exact sum, rounded once; None if it, or a part of it, is too large for a float."""
    try:
        return finite(math.fsum(values))
    except (OverflowError, ValueError):  # ValueError: infinities of both signs
        return None


def mean(values: Sequence[float]) -> float | None:
    """Return the mean; None of no values, or if their sum is too large for a float."""
    whole = total(values)
    return None if whole is None or not values else whole / len(values)
