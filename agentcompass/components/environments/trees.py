"""The engine's end of the keeper: process trees that can be started, awaited and ended without a trace.

`keeper.py` draws the processes and the protocol.
"""

from __future__ import annotations

import contextlib
import functools
import marshal
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import final

import trio

from agentcompass import descriptors
from agentcompass.data import frozen
from agentcompass.errors import SandboxError

START_SECONDS = 60.0
"""For the keeper to start; it takes some 20 ms on a machine that is not overloaded."""
KILLED = 137
"""The exit code of a command that `Tree.kill` ended: 128 + SIGKILL."""
KILL_SECONDS = 8.0
"""For a guard to confirm that its tree is dead: more than the guard gives itself."""


@frozen(kw_only=True)
class Command:
    """A program to start, as the operating system wants it."""

    argv: Sequence[bytes]
    env: Mapping[bytes, bytes]
    cwd: bytes
    workspace: bytes | None
    """The directory that is locked while the tree lives; None: another tree locks it."""
    limits: Sequence[tuple[int, int]] = ()
    """Pairs of a resource limit's number and its value, hard and soft."""
    tty: bytes | None = None
    """The terminal that becomes the controlling one."""


@final
class Keeper:
    """Starts process trees by way of one small process, itself started when first needed.

    It ends with this object or with the engine's process, whichever ends first, and so do all its trees.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None

    def ensure(self, failed: socket.socket | None = None) -> socket.socket:
        """Return the line to a running keeper, starting one if there is none; blocks, so call it in a thread.

        Args:
            failed: A line that turned out to be dead.

        Raises:
            SandboxError: The keeper cannot be started.
        """
        with self._lock:
            if self._control is None or self._control is failed:
                self._control = self._launch()
            return self._control

    async def start(self, tree: Tree, command: Command, fds: Sequence[int]) -> None:
        """Start a command with `fds` as its standard streams; if this raises, closing the tree undoes it."""
        control = self._control
        if control is None:
            control = await trio.to_thread.run_sync(self.ensure)
        try:
            await tree.ask_for_guard(control)
        except ConnectionError:
            # Something killed the keeper: a new one takes over, and the trees that are there go on without it.
            await tree.ask_for_guard(await trio.to_thread.run_sync(self.ensure, control))
        await tree.request(command, fds)

    def _launch(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = str(Path(__file__).with_name("keeper.py"))
        numbers = (theirs.fileno(), os.getpid(), descriptors.given_limit())
        argv = [sys.executable, "-I", "-S", program, *map(str, numbers)]
        # Nothing of the host's environment, except what the dynamic linker may need to find libpython.
        env = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        with theirs:
            try:
                launched = subprocess.run(
                    argv,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,  # a Ctrl-C is not for it
                    timeout=START_SECONDS,
                    check=False,
                )
            except (OSError, subprocess.SubprocessError) as error:
                ours.close()
                raise _not_started(str(error)) from error
        if launched.returncode != 0:
            ours.close()
            raise _not_started(launched.stderr.decode(errors="replace").strip()[-500:])
        ours.setblocking(False)
        weakref.finalize(self, ours.close)
        return ours


@final
class Tree:
    """The processes of one command, by way of their guard."""

    def __init__(self) -> None:
        self._line: socket.socket | None = None
        self._lock = trio.Lock()
        self._unread = b""
        self._is_requested = False
        self._has_survivors = False
        self.returncode: int | None = None
        """Of the command itself: its exit code, 128 + n after signal n, None while it runs."""
        self.killed = 0
        """How many processes `end` found."""
        self.is_over = False
        """No process is left."""
        self.is_lost = False
        """The guard was killed, so nobody knows what is left."""

    async def ask_for_guard(self, control: socket.socket) -> None:
        """Make the line, and have a keeper fork a guard at its other end.

        Raises:
            ConnectionError: There is no keeper any more.
        """
        self.close()
        self._line, guard_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._line.setblocking(False)
        with guard_end:
            await send_fds(control, b"+", [guard_end.fileno()])

    async def request(self, command: Command, fds: Sequence[int]) -> None:
        """Tell the guard what to start."""
        body = marshal.dumps(
            {
                "argv": list(command.argv),
                "env": dict(command.env),
                "cwd": command.cwd,
                "workspace": command.workspace,
                "limits": list(command.limits),
                "tty": command.tty,
            }
        )
        data = memoryview(len(body).to_bytes(8, "little") + body)
        line = self._line
        if line is None:
            raise trio.ClosedResourceError
        # A guard that hangs up now is noticed by whoever waits for the command.
        with contextlib.suppress(ConnectionError):
            sent = await send_fds(line, data[:32768], fds)
            while sent < len(data):
                rest = data[sent:]
                sent += await when_ready(line, functools.partial(line.send, rest))
        self._is_requested = True

    @property
    def is_running(self) -> bool:
        """Whether the command itself still runs, as far as is known."""
        return self.returncode is None and not self.is_lost

    async def ended(self) -> None:
        """Wait until the command itself has ended, or its guard has been killed."""
        await self._until(lambda: not self.is_running)

    async def wait(self) -> int:
        """Wait for the command itself and return its exit code.

        Raises:
            SandboxError: The guard was killed (code `sandbox-died`).
        """
        await self.ended()
        if self.returncode is None:
            raise SandboxError(
                "the process that keeps this sandbox's commands was killed from inside",
                code="sandbox-died",
            )
        return self.returncode

    async def end(self) -> None:
        """Kill every process of the tree, as far as that is possible within `KILL_SECONDS`; usually milliseconds.

        Shielded, since it is what cancellation waits for.
        """
        if not self._is_requested:
            self.close()
            self.is_over = True
            return
        with trio.CancelScope(shield=True, deadline=trio.current_time() + KILL_SECONDS):
            if self._line is not None and not self.poll():
                with contextlib.suppress(OSError):
                    self._line.send(b"k")
            await self._until(lambda: self._has_survivors)

    async def kill(self) -> int:
        """Do the same and return how many processes there were.

        Raises:
            SandboxError: Something could not be killed (code `processes-left`).
        """
        await self.end()
        if self._has_survivors or not self._is_silent():
            raise SandboxError(
                "processes of the sandbox could not be killed", code="processes-left"
            )
        return self.killed

    def poll(self) -> bool:
        """Whether no process is left, without waiting."""
        while not self.is_over and not self.is_lost and self._take():
            pass
        return self.is_over

    def hand_over(self, fds: Sequence[int]) -> None:
        """Let the guard drain pipes that nobody reads any more, so that background processes do not fail on them."""
        if self._line is not None and fds:
            with contextlib.suppress(OSError):
                socket.send_fds(self._line, [b"d"], fds)

    def close(self) -> None:
        """Hang up: whatever the guard still has, it kills."""
        if self._line is not None:
            trio.lowlevel.notify_closing(self._line)
            self._line.close()
            self._line = None

    async def _until(self, is_done: Callable[[], bool]) -> None:
        """Read what the guard says until `is_done`, or until it has no more to say."""
        while not (is_done() or self._is_silent()):
            async with self._lock:
                line = self._line
                if is_done() or self._is_silent() or self._take() or line is None:
                    continue
                # Closed by another task: seen in the next round.
                with contextlib.suppress(trio.ClosedResourceError):
                    await trio.lowlevel.wait_readable(line)

    def _is_silent(self) -> bool:
        return self.is_over or self.is_lost

    def _take(self) -> bool:
        """Read once; False if there is nothing to read yet."""
        if self._line is None:
            self.is_lost = True
            return True
        try:
            data = self._line.recv(4096)
        except BlockingIOError:
            return False
        except ConnectionError:
            data = b""
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._hear(line)
        if not data and not self.is_over:
            self.is_lost = True
        return True

    def _hear(self, line: bytes) -> None:
        verb, *numbers = line.split()
        if verb == b"exit":
            self.returncode = int(numbers[0])
        elif verb == b"over":
            self.is_over = True
        else:
            self.killed = int(numbers[0])
            self._has_survivors = numbers[1] != b"0"
            self.is_over = not self._has_survivors
            if self.returncode is None:
                self.returncode = KILLED


def _not_started(detail: str) -> SandboxError:
    return SandboxError(
        f"the keeper of host processes cannot be started: {detail}", code="keeper-failed"
    )


async def send_fds(sock: socket.socket, data: bytes | memoryview, fds: Sequence[int]) -> int:
    """Send bytes with descriptors; return how many bytes have gone."""
    return await when_ready(sock, lambda: socket.send_fds(sock, [data], fds))


async def when_ready(sock: socket.socket, send: Callable[[], int]) -> int:
    """Do what sends on a non-blocking socket as soon as it can be done."""
    while True:
        try:
            return send()
        except BlockingIOError:
            await trio.lowlevel.wait_writable(sock)
