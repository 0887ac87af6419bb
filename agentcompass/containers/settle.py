"""Making things that must not be left behind: an answer is awaited even by whoever is cancelled, and then undone.

An engine carries out a request whether or not somebody waits for the answer: a create that was abandoned makes its
container all the same, after the removal that was to prevent it has found nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar

import trio

from agentcompass.containers.errors import DockerError

T = TypeVar("T")

UNDO_SECONDS: Final = 30.0
"""For all that is still done once a task is cancelled, unless the connection to the engine says otherwise."""


async def beside(work: Callable[[], Awaitable[T]], *background: Callable[[], Awaitable[None]]) -> T:
    """Return what `work` returns or raise what it raises, as itself; meanwhile the background runs, and ends with it.

    Args:
        work: What counts.
        background: Tasks that raise nothing but `trio.Cancelled`.
    """
    result: list[T] = []
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        for task in background:
            nursery.start_soon(task)
        try:
            result.append(await work())
        except Exception as error:  # noqa: BLE001  # raised below, outside the nursery, which would wrap it
            failure = error
        nursery.cancel_scope.cancel(reason="the work is done")
    if failure is not None:
        raise failure
    return result[0]


async def settled(ask: Callable[[], Awaitable[T]], *, seconds: float = UNDO_SECONDS / 2) -> T:
    """Return what `ask` returns or raise what it raises, also when the task is cancelled meanwhile.

    Args:
        ask: Asks the engine.
        seconds: How long the answer is still awaited once the task is cancelled.

    Raises:
        trio.Cancelled: Before it was asked; or there was no answer within `seconds` after the cancellation.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    scope = trio.CancelScope(shield=True)

    async def hasten() -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            # Swallowed: whoever asked must have the answer first, and meets the cancellation at its next step.
            scope.deadline = trio.current_time() + seconds

    async def shielded() -> list[T]:
        with scope:
            return [await ask()]
        return []

    answer = await beside(shielded, hasten)
    if not answer:
        await trio.lowlevel.checkpoint_if_cancelled()
    return answer[0]


async def made(
    make: Callable[[], Awaitable[T]],
    undo: Callable[[], Awaitable[object]],
    *,
    seconds: float = UNDO_SECONDS,
) -> T:
    """Return what `make` returns; if the task is cancelled meanwhile, `undo` it before the cancellation goes on.

    Args:
        make: Asks the engine for something.
        undo: Has it removed.
        seconds: For both once the task is cancelled: one half for the answer, the other for undoing.

    Raises:
        DockerError: As of `make`. After `engine-timeout` and `engine-lost` it may have been made all the same: whoever
            keeps a list of what to remove keeps it there.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    try:
        result = await settled(make, seconds=seconds / 2)
        await trio.lowlevel.checkpoint_if_cancelled()
    except DockerError:
        raise
    except BaseException:
        # What cannot be undone is left to the list of whoever chose its name.
        with trio.move_on_after(seconds / 2, shield=True), suppress(DockerError):
            await undo()
        raise
    return result
