"""One writer per run directory: a file lock that the system releases when its holder dies, however it dies."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Final, final

from agentcompass.errors import StoreError
from agentcompass.store.files import explained

_UNSUPPORTED: Final = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}


@final
class RunLock:
    """The lock of a run directory, taken when made.

    The file holds the pid of the holder, for people. On a file system without locks it protects nothing; that the
    journal is created exclusively still keeps a second writer out.

    Args:
        path: The lock file; its directory exists.

    Raises:
        StoreError: Another process, or another run of this one, holds it; the message names the pid.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with explained("open the lock", path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            self._take()
        except BaseException:
            os.close(self._descriptor)
            raise

    def _take(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(self._descriptor, 32, 0).decode(errors="replace").strip()
            raise StoreError(
                f"{self.path.parent} is being written by process {pid or 'of unknown pid'}",
                hint="Wait for it to end, or choose another run id.",
            ) from None
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise StoreError(f"cannot lock {self.path}: {error.strerror}") from error
        with explained("write", self.path):
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others have it. The file stays: removing it would let two writers lock different files."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def is_held(path: Path) -> bool:
    """Whether somebody holds a lock file now. False if there is none, it cannot be opened, or nothing can be locked there.

    Sees holders that `identity.is_alive` cannot: in another pid namespace, or on another host of a shared file system.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    else:
        return False
    finally:
        os.close(descriptor)
