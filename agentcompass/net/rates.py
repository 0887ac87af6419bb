"""What may be used per minute: token buckets whose reader keeps the time. Pure.

In no minute is more taken than allowed, bursts included: what a bucket holds is counted against the rate at which it
is filled. Several who share a rate have a bucket each, and the sum of these keeps to it too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, final

from agentcompass.net.shares import fair_shares

_MINUTE: Final = 60.0
_BURST_SECONDS: Final = 0.25
"""A bucket holds what is allowed in this time, and at least one: a busy event loop comes late and must not lose by it."""
_RECENT_SECONDS: Final = 10.0
"""How long ago use counts as recent."""
_ROOM: Final = 1.5
"""So much more than its recent use is left to somebody who does not have to wait."""
_NOTICED_SECONDS: Final = 2.0
"""Whoever joins others leaves them what they may take before they know of it."""
_LEAST_PART: Final = 0.9
"""Of a share that is used in any case, though the buckets of several hold too much for it: where it is less than ten each."""
_NEWS: Final = 0.1
"""A part by which a share changes that is worth a closer look."""
_ROUNDING: Final = 1e-9


@final
class RateBucket:
    """So many units per minute, spread evenly; full at the start.

    Args:
        per_minute: Units, > 0. All times are seconds of one clock.
    """

    def __init__(self, per_minute: float) -> None:
        self.per_minute = per_minute
        self._share = per_minute
        self._users = 1
        self._level = self._capacity
        self._at = self._recent_at = -math.inf
        self._recent = self._largest = 0.0

    def ready_at(self, amount: float, now: float) -> float:
        """Return when an amount can be taken: `now`, or later. One that the bucket cannot hold needs a full bucket."""
        self._fill(now)
        missing = min(amount, self._capacity) - self._level
        return now if missing <= _ROUNDING else now + missing / self._per_second

    def take(self, amount: float, now: float) -> None:
        """Take an amount, or give it back if negative; what is not there yet is owed."""
        self._fill(now)
        self._level = min(self._capacity, self._level - amount)
        self._largest = max(self._largest, amount)
        self._note(amount, now)

    def settled_at(self, now: float, unseen_seconds: float) -> float:
        """Return when it will be full again, if all is taken first that can be within so many seconds from now."""
        self._fill(now)
        level = self._level
        if unseen_seconds:
            emptied = min(0.0, self._capacity - self._largest)
            level = min(emptied, level + unseen_seconds * self._per_second)
        return now + unseen_seconds + (self._capacity - level) / self._per_second

    def settle_at(self, time: float, now: float) -> None:
        """Let it not be full before a time: others have taken from it. What they took long ago counts for nothing."""
        self._fill(now)
        seconds = min(time - now, _MINUTE)
        self._level = min(self._level, self._capacity - seconds * self._per_second)

    def wanted(self, now: float, *, is_waited_for: bool) -> float:
        """Return the units per minute that its user could do with; infinite while somebody waits for them."""
        if is_waited_for:
            return math.inf
        self._note(0.0, now)
        return _ROOM * max(0.0, self._recent) * _MINUTE / _RECENT_SECONDS + 1.0

    def share(self, wants: Sequence[float], now: float, *, is_new: bool = False) -> bool:
        """Leave the others their part.

        Args:
            wants: What each could do with per minute, the user of this bucket first; of others, 0 is no user of the rate.
            now: The present time.
            is_new: Whether the others do not know yet of the user of this bucket.

        Returns:
            Whether one's own part has changed much.
        """
        is_new = is_new and len(wants) > 1
        wants = [wants[0], *[want for want in wants[1:] if want > 0]]
        before = self._share
        spare = max(0.0, self.per_minute - sum(wants)) / len(wants)
        self._fill(now)
        self._share = fair_shares(self.per_minute, wants)[0] + spare
        self._users = len(wants)
        self._level = min(self._level, self._capacity)
        if is_new:
            self._level = min(self._level, 0.0) - _NOTICED_SECONDS * self._per_second
        return abs(self._share - before) > _NEWS * before

    @property
    def _capacity(self) -> float:
        return max(1.0, self._share * _BURST_SECONDS / _MINUTE)

    @property
    def _per_second(self) -> float:
        """Less than the share by what a full bucket adds to it. Rounding down leaves one free, for all users together."""
        evenly = self._share - self._capacity + 1.0 / self._users
        return max(evenly, _LEAST_PART * self._share) / _MINUTE

    def _fill(self, now: float) -> None:
        self._level = min(self._capacity, self._level + (now - self._at) * self._per_second)
        self._at = now

    def _note(self, amount: float, now: float) -> None:
        self._recent *= math.exp((self._recent_at - now) / _RECENT_SECONDS)
        self._recent += amount
        self._recent_at = now


@final
class Rates:
    """Requests and tokens per minute at one endpoint.

    Args:
        rpm: Requests; None means any.
        tpm: Tokens; None means any.
    """

    def __init__(self, rpm: float | None, tpm: float | None) -> None:
        self._requests = None if rpm is None else RateBucket(rpm)
        self._tokens = None if tpm is None else RateBucket(tpm)

    def opening(self, tokens: float, now: float) -> tuple[float, Literal["rpm", "tpm"] | None]:
        """Return when a request with so many tokens may go out, and which rate it waits for; `now` and None for none."""
        if self._requests and (at := self._requests.ready_at(1.0, now)) > now:
            return at, "rpm"
        if self._tokens and (at := self._tokens.ready_at(tokens, now)) > now:
            return at, "tpm"
        return now, None

    def take(self, now: float, *, requests: float = 0.0, tokens: float = 0.0) -> None:
        """Use requests and tokens, or give them back if negative."""
        if self._requests and requests:
            self._requests.take(requests, now)
        if self._tokens and tokens:
            self._tokens.take(tokens, now)

    def wanted(self, now: float, waits_for: str | None) -> tuple[float, float]:
        """Return the requests and the tokens per minute that their user could do with; 0 where any number is allowed.

        Args:
            now: The present time.
            waits_for: What holds up the user's calls; at the `start` that will be both.
        """
        requests, tokens = self._requests, self._tokens
        return (
            requests.wanted(now, is_waited_for=waits_for in ("rpm", "start")) if requests else 0.0,
            tokens.wanted(now, is_waited_for=waits_for in ("tpm", "start")) if tokens else 0.0,
        )

    def settled_at(self, now: float, unseen_seconds: float) -> tuple[float, float]:
        """Return when no request and no token counts any more; see `RateBucket.settled_at`."""
        requests, tokens = self._requests, self._tokens
        return (
            requests.settled_at(now, unseen_seconds) if requests else -math.inf,
            tokens.settled_at(now, unseen_seconds) if tokens else -math.inf,
        )

    def settle_at(self, times: tuple[float, float], now: float) -> None:
        """Heed what others have used; `times` as `settled_at` gives them."""
        if self._requests:
            self._requests.settle_at(times[0], now)
        if self._tokens:
            self._tokens.settle_at(times[1], now)

    def share(
        self, wants: Sequence[tuple[float, float]], now: float, *, is_new: bool = False
    ) -> bool:
        """Leave the others their part; `wants` as `wanted` gives them, one's own first. See `RateBucket.share`."""
        requests, tokens = zip(*wants, strict=True)
        is_other = self._requests is not None and self._requests.share(requests, now, is_new=is_new)
        if self._tokens is not None:
            is_other |= self._tokens.share(tokens, now, is_new=is_new)
        return is_other
