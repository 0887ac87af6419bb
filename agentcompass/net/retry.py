"""When to ask again: what a server said about it, and what to do when it said nothing. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)

_MAX_DOUBLINGS: Final = 32
"""Beyond it any sensible cap is reached, and 2**n would only overflow."""


class Uniform(Protocol):
    """A source of chance: `random.Random`."""

    def uniform(self, a: float, b: float, /) -> float:
        """Return a number between `a` and `b`."""
        ...


def asked_wait_seconds(headers: Mapping[str, str], *, now: float) -> float | None:
    """Return the wait a server asks for, in seconds, >= 0; None if it asks for none that can be understood.

    `retry-after-ms` (milliseconds, sent by some model endpoints) is finer and wins over `Retry-After`.

    Args:
        headers: Of the answer, names in lower case.
        now: Seconds since the epoch, for the date form.

    Source: RFC 9110, 10.2.3 (delay-seconds or HTTP-date; fractions and signs are tolerated).
    """
    milliseconds = _finite(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    text = headers.get("retry-after", "").strip()
    seconds = _finite(text)
    if seconds is not None:
        return max(0.0, seconds)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None  # "soon", "", dates that do not exist
    # one of the three date forms of HTTP names no zone; all mean UTC
    return max(0.0, (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now)


def backoff_seconds(
    n_failures: int, *, base_seconds: float, cap_seconds: float, random: Uniform
) -> float:
    """Return a random wait in [0, min(cap, base * 2**(n_failures - 1))] seconds.

    The whole interval is used ("full jitter"), so that callers who failed together do not come back together.

    Args:
        n_failures: Tries that failed so far, >= 1.
        base_seconds: Upper end after the first failure.
        cap_seconds: Upper end at most.
        random: Where chance comes from.

    Source: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """
    doublings = min(n_failures - 1, _MAX_DOUBLINGS)
    return random.uniform(0.0, min(cap_seconds, base_seconds * 2.0**doublings))


def _finite(text: str) -> float | None:
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None
