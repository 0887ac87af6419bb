"""Commands in a running container, of which nothing is left after a time limit or a cancellation.

`run` is for commands that end, `program` for those that are talked to.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, final

import attrs
import trio

from agentcompass.containers import life, processes
from agentcompass.containers.attach import (
    CANNOT_START,
    KILLED,
    Attached,
    CommandState,
    ContainerCommand,
    attach,
)
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError, TimeLimit
from agentcompass.containers.frames import STDOUT
from agentcompass.containers.settle import beside
from agentcompass.data import frozen

MARK: Final = "AGENTCOMPASS_EXEC"
"""The variable that every process of a command inherits; its value is the command's own."""
TIMED_OUT: Final = 124
END_SECONDS: Final = 20.0
"""For killing what a command has started; the engine is asked about it some three times."""
_CHUNK: Final = 256 * 1024
_START_LOOK_SECONDS: Final = 0.25
"""How often it is looked whether a command has been started, since its time counts from then."""
_FIRST_PAUSE: Final = 0.01
_LOOK_SECONDS: Final = 0.5
"""How often it is looked whether the container of a command that goes on does so, too."""
_SETTLE_SECONDS: Final = 1.0
"""How much later than the end of its stream the engine may learn of a command's end."""

Sink = Callable[[bytes], object]
"""Takes output as it comes, in pieces of at most some 128 KiB; may not block."""


@final
@frozen(kw_only=True)
class Ended:
    """How a command ended."""

    exit_code: int
    """124 after its time limit; 126 or 127 if it could not be started; 128 + n if signal n has ended it."""
    timed_out: bool = False
    is_started: bool = True
    """False: the output is the engine's own words, which say why not."""
    n_killed: int = 0
    """Processes that the time limit has ended."""


async def run(
    docker: Docker,
    container: str,
    command: ContainerCommand,
    *,
    stdout: Sink,
    stderr: Sink,
    timeout: float | None = None,
    end_seconds: float = END_SECONDS,
) -> Ended:
    """Run a command to its end.

    What it leaves running in the background stays. After its time limit or cancellation nothing of it is left, its
    daemons included (see `processes.end_command`).

    Args:
        docker: The engine.
        container: Running.
        command: What to run.
        stdout: Gets the standard output.
        stderr: Gets the standard error; a terminal has none.
        timeout: Seconds, from the moment that the engine has started it, as near as a quarter of a second; None: no
            limit.
        end_seconds: For killing it, after the time limit and after cancellation; then at most `docker.undo_seconds`.

    Raises:
        DockerError: The container died or is not there (code `container-died`), the engine failed, or something could
            not be killed.
    """
    stdin = command.stdin
    async with _started(docker, container, command, end_seconds, bool(stdin)) as running:
        limit = trio.CancelScope()
        tasks = [partial(running.feed, stdin)] if stdin else []
        if timeout is not None:
            tasks.append(partial(running.watch_start, limit, max(0.0, timeout)))
        copy = partial(running.copy, stdout, stderr)
        with limit:
            state = await beside(copy, *tasks)
            is_unable = state.exit_code in CANNOT_START and running.attached.has_output
            is_started = running.attached.was_started or not is_unable
            return Ended(exit_code=state.exit_code, is_started=is_started)
        n_killed = await beside(running.end, partial(running.drain, stdout, stderr))
        return Ended(exit_code=TIMED_OUT, timed_out=True, n_killed=n_killed)


@asynccontextmanager
async def program(
    docker: Docker,
    container: str,
    command: ContainerCommand,
    *,
    stderr: Sink | None = None,
    end_seconds: float = END_SECONDS,
) -> AsyncIterator[Program]:
    """Start an interactive program; leaving the block ends it, with all that it has started.

    Args:
        docker: The engine.
        container: Running.
        command: What to run; `stdin` is not used.
        stderr: Gets the standard error while the output is read; None: it is discarded. A terminal has none.
        end_seconds: For killing it.

    Raises:
        DockerError: As of `run`.
    """
    async with _started(docker, container, command, end_seconds, True) as running:
        yield Program(running, stderr or (lambda _data: None))


@final
class Program:
    """An interactive program."""

    def __init__(self, running: _Running, stderr: Sink) -> None:
        self._running, self._stderr = running, stderr
        self._unread = b""

    async def send(self, data: bytes) -> None:
        """Write to its standard input.

        Raises:
            DockerError: It is over, or has closed its input (code `engine-lost`).
        """
        await self._running.attached.send(data)

    async def close_stdin(self) -> None:
        """Send end-of-file; a terminal stays open for output, and for more input."""
        await self._running.attached.send_eof()

    async def receive(self, max_bytes: int = 64 * 1024) -> bytes:
        """Return the next output; empty at its end."""
        while not self._unread:
            pieces = await self._running.attached.receive()
            if pieces is None:
                await self._running.ended(is_stream_over=True)
                return b""
            self._unread = b"".join(data for stream, data in pieces if stream == STDOUT)
            for stream, data in pieces:
                if stream != STDOUT:
                    self._stderr(data)
        data, self._unread = self._unread[:max_bytes], self._unread[max_bytes:]
        return data

    async def resize(self, rows: int, columns: int) -> None:
        """Change the size of its terminal."""
        await self._running.attached.started()
        await self._running.attached.resize(rows, columns)

    async def wait(self) -> int:
        """Wait for its end and return its exit code; one that fills its output waits for somebody to read it."""
        return (await self._running.ended()).exit_code


