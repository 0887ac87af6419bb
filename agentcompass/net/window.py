"""How many calls an endpoint takes at once: found out by trying, as TCP finds the width of a network. Pure.

Additive increase, multiplicative decrease: while calls succeed and the window binds, it grows by a constant for every
round of calls; when the endpoint says "too many", it is cut, once for all calls of that episode. An episode lasts until
a call that began after the cut has been answered: only then is it known whether the cut was enough.

A cut makes room in time, too: from then on calls go out evenly, as many within the time that one takes as the window
has places. Most endpoints that say "too many" count calls by the minute, and what they refuse is a burst.

Some refuse for reasons of their own, a part of all calls, however few they are: they share what they have among all
their customers. Cuts do not help there, and would end at one call at a time. So when refusals go on at the narrowest,
it is tried once whether as many calls as possible get more done; where they do, refusals do not count: the window is
*loose*, until that is no longer so.

Sources: D. Chiu, R. Jain, "Analysis of the increase and decrease algorithms for congestion avoidance", 1989;
RFC 5681, "TCP congestion control". The constants are those with which a simulation of 1,000 calls came nearest to what
token buckets, fixed minutes and limits of concurrency allow.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final, final

import attrs

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
_FEW: Final = 4
_REFUSALS: Final = 6
"""So many more while no more than that were in flight than while more were, and it is tried to do without cuts; each time
that fails, twice as many."""
_MORE_DONE: Final = 3.0
"""So many calls must be at work on average, of those that are taken, for the window to be loose."""
_TRIAL_ROUNDS: Final = 2.0
"""Rounds of calls after which that is looked at, and again each time."""


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
    loose: int = 0
    """1: it is tried whether a loose window gets more done; 2: it does."""


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
        self._n_refused, self._n_until_loose = 0, _REFUSALS
        self._n_taken = 0
        self._counted_since: float | None = None
        """None: no call has been refused since it was opened, which is after the pause that comes with a refusal."""

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
        return attrs.evolve(self._found, grown=self._grown)

    @property
    def is_loose(self) -> bool:
        """Whether refusals do not cut it now: that is tried, or gets more done."""
        return self._found.loose > 0

    @property
    def is_proven(self) -> bool:
        """Whether it is loose, and the endpoint has taken many calls while it refused others."""
        return self._found.loose > 1

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
        self._n_taken += cuts == self.cuts
        size = self.size
        if is_binding and size < self.cap:
            step = max(1.0, max(self._found.ceiling, size) / _ROUNDS_TO_DOUBLE)
            round_seconds = min(1.0, self.call_seconds / _SHORTEST_ROUND_SECONDS)
            self._grown += step * round_seconds / size

    def refused(self, cuts: int, now: float, *, in_use: int, is_binding: bool) -> bool:
        """A call was refused; return whether that changes the window.

        Args:
            cuts: At which it began.
            now: The present time, in seconds.
            in_use: Calls that were in flight, this one included, of all users.
            is_binding: Whether the window was full, or callers waited; if not, what counts is how much of it was used.
        """
        if cuts != self.cuts:
            return False
        if self.is_loose:
            return self._judge(now)
        self._n_refused = max(0, self._n_refused + (1 if in_use <= _FEW else -1))
        if is_binding and self._n_refused >= self._n_until_loose and self.size < self.cap:
            self._counted_since = None
            self._adopt(Findings(cuts=self.cuts + 1, loose=1))
            return True
        if not self._is_confirmed:
            return False
        ceiling = float(self.size if is_binding else max(1, min(self.size, self._peak)))
        base = max(1.0, ceiling * _DECREASE)
        self._adopt(Findings(cuts=self.cuts + 1, base=base, ceiling=ceiling))
        return True

    def _judge(self, now: float) -> bool:
        """See after some rounds of calls whether a loose window gets more done; if not, go back to the narrowest."""
        if self._counted_since is None:
            self._counted_since = now
        call_seconds, seconds = self.call_seconds or 0.0, now - self._counted_since
        if seconds < _TRIAL_ROUNDS * call_seconds:
            return False
        is_taken = self._n_taken > 0  # where none ever was, nothing is known of how long calls take
        gets_more_done = is_taken and self._n_taken * call_seconds >= _MORE_DONE * seconds
        self._counted_since, self._n_taken = now, 0
        if gets_more_done:
            self._found = attrs.evolve(self._found, loose=2)
            return False
        self._n_refused, self._n_until_loose = 0, 2 * self._n_until_loose
        self._adopt(Findings(cuts=self.cuts + 1, base=1.0, ceiling=1.0))
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
        loose = max((found.loose for found in same if found.base == self._found.base), default=0)
        if loose > self._found.loose:
            self._found = attrs.evolve(self._found, loose=loose)
        self._grown_elsewhere = sum(found.grown for found in same)

    def _adopt(self, found: Findings) -> None:
        self._found = found
        self._grown = self._grown_elsewhere = 0.0
        self._peak, self._n_taken, self._is_confirmed = 0, 0, False
