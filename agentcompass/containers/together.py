"""Several things at once, of which the first failure counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def together(*work: Callable[[], Awaitable[T]], at_once: int | None = None) -> list[T]:
    """Do all of it side by side and return the results in order.

    Args:
        work: What is to be done.
        at_once: So many of it at a time; None: all.

    Raises:
        Exception: The first that failed, as itself and not in a group; the others were cancelled, and awaited.
    """
    results: dict[int, T] = {}
    failures: list[Exception] = []
    places = trio.CapacityLimiter(at_once or max(1, len(work)))

    async def one(number: int, function: Callable[[], Awaitable[T]]) -> None:
        try:
            async with places:
                results[number] = await function()
        except Exception as error:  # noqa: BLE001  # raised below, outside the nursery, which would wrap it
            failures.append(error)
            nursery.cancel_scope.cancel(reason="something beside it failed")

    async with trio.open_nursery() as nursery:
        for number, function in enumerate(work):
            nursery.start_soon(one, number, function)
    if failures:
        raise failures[0]
    return [results[number] for number in range(len(work))]
