"""What answers say about the limits of an endpoint, before it refuses anybody. Pure.

Sources: OpenAI API, "Rate limits", "Rate limits in headers"; Anthropic API, "Rate limits", "Response headers".
Both refill continuously and tell when all will be there again, so what one call needs is there much earlier.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

_PREFIXES: Final = ("x-ratelimit-", "anthropic-ratelimit-")
_KINDS: Final = ("requests", "tokens", "input-tokens", "output-tokens")
_DURATION: Final = re.compile(
    r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?", re.ASCII
)
_UNITS: Final = (86400.0, 3600.0, 60.0, 1.0, 0.001)
"""Of the groups of `_DURATION`, in seconds."""


def about_limits(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return those of an answer's headers that tell of limits, names in lower case; mostly none."""
    return {
        name.decode("ascii").lower(): value.decode("latin-1")
        for name, value in headers
        if b"ratelimit-" in name.lower()
    }


def pause_seconds(headers: Mapping[str, str], *, now: float, tokens: float) -> float:
    """Return how long no call can succeed, since nothing is left; 0 where headers do not say so.

    Args:
        headers: As `about_limits` gives them.
        now: Seconds since the epoch, for those that name a time.
        tokens: What a call uses; 0 if that is not known.
    """
    return max(
        (
            _pause(headers, prefix, kind, now=now, tokens=tokens)
            for prefix in _PREFIXES
            for kind in _KINDS
        ),
        default=0.0,
    )


def _pause(
    headers: Mapping[str, str], prefix: str, kind: str, *, now: float, tokens: float
) -> float:
    is_openai = prefix == _PREFIXES[0]

    def told(what: str) -> str:
        return headers.get(f"{prefix}{what}-{kind}" if is_openai else f"{prefix}{kind}-{what}", "")

    left = _number(told("remaining"))
    if left is None or left > 0:
        return 0.0
    until_full = _duration(told("reset")) if is_openai else _until(told("reset"), now)
    limit = _number(told("limit"))
    if not limit or limit < 0:
        return until_full
    needed = 1.0 if kind == "requests" else max(1.0, tokens)
    return until_full * min(1.0, needed / limit)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _duration(text: str) -> float:
    """`1s`, `6m0s`, `20ms`, `1h30m`, or plain seconds; 0 for anything else."""
    text = text.strip()
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        seconds = _number(text)
        return seconds if seconds is not None and 0 <= seconds < float("inf") else 0.0
    return sum(
        float(number) * unit for number, unit in zip(found.groups(), _UNITS, strict=True) if number
    )


def _until(text: str, now: float) -> float:
    """The seconds until a time in the form of RFC 3339; 0 if it is none, or past."""
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        return 0.0
    return max(0.0, (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() - now)
