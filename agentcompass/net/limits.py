"""How many calls an endpoint takes at once: found out by trying, as TCP finds the width of a network.

Additive increase, multiplicative decrease: while calls succeed and the limit binds, it grows by a constant for
every round of calls; when the endpoint says "too many", it is halved, once for all calls of that round.

Source: D. Chiu, R. Jain, "Analysis of the increase and decrease algorithms for congestion avoidance", 1989.
"""

from __future__ import annotations

import math
from collections import deque
from types import TracebackType
from typing import Final, final

import attrs
import trio

_DECREASE: Final = 0.5
_ROUNDS_TO_CAP: Final = 32
"""Rounds of calls in which the limit can grow from nothing to its cap."""


class PauseTooLongError(Exception):
    """The endpoint asked everybody to wait for longer than this caller can.

    Args:
        seconds: What is left of the wait that was asked for.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the endpoint asked all callers to wait for {seconds:.0f} s")
        self.seconds = seconds


@attrs.define(eq=False)
class _Waiter:
    """A caller in the queue; exactly one of `round` and `refusal` is set when it is woken for good."""

    patience_seconds: float
    wake: trio.Event = attrs.field(factory=trio.Event)
    alarm: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    round: int | None = None
    """The round in which it was let in."""
    refusal: PauseTooLongError | None = None


@final
class EndpointLimiter:
    """Lets callers in, first come first served, as many at once as the endpoint has shown to take.

    Args:
        cap: Most calls at once, >= 1; where it starts.
    """

    def __init__(self, cap: int) -> None:
        if cap < 1:
            raise ValueError(f"at least one call must be allowed, not {cap}")
        self.cap: Final = cap
        self._limit = float(cap)
        self._step = max(1.0, cap / _ROUNDS_TO_CAP)
        self._in_use = 0
        self._round = 0
        """Number of cuts so far: calls that began before the last cut do not cause another."""
        self._resume_at = -math.inf
        self._queue: deque[_Waiter] = deque()

    @property
    def limit(self) -> int:
        """Calls that may be in flight at once, 1..cap."""
        return int(self._limit)

    @property
    def in_use(self) -> int:
        """Calls in flight."""
        return self._in_use

    @property
    def waiting(self) -> int:
        """Callers in the queue."""
        return len(self._queue)

    @property
    def pause_seconds(self) -> float:
        """How long nobody will be let in; 0 when there is no pause."""
        return max(0.0, self._resume_at - trio.current_time())

    def place(self, patience_seconds: float = math.inf) -> Place:
        """Return a place, to be taken with `async with`.

        Args:
            patience_seconds: The longest pause, as asked by the endpoint, that is worth waiting for. Waiting for
                other callers is not limited by it.

        Raises:
            PauseTooLongError: On entering: the endpoint asked for a longer pause.
            trio.Cancelled: On entering: no place was taken.
        """
        return Place(self, patience_seconds)

    async def enter(self, patience_seconds: float) -> int:
        """Wait for a place and return the number of its round; see `place`, which gives it back too."""
        await trio.lowlevel.checkpoint_if_cancelled()
        waiter = _Waiter(patience_seconds=patience_seconds)
        self._queue.append(waiter)
        self._settle()
        try:
            while not waiter.wake.is_set():
                with trio.CancelScope() as waiter.alarm:
                    self._settle()  # whoever is first in the queue wakes by itself when a pause ends
                    await waiter.wake.wait()
                self._settle()
        except BaseException:
            self._withdraw(waiter)
            raise
        if waiter.round is None:
            raise waiter.refusal or AssertionError("woken for nothing")
        return waiter.round

    def _withdraw(self, waiter: _Waiter) -> None:
        if waiter.round is not None:
            self.leave()
        elif waiter.refusal is None:
            self._queue.remove(waiter)
            self._settle()

    def leave(self) -> None:
        """Give a place back."""
        self._in_use -= 1
        self._settle()

    def _settle(self) -> None:
        """Let in whom the limit allows; during a pause refuse whom it is too long for, and set the alarm."""
        if trio.current_time() < self._resume_at:
            self._refuse_impatient()
            if self._queue:
                self._queue[0].alarm.deadline = self._resume_at
            return
        while self._queue and self._in_use < self.limit:
            waiter = self._queue.popleft()
            self._in_use += 1
            waiter.round = self._round
            waiter.wake.set()

    def _refuse_impatient(self) -> None:
        pause = self.pause_seconds
        impatient = [waiter for waiter in self._queue if waiter.patience_seconds < pause]
        for waiter in impatient:
            self._queue.remove(waiter)
            waiter.refusal = PauseTooLongError(pause)
            waiter.wake.set()

    def grow(self) -> None:
        """A call succeeded: if the limit binds, raise it so that a round of such calls adds one step."""
        if self._queue or self._in_use >= self.limit:
            self._limit = min(float(self.cap), self._limit + self._step / self._limit)
            self._settle()

    def cut(self, round_number: int, pause_seconds: float) -> None:
        """A call of a round was refused: halve what is in use, once a round, and let nobody in for a while."""
        if round_number == self._round:
            self._round += 1
            self._limit = max(1.0, min(self._limit, self._in_use) * _DECREASE)
        self._resume_at = max(self._resume_at, trio.current_time() + pause_seconds)
        self._settle()


@final
class Place:
    """Permission for one call; see `EndpointLimiter.place`."""

    def __init__(self, limiter: EndpointLimiter, patience_seconds: float) -> None:
        self._limiter = limiter
        self._patience_seconds = patience_seconds
        self._round = -1

    async def __aenter__(self) -> Place:
        self._round = await self._limiter.enter(self._patience_seconds)
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._limiter.leave()

    def succeeded(self) -> None:
        """The endpoint took the call: there may be room for more."""
        self._limiter.grow()

    def rate_limited(self, pause_seconds: float = 0.0) -> None:
        """The endpoint said "too many": fewer from now on, and nobody for `pause_seconds`."""
        self._limiter.cut(self._round, pause_seconds)
