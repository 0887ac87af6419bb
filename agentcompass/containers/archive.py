"""Files of a container, running or not: one at a time or in trees, both ways, in constant memory.

What is mounted in memory (tmpfs) is not reached: the engine sees a container's file system without it.
"""

from __future__ import annotations

import base64
import json
import math
import posixpath
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final, TypeVar, final

import httpx
import trio

from agentcompass.containers import life, tars
from agentcompass.containers.bodies import Pieces, made_meanwhile
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.containers.wire import Ask, Body, path_of
from agentcompass.copying import Part, parts
from agentcompass.data import frozen

T = TypeVar("T")

READ_LIMIT: Final = 1024 * 1024 * 1024
"""Bytes read of a file by who names no limit."""
MAX_LINKS: Final = 40
_NO_WAY: Final = (
    "not a directory",
    "too many levels of symbolic links",
    "too many links",
    "file name too long",
)
"""An engine's words for a path that leads nowhere, to whoever follows it."""
_IN_THE_WAY: Final = (*_NO_WAY, "no such file or directory", "is a directory", "file exists")
"""And for one that nothing can be written at, since of something else that is there."""
_GO_DIR, _GO_LINK, _GO_ODD = 1 << 31, 1 << 27, (1 << 19) | (1 << 24) | (1 << 25) | (1 << 26)
"""How the engine's language marks directories, links, and devices, sockets and pipes."""


@final
@frozen(kw_only=True)
class PathStat:
    """What is at a path."""

    size: int
    mode: int
    """The permission bits."""
    is_dir: bool
    is_file: bool
    link: str | None
    """Where it leads, if it is a link; absolute."""


async def stat(docker: Docker, container: str, path: str) -> PathStat | None:
    """Return what is at an absolute path; None if there is nothing. The last name is not followed if it is a link.

    Raises:
        DockerError: The engine cannot tell.
    """
    try:
        try:
            async with _opened(docker, container, path, "HEAD") as body:
                return _stat_of(body)
        except DockerError as error:
            if error.code != "engine-failed":
                raise
        # An answer without a body does not say what failed; this one is left at its beginning.
        async with _opened(docker, container, path, "GET") as body:
            return _stat_of(body)
    except FileNotFoundError:
        # An answer without a body does not say what is missing.
        if await life.inspect(docker, container) is None:
            raise DockerError(
                f"there is no container {container}", code="no-such-container"
            ) from None
        return None


async def read(docker: Docker, container: str, path: str, *, max_bytes: int | None = None) -> bytes:
    """Return the content of a regular file, links followed; at most its first `max_bytes`.

    Raises:
        FileNotFoundError: There is no such file.
        DockerError: It is longer than `READ_LIMIT` and no limit was given (code `artifact-too-large`), or the engine
            failed.
    """
    for _ in range(MAX_LINKS):
        async with _opened(docker, container, path, "GET") as body:
            found = _stat_of(body)
            if found.link is None:
                if not found.is_file:
                    break
                if max_bytes is None and found.size > READ_LIMIT:
                    raise tars.too_large(path, READ_LIMIT)
                limit = found.size if max_bytes is None else max_bytes
                return await _in_thread(docker, body, partial(tars.first_file, limit=limit))
        path = found.link
    raise FileNotFoundError(f"there is no file {path!r}")


async def write(
    docker: Docker,
    container: str,
    path: str,
    data: bytes,
    *,
    mode: int = 0o644,
    owner: tuple[int, int] = (0, 0),
) -> None:
    """Write a file at an absolute path, and make the directories above it.

    Raises:
        DockerError: There is a directory at the path (code `bad-request`), or what is above it is none (`bad-path`); the
            disk is full (`disk-full`), ...
    """
    head = tars.header(
        posixpath.normpath(path).lstrip("/"),
        len(data),
        mode & 0o7777,
        datetime.now(UTC).timestamp(),
        owner,
    )
    pieces = (data[at : at + tars.CHUNK] for at in range(0, len(data), tars.CHUNK))
    content = Pieces(iter((head, *pieces, tars.padding(len(data)))))
    await _put(docker, container, "/", content)


