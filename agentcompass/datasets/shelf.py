"""The place of one data set in `data_dir`: complete or absent, made by one process at a time, checked when it is used.

```
<data_dir>/datasets/<name>/files/...      what was published
<data_dir>/datasets/<name>/content.json   where it is from, the revision, each file's size; written last
<data_dir>/datasets/<name>.part/          the same while it is being made; the next try goes on from there
<data_dir>/datasets/<name>.lock           held by whoever makes it
```
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, final

import trio

from agentcompass.data import frozen
from agentcompass.errors import PreflightError

_CONTENT: Final = "content.json"
_FORMAT: Final = 1
_POLL_SECONDS: Final = 0.1
_HINTS: Final = {
    errno.ENOSPC: "Free disk space, or choose another data directory (--data-dir): what has come is kept.",
    errno.EDQUOT: "Free space of your quota, or choose another data directory (--data-dir).",
    errno.EROFS: "Choose another data directory (--data-dir): this file system is mounted read-only.",
    errno.EACCES: "Give this user the right to write there, or choose another data directory (--data-dir).",
    errno.EPERM: "Give this user the right to write there, or choose another data directory (--data-dir).",
}


@frozen(kw_only=True)
class Obtained:
    """A data set on this machine."""

    directory: Path
    """Its files. They are shared with other runs: nobody changes them."""
    revision: str
    """What was obtained, exactly: a commit id; of a registry, `<version>-<hash of its list>`."""


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a PreflightError that says what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise PreflightError(
            f"what is fetched cannot be kept at {path}: {reason}", hint=_HINTS.get(error.errno or 0)
        ) from error


@final
class Shelf:
    """The place of one data set.

    Args:
        data_dir: The root of all downloads.
        name: Of its folder.
        folder: Below `data_dir`, with others of its kind.
    """

    def __init__(self, data_dir: Path, name: str, folder: str = "datasets") -> None:
        root = data_dir.absolute() / folder
        self.place = root / name
        self.part = root / f"{name}.part"
        self.files = self.part / "files"
        """Where the files are put while it is being made."""
        self._lock_file = root / f"{name}.lock"

    def found(self) -> Obtained | None:
        """Return what is there; None if nothing is, or not all of it. Blocking."""
        try:
            content = json.loads((self.place / _CONTENT).read_bytes())
            sizes, revision = content["files"], content["revision"]
            if content["format"] != _FORMAT or not isinstance(revision, str):
                return None
            for name, size in sizes.items():
                if _size(self.place / "files" / name) != size:
                    return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return Obtained(directory=self.place / "files", revision=revision)

    @asynccontextmanager
    async def locked(self, on_wait: Callable[[], None]) -> AsyncIterator[None]:
        """Hold the place against other processes, and other tasks of this one.

        Args:
            on_wait: Called once if somebody else holds it.
        """
        with explained(self._lock_file):
            self._lock_file.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            waits = False
            while not _take(descriptor):
                if not waits:
                    waits = True
                    on_wait()
                await trio.sleep(_POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def begin(self) -> None:
        """Prepare the directory that is being filled, from what an earlier try left, or from what is damaged. Blocking."""
        with explained(self.place):
            if self.place.exists():
                if self.part.exists():
                    shutil.rmtree(self.place)
                else:
                    self.place.rename(self.part)
            with contextlib.suppress(FileNotFoundError):
                (self.part / _CONTENT).unlink()
            self.files.mkdir(parents=True, exist_ok=True)

    def clear(self) -> None:
        """Remove the files that an earlier try left. Blocking."""
        with explained(self.files):
            shutil.rmtree(self.files)
            self.files.mkdir()

    def need(self, size: int) -> None:
        """Check that there is room for so many more bytes. Blocking."""
        free = shutil.disk_usage(self.part).free
        if size > free:
            raise PreflightError(
                f"the data set needs {megabytes(size)} MB, and {self.part.parent} has {megabytes(free)} MB left",
                hint=_HINTS[errno.ENOSPC],
            )

    def finish(self, source: str, revision: str) -> Obtained:
        """Put the complete directory to its place. Blocking.

        Args:
            source: Where it is from, for people.
            revision: What it is.
        """
        with explained(self.place):
            for other in self.part.iterdir():
                if other != self.files:
                    shutil.rmtree(other)
            content = {
                "format": _FORMAT,
                "source": source,
                "revision": revision,
                "files": {
                    path.relative_to(self.files).as_posix(): _size(path)
                    for path in sorted(self.files.rglob("*"))
                    if path.is_symlink() or not path.is_dir()
                },
            }
            with (self.part / _CONTENT).open("wb") as file:
                file.write(json.dumps(content, indent=1).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            self.part.rename(self.place)
        return Obtained(directory=self.place / "files", revision=revision)


def megabytes(size: int) -> str:
    """Return a number of bytes in millions, with one digit."""
    return f"{size / 1e6:.1f}"


def _size(path: Path) -> int:
    return path.lstat().st_size


def _take(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks protects nothing, and stops nobody
        return True
    return True
