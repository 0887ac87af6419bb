"""A command in a container as the engine runs it: its streams, its state. That none of it is left is for `run`.

The engine is asked for a stream by `Upgrade`, and nothing is sent before it has agreed: what comes with the request
is lost in the engine, input included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, final

import attrs
import trio

from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.containers.frames import STDOUT, Frames
from agentcompass.containers.settle import settled
from agentcompass.containers.wire import Ask, Duplex, path_of
from agentcompass.data import frozen

CANNOT_START: Final = (126, 127)
"""Exit codes of a command that could not be started, or was not found."""
KILLED: Final = 137
END_OF_INPUT: Final = b"\x04"
"""What a terminal in its usual mode takes for end-of-file (Ctrl-D)."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.5


@final
@frozen(kw_only=True)
class ContainerCommand:
    """What is run in a container."""

    argv: Sequence[str]
    env: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """Added to the container's, for this command alone: it is nowhere else to be seen."""
    user: str = ""
    """Name or uid, perhaps with `:group`; empty: the container's."""
    workdir: str = ""
    """Absolute; empty: the container's."""
    tty: bool = False
    stdin: bytes = attrs.field(default=b"", repr=False)
    """What it reads, of a command that ends by itself."""


@final
@frozen(kw_only=True)
class CommandState:
    """How a command stands, as the engine says."""

    is_over: bool
    exit_code: int
    """One of `CANNOT_START` if it could not be started; -1 while it is not over."""
    pid: int
    """On the engine's machine; 0 as long as it is not started."""
    container: str
    """Id of its container."""
    user: str


@final
class Attached:
    """The streams of a command that was started.

    Args:
        docker: The engine.
        command: What was started.
        exec_id: The engine's name for it.
        stream: The connection.
    """

    def __init__(
        self, docker: Docker, command: ContainerCommand, exec_id: str, stream: Duplex
    ) -> None:
        self._docker, self._exec_id, self._stream = docker, exec_id, stream
        self._tty = command.tty
        self._frames = Frames()
        self.has_output = False
        """Whether anything came: of the command, or the engine's words on why it could not be started."""
        self.was_started = False
        """Whether the engine has ever named its process; some forget that with its end."""

    async def receive(self) -> list[tuple[int, bytes]] | None:
        """Return what came next as pieces with their streams (`STDOUT`, `STDERR`; a terminal has the first only).

        Returns:
            None at the end: the command is over, or the connection was closed, see `state`.

        Raises:
            DockerError: The connection broke.
        """
        data = await self._stream.receive()
        if not data:
            if not self._frames.is_complete:
                raise DockerError(
                    "the engine's stream ended in the middle of output", code="engine-lost"
                )
            return None
        self.has_output = True
        if self._tty:
            return [(STDOUT, data)]
        try:
            return list(self._frames.feed(data))
        except ValueError as error:
            raise DockerError(f"the engine's stream cannot be read: {error}") from error

    async def send(self, data: bytes) -> None:
        """Write to its standard input.

        Raises:
            DockerError: It is over, or has closed its input (code `engine-lost`).
        """
        await self._stream.send(data)

    async def send_eof(self) -> None:
        """End its input; a terminal stays open for output, and for more input."""
        if self._tty:
            # An end of the connection's input would end its output too.
            await self._stream.send(END_OF_INPUT)
        else:
            self._stream.send_eof()

    async def resize(self, rows: int, columns: int) -> None:
        """Change the size of its terminal."""
        path = path_of("exec", self._exec_id, "resize")
        query = {"h": str(rows), "w": str(columns)}
        await self._docker.call(Ask("POST", path, "resize a terminal", query=query))

    async def state(self, *, seconds: float | None = None) -> CommandState:
        """Ask the engine how the command stands.

        Raises:
            DockerError: It does not know, since the container was removed or the engine started anew (code
                `no-such-exec`); or does not answer.
        """
        path = path_of("exec", self._exec_id, "json")
        answer = await self._docker.call(Ask("GET", path, "look at a command", seconds=seconds))
        state = _state(answer)
        self.was_started = self.was_started or state.pid > 0
        return state

    async def started(self) -> CommandState:
        """Wait until the command is started, or over; the engine begins to serve the stream before that."""
        return await self._state_when(lambda state: state.is_over or state.pid > 0)

    async def ended(self) -> CommandState:
        """Wait until it is over; its output may have ended long before that."""
        return await self._state_when(lambda state: state.is_over)

    async def _state_when(self, is_so: Any) -> CommandState:
        pause = _FIRST_PAUSE
        while not is_so(state := await self.state()):
            await trio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return state

    async def aclose(self) -> None:
        """Close the connection. The command goes on if it is not over."""
        await self._stream.aclose()


async def attach(
    docker: Docker,
    container: str,
    command: ContainerCommand,
    *,
    takes_stdin: bool = False,
    seconds: float | None = None,
) -> Attached:
    """Start a command. When the task is cancelled, either it was not started, or it is returned all the same.

    Args:
        docker: The engine.
        container: Running.
        command: What to run.
        takes_stdin: It has an input; else it reads nothing.
        seconds: For each of the engine's two answers; None: the connection's.

    Raises:
        DockerError: The container is not there or not running (code `container-died`), or the engine fails.
    """
    body = {
        "AttachStdin": takes_stdin,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": command.tty,
        "Cmd": list(command.argv),
        "Env": [f"{name}={value}" for name, value in command.env.items()],
        "User": command.user,
        "WorkingDir": command.workdir,
    }
    action = f"run a command in the container {container}"
    path = path_of("containers", container, "exec")
    try:
        made = await docker.call(Ask("POST", path, action, body=body, seconds=seconds))
    except DockerError as error:
        if error.status in (404, 409):
            raise DockerError(error.message, code="container-died", status=error.status) from error
        raise
    exec_id = str(made["Id"])
    path, body = path_of("exec", exec_id, "start"), {"Detach": False, "Tty": command.tty}
    ask = Ask("POST", path, action, body=body, seconds=seconds)
    stream = await settled(partial(docker.upgrade, ask), seconds=docker.undo_seconds / 2)
    return Attached(docker, command, exec_id, stream)


def _state(answer: Mapping[str, Any]) -> CommandState:
    code = answer.get("ExitCode")
    # Neither running nor with a code: it is about to be started.
    is_over = not answer["Running"] and code is not None
    return CommandState(
        is_over=is_over,
        exit_code=int(code) if is_over and code is not None else -1,
        pid=answer.get("Pid") or 0,
        container=answer.get("ContainerID") or "",
        user=(answer.get("ProcessConfig") or {}).get("user") or "",
    )
