"""When everybody leaves an endpoint alone: because it asked for that, or because it refused a call. Pure."""

from __future__ import annotations

import math
import random
from typing import Final, final

from agentcompass.net.retry import Uniform

_GROWTH: Final = 4.0
"""With each further one while no call succeeds: five of them span more than the minute by which endpoints count."""
_KNOWN: Final = 20
"""So many pauses are all as long as the first, at an endpoint that is known to refuse some calls and to take others."""
_TRUST: Final = 2
"""So many refusals later, a time that the endpoint names is no longer believed to be enough."""


@final
class Pauses:
    """The pause of all callers of one endpoint. All times are seconds of one clock.

    Args:
        first_seconds: After a refusal that names no time, at most.
        longest_seconds: However many there were.
        random: Where chance comes from: users of an endpoint on several machines should not come back together.
    """

    def __init__(
        self,
        *,
        first_seconds: float = 0.5,
        longest_seconds: float = 60.0,
        random: Uniform = random,
    ) -> None:
        self.resume_at = -math.inf
        """When calls may go out again."""
        self.number = 0
        """Pauses so far: calls that went out before one do not make the next one longer."""
        self._first_seconds, self._longest_seconds = first_seconds, longest_seconds
        self._random = random
        self._streak = 0

    def left_seconds(self, now: float) -> float:
        """Return how long nobody may call; 0 when there is no pause."""
        return max(0.0, self.resume_at - now)

    @property
    def is_refused(self) -> bool:
        """Whether the endpoint has taken no call since it last refused one."""
        return self._streak > 0

    @property
    def is_at_length(self) -> bool:
        """Whether there were more pauses without a success than chance explains."""
        return self._streak > _KNOWN

    def succeeded(self) -> None:
        """The endpoint took a call."""
        self._streak = 0

    def refused(self, number: int, asked_seconds: float | None, *, is_known: bool = False) -> float:
        """Return how long everybody should wait after a refusal.

        Args:
            number: Of pauses when the refused call went out.
            asked_seconds: What the endpoint asked for; None if it did not say.
            is_known: Whether the endpoint is known to refuse some calls and to take others.
        """
        asked = asked_seconds or 0.0
        if number != self.number:
            return asked
        self.number += 1
        self._streak += 1
        unexplained = self._streak - 1 - (_KNOWN if is_known else 0)
        if asked_seconds is None:
            return self._own_seconds(max(0, unexplained))
        return max(asked, self._own_seconds(unexplained - _TRUST)) if unexplained > 0 else asked

    def extend(self, until: float, now: float) -> bool:
        """Let nobody in before a time; return whether that is news."""
        if until <= max(self.resume_at, now):
            return False
        self.resume_at = until
        return True

    def _own_seconds(self, exponent: int) -> float:
        longest = min(self._longest_seconds, self._first_seconds * _GROWTH ** min(exponent, 16))
        return self._random.uniform(0.5 * longest, longest)
