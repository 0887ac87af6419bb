"""What a caller of an endpoint has in hand: its turn in the order of arrival, and the place of each of its tries."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias, final

import attrs
import trio

if TYPE_CHECKING:
    from agentcompass.net.limits import EndpointLimiter

Waiting: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Entered as long as a caller has to wait."""


class PauseTooLongError(Exception):
    """The endpoint asked everybody to wait for longer than this caller can.

    Args:
        seconds: What is left of the wait that was asked for.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the endpoint asked all callers to wait for {seconds:.0f} s")
        self.seconds = seconds


@attrs.define(eq=False)
class Turn:
    """The place of one call in the order of arrival, for all its tries."""

    number: int
    taken: int
    """Calls that the endpoint had taken when it refused this one for the last time, or when this one began."""


@attrs.define(eq=False)
class Entry:
    """One try that was let in: what was known then."""

    number: int
    cuts: int
    pauses: int
    at: float


@attrs.define(eq=False)
class Waiter:
    """A caller in the line; exactly one of `entry` and `refusal` is set when it is woken for good."""

    tokens: float
    patience_seconds: float
    wake: trio.Event = attrs.field(factory=trio.Event)
    alarm: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    entry: Entry | None = None
    refusal: PauseTooLongError | None = None
    has_left: bool = False


@final
class Line:
    """Those who wait, in the order of their turns."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Waiter]] = []
        self._count = itertools.count()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Waiter]:
        """In no order."""
        return iter([waiter for _, _, waiter in self._heap if not waiter.has_left])

    def join(self, turn: Turn, waiter: Waiter) -> None:
        """Add somebody, before those who came later."""
        heapq.heappush(self._heap, (turn.number, next(self._count), waiter))
        self._size += 1

    def leave(self, waiter: Waiter) -> None:
        """Take somebody out, wherever they stand."""
        waiter.has_left = True  # dropped when it comes first
        self._size -= 1

    def first(self) -> Waiter | None:
        """Return who is next; None if nobody waits."""
        while self._heap and self._heap[0][2].has_left:
            heapq.heappop(self._heap)
        return self._heap[0][2] if self._heap else None


@final
class Place:
    """Permission for one try; see `EndpointLimiter.place`."""

    def __init__(
        self,
        limiter: EndpointLimiter,
        turn: Turn,
        tokens: float,
        patience_seconds: float,
        waiting: Waiting,
    ) -> None:
        self._limiter, self._turn, self._tokens = limiter, turn, tokens
        self._patience_seconds, self._waiting = patience_seconds, waiting
        self._entry: Entry | None = None

    async def __aenter__(self) -> Place:
        self._entry = await self._limiter.enter(
            self._turn, self._tokens, self._patience_seconds, self._waiting
        )
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._limiter.leave(self._given)

    @property
    def _given(self) -> Entry:
        assert self._entry is not None, "entered first"
        return self._entry

    def succeeded(self) -> None:
        """The endpoint took the call."""
        self._limiter.succeeded(self._given)

    def refused(self, asked_seconds: float | None) -> bool:
        """The endpoint said "too many"; see `EndpointLimiter.refused`."""
        self.used(0.0)
        return self._limiter.refused(self._given, self._turn, asked_seconds)

    def pause(self, seconds: float) -> None:
        """The endpoint wants to be left alone for so long, for another reason than too many calls."""
        self._limiter.pause(seconds)

    def used(self, tokens: float) -> None:
        """So many tokens were used, in place of those that were said before; also after the place was given back."""
        self._limiter.correct(tokens - self._tokens)
        self._tokens = tokens
