"""Files that are read as files: a pipe or a device in their place, or a link to one, neither blocks nor never ends."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


class NotRegularError(OSError):
    """A pipe, a socket, a device or a directory stands where a file should be."""


def open_regular(path: Path, *, follow: bool = True) -> BinaryIO:
    """Open a regular file for reading.

    Args:
        path: Of the file.
        follow: Whether it may be a symbolic link.

    Raises:
        NotRegularError: Something else stands there.
        OSError: It cannot be opened.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise NotRegularError(errno.EINVAL, "it is not a regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path) -> bytes:
    """Return the content of a regular file.

    Raises:
        NotRegularError: Something else stands there.
        OSError: It cannot be read.
    """
    with open_regular(path) as file:
        return file.read()
