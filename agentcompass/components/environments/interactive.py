"""Interactive programs of `host_process`."""

from __future__ import annotations

from typing import final

import trio

from agentcompass.components.base import KiB
from agentcompass.components.environments import pipes
from agentcompass.components.environments.trees import Tree

END_OF_INPUT = b"\x04"
"""What a terminal in its usual mode takes for end-of-file (Ctrl-D)."""
LAST_OUTPUT_SECONDS = 0.1


@final
class Program:
    """A `components.base.Process` on this machine.

    Args:
        tree: The program's processes; who made it ends it.
        streams: Its standard streams; who made them closes them.
    """

    def __init__(self, tree: Tree, streams: pipes.Streams) -> None:
        self._tree = tree
        self._streams = streams
        self._unread = b""

    async def send(self, data: bytes) -> None:
        """Write to its standard input.

        Raises:
            BrokenPipeError: It has closed its standard input.
            trio.ClosedResourceError: `close_stdin` was called.
        """
        await trio.lowlevel.checkpoint()
        if self._streams.stdin < 0:
            raise trio.ClosedResourceError
        await pipes.write(self._streams.stdin, data)

    async def close_stdin(self) -> None:
        """Send end-of-file; a terminal stays open for output, and for more input."""
        if self._streams.tty is not None:
            await self.send(END_OF_INPUT)
        else:
            await trio.lowlevel.checkpoint()
            self._streams.close_stdin()

    async def receive(self, max_bytes: int = 64 * KiB) -> bytes:
        """Return the next output; empty at its end, or when the program has ended and only what it left holds it open."""
        await trio.lowlevel.checkpoint()
        if not self._unread:
            await self._read()
        data, self._unread = self._unread[:max_bytes], self._unread[max_bytes:]
        return data

    async def _read(self) -> None:
        async with trio.open_nursery() as nursery:

            async def stop_after_end() -> None:
                await self._tree.ended()
                nursery.cancel_scope.deadline = trio.current_time() + LAST_OUTPUT_SECONDS

            nursery.start_soon(stop_after_end)
            # Kept at once: cancellation may come before this block is left.
            self._unread = await pipes.read(self._streams.stdout)
            nursery.cancel_scope.cancel(reason="output has come")

    async def resize(self, rows: int, columns: int) -> None:
        """Change the size of its terminal, if it has one."""
        await trio.lowlevel.checkpoint()
        if self._streams.tty is not None:
            pipes.set_size(self._streams.stdout, rows, columns)

    async def wait(self) -> int:
        """Wait for its end; return the exit code as in `ExecResult`."""
        return await self._tree.wait()
