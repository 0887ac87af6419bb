"""What a caller of an endpoint has in hand: its turn in the order of arrival, and the entry of each of its tries."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from typing import final

import attrs
import trio


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
