"""One file from the web to the disk: its checksum is known before, and a part that is there is not asked for again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, final

import httpx
import trio

from agentcompass.data import frozen
from agentcompass.datasets.shelf import explained
from agentcompass.datasets.web import PassingError, Request, Web, pour
from agentcompass.errors import PreflightError

_LUMP_BYTES: Final = 1 << 20
"""What is collected before a thread writes it."""
_WHOLE: Final = 200
_PART: Final = 206


@frozen(kw_only=True)
class Wanted:
    """A file that is to be had."""

    name: str
    """For messages."""
    target: Path
    size: int
    """Bytes."""
    digest: str
    """`sha256:<hex>`, or `git:<hex>`, the id of a git blob."""


class FileRefusedError(Exception):
    """The server will not give a file.

    Args:
        status: Of its answer.
        headers: Of its answer.
    """

    def __init__(self, status: int, headers: httpx.Headers) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers = status, headers


async def download(
    web: Web, request: Request, wanted: Wanted, parts: Path, on_bytes: Callable[[int], None]
) -> None:
    """Get a file, unless it is there with the right checksum.

    Args:
        web: Sends the request.
        request: For the whole file.
        wanted: The file.
        parts: A directory for what is not complete.
        on_bytes: Told how many bytes more are there.

    Raises:
        PreflightError: It cannot be had, or what comes is not what was published.
        FileRefusedError: The server answered with a status that no other try would change.
    """
    in_thread = trio.to_thread.run_sync
    if await in_thread(_is_there, wanted):
        on_bytes(wanted.size)
        return
    part = _Part(wanted, parts)
    with explained(wanted.target):
        await in_thread(part.open)
        try:
            on_bytes(part.size)
            # what an earlier try left may be a part of something else: then all of it, once
            for _ in range(2):
                if not part.is_whole:
                    await web.persist(lambda: _fetch(web, request, part, on_bytes), wanted.name)
                if part.is_right:
                    await in_thread(part.keep)
                    return
                on_bytes(-part.size)
                await in_thread(part.restart)
        finally:
            part.close()
    raise PreflightError(
        f"{wanted.name} has not the checksum that it was published with ({wanted.digest})",
        hint="The server, or a proxy on the way, gives something else. Try again, or get the data another way.",
    )


async def _fetch(web: Web, request: Request, part: _Part, on_bytes: Callable[[int], None]) -> None:
    """Ask once for what is missing, and keep what comes."""
    before = part.size
    ranged = {"Range": f"bytes={before}-"} if before else {}
    asked = Request(url=request.url, headers={**request.headers, **ranged}, private=request.private)
    lump = bytearray()

    async def flush() -> None:
        if lump:
            await trio.to_thread.run_sync(part.write, bytes(lump))
            on_bytes(len(lump))
            lump.clear()

    async def take(chunk: bytes) -> None:
        if part.size + len(lump) + len(chunk) > part.wanted.size:
            raise PreflightError(f"{part.wanted.name} is longer than it was published")
        lump.extend(chunk)
        if len(lump) >= _LUMP_BYTES:
            await flush()

    async with web.ask(asked) as response:
        if not _continues(response, before):
            on_bytes(-before)
            await trio.to_thread.run_sync(part.restart)
        try:
            await pour(response, take)
        finally:
            with trio.CancelScope(shield=True):  # a moment, which the next try is spared
                await flush()
    if not part.is_whole:
        raise PassingError(
            f"only {part.size} of {part.wanted.size} bytes of {part.wanted.name} came",
            has_advanced=part.size > before,
        )


def _continues(response: httpx.Response, start: int) -> bool:
    """Whether an answer goes on at byte `start`; else it begins at the beginning.

    Raises:
        FileRefusedError: It is neither.
    """
    status = response.status_code
    if status == _WHOLE:
        return start == 0
    found = re.match(r"bytes (\d+)-", response.headers.get("content-range", ""))
    if status == _PART and found and int(found[1]) == start:
        return True
    raise FileRefusedError(status, response.headers)


def _is_there(wanted: Wanted) -> bool:
    """Whether the file is complete already."""
    try:
        if wanted.target.stat().st_size != wanted.size:
            return False
        with wanted.target.open("rb") as file:
            return _hash_of(wanted, file).hexdigest() == wanted.digest.partition(":")[2]
    except OSError:
        return False


def _hash_of(wanted: Wanted, file: BinaryIO | None = None) -> hashlib._Hash:
    """The hash of a file as far as it has come, in the way of its digest."""
    if wanted.digest.startswith("sha256:"):
        hasher = hashlib.sha256()
    else:  # that of git, which hashes a head with the size before the content
        hasher = hashlib.sha1(b"blob %d\0" % wanted.size, usedforsecurity=False)
    while file is not None and (lump := file.read(_LUMP_BYTES)):
        hasher.update(lump)
    return hasher


@final
class _Part:
    """A file that is being made. What touches the disk is blocking.

    Attributes:
        size: Bytes that are there.
    """

    def __init__(self, wanted: Wanted, parts: Path) -> None:
        self.wanted, self.size = wanted, 0
        self._path = parts / hashlib.sha256(f"{wanted.digest} {wanted.name}".encode()).hexdigest()
        self._file: BinaryIO | None = None
        self._hash = _hash_of(wanted)

    @property
    def is_whole(self) -> bool:
        """Whether it has as many bytes as it should."""
        return self.size >= self.wanted.size

    @property
    def is_right(self) -> bool:
        """Whether what is there has the right checksum."""
        return self._hash.hexdigest() == self.wanted.digest.partition(":")[2]

    def open(self) -> None:
        """Open what an earlier try left, or begin."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("a+b")
        self._file.seek(0)
        self._hash = _hash_of(self.wanted, self._file)
        self.size = self._file.tell()
        if self.size > self.wanted.size:
            self.restart()

    def write(self, data: bytes) -> None:
        """Append."""
        assert self._file is not None
        self._file.write(data)
        self._file.flush()
        self._hash.update(data)
        self.size += len(data)

    def restart(self) -> None:
        """Forget what is there."""
        assert self._file is not None
        self._file.truncate(0)
        self._hash, self.size = _hash_of(self.wanted), 0

    def keep(self) -> None:
        """Put it to its place."""
        self.wanted.target.parent.mkdir(parents=True, exist_ok=True)
        self._path.replace(self.wanted.target)

    def close(self) -> None:
        """Close the file, which stays."""
        if self._file is not None:
            self._file.close()
