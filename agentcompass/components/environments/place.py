"""Where a session's commands run: among the machine's other processes, or in namespaces of their own (`enclosure.py`)."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from typing import Protocol, final

import trio
from trio.from_thread import check_cancelled

from agentcompass.components.environments import leftovers
from agentcompass.components.environments.trees import Command, Keeper, Tree
from agentcompass.components.inlet import listening_here


class Place(Protocol):
    """Starts the commands of one session, and answers for what their guards cannot."""

    is_sealed: bool
    """Nothing can leave it, so `sweep` ends whatever a command may have started."""

    async def open(self) -> None:
        """Be ready for commands.

        Raises:
            SandboxError: It cannot be made.
        """

    async def start(self, tree: Tree, command: Command, fds: Sequence[int]) -> None:
        """Start a command with `fds` as its standard streams; if this raises, closing the tree undoes it."""

    async def terminal(self) -> tuple[int, int, bytes]:
        """Make a terminal: our end, the command's, and the path by which a command finds it."""

    async def listen(self) -> socket.socket:
        """Return a non-blocking socket that listens on a port of 127.0.0.1, as commands see that.

        Raises:
            SandboxError: There is none left (code `cannot-listen`).
        """
        ...

    async def sweep(self) -> int:
        """End every process that is left, whatever became of its guard; return how many were found.

        Raises:
            SandboxError: Something could not be killed (code `processes-left`).
        """

    async def close(self) -> None:
        """The same, for good."""


@final
class OpenPlace:
    """The machine itself: a command sees, and can signal, every process of this user."""

    is_sealed = False

    def __init__(self, keeper: Keeper, lease_id: str, limiter: trio.CapacityLimiter) -> None:
        self._keeper, self._lease_id, self._limiter = keeper, lease_id, limiter

    async def open(self) -> None:
        """Nothing is to be made."""

    async def start(self, tree: Tree, command: Command, fds: Sequence[int]) -> None:
        """Start it by the environment's keeper."""
        await self._keeper.start(tree, command, fds)

    async def terminal(self) -> tuple[int, int, bytes]:
        """Make a terminal of the machine's."""
        return new_terminal()

    async def listen(self) -> socket.socket:
        """Listen on this machine."""
        return listening_here()

    async def sweep(self) -> int:
        """End what carries the lease's mark; see `leftovers`."""
        return await trio.to_thread.run_sync(
            leftovers.end, self._lease_id, check_cancelled, limiter=self._limiter
        )

    async def close(self) -> None:
        """Nothing was made."""


def new_terminal() -> tuple[int, int, bytes]:
    """Make a terminal: our end, the command's, and its path."""
    ours, theirs = os.openpty()
    return ours, theirs, os.fsencode(os.ttyname(theirs))
