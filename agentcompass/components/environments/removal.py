"""Removing a directory tree that somebody else has made, in a worker thread."""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import final

from agentcompass.errors import SandboxError

PASSES = 100
"""Over a directory in which something is still being made."""
_MEANWHILE = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT}
"""What says that somebody else has made or removed something in it: then it is gone through again."""
_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(directory: Path, check: Callable[[], None]) -> None:
    """Remove a directory with all that is in it, however deep, unreadable, or still being written.

    Does nothing if it is not there. No link is followed.

    Args:
        directory: Not a link, and owned by this user.
        check: Called often; may raise to stop, after which removal can begin again.

    Raises:
        SandboxError: It could not be removed (code `workspace-left`), or is another user's (`bad-lease`).
    """
    try:
        top = os.open(directory, os.O_RDONLY | _DIRECTORY)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _left(directory, error) from error
    try:
        if os.fstat(top).st_uid != os.geteuid():
            raise SandboxError(f"{directory} is another user's", code="bad-lease", retryable=False)
        os.fchmod(top, 0o700)
        _remove(directory, top, check)
    except OSError as error:
        raise _left(directory, error) from error
    finally:
        os.close(top)


def _remove(directory: Path, top: int, check: Callable[[], None]) -> None:
    remover = _Emptier(top, check)
    for passes in itertools.count(1):
        try:
            remover.empty()
            directory.rmdir()
        except OSError as error:
            if not directory.exists():
                return
            if passes >= PASSES or error.errno not in _MEANWHILE:
                raise
        else:
            return


@final
class _Emptier:
    """Empties a directory; subdirectories move up before they are emptied, so depth costs neither recursion nor files."""

    def __init__(self, top: int, check: Callable[[], None]) -> None:
        self.top, self.check, self.moved = top, check, 0

    def empty(self) -> None:
        waiting = self._clear(self.top)
        while waiting:
            name = waiting.pop()
            fd = os.open(name, os.O_RDONLY | _DIRECTORY, dir_fd=self.top)
            try:
                waiting += self._clear(fd)
            finally:
                os.close(fd)
            os.rmdir(name, dir_fd=self.top)

    def _clear(self, fd: int) -> list[str]:
        """Remove what is no directory, and return the directories' names in `top`."""
        directories = []
        with os.scandir(fd) as entries:
            for entry in entries:
                self.check()
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=fd)
                    continue
                if entry.stat(follow_symlinks=False).st_mode & stat.S_IRWXU != stat.S_IRWXU:
                    _unlock(entry.name, fd)
                directories.append(entry.name if fd == self.top else self._move_up(entry.name, fd))
        return directories

    def _move_up(self, name: str, fd: int) -> str:
        while True:
            self.moved += 1
            new = f".removed-{os.getpid()}-{self.moved}"
            try:
                os.rename(name, new, src_dir_fd=fd, dst_dir_fd=self.top)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
            else:
                return new


def _unlock(name: str, parent: int) -> None:
    """Give the owner all rights to a directory, even one that may not be opened."""
    fd = os.open(name, os.O_PATH | _DIRECTORY, dir_fd=parent)
    try:
        os.chmod(f"/proc/self/fd/{fd}", 0o700)  # noqa: PTH101 - a descriptor's name, not a path
    finally:
        os.close(fd)


def _left(directory: Path, error: OSError) -> SandboxError:
    return SandboxError(f"{directory} could not be removed: {error}", code="workspace-left")
