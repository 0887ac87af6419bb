"""How many calls an endpoint takes at once: found out by trying, as TCP finds the width of a network. Pure.

Additive increase, multiplicative decrease: while calls succeed and the window binds, it grows by a constant for every
round of calls; when the endpoint says "too many", it is cut, once for all calls of that episode. An episode lasts until
a call that began after the cut has been answered: only then is it known whether the cut was enough.

A cut makes room in time, too: from then on calls go out evenly, as many within the time that one takes as the window
has places. Most endpoints that say "too many" count calls by the minute, and what they refuse is a burst.

Sources: D. Chiu, R. Jain, "Analysis of the increase and decrease algorithms for congestion avoidance", 1989;
RFC 5681, "TCP congestion control". The constants are those with which a simulation of 1,000 calls came nearest to what
token buckets, fixed minutes and limits of concurrency allow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, final

from agentcompass.data import frozen

_DECREASE: Final = 0.75
_ROUNDS_TO_DOUBLE: Final = 32
"""Rounds of calls in which the window grows by as much as it had when it was last cut."""
_SHORTEST_ROUND_SECONDS: Final = 1.0
"""Calls that take less do not make it grow faster."""
_HASTE: Final = 1.2
"""So much faster than its size and the duration of calls say, the window is filled."""
_MEMORY: Final = 0.9
"""Weight of what was known in the mean duration of calls."""
_UNKNOWN_SECONDS: Final = 0.05
"""Taken for the duration of calls while none has ended, and none has run for longer."""


@frozen(kw_only=True)
class Findings:
    """What has been found out about an endpoint, as those who share it tell each other."""

    cuts: int = 0
    """Episodes so far; the higher number is the newer knowledge."""
    base: float = math.inf
    """The size after the last cut; infinite while there was none."""
    ceiling: float = math.inf
    """The size before it."""
    grown: float = 0.0
    """What the calls of the one who tells have added since."""


@final
class Window:
    """The number of calls that may be in flight at one endpoint, over all who share it.

    Args:
        cap: Its greatest size, >= 1; where it starts.
    """

    def __init__(self, cap: int) -> None:
        self.cap = cap
        self.call_seconds: float | None = None
        """How long a call takes, on average; None while none has ended."""
        self._found = Findings()
        self._grown = self._grown_elsewhere = 0.0
        self._peak = 0
        self._is_confirmed = True
        """A call that began after the last cut was answered: the next refusal begins a new episode."""

    @property
    def cuts(self) -> int:
        """Episodes so far: calls are told apart by the number at which they began."""
        return self._found.cuts

    @property
    def size(self) -> int:
        """Calls that may be in flight at once, 1..cap."""
        return max(1, int(min(self.cap, self._found.base + self._grown + self._grown_elsewhere)))

    @property
    def findings(self) -> Findings:
        """What is known, for the others."""
        found = self._found
        return Findings(cuts=found.cuts, base=found.base, ceiling=found.ceiling, grown=self._grown)

    def interval_seconds(self, share: int, elapsed_seconds: float) -> float:
        """Return the time between two calls of somebody who has a share of the window; 0 while it is as wide as can be.

        Args:
            share: Places, >= 1.
            elapsed_seconds: How long the oldest call in flight has run: calls take at least so long.
        """
        if self.size >= self.cap:
            return 0.0
        seconds = self.call_seconds
        if seconds is None:
            seconds = max(elapsed_seconds, _UNKNOWN_SECONDS)
        return seconds / (_HASTE * share)

    def used(self, in_use: int) -> None:
        """Take note of how many calls are in flight."""
        self._peak = max(self._peak, in_use)

    def succeeded(self, cuts: int, seconds: float, *, is_binding: bool) -> None:
        """A call was answered.

        Args:
            cuts: At which it began.
            seconds: How long it took.
            is_binding: Whether the window was full.
        """
        known = self.call_seconds
        self.call_seconds = seconds if known is None else _MEMORY * known + (1 - _MEMORY) * seconds
        self._is_confirmed = self._is_confirmed or cuts == self.cuts
        size = self.size
        if is_binding and size < self.cap:
            step = max(1.0, max(self._found.ceiling, size) / _ROUNDS_TO_DOUBLE)
            round_seconds = min(1.0, self.call_seconds / _SHORTEST_ROUND_SECONDS)
            self._grown += step * round_seconds / size

    def refused(self, cuts: int, *, is_binding: bool) -> bool:
        """A call was refused; return whether that cuts the window.

        Args:
            cuts: At which it began.
            is_binding: Whether the window was full, or callers waited; if not, what counts is how much of it was used.
        """
        if cuts != self.cuts or not self._is_confirmed:
            return False
        ceiling = float(self.size if is_binding else max(1, min(self.size, self._peak)))
        self._adopt(
            Findings(cuts=self.cuts + 1, base=max(1.0, ceiling * _DECREASE), ceiling=ceiling)
        )
        return True

    def learn(self, others: Iterable[Findings]) -> None:
        """Take over what others have found out: the newest cut, and all growth since."""
        others = tuple(others)
        newest = max((found.cuts for found in others), default=0)
        if newest > self.cuts:
            self._adopt(min((f for f in others if f.cuts == newest), key=lambda found: found.base))
        same = [found for found in others if found.cuts == self.cuts]
        base = min((found.base for found in same), default=math.inf)
        if base < self._found.base:  # several were refused at once: one episode, one cut
            self._found = min(same, key=lambda found: found.base)
        self._grown_elsewhere = sum(found.grown for found in same)

    def _adopt(self, found: Findings) -> None:
        self._found = found
        self._grown = self._grown_elsewhere = 0.0
        self._peak, self._is_confirmed = 0, False
