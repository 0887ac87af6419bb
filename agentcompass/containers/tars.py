"""Tar streams of directory trees, made and unpacked in constant memory. Blocking functions, for worker threads.

What comes out of a container is the agent's work: no name in it may lead out of the target, whatever it says.
"""

from __future__ import annotations

import errno
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Final, Protocol, final

from agentcompass.containers.errors import DockerError
from agentcompass.copying import ENTRY_BYTES, kept_link
from agentcompass.data import frozen

CHUNK: Final = 256 * 1024
_END: Final = 2 * tarfile.BLOCKSIZE
"""Of zeros, at the end of every complete stream."""


@final
@frozen(kw_only=True)
class Entry:
    """One thing to put into a stream."""

    name: str
    """Relative."""
    source: Path | None = None
    """The file or directory of this machine with its mode and, if it is a file, its content."""
    link: str | None = None
    """Where it leads, if it is a link."""


class Source(Protocol):
    """Where a stream is read from."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most so many; empty at the end."""
        ...


@frozen
class _Target:
    write: Callable[[bytes], object]


def pack(
    entries: Iterable[Entry], write: Callable[[bytes], object], *, owner: tuple[int, int] = (0, 0)
) -> None:
    """Make a stream of files, directories and links, in the order given.

    Args:
        entries: What goes into it.
        write: Takes it, in pieces of at most `CHUNK`.
        owner: uid and gid of everything.

    Raises:
        OSError: Something cannot be read, or became shorter meanwhile.
    """
    # The mode "w|" needs no more of its file than this.
    target: IO[bytes] = _Target(write)  # type: ignore[assignment]
    with tarfile.open(fileobj=target, mode="w|", bufsize=CHUNK, format=tarfile.PAX_FORMAT) as tar:
        for entry in entries:
            _add(tar, entry, owner)


def header(name: str, size: int, mode: int, mtime: float, owner: tuple[int, int]) -> bytes:
    """Return what stands before a file's content in a stream."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, mode, int(mtime)
    info.uid, info.gid = owner
    return info.tobuf(tarfile.PAX_FORMAT)


def padding(size: int) -> bytes:
    """Return what stands after the content of a stream's only file."""
    return bytes(-size % tarfile.BLOCKSIZE + _END)


def _add(tar: tarfile.TarFile, entry: Entry, owner: tuple[int, int]) -> None:
    info = tarfile.TarInfo(entry.name)
    info.uid, info.gid = owner
    if entry.link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, entry.link
        tar.addfile(info)
    elif entry.source is None or entry.source.is_dir():
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        if entry.source is not None:
            status = entry.source.stat()
            info.mode, info.mtime = status.st_mode & 0o777, int(status.st_mtime)
        tar.addfile(info)
    else:
        with entry.source.open("rb") as file:
            status = os.fstat(file.fileno())
            info.size, info.mode = status.st_size, status.st_mode & 0o777
            info.mtime = int(status.st_mtime)
            tar.addfile(info, file)


def unpack(
    source: Source, check: Callable[[], None], *, target: Path, base: str, max_bytes: int | None
) -> None:
    """Lay out a stream as the engine makes it of one file or directory, by the rules of `copying`.

    Args:
        source: The stream; read to its end.
        check: Called often; may raise to stop.
        target: The copy's own path; directories that are there are merged, files and links replaced.
        base: The path in the container that was asked for, absolute.
        max_bytes: Of all files together, names included; None sets no limit.

    Raises:
        DockerError: More than `max_bytes` (code `artifact-too-large`), a name that leads outside (`path-outside`), or
            a stream that is not complete (`archive-broken`).
        FileNotFoundError: It is neither a file nor a directory.
    """
    counted = _Counted(source)
    laying = _Laying(target, base, max_bytes)
    reader: IO[bytes] = counted  # type: ignore[assignment]  # "r|" needs no more
    try:
        with tarfile.open(fileobj=reader, mode="r|", bufsize=CHUNK) as tar:
            while (member := tar.next()) is not None:
                check()
                with _left_out_if_too_long():
                    laying.add(tar, member)
                tar.members.clear()  # type: ignore[attr-defined]  # else all names are kept
            end = tar.offset
    except tarfile.TarError as error:
        raise _broken(str(error)) from error
    while counted.read(CHUNK):
        check()
    # One that was cut between two files looks like one that has ended, but for this.
    if counted.size < end + _END:
        raise _broken("it has no end")
    laying.finish()