async def upload(
    docker: Docker,
    container: str,
    source: Path,
    target: str,
    *,
    owner: tuple[int, int] = (0, 0),
) -> None:
    """Copy a file or directory of this machine to an absolute path, by the rules of `copying`.

    Directories that are there are merged; those below `target` get the modes of the copied ones.

    Args:
        docker: The engine.
        container: Running or not.
        source: What.
        target: The copy's own name, not that of a directory to put it into.
        owner: uid and gid of all that is copied.

    Raises:
        FileNotFoundError: There is no `source`.
        DockerError: As of `write`.
    """
    name = posixpath.normpath(target)
    there = await stat(docker, container, name)
    # A directory that is there keeps its own mode when it is what the engine unpacks into.
    directory = name if there is not None and (there.is_dir or there.link) else "/"
    prefix = "" if directory != "/" else name.lstrip("/")

    def make(give: Callable[[bytes], object], check: Callable[[], None]) -> None:
        entries = (_entry(part, prefix) for part in parts(source, check))
        tars.pack(entries, give, owner=owner)

    await made_meanwhile(docker, make, partial(_put, docker, container, directory))


async def download(
    docker: Docker, container: str, source: str, target: Path, *, max_bytes: int | None = None
) -> None:
    """Copy a file or directory at an absolute path to this machine, by the rules of `copying`.

    Args:
        docker: The engine.
        container: Running or not.
        source: What; a link is followed.
        target: The copy's own path; its parents are made.
        max_bytes: Of all files together, names included; None sets no limit.

    Raises:
        FileNotFoundError: There is no `source`, or it is neither file nor directory.
        DockerError: More than `max_bytes` (code `artifact-too-large`), or the engine failed.
        OSError: The copy cannot be written.
    """
    path = posixpath.normpath(source)
    found = await stat(docker, container, path)
    if found is not None and found.link:
        path = found.link
    async with _opened(docker, container, path, "GET") as body:
        unpack = partial(tars.unpack, target=target, base=path, max_bytes=max_bytes)
        await _in_thread(docker, body, unpack)


async def _put(
    docker: Docker, container: str, directory: str, content: httpx.AsyncByteStream
) -> None:
    ask = Ask(
        "PUT",
        path_of("containers", container, "archive"),
        f"write files of the container {container}",
        query={"path": directory, "noOverwriteDirNonDir": True},
        content=content,
        seconds=math.inf,
        silence_seconds=docker.call_seconds,
    )
    try:
        await docker.call(ask)
    except DockerError as error:
        if error.status is not None and error.code == "engine-failed" and _says(error, _IN_THE_WAY):
            raise DockerError(error.message, code="bad-path", status=error.status) from error
        raise


@asynccontextmanager
async def _opened(docker: Docker, container: str, path: str, method: str) -> AsyncIterator[Body]:
    if "\0" in path:
        raise FileNotFoundError(f"a NUL in the path {path!r}")
    ask = Ask(
        method,
        path_of("containers", container, "archive"),
        f"read files of the container {container}",
        query={"path": path},
        silence_seconds=docker.call_seconds,
    )
    try:
        async with docker.stream(ask) as body:
            yield body
    except DockerError as error:
        if error.code == "not-found" or (error.code == "engine-failed" and _says(error, _NO_WAY)):
            raise FileNotFoundError(f"there is no {path!r} in the container {container}") from error
        raise


def _says(error: DockerError, words: Sequence[str]) -> bool:
    return any(word in error.message.lower() for word in words)


def _stat_of(body: Body) -> PathStat:
    told = json.loads(base64.b64decode(body.headers["X-Docker-Container-Path-Stat"]))
    mode = told["mode"]
    link = told["linkTarget"] if mode & _GO_LINK else None
    return PathStat(
        size=told["size"],
        mode=mode & 0o777,
        is_dir=bool(mode & _GO_DIR),
        is_file=not mode & (_GO_DIR | _GO_LINK | _GO_ODD),
        link=link,
    )


def _entry(part: Part, prefix: str) -> tars.Entry:
    name = posixpath.join(prefix, str(part.name)) if str(part.name) != "." else prefix or "."
    return tars.Entry(name=name, source=part.source, link=part.link)


async def _in_thread(
    docker: Docker, body: Body, function: Callable[[tars.Source, Callable[[], None]], T]
) -> T:
    return await trio.to_thread.run_sync(
        function, _Reader(body), trio.from_thread.check_cancelled, limiter=docker.threads
    )


@final
class _Reader:
    """An answer's body as a file, for a thread."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._rest = b""

    def read(self, size: int, /) -> bytes:
        if not self._rest:
            self._rest = trio.from_thread.run(self._next)
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    async def _next(self) -> bytes:
        # Several at once: for each the thread has to wait for its turn.
        data = bytearray()
        while len(data) < tars.CHUNK and (chunk := await anext(self._body, b"")):
            data += chunk
        return bytes(data)
