"""The engine's ends of a command's standard streams."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import termios
from collections.abc import Iterator
from typing import final

import attrs
import trio

CHUNK = 65536


@final
@attrs.define(eq=False)
class Streams:
    """Descriptors for one command: `child` are its 0, 1 and 2, the others are ours (-1: there is none)."""

    child: list[int] = attrs.field(factory=list)
    stdin: int = -1
    stdout: int = -1
    stderr: int = -1
    tty: bytes | None = None
    """The terminal's path, when all of them are one."""

    def close_child(self) -> None:
        """Close the command's ends here, once the command has them."""
        _close(*self.child)
        self.child = []

    def close_stdin(self) -> None:
        """Close our end of its input, if that is a pipe."""
        if self.stdin >= 0:
            os.close(self.stdin)
        self.stdin = -1

    def close(self) -> None:
        """Close everything that is still open."""
        self.close_child()
        _close(*{self.stdin, self.stdout, self.stderr} - {-1})
        self.stdin = self.stdout = self.stderr = -1


def for_exec(data: bytes) -> Streams:
    """Streams for a command that reads `data` and whose stdout and stderr are kept apart.

    The input is a file in memory: no task has to feed it, and a command that does not read it costs nothing.
    """
    streams = Streams()
    with _undone_on_error(streams):
        if data:
            fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
            streams.child.append(fd)
            with os.fdopen(fd, "wb", closefd=False) as file:
                file.write(data)
            os.lseek(fd, 0, os.SEEK_SET)
        else:
            streams.child.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        streams.stdout = _output(streams)
        streams.stderr = _output(streams)
    return streams


def for_program() -> Streams:
    """Streams for an interactive program without a terminal; its stderr is discarded."""
    streams = Streams()
    with _undone_on_error(streams):
        theirs, streams.stdin = os.pipe()
        streams.child.append(theirs)
        streams.stdout = _output(streams)
        streams.child.append(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
        os.set_blocking(streams.stdin, False)
    return streams


def for_helper(control: int) -> Streams:
    """Streams for a program of ours that is talked to on its descriptor 0; `stdout` reads what it says on its stderr."""
    streams = Streams(child=[control])
    with _undone_on_error(streams):
        streams.child.append(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
        streams.stdout = _output(streams)
    return streams


def for_terminal(ours: int, theirs: int, path: bytes) -> Streams:
    """Streams for a program on a new terminal of 24 by 80, given by its two ends and its path."""
    streams = Streams(child=[theirs] * 3, stdin=ours, stdout=ours, tty=path)
    with _undone_on_error(streams):
        os.set_blocking(ours, False)
        set_size(ours, 24, 80)
    return streams


def set_size(terminal: int, rows: int, columns: int) -> None:
    """Change a terminal's size; its foreground programs are told by SIGWINCH."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


async def read(fd: int) -> bytes:
    """Return the next output of a non-blocking descriptor; empty at its end."""
    while True:
        try:
            return os.read(fd, CHUNK)
        except BlockingIOError:
            await trio.lowlevel.wait_readable(fd)
        except OSError:
            return b""  # a terminal that no process has open any more says EIO


async def write(fd: int, data: bytes) -> None:
    """Write all of `data`; BrokenPipeError if nobody reads it."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            await trio.lowlevel.wait_writable(fd)


def _output(streams: Streams) -> int:
    ours, theirs = os.pipe()
    streams.child.append(theirs)
    os.set_blocking(ours, False)
    return ours


def _close(*fds: int) -> None:
    for fd in set(fds):
        os.close(fd)


@contextlib.contextmanager
def _undone_on_error(streams: Streams) -> Iterator[None]:
    try:
        yield
    except BaseException:
        streams.close()
        raise
