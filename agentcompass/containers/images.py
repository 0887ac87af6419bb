"""Images: looked at, pulled, built; each once however many ask for it at the same time."""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeVar, final

import attrs
import httpx
import trio

from agentcompass.containers import sdk
from agentcompass.containers.bodies import made_meanwhile
from agentcompass.containers.builds import Build, pack, tag_of
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError, code_for
from agentcompass.containers.wire import Ask, Body, path_of

T = TypeVar("T")

SILENCE_SECONDS: Final = 600.0
"""How long a pull or a build may say nothing: a step of a build prints what it likes."""
TAIL_LINES: Final = 20
"""Of a failed build's output, in the error."""
_STEP: Final = re.compile(r"Step \d+/\d+ : ")
_CHATTER: Final = re.compile(r"\s*$| ---> |Removing intermediate container ")
"""Lines of a builder that tell of its own work only."""
BINARY: Final = "(what is no text)"
"""In the place of lines of a build that are none."""
_NO_TEXT: Final = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")
"""Of a line that is no text; other control characters people use."""
_GONE: Final = 404
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
"""In which the builder shows what a step writes on its standard error."""

Progress = Callable[[str], object]
"""Told in a few words how far a pull or build is, often; may not block."""
Pull = Literal["missing", "always", "never"]