@asynccontextmanager
async def _started(
    docker: Docker,
    container: str,
    command: ContainerCommand,
    end_seconds: float,
    takes_stdin: bool,
) -> AsyncIterator[_Running]:
    mark = secrets.token_hex(16)
    marked = attrs.evolve(command, env={**command.env, MARK: mark})
    try:
        attached = await attach(docker, container, marked, takes_stdin=takes_stdin)
    except DockerError as error:
        if error.status is not None:
            await processes.check_alive(docker, container)  # its end is what there is to tell
        raise
    running = _Running(docker, container, attached, f"{MARK}={mark}", end_seconds)
    try:
        yield running
    except BaseException:
        # What cannot be ended now must not hide why; whoever removes the container ends it for certain.
        with suppress(DockerError):
            await running.end_for_certain()
        raise
    else:
        await running.end_for_certain()
    finally:
        await attached.aclose()


@final
class _Running:
    """A command that was started and may be running."""

    def __init__(
        self, docker: Docker, container: str, attached: Attached, mark: str, end_seconds: float
    ) -> None:
        self._docker, self._container = docker, container
        self.attached = attached
        self._mark, self._end_seconds = mark, end_seconds
        self._is_over = False
        self._is_given_up = False
        """The engine did not end it in time: asked again, it would only take that time once more."""

    async def feed(self, data: bytes) -> None:
        """Hand over its input; once it wants no more, the rest is dropped."""
        rest = memoryview(data)
        with suppress(DockerError):
            while rest:
                await self.attached.send(bytes(rest[:_CHUNK]))
                rest = rest[_CHUNK:]
            await self.attached.send_eof()

    async def watch_start(self, limit: trio.CancelScope, timeout: float) -> None:
        """Set a limit that counts from the command's start: a busy engine has many others to start before it."""
        begin = trio.current_time()
        with suppress(DockerError):
            while not self.attached.has_output:
                await trio.sleep(min(timeout, _START_LOOK_SECONDS))
                state = await self.attached.state(seconds=min(timeout, self._docker.call_seconds))
                if state.is_over or state.pid:
                    break
                begin = trio.current_time()
        limit.deadline = begin + timeout

    async def copy(self, stdout: Sink, stderr: Sink) -> CommandState:
        """Hand out its output, and return how it ended."""
        while (pieces := await self.attached.receive()) is not None:
            for stream, data in pieces:
                (stdout if stream == STDOUT else stderr)(data)
        return await self.ended(is_stream_over=True)

    async def drain(self, stdout: Sink, stderr: Sink) -> None:
        """Hand out what is left of its output while it is being ended."""
        with suppress(DockerError):
            while (pieces := await self.attached.receive()) is not None:
                for stream, data in pieces:
                    (stdout if stream == STDOUT else stderr)(data)

    async def ended(self, *, is_stream_over: bool = False) -> CommandState:
        """Wait for its end.

        Args:
            is_stream_over: Its output has ended. An engine keeps that open as long as the command runs, even if the
                command closes its own side; so one that goes on has lost its connection, and output with it.

        Raises:
            DockerError: The container has ended (code `container-died`), or the connection (`engine-lost`).
        """
        now = trio.current_time()
        settled_at = now + (_SETTLE_SECONDS if is_stream_over else math.inf)
        next_look, pause = now + _LOOK_SECONDS, _FIRST_PAUSE
        while True:
            now = trio.current_time()
            state = await self._state()
            if state.is_over:
                break
            if now >= next_look:
                await life.running(self._docker, self._container)
                next_look = now + _LOOK_SECONDS
            if now >= settled_at:
                raise DockerError(
                    "the connection to the engine was closed while a command ran",
                    code="engine-lost",
                )
            await trio.sleep(pause)
            pause = min(2 * pause, _LOOK_SECONDS)
        # What failed may have done so since the container ends, and then it is nothing that the command did. Elsewhere
        # it takes a while until that is seen; there only those are looked at of which it is likely.
        if state.exit_code in (*CANNOT_START, KILLED) or (state.exit_code and self._docker.is_here):
            await processes.check_alive(self._docker, self._container)
        self._is_over = True
        return state

    async def _state(self) -> CommandState:
        try:
            return await self.attached.state()
        except DockerError as error:
            if error.status is not None:
                await processes.check_alive(self._docker, self._container)
            raise

    async def end_for_certain(self) -> None:
        """End it if it is not over, even when the task is cancelled."""
        if self._is_over or self._is_given_up:
            return
        self._end_seconds = min(self._end_seconds, self._docker.undo_seconds)
        with trio.CancelScope(shield=True):
            nowhere: Sink = lambda _data: None  # noqa: E731
            await beside(self.end, partial(self.drain, nowhere, nowhere))

    async def end(self) -> int:
        """Kill its processes and wait until the engine has seen its end; return how many there were."""
        n_killed = 0
        try:
            with TimeLimit(self._end_seconds, "end a command"):
                while not self._is_over:
                    state = await self.attached.state(seconds=math.inf)
                    n_killed += await processes.end_command(
                        self._docker, state, self._mark, seconds=self._end_seconds
                    )
                    # One that was being started has no mark yet: once more, until it is over.
                    self._is_over = state.is_over
                    if not self._is_over:
                        await trio.sleep(0.01)
        except DockerError as error:
            self._is_given_up = error.code == "engine-timeout"
            raise
        return n_killed
