"""What attempts share: the rate at which sandboxes are opened, and threads for calls that may not come back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import final

import attrs
import trio


@final
class TokenBucket:
    """At most `rate_per_second` starts a second, in the order of asking, without bursts.

    Whoever waits inside takes a token only when it is there, so one that is cancelled uses none up. Whoever can do
    something else meanwhile looks at `ready_at` and then takes one.

    Args:
        rate_per_second: Greater than 0.
    """

    def __init__(self, rate_per_second: float) -> None:
        self.ready_at = -math.inf
        """When there is a token, in trio time."""
        self._interval = 1 / rate_per_second
        self._turn = trio.StrictFIFOLock()

    async def take(self) -> None:
        """Wait for a token and take it."""
        async with self._turn:
            while self.ready_at > trio.current_time():  # noqa: ASYNC110  # another may have been quicker
                await trio.sleep_until(self.ready_at)
            self.take_now()

    def take_now(self) -> None:
        """Take the token; only when `ready_at` has come."""
        self.ready_at = trio.current_time() + self._interval


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
