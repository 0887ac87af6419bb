"""The board on which the users of an endpoint on this machine tell each other how they stand: one small file each.

There is no process in the middle and no file that two write. A file is locked for as long as its writer lives, so the
system itself tells who has died, however it died. Whoever sees the file of a dead one removes it, once nothing counts any
more of what that has used. The names of files have a hash of the endpoint and its key, and nothing else of them is written
down.

All functions here may take as long as the file system does: they belong into a worker thread.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import re
import secrets
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, final

import attrs

from agentcompass.data import frozen
from agentcompass.net.shares import Company, Standing

_VERSION: Final = "limits-1"
"""Of what is in the files: those who write other versions do not see each other."""
_MAX_BYTES: Final = 2048
_SILENT_SECONDS: Final = 10.0
"""Who has said nothing for so long is stopped or stuck, and is left no share until it speaks again."""
_NAME: Final = re.compile(r"\.?[0-9a-f]{32}\.[0-9a-f]{16}")
_MAX_SWEPT: Final = 1000
_REMEMBERED_SECONDS: Final = 90.0
"""What somebody who has gone had used is forgotten after this, whatever the file says: more than a minute does not count."""
_ABANDONED_SECONDS: Final = 60.0
"""Age at which a file that was never finished is removed."""


class BoardError(Exception):
    """There is no board, or it cannot be written. The text says why."""


def endpoint_hash(server: str, key: str) -> str:
    """Return what stands for an endpoint and the key with which it is used."""
    return hashlib.sha256(f"{server}\n{key}".encode()).hexdigest()[:32]


def board_dir(runtime_dir: str | None, fallback: Path | None = None) -> Path:
    """Return the directory of the boards of this user, made if need be.

    Args:
        runtime_dir: The user's own one, as `XDG_RUNTIME_DIR` names it; None or one that is not there: a directory below
            that for temporary files is used, which nobody else may have anything to do with.
        fallback: That directory.

    Raises:
        BoardError: It cannot be made, or others may write there.
    """
    uid = os.getuid()
    own = Path(runtime_dir or "")
    parent = own if own.is_absolute() and _is_private(own, uid) else None
    root = parent / "agentcompass" if parent else fallback or Path("/tmp", f"agentcompass-{uid}")
    directory = root / _VERSION
    try:
        for each in (root, directory):
            with contextlib.suppress(FileExistsError):
                each.mkdir(mode=0o700)
            if not _is_private(each, uid):
                raise BoardError(f"{each} can be written by others than its user")
    except OSError as error:
        raise BoardError(f"{directory}: {error.strerror or error}") from error
    return directory


def _is_private(directory: Path, uid: int) -> bool:
    """Whether a directory is one, not a link, and only its owner can do anything in it."""
    try:
        found = directory.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == uid
        and not stat.S_IMODE(found.st_mode) & 0o077
    )


@final
@frozen(kw_only=True)
class Seen:
    """What somebody else has written, and when."""

    name: str
    beat: float
    standing: Standing
    has_gone: bool = False


@final
class Membership:
    """One user's file on the board of one endpoint, from its making to `leave`.

    Args:
        directory: As `board_dir` gives it.
        topic: As `endpoint_hash` gives it.
        clock: Seconds, the same for all users on this machine.

    Raises:
        BoardError: The file cannot be made.
    """

    def __init__(
        self, directory: Path, topic: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._directory, self._topic, self._clock = directory, topic, clock
        self._name = f"{topic}.{secrets.token_hex(8)}"
        self._path: Path | None = None
        self._last: dict[str, Seen] = {}
        """What was read of each before: a file that is just being written cannot be read."""
        try:
            self._descriptor = os.open(
                directory / f".{self._name}",
                os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC,
                0o600,
            )
        except OSError as error:
            raise BoardError(f"{directory}: {error.strerror or error}") from error

    def exchange(self, own: Standing) -> Company:
        """Write down how this user stands, and return how the others do.

        Raises:
            BoardError: The file cannot be written, or the directory not be read.
        """
        try:
            self._write(own)
            if self._path is None:
                self._appear()
            seen = [each for each in self._look() if each is not None]
        except OSError as error:
            raise BoardError(f"{self._directory}: {error.strerror or error}") from error
        self._last = {each.name: each for each in seen}
        now = self._clock()
        heard = sorted(
            (each for each in seen if not each.has_gone and now - each.beat < _SILENT_SECONDS),
            key=lambda each: each.name,
        )
        return Company(
            others=tuple(each.standing for each in heard),
            rank=sum(each.name < self._name for each in heard),
            gone=tuple(each.standing for each in seen if each.has_gone),
        )

    def leave(self, last: Standing | None = None) -> None:
        """Remove the file, or leave it to be removed by others when it counts no more. May be called again.

        Args:
            last: How this user stands now.
        """
        if self._descriptor < 0:
            return
        with contextlib.suppress(OSError):
            if self._path is None:
                (self._directory / f".{self._name}").unlink()
            elif last is None or last.settled_at <= self._clock():
                self._path.unlink()
            else:
                self._write(last)
        os.close(self._descriptor)
        self._descriptor = -1

    def _write(self, own: Standing) -> None:
        data = json.dumps({"beat": self._clock(), **own.to_json()}).encode()
        line = b"%08x %s\n" % (zlib.crc32(data), data)
        if os.pwrite(self._descriptor, line, 0) != len(line):
            raise OSError("nothing more can be written")
        os.ftruncate(self._descriptor, len(line))

    def _appear(self) -> None:
        """Lock the file and let others see it, in this order: what is not locked counts as dead."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path = self._directory / self._name
        (self._directory / f".{self._name}").rename(path)
        self._path = path
        self._sweep()

    def _sweep(self) -> None:
        """Remove what the dead have left on other boards, at which nobody may ever look again."""
        with os.scandir(self._directory) as entries:
            for entry in itertools.islice(entries, _MAX_SWEPT):
                if not _NAME.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                    continue  # no file of ours
                if entry.name.startswith("."):
                    _remove_abandoned(entry)
                else:
                    self._read(entry.name)

    def _look(self) -> Iterator[Seen | None]:
        with os.scandir(self._directory) as entries:
            for entry in entries:
                topic, _, member = entry.name.lstrip(".").partition(".")
                if topic != self._topic or member == self._name.partition(".")[2]:
                    continue
                if entry.name.startswith("."):
                    _remove_abandoned(entry)
                else:
                    yield self._read(entry.name)

    def _counts(self, seen: Seen) -> bool:
        """Whether something of what one has used who has gone still counts."""
        seconds = (
            self._clock() - seen.beat
        )  # less than 0: since then this machine has been started anew
        return 0 <= seconds < _REMEMBERED_SECONDS and seen.standing.settled_at > self._clock()

    def _read(self, name: str) -> Seen | None:
        """What one file says; None if that counts no more, or was never anything that can be read."""
        path = self._directory / name
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None  # just removed
        try:
            seen = _parsed(name, os.pread(descriptor, _MAX_BYTES, 0)) or self._last.get(name)
            if not _is_dead(descriptor):
                return seen
            if seen is not None and self._counts(seen):
                return attrs.evolve(seen, has_gone=True)
            path.unlink(missing_ok=True)
            return None
        finally:
            os.close(descriptor)


def _is_dead(descriptor: int) -> bool:
    """Whether nobody holds the lock of a file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _parsed(name: str, line: bytes) -> Seen | None:
    """What a line says; None if it is not complete, or of another kind."""
    checksum, _, data = line.partition(b"\n")[0].partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(data):
            return None
        fields = json.loads(data)
        return Seen(name=name, beat=float(fields["beat"]), standing=Standing.from_json(fields))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _remove_abandoned(entry: os.DirEntry[str]) -> None:
    """Remove a file whose writer died before it was finished."""
    with contextlib.suppress(OSError):
        if time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED_SECONDS:  # noqa: TID251  # as file times are
            Path(entry.path).unlink()
