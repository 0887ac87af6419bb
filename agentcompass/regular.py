"""Files that are read as files, and appended to as a whole.

A pipe or a device in their place, or a link to one, neither blocks nor never ends.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

_PIECE: Final = 64 * 1024


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


def append_all(descriptor: int, data: bytes) -> int:
    """Append all of `data` or nothing: what got in before an error is cut off again.

    Returns:
        Where it begins, in bytes.

    Raises:
        OSError: Nothing was appended (unless even cutting failed: then a torn line is left, which readers drop).
    """
    start = os.lseek(descriptor, 0, os.SEEK_END)
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, start)
        raise
    return start


def cut_torn_line(descriptor: int) -> None:
    """Cut off what stands after the last line break of a file, which is all that a crash may have left of a line."""
    end = size = os.lseek(descriptor, 0, os.SEEK_END)
    while end > 0:
        start = max(0, end - _PIECE)
        piece = os.pread(descriptor, end - start, start)
        if (at := piece.rfind(b"\n")) >= 0:
            end = start + at + 1
            break
        end = start
    if end < size:
        os.ftruncate(descriptor, end)
