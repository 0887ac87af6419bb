"""Namespaces of one session: a keeper of its own runs in them as their first process, and starts the commands there.

```
engine
keeper                             outside, one for each environment
└── guard                          outside: kills everything below when it is asked to, or when the engine ends
    └── bwrap                      outside: its end is the end of the namespaces (--die-with-parent)
        └── keeper                 process 1 inside: no signal from inside reaches it
            └── guard              inside, one for each command; can be killed, but not traced, by commands
                └── the command and whatever it starts
```

One long-lived enclosure instead of one for each command: later commands see what earlier ones left running, by pid
and on the loopback network; and a command costs no more than without. That nothing is left is not for the inside
to say: if a guard in there does not answer, the namespaces are ended from outside, and the kernel kills all in them.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Sequence
from typing import final

import trio

from agentcompass.components.base import KiB
from agentcompass.components.environments import pipes
from agentcompass.components.environments.place import OpenPlace
from agentcompass.components.environments.trees import Command, Keeper, Tree, send_fds
from agentcompass.components.inlet import cannot_listen
from agentcompass.errors import SandboxError

START_SECONDS = 60.0
"""For the namespaces and their keeper to come up; it takes some 25 ms on a machine that is not overloaded."""
OWN_PROCESSES = 2
"""That are in every enclosure: bwrap and the keeper."""
READY, TERMINAL, LISTENER = b"r", b"t", b"l"
"""What is said on the control socket, beside what every keeper understands."""


@final
class Enclosure:
    """A `place.Place` whose processes see each other only. One task at a time opens or ends it; many start commands.

    Args:
        keeper: Starts bwrap.
        command: The bwrap that runs the inner keeper; the session's workspace is locked while it lives.
        fallback: Finds by their mark what a guard left that was itself killed, by somebody on this machine.
    """

    is_sealed = True

    def __init__(self, keeper: Keeper, command: Command, fallback: OpenPlace) -> None:
        self._keeper, self._command, self._fallback = keeper, command, fallback
        self._lock = trio.Lock()
        self._asking = trio.Lock()
        self._tree: Tree | None = None
        self._control: socket.socket | None = None

    async def open(self) -> None:
        """Make the namespaces, unless they are there.

        Raises:
            SandboxError: They could not be made (code `isolation-failed`).
        """
        await self._running()

    async def start(self, tree: Tree, command: Command, fds: Sequence[int]) -> None:
        """Start a command inside; in new namespaces if something has ended them."""
        try:
            await tree.ask_for_guard(await self._running())
        except ConnectionError:
            await self.sweep()
            await tree.ask_for_guard(await self._running())
        await tree.request(command, fds)

    async def terminal(self) -> tuple[int, int, bytes]:
        """Make a terminal of the namespaces' own; one of the machine's could not be found inside by its path.

        Raises:
            SandboxError: There is none left (code `no-terminal`).
        """
        path, fds = await self._ask(TERMINAL)
        if len(fds) != 2:
            raise SandboxError("the sandbox has no terminal left", code="no-terminal")
        return fds[0], fds[1], path

    async def listen(self) -> socket.socket:
        """Listen in the namespaces, on their own loopback device where they have one.

        Raises:
            SandboxError: There is no socket or port left (code `cannot-listen`).
        """
        _port, fds = await self._ask(LISTENER)
        if not fds:
            raise cannot_listen("there is no socket or port left")
        listening = socket.socket(fileno=fds[0])
        listening.setblocking(False)
        return listening

    async def _ask(self, what: bytes) -> tuple[bytes, list[int]]:
        """Ask the inner keeper for descriptors; return what it says of them too."""
        async with self._asking:
            control = await self._running()
            with trio.fail_after(START_SECONDS):
                await send_fds(control, what, [])
                await trio.lowlevel.wait_readable(control)
            said, fds, _flags, _address = socket.recv_fds(control, 4 * KiB, 2)
        for fd in fds:
            os.set_inheritable(fd, False)
        return said, fds

    async def sweep(self) -> int:
        """End the namespaces, and so every process in them; the next command gets new ones."""
        async with self._lock:
            tree, control = self._tree, self._control
            self._tree = self._control = None
            if control is not None:
                trio.lowlevel.notify_closing(control)
                control.close()
            if tree is None:
                return 0
            return await self._end(tree)

    async def close(self) -> None:
        """The same."""
        await self.sweep()

    async def _running(self) -> socket.socket:
        async with self._lock:
            if self._control is None:
                self._tree, self._control = await self._launch()
            return self._control

    async def _launch(self) -> tuple[Tree, socket.socket]:
        tree = Tree()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        streams = pipes.for_helper(theirs.detach())
        try:
            await self._keeper.start(tree, self._command, streams.child)
            streams.close_child()
            await _await_ready(ours, streams.stdout)
        except BaseException:
            ours.close()
            # What cannot be killed now must not hide why.
            with contextlib.suppress(SandboxError):
                await self._end(tree)
            raise
        finally:
            streams.close()
        return tree, ours

    async def _end(self, tree: Tree) -> int:
        try:
            count = max(0, await tree.kill() - OWN_PROCESSES)
        finally:
            tree.close()
        return count if tree.is_over else count + await self._fallback.sweep()


async def _await_ready(control: socket.socket, errors: int) -> None:
    """Wait for the inner keeper's word, or for its end, and then for what bwrap has to say about it."""
    said = b""
    with trio.move_on_after(START_SECONDS):
        await trio.lowlevel.wait_readable(control)
        with contextlib.suppress(ConnectionError):
            said = control.recv(1)
        if said == READY:
            return
    reason = b""
    with trio.move_on_after(1):
        while len(reason) < 4 * KiB and (data := await pipes.read(errors)):
            reason += data
    text = reason.decode(errors="replace").strip() or "no reason was given"
    raise SandboxError(f"no namespaces could be made: {text}", code="isolation-failed")