@final
class Images:
    """The images of one engine, as one run uses them.

    Args:
        docker: The engine.
    """

    def __init__(self, docker: Docker) -> None:
        self._docker = docker
        self._flights: dict[str, _Flight] = {}
        self._pulled: set[str] = set()

    async def inspect(self, name: str) -> Mapping[str, Any] | None:
        """Return what the engine knows about an image: `Id`, `Config`, `Size`, ...; None if it has none of that name."""
        ask = Ask("GET", f"/images{path_of(name)}/json", f"look at the image {name}")
        answer: Mapping[str, Any] | None = await self._docker.call(ask, accept={_GONE})
        return answer

    async def ensure(
        self,
        name: str,
        *,
        pull: Pull = "missing",
        platform: str | None = None,
        progress: Progress = lambda _text: None,
    ) -> str:
        """Return the id of an image, after pulling it if need be.

        Args:
            name: As for `docker pull`.
            pull: Whether to: `always` is once for this object, however often it is asked for.
            platform: `linux/arm64`; None: the engine's.
            progress: Is told.

        Raises:
            DockerError: It is not there and may not be pulled, or there is none (code `no-such-image`);
                `pull-rate-limited`, `registry-auth-failed`, `disk-full`, or `pull-failed`.
        """
        key = f"{name} {platform}"

        async def work() -> str:
            is_due = pull == "always" and key not in self._pulled
            found = None if is_due else await self.inspect(name)
            if found is None:
                if pull == "never":
                    raise DockerError(
                        f"there is no image {name} and none may be pulled", code="no-such-image"
                    )
                await self._pull(name, platform, progress)
                self._pulled.add(key)
                found = await self.inspect(name) or {}
            return str(found.get("Id", name))

        return await self._once(key, work)

    async def check_registry(self, name: str) -> None:
        """Ask the registry of an image whether it has it, without pulling anything; Podman cannot, and then nothing is known.

        Raises:
            DockerError: It has not, or says nothing: as of `ensure`.
        """
        credentials = await self._in_thread(lambda: sdk.registry_auth(name))
        ask = Ask(
            "GET",
            f"/distribution{path_of(_with_tag(name))}/json",
            f"find the image {name} in its registry",
            headers={"X-Registry-Auth": credentials} if credentials else {},
        )
        with _refusals_are("pull-failed"):
            try:
                await self._docker.call(ask)
            except DockerError as error:
                if "is not supported" not in error.message:
                    raise

    async def inspect_built(self, build: Build) -> Mapping[str, Any] | None:
        """Return what the engine knows about the image of a directory's content; None if it has none.

        Raises:
            DockerError: There is no Dockerfile in it (code `build-failed`), or the engine does not answer.
            OSError: The directory cannot be read.
        """
        return await self.inspect(await self._tag_of(build))

    async def build(
        self,
        build: Build,
        *,
        timeout_seconds: float | None = None,
        progress: Progress = lambda _text: None,
    ) -> str:
        """Return the tag of an image that is built from a directory, unless one of the same content is there.

        Cancelling the only task that waits for it ends the build.

        Args:
            build: How.
            timeout_seconds: For building it; None: no limit.
            progress: Is told.

        Raises:
            DockerError: It cannot be built: `build-failed` or `build-timeout`, with the step and the end of its output;
                `disk-full`, ...
            OSError: The directory cannot be read.
        """
        tag = await self._tag_of(build)

        async def work() -> str:
            if await self.inspect(tag) is not None:
                return tag
            log = _BuildLog(build, progress)
            with trio.move_on_after(timeout_seconds or math.inf) as limit:
                await self._build(build, tag, log)
                return tag
            assert limit.cancelled_caught
            raise DockerError(
                log.message(f"was not built within {timeout_seconds:g} s"), code="build-timeout"
            )

        return await self._once(tag, work)

    async def remove(self, name: str) -> None:
        """Remove an image that no container uses; none there is fine."""
        ask = Ask("DELETE", f"/images{path_of(name)}", f"remove the image {name}")
        await self._docker.call(ask, accept={_GONE})

    async def _tag_of(self, build: Build) -> str:
        return await trio.to_thread.run_sync(
            tag_of, build, trio.from_thread.check_cancelled, limiter=self._docker.threads
        )

    async def _once(self, key: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do what makes an image unless it is being done; then wait, and look whether it is there.

        Whoever waits shares a failure. If the task that does it is cancelled, the next one goes on.
        """
        flight = self._flights.setdefault(key, _Flight())
        flight.n_passengers += 1
        try:
            async with flight.turn:
                if flight.failure is not None:
                    raise flight.failure
                try:
                    return await work()
                except DockerError as error:
                    flight.failure = error
                    raise
        finally:
            flight.n_passengers -= 1
            if not flight.n_passengers:
                del self._flights[key]

    async def _pull(self, name: str, platform: str | None, progress: Progress) -> None:
        credentials = await self._in_thread(lambda: sdk.registry_auth(name))
        ask = Ask(
            "POST",
            "/images/create",
            f"pull the image {name}",
            query={"fromImage": _with_tag(name), "platform": platform},
            headers={"X-Registry-Auth": credentials} if credentials else {},
            seconds=math.inf,
            silence_seconds=SILENCE_SECONDS,
        )
        layers = _Layers()

        def take(told: Mapping[str, Any]) -> None:
            if words := _complaint(told):
                message = f"the image {name} cannot be pulled: {words}"
                raise DockerError(message, code=code_for(words) or "pull-failed")
            progress(layers.add(told))

        with _refusals_are("pull-failed"):
            async with self._docker.stream(ask) as body:
                await _follow(body, take)

    async def _build(self, build: Build, tag: str, log: _BuildLog) -> None:
        credentials = await self._in_thread(sdk.all_registry_auth)

        async def send(content: httpx.AsyncByteStream) -> None:
            ask = Ask(
                "POST",
                "/build",
                f"build the image {tag}",
                query={**build.query(), "t": tag, "rm": True, "forcerm": True},
                headers={"X-Registry-Config": credentials} if credentials else {},
                content=content,
                seconds=math.inf,
                silence_seconds=SILENCE_SECONDS,
            )
            async with self._docker.stream(ask) as body:
                await _follow(body, log.take)

        with _refusals_are("build-failed"):
            await made_meanwhile(
                self._docker, lambda give, check: pack(build, tag, give, check), send
            )

    async def _in_thread(self, function: Callable[[], T]) -> T:
        # A credential helper is a program of its own, which may hang: the thread is then left to it.
        return await trio.to_thread.run_sync(
            function, abandon_on_cancel=True, limiter=self._docker.threads
        )


@final
@attrs.define(eq=False)
class _Flight:
    turn: trio.Lock = attrs.field(factory=trio.Lock)
    failure: DockerError | None = None
    n_passengers: int = 0


@final
class _Layers:
    """Adds up the layers of a pull."""

    def __init__(self) -> None:
        self._bytes: dict[str, tuple[int, int]] = {}

    def add(self, told: Mapping[str, Any]) -> str:
        """Take one message and return how far the whole is."""
        detail = told.get("progressDetail") or {}
        if told.get("status") == "Downloading" and detail.get("total"):
            self._bytes[str(told.get("id"))] = (detail.get("current", 0), detail["total"])
        if not self._bytes or "id" not in told:
            return str(told.get("status", ""))
        done, total = (sum(numbers) for numbers in zip(*self._bytes.values(), strict=True))
        return f"{done / 1e6:.0f} of {total / 1e6:.0f} MB"


@final
class _BuildLog:
    """What a builder says.

    Args:
        build: What is built.
        progress: Is told each line.
    """

    def __init__(self, build: Build, progress: Progress) -> None:
        self._build, self._progress = build, progress
        self._step = ""
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)

    def take(self, told: Mapping[str, Any]) -> None:
        """Take one message.

        Raises:
            DockerError: It says that the build failed.
        """
        if words := _complaint(told):
            message = self.message(f"cannot be built: {words}")
            raise DockerError(message, code=code_for(words) or "build-failed")
        for line in map(_readable, _lines(str(told.get("stream", "")))):
            if _STEP.match(line):
                self._step = line
            is_more = line == BINARY and BINARY in list(self._tail)[-1:]
            if not _CHATTER.match(line) and not is_more:
                self._tail.append(line)
            self._progress(line)

    def message(self, what: str) -> str:
        """Say what has become of the build, at which step, and what was written before."""
        step = [self._step] if self._step and self._step not in self._tail else []
        head = f"the image of {self._build.context / self._build.dockerfile} {what}"
        return "\n".join((head, *step, *self._tail))


async def _follow(body: Body, take: Callable[[Mapping[str, Any]], None]) -> None:
    """Hand out an answer of one JSON object a line, as it comes."""
    rest = b""
    async for chunk in body:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                take(json.loads(line))


@contextmanager
def _refusals_are(code: str) -> Iterator[None]:
    """Give a refusal whose words tell nothing more a better code."""
    try:
        yield
    except DockerError as error:
        if error.code not in ("engine-failed", "bad-request", "not-found"):
            raise
        raise DockerError(error.message, code=code, status=error.status) from error


def _lines(text: str) -> Iterator[str]:
    """What a step has written; of a line that it wrote over, as programs show how far they are, what stood there last."""
    for line in _COLOURS.sub("", text).split("\n"):
        yield line.rstrip("\r").rpartition("\r")[2]


def _readable(line: str) -> str:
    return BINARY if _NO_TEXT.search(line) else line


def _complaint(told: Mapping[str, Any]) -> str:
    """What a message says that failed; empty if it says nothing of that kind."""
    if "error" not in told:
        return ""
    return str((told.get("errorDetail") or {}).get("message") or told["error"])


def _with_tag(name: str) -> str:
    """The engine would pull all tags of a name that has none."""
    last = name.rsplit("/", 1)[-1]
    return name if ":" in last or "@" in last else f"{name}:latest"
