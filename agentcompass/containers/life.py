"""The life of containers: made under a name chosen beforehand, started, watched, ended, and removed for certain."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, final

import attrs
import trio

from agentcompass.containers import endings
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError, TimeLimit
from agentcompass.containers.frames import Frames
from agentcompass.containers.settle import made
from agentcompass.containers.wire import Ask, path_of
from agentcompass.data import frozen

START_SECONDS: Final = 120.0
REMOVE_SECONDS: Final = 60.0
FAILED_REMOVALS: Final = 5
"""How often the engine may fail to remove one before that is believed: a busy mount is free a moment later."""
LOG_BYTES: Final = 64 * 1024
_GONE: Final = 404
_CONFLICT: Final = 409


@final
@frozen(kw_only=True)
class ContainerState:
    """How a container stands, as the engine says."""

    id: str
    name: str
    status: str
    """`created`, `running`, `paused`, `restarting`, `removing`, `exited` or `dead`."""
    is_running: bool
    """Paused ones run too."""
    exit_code: int
    """Of its main process; 0 while that runs."""
    is_oom_killed: bool
    """The engine saw the kernel kill one of its processes for want of memory; `figures` counts them."""
    error: str
    """Why it could not be started, if it could not."""
    pid: int
    """Of its first process, on the engine's machine; 0 if it does not run."""
    started_at: str
    """When it was started last, as the engine writes it."""
    finished_at: str
    """When it ended last; nonsense if it never did."""
    memory_limit_bytes: int
    """0: it has none of its own."""
    has_init: bool
    """Its first process is the engine's own, which reaps orphans, and the main process is a child of that."""
    details: Mapping[str, Any] = attrs.field(repr=False)
    """All that the engine says."""


@final
@frozen(kw_only=True)
class Listed:
    """A container in a list."""

    id: str
    name: str
    status: str
    """As in `ContainerState`."""
    labels: Mapping[str, str]


async def create(
    docker: Docker,
    name: str,
    config: Mapping[str, Any],
    *,
    platform: str | None = None,
    seconds: float | None = None,
) -> str:
    """Make a container and return its id. When the task is cancelled, there is none afterwards.

    Args:
        docker: The engine.
        name: Written down by the caller beforehand, so that it can be removed whatever happens here.
        config: The body of the engine's call: `Image`, `Cmd`, `Labels`, `HostConfig`, ...
        platform: `linux/arm64`; None: the engine's.
        seconds: For the answer; None: the connection's.

    Raises:
        DockerError: It was not made: `no-such-image`, `conflict` (the name is taken), `bad-request`; or perhaps it
            was, see `settle.made`.
    """
    ask = Ask(
        "POST",
        "/containers/create",
        f"create the container {name}",
        query={"name": name, "platform": platform},
        body=dict(config),
        seconds=seconds,
    )
    answer = await made(
        partial(docker.call, ask), partial(remove, docker, name), seconds=docker.undo_seconds
    )
    return str(answer["Id"])


async def start(docker: Docker, container: str, *, seconds: float = START_SECONDS) -> None:
    """Start a container; does nothing if it runs."""
    await docker.call(_ask(container, "start", seconds=seconds))


async def stop(docker: Docker, container: str, *, grace: int = 10) -> None:
    """End a container: SIGTERM to its main process, and SIGKILL after `grace` seconds. Nothing if it is not running."""
    seconds = grace + docker.call_seconds
    await docker.call(_ask(container, "stop", query={"t": str(grace)}, seconds=seconds))


async def kill(docker: Docker, container: str, *, signal: str = "SIGKILL") -> None:
    """Send a signal to a container's main process; nothing if it is not running."""
    await docker.call(_ask(container, "kill", query={"signal": signal}), accept={_CONFLICT})


async def restart(docker: Docker, container: str, *, seconds: float = START_SECONDS) -> None:
    """Kill every process of a container and start it again; its files stay, those in memory (tmpfs) do not."""
    before = await inspect(docker, container)
    is_bound = before is not None and docker.lives.pop(before.id, None) is not None
    await docker.call(_ask(container, "restart", query={"t": "0"}, seconds=seconds))
    if is_bound:
        bind(docker, await running(docker, container))


def bind(docker: Docker, state: ContainerState) -> None:
    """Have `running` tell from now on if somebody else starts a container anew: with that its processes are lost."""
    docker.lives[state.id] = state.started_at


async def pause(docker: Docker, container: str) -> None:
    """Freeze all of its processes."""
    await docker.call(_ask(container, "pause"))


