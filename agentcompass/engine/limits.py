"""What attempts share: the rate at which sandboxes are opened, and threads for calls that may not come back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import attrs
import trio

_ENOUGH = 1 - 1e-9
"""A token, but for floating error: waiting for the last 1e-12 of one would sleep 0 seconds for ever."""


@final
class TokenBucket:
    """At most `rate_per_second` starts a second, in the order of asking, without bursts.

    A token is taken only when it is there, so a waiter that is cancelled uses none up.

    Args:
        rate_per_second: Greater than 0.
    """

    def __init__(self, rate_per_second: float) -> None:
        self.rate_per_second = rate_per_second
        self._tokens = 1.0
        self._filled_at = -1.0
        self._turn = trio.StrictFIFOLock()

    async def take(self) -> None:
        """Wait for a token and take it."""
        async with self._turn:
            while (tokens := self._refilled()) < _ENOUGH:  # noqa: ASYNC110  # time is what is waited for
                await trio.sleep((1 - tokens) / self.rate_per_second)
            self._tokens -= 1.0

    def _refilled(self) -> float:
        now = trio.current_time()
        if self._filled_at >= 0:
            elapsed = now - self._filled_at
            self._tokens = min(1.0, self._tokens + elapsed * self.rate_per_second)
        self._filled_at = now
        return self._tokens


@final
@attrs.define(eq=False)
class Limits:
    """The limits of one orchestration beside its slots. One object may be shared by several runs of one loop."""

    open_rates: Mapping[str, TokenBucket]
    """By environment id; absent means no limit."""
    component_threads: trio.CapacityLimiter
    """For methods of components that are plain functions: these may hang, and then keep their thread."""
    file_threads: trio.CapacityLimiter
    """For short file work of our own."""

    @classmethod
    def create(cls, env_open_qps: Mapping[str, float], task_concurrency: int) -> Limits:
        """Make the limits for settings as in SPEC section 4."""
        return cls(
            open_rates={name: TokenBucket(rate) for name, rate in env_open_qps.items() if rate > 0},
            component_threads=trio.CapacityLimiter(max(16, 2 * task_concurrency)),
            file_threads=trio.CapacityLimiter(8),
        )
