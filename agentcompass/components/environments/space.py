"""Whether the file system of the sandboxes was full while a command ran: then its failure says nothing about the agent.

No command tells why it failed, and what filled the disk may be gone a moment later. So the file system is looked at
while commands run, by one of them for all: at least every `LONGEST_PAUSE`, and the sooner the less is free, so that
nothing that writes `FASTEST_BYTES` a second fills it between two looks. `LOW_BYTES` count as full, since a program
that needs more gives them back when it fails.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, final

import trio

from agentcompass.components.base import MiB

LOW_BYTES: Final = 16 * MiB
LOW_INODES: Final = 256
SMALL: Final = 16
"""Of a small file system, one part in so many counts as full, if that is less."""
FASTEST_BYTES: Final = 8192 * MiB
FASTEST_INODES: Final = 1_000_000
"""Per second: what a file system in memory takes, which is faster than any disk."""
LONGEST_PAUSE: Final = 0.5
SHORTEST_PAUSE: Final = 0.005
LOOK_SECONDS: Final = 5.0
"""A file system that does not answer for so long is not known to be full."""


@final
class DiskSpace:
    """What is known about the file system of an environment's sandboxes. Costs next to nothing while there is room.

    Args:
        root: Gives a directory of it; called in a thread.
    """

    def __init__(self, root: Callable[[], Path]) -> None:
        self._root = root
        self._turn = trio.Lock()
        self._threads = trio.CapacityLimiter(1)
        self._full_at = -math.inf
        self._next_look = -math.inf

    @contextmanager
    def watched(self, nursery: trio.Nursery) -> Iterator[None]:
        """Look at it while the block runs, in a task of the nursery that ends with the block."""
        scope = trio.CancelScope()
        nursery.start_soon(self._watch, scope)
        try:
            yield
        finally:
            scope.cancel(reason="nothing runs any more")

    async def was_full_since(self, moment: float) -> bool:
        """Whether it is full, or was seen full after a moment of trio's clock at which somebody watched."""
        with trio.move_on_after(LOOK_SECONDS):
            await self._look()
        return self.seen_full_since(moment)

    def seen_full_since(self, moment: float) -> bool:
        """The same as far as is known without another look."""
        return self._full_at >= moment

    async def _watch(self, scope: trio.CancelScope) -> None:
        with scope:
            async with self._turn:
                while True:
                    await trio.sleep_until(self._next_look)
                    await self._look()

    async def _look(self) -> None:
        await trio.to_thread.run_sync(
            self._note, trio.current_time(), abandon_on_cancel=True, limiter=self._threads
        )

    def _note(self, now: float) -> None:
        """Look; in the thread, so that a look that nobody waits for any more spares the next one."""
        pause = self._measure()
        if pause <= 0:
            self._full_at = now
        self._next_look = now + min(max(pause, SHORTEST_PAUSE), LONGEST_PAUSE)

    def _measure(self) -> float:
        """How many seconds it takes at least to become full: 0 or less if it is."""
        try:
            found = os.statvfs(self._root())
        except OSError:
            return math.inf  # gone, or not to be asked: that is not a full disk
        if not found.f_blocks:  # one that does not count
            return math.inf
        low = min(LOW_BYTES, found.f_blocks * found.f_frsize // SMALL)
        seconds = (found.f_bavail * found.f_frsize - low) / FASTEST_BYTES
        if found.f_files:  # some file systems make inodes as they need them
            low = min(LOW_INODES, found.f_files // SMALL)
            seconds = min(seconds, (found.f_favail - low) / FASTEST_INODES)
        return seconds