def first_file(source: Source, check: Callable[[], None], *, limit: int) -> bytes:
    """Return the content, at most `limit` bytes of it, of the first file in a stream."""
    data = bytearray()
    reader: IO[bytes] = _Counted(source)  # type: ignore[assignment]  # "r|" needs no more
    try:
        with tarfile.open(fileobj=reader, mode="r|", bufsize=CHUNK) as tar:
            member = tar.next()
            content = tar.extractfile(member) if member is not None else None
            while (
                content
                and len(data) < limit
                and (more := content.read(min(CHUNK, limit - len(data))))
            ):
                check()
                data += more
    except tarfile.TarError as error:
        raise _broken(str(error)) from error
    return bytes(data)


def _broken(reason: str) -> DockerError:
    text = f"what the engine sent of a container's files is not complete: {reason}"
    return DockerError(text, code="archive-broken")


@final
class _Counted:
    def __init__(self, source: Source) -> None:
        self._source = source
        self.size = 0

    def read(self, size: int) -> bytes:
        data = self._source.read(size)
        self.size += len(data)
        return data


@final
class _Laying:
    """The state of one `unpack`."""

    def __init__(self, target: Path, base: str, max_bytes: int | None) -> None:
        self._target, self._base, self._max_bytes = target, base, max_bytes
        self._left = max_bytes
        self._links: list[tuple[Path, str]] = []
        self._is_empty = True

    def add(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Lay out one file, directory or link."""
        name = self._inner(member.name)
        copy = self._target / name
        self._count(ENTRY_BYTES + (member.size if member.isreg() else 0))
        if member.isdir():
            self._is_empty = False
            copy.mkdir(parents=True, exist_ok=True)
        elif member.issym():
            parent = str(PurePosixPath(self._base, name).parent)
            kept = kept_link(self._base, parent, member.linkname)
            if kept is not None:
                self._links.append((copy, kept))
        elif member.islnk():
            self._hard_link(copy, self._target / self._inner(member.linkname))
        elif member.isreg():
            self._is_empty = False
            content = tar.extractfile(member)
            assert content is not None  # of a regular file
            with self._created(copy) as file:
                shutil.copyfileobj(content, file, CHUNK)
                os.fchmod(file.fileno(), member.mode & 0o777)

    def _created(self, copy: Path) -> IO[bytes]:
        """A new file; mostly there is nothing in its place, and its directory was made just now."""
        try:
            return copy.open("xb")
        except (FileExistsError, FileNotFoundError):
            _make_way(copy)
            return copy.open("xb")

    def finish(self) -> None:
        """Make the links: at the end, so that no file is written through one of them."""
        for copy, to in self._links:
            with _left_out_if_too_long():
                _make_way(copy)
                copy.symlink_to(to)
        if self._is_empty:
            raise FileNotFoundError(f"{self._base!r} is neither a file nor a directory")

    def _inner(self, name: str) -> PurePosixPath:
        """The name below the one that all names of a stream begin with; of the root they begin with a slash."""
        is_root = self._base == "/"
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts or (name.startswith("/") and not is_root):
            raise DockerError(f"{name!r} leads out of the copied directory", code="path-outside")
        return PurePosixPath(*(parts if is_root else parts[1:]))

    def _hard_link(self, copy: Path, first: Path) -> None:
        if first.is_symlink() or not first.is_file():
            return  # to what is left out
        _make_way(copy)
        os.link(first, copy, follow_symlinks=False)

    def _count(self, size: int) -> None:
        if self._left is None or self._max_bytes is None:
            return
        self._left -= size
        if self._left < 0:
            raise too_large(self._base, self._max_bytes)


@contextmanager
def _left_out_if_too_long() -> Iterator[None]:
    """What lies deeper than any path can name is left out: no evaluator could open it either."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise


def _make_way(copy: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.unlink(missing_ok=True)


def too_large(path: str, max_bytes: int) -> DockerError:
    """Return the error for a copy beyond its limit."""
    return DockerError(f"{path!r} has more than {max_bytes} bytes", code="artifact-too-large")
