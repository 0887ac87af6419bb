"""The connection to one engine: any number of requests at once, each with a deadline, each failure a `DockerError`."""

from __future__ import annotations

import json
import math
import os
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, final

import attrs
import httpx
import trio

from agentcompass.containers.address import EngineAddress, find_engine
from agentcompass.containers.errors import DockerError, TimeLimit, as_docker_errors, refused
from agentcompass.containers.settle import UNDO_SECONDS
from agentcompass.containers.wire import Ask, Body, Duplex
from agentcompass.data import frozen
from agentcompass.net.lanes import StackTransport

OLDEST_API: Final = (1, 24)
NEWEST_API: Final = (1, 51)
"""Of the API versions that are spoken here the newest is used that the engine knows too."""
CALL_SECONDS: Final = 60.0
"""For an engine's answer to what is done at once; long, since a busy engine queues."""
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024


@final
@frozen(kw_only=True)
class EngineVersion:
    """What an engine says about itself."""

    version: str = ""
    """Of the engine: `20.10.24`."""
    api: tuple[int, int] | None = None
    """That is spoken with it; None before that is agreed."""
    name: str = ""
    """`Engine`, `Podman Engine`, ..."""


@final
class Docker:
    """A connection to an engine; open it with `connect`. Nothing here queues or limits its calls.

    Args:
        address: Of the engine.
        call_seconds: For each answer, unless a call says otherwise.

    Attributes:
        address: Of the engine.
        call_seconds: As given; also how long the engine may be silent in the middle of a file's transfer.
        version: Of the engine.
        is_here: The engine runs on this machine, as far as its address tells, and this user is root: its containers'
            processes and control groups can then be looked at directly.
        lives: When the containers were started that must go on from there, by their ids; see `life.running`.
        undo_seconds: For undoing what a task has asked for, once it is cancelled; whoever has less time lowers it.
        threads: For what reads or writes files of this machine; without limit, since each thread waits for the
            engine most of the time.
    """

    def __init__(self, address: EngineAddress, *, call_seconds: float = CALL_SECONDS) -> None:
        self.address: Final = address
        self.call_seconds: Final = call_seconds
        self.version = EngineVersion()
        self.is_here = address.socket_path is not None and os.geteuid() == 0
        self.lives: Final[dict[str, str]] = {}
        self.undo_seconds = UNDO_SECONDS
        self.threads: Final = trio.CapacityLimiter(math.inf)
        self._transport = StackTransport(
            socket_path=address.socket_path, tls=address.tls, resends=False
        )

    async def aclose(self) -> None:
        """Close the connections that are idle; those in use follow when they are released."""
        await self._transport.aclose()

    async def call(self, ask: Ask, *, accept: Collection[int] = ()) -> Any:
        """Send a request and return its answer.

        Args:
            ask: The request.
            accept: Statuses of failure that are none here.

        Returns:
            The decoded JSON; None for an empty answer and for those of `accept`.

        Raises:
            DockerError: There is no answer, or it is a refusal.
        """
        with self._limit(ask):
            response = await self._send(ask)
            data = await self._read(response, ask)
        if response.status_code in accept:
            return None
        _check(response.status_code, data, ask.action)
        return _decoded(data, ask.action)

    @asynccontextmanager
    async def stream(self, ask: Ask) -> AsyncIterator[Body]:
        """Send a request and give its answer's body as it comes.

        Raises:
            DockerError: There is no answer, or it is a refusal.
        """
        with self._limit(ask):
            response = await self._send(ask)
            if not _is_success(response.status_code):
                _check(response.status_code, await self._read(response, ask), ask.action)
        body = Body(response, ask.action, str(self.address))
        try:
            yield body
        finally:
            await body.aclose()

    async def upgrade(self, ask: Ask) -> Duplex:
        """Send a request after which the connection carries bytes both ways; close what is returned.

        Raises:
            DockerError: There is no answer, or it is a refusal.
        """
        ask = attrs.evolve(ask, headers={"Connection": "Upgrade", "Upgrade": "tcp"})
        with self._limit(ask):
            response = await self._send(ask)
            if response.status_code != httpx.codes.SWITCHING_PROTOCOLS:
                _check(response.status_code, await self._read(response, ask), ask.action)
                raise DockerError(f"the engine opens no stream: it was to {ask.action}")
        return Duplex(response, ask.action, str(self.address))

    async def negotiate(self, seconds: float | None = None) -> None:
        """Ask for the engine's versions and agree on one.

        Raises:
            DockerError: It cannot be reached, is no engine, or speaks no version in common (code `engine-version`).
        """
        answer = await self.call(Ask("GET", "/version", "tell its version", seconds=seconds))
        try:
            theirs = _number(answer["ApiVersion"])
            oldest = _number(answer.get("MinAPIVersion") or "1.0")
            names = [part.get("Name", "") for part in answer.get("Components") or ()]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DockerError(
                f"what answers at {self.address} is no Docker engine", code="engine-version"
            ) from error
        agreed = min(theirs, NEWEST_API)
        if agreed < max(oldest, OLDEST_API):
            raise DockerError(
                f"the engine at {self.address} speaks API {_text(oldest)} to {_text(theirs)}; "
                f"{_text(OLDEST_API)} to {_text(NEWEST_API)} are spoken here",
                code="engine-version",
            )
        self.version = EngineVersion(
            version=str(answer.get("Version", "")), api=agreed, name=names[0] if names else ""
        )

    async def ping(self, seconds: float | None = None) -> None:
        """Return if the engine answers, and raise `DockerError` if not."""
        async with self.stream(Ask("GET", "/_ping", "answer", seconds=seconds)):
            pass

    async def info(self) -> dict[str, Any]:
        """Return what the engine tells about its machine: `DockerRootDir`, `NCPU`, `MemTotal`, `Containers`, ..."""
        answer: dict[str, Any] = await self.call(Ask("GET", "/info", "tell about its machine"))
        return answer

    def _limit(self, ask: Ask) -> TimeLimit:
        return TimeLimit(self.call_seconds if ask.seconds is None else ask.seconds, ask.action)

    async def _send(self, ask: Ask) -> httpx.Response:
        version = f"/v{_text(self.version.api)}" if self.version.api else ""
        request = ask.request(self.address.origin + version)
        with as_docker_errors(ask.action, str(self.address)):
            return await self._transport.handle_async_request(request)

    async def _read(self, response: httpx.Response, ask: Ask) -> bytes:
        body = Body(response, ask.action, str(self.address))
        try:
            return await body.read(MAX_ANSWER_BYTES)
        finally:
            await body.aclose()


