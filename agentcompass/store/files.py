"""File operations that succeed entirely or leave what was there, and errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from agentcompass.errors import StoreError
from agentcompass.regular import append_all

_HINTS: Final = {
    errno.ENOSPC: "Free disk space, then run again with --reuse: what is graded is kept.",
    errno.EDQUOT: "The disk quota is used up: free space, then run again with --reuse.",
    errno.EACCES: "Give this user the right to write there, or choose another results directory.",
    errno.EPERM: "Give this user the right to write there, or choose another results directory.",
    errno.EROFS: "The file system is mounted read-only: choose another results directory.",
    errno.ENAMETOOLONG: "Choose a results directory with a shorter path.",
    errno.EMFILE: "Raise the limit of open files (ulimit -n) or lower task_concurrency.",
}


def store_error(action: str, path: Path, error: OSError) -> StoreError:
    """Return the error for a failed file operation.

    Args:
        action: What was tried, as an infinitive: "write", "read".
        path: With which file.
        error: What the system said.
    """
    reason = error.strerror or str(error)
    return StoreError(f"cannot {action} {path}: {reason}", hint=_HINTS.get(error.errno or 0))


@contextlib.contextmanager
def explained(action: str, path: Path) -> Iterator[None]:
    """Turn an OSError of the block into a StoreError that names file and remedy."""
    try:
        yield
    except OSError as error:
        raise store_error(action, path, error) from error


def replace_file(path: Path, data: bytes, *, sync: bool) -> None:
    """Write a file so that a reader sees the old content or the new one, whole, also after a crash.

    Args:
        path: In an existing directory.
        data: The new content.
        sync: Whether it must survive a power cut when this returns.

    Raises:
        OSError: It could not be written; the old content is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(temporary, flags, 0o666)
        try:
            append_all(descriptor, data)
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if sync:
        sync_directory(path.parent)


def make_directory(path: Path) -> None:
    """Make a directory and what is missing above it; their names survive a power cut.

    Raises:
        OSError: It could not be made.
    """
    nearest = next(parent for parent in path.parents if parent.exists())
    path.mkdir(parents=True, exist_ok=True)
    sync_names(path, nearest)


def sync_names(path: Path, root: Path) -> None:
    """Make the name of `path` durable, and those of the directories between it and `root`."""
    while path != root:
        path = path.parent
        sync_directory(path)


def sync_directory(path: Path) -> None:
    """Make new and renamed names in a directory durable, where the file system can."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


def append_to(path: Path, data: bytes) -> int:
    """Append to a file, which is made if it is not there, as `append_all` does.

    Returns:
        Where the data begins, in bytes.
    """
    descriptor = open_append(path)
    try:
        return append_all(descriptor, data)
    finally:
        os.close(descriptor)


def open_append(path: Path, *, exclusive: bool = False) -> int:
    """Open a file of this run for appending, never through a symbolic link; return its descriptor.

    Args:
        path: In an existing directory.
        exclusive: Whether it is an error (FileExistsError) that it is there.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags | (os.O_EXCL if exclusive else 0), 0o666)
