"""What is known about the limits of an endpoint beforehand, and how it is used now. Data only."""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentcompass.data import frozen

Cause: TypeAlias = Literal["start", "pause", "limit", "others", "rpm", "tpm"]
"""What a caller waits for: word of the others, the end of a pause, a place in the window, one that others have, a rate."""


@frozen(kw_only=True)
class Limits:
    """What is known about an endpoint beforehand."""

    cap: int
    """Most calls at once, >= 1."""
    rpm: float | None = None
    """Requests per minute, > 0; None means any."""
    tpm: float | None = None
    """Tokens per minute, > 0; None means any."""

    def both(self, other: Limits) -> Limits:
        """Return the narrower of each."""
        return Limits(
            cap=min(self.cap, other.cap),
            rpm=_smaller(self.rpm, other.rpm),
            tpm=_smaller(self.tpm, other.tpm),
        )


@frozen(kw_only=True)
class Use:
    """How an endpoint is used now, for people."""

    in_use: int
    """Calls in flight."""
    limit: int
    """Calls that may be in flight."""
    cap: int
    """Calls that might be if the endpoint took them: the `max_connections` of a model."""
    rpm: float | None
    """Requests per minute that are allowed; None if that is not known."""
    tpm: float | None
    """Tokens per minute, likewise."""
    waiting: int
    """Callers in the queue."""
    binds: Cause | None
    """What the first of them waits for."""
    pause_seconds: int
    """How long nobody will be let in, rounded up."""
    others: int
    """Other users of the endpoint on this machine."""


def _smaller(one: float | None, other: float | None) -> float | None:
    given = [limit for limit in (one, other) if limit is not None]
    return min(given) if given else None