@asynccontextmanager
async def connect(
    host: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    seconds: float | None = None,
    call_seconds: float = CALL_SECONDS,
) -> AsyncIterator[Docker]:
    """Find the engine, agree on a version with it, and give the connection.

    Args:
        host: As of `address.find_engine`.
        environ: Likewise.
        seconds: For its first answer; None: `call_seconds`.
        call_seconds: As of `Docker`.

    Raises:
        DockerError: There is no engine, or it does not answer.
    """
    address = await trio.to_thread.run_sync(
        lambda: find_engine(host, environ=environ, home=Path.home()),
        limiter=trio.CapacityLimiter(1),
    )
    docker = Docker(address, call_seconds=call_seconds)
    try:
        await docker.negotiate(seconds)
        yield docker
    finally:
        await docker.aclose()


def _is_success(status: int) -> bool:
    # A redirection is none: names with slashes get one.
    return status < httpx.codes.MULTIPLE_CHOICES or status == httpx.codes.NOT_MODIFIED


def _check(status: int, data: bytes, action: str) -> None:
    if _is_success(status):
        return
    try:
        words = str(json.loads(data)["message"])
    except (KeyError, TypeError, ValueError):
        words = data[:1000].decode(errors="replace").strip()
    raise refused(action, status, words)


def _decoded(data: bytes, action: str) -> Any:
    if not data.strip():
        return None
    try:
        return json.loads(data)
    except ValueError as error:
        raise DockerError(f"the engine's answer is no JSON: it was to {action}") from error


def _number(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