async def unpause(docker: Docker, container: str) -> None:
    """Let its processes go on."""
    await docker.call(_ask(container, "unpause"))


async def wait(docker: Docker, container: str, *, seconds: float) -> int:
    """Wait until a container runs no more, and return the exit code of its main process.

    Raises:
        DockerError: It still runs after `seconds` (code `engine-timeout`), or there is none.
    """
    answer = await docker.call(
        _ask(container, "wait", query={"condition": "not-running"}, seconds=seconds)
    )
    return int(answer["StatusCode"])


async def inspect(
    docker: Docker, container: str, *, seconds: float | None = None
) -> ContainerState | None:
    """Return how a container stands; None if there is none of that name or id."""
    ask = Ask(
        "GET",
        path_of("containers", container, "json"),
        f"look at the container {container}",
        seconds=seconds,
    )
    answer = await docker.call(ask, accept={_GONE})
    if answer is None:
        return None
    state = answer["State"]
    return ContainerState(
        id=answer["Id"],
        name=answer["Name"].removeprefix("/"),
        status=state["Status"],
        is_running=bool(state["Running"]),
        exit_code=state["ExitCode"],
        is_oom_killed=bool(state["OOMKilled"]),
        error=state.get("Error") or "",
        pid=state["Pid"],
        started_at=state.get("StartedAt") or "",
        finished_at=state.get("FinishedAt") or "",
        memory_limit_bytes=answer["HostConfig"].get("Memory") or 0,
        has_init=bool(answer["HostConfig"].get("Init")),
        details=answer,
    )


async def running(docker: Docker, container: str) -> ContainerState:
    """Return the state of a container that must run.

    Raises:
        DockerError: It does not (codes of `endings.died`), is not there, or was started anew by somebody else since
            `bind` (code `container-died`); the message says how it ended.
    """
    state = await inspect(docker, container)
    if state is None:
        raise DockerError(f"the container {container} is gone", code="container-died")
    if not state.is_running:
        raise await endings.died(docker, state)
    if docker.lives.get(state.id, state.started_at) != state.started_at:
        raise DockerError(
            f"the container {container} was ended and started anew by somebody else",
            code="container-died",
        )
    return state


async def listed(docker: Docker, *labels: str) -> list[Listed]:
    """Return the containers that carry all of the labels, each `name` or `name=value`, running or not."""
    query = {"all": True, "filters": {"label": list(labels)}}
    answer = await docker.call(Ask("GET", "/containers/json", "list containers", query=query))
    return [
        Listed(
            id=item["Id"],
            name=(item.get("Names") or [""])[0].removeprefix("/"),
            status=item["State"],
            labels=item.get("Labels") or {},
        )
        for item in answer
    ]


async def remove(docker: Docker, container: str, *, seconds: float = REMOVE_SECONDS) -> None:
    """Kill and remove a container with its unnamed volumes, and return only when it is gone. None there is fine.

    Raises:
        DockerError: It is still there.
    """
    ask = Ask(
        "DELETE",
        path_of("containers", container),
        f"remove the container {container}",
        query={"force": True, "v": True},
        seconds=seconds,
    )
    failures, pause = 0, 0.02
    with TimeLimit(seconds, ask.action):
        while True:
            try:
                await docker.call(ask, accept={_GONE})
            except DockerError as error:
                if error.status is None:
                    raise
                # Somebody else is at it, or something in it is still busy.
                failures += int(error.status != _CONFLICT)
                if failures == FAILED_REMOVALS:
                    raise
            else:
                return
            pause = min(2 * pause, 1.0)
            await trio.sleep(pause)


async def logs(docker: Docker, container: str, *, lines: int = 50) -> str:
    """Return the last lines that the main process of a container without a terminal wrote, for messages."""
    ask = Ask(
        "GET",
        path_of("containers", container, "logs"),
        f"give the log of the container {container}",
        query={"stdout": True, "stderr": True, "tail": str(lines)},
        silence_seconds=docker.call_seconds,
    )
    kept, frames = bytearray(), Frames()
    async with docker.stream(ask) as body:
        async for chunk in body:
            for _stream, data in frames.feed(chunk):
                kept += data
                del kept[:-LOG_BYTES]
    return kept.decode(errors="replace")


def _ask(
    container: str,
    verb: str,
    *,
    query: Mapping[str, object] | None = None,
    seconds: float | None = None,
) -> Ask:
    return Ask(
        "POST",
        path_of("containers", container, verb),
        f"{verb} the container {container}",
        query=query or {},
        seconds=seconds,
    )
