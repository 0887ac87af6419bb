"""Writing to a stream that may be stopped, full, closed or not able to show a character, without ever being stuck.

`Output` sends bytes, `Region` says which bytes repaint the lines at the bottom of a terminal. Both are used by
the display's thread alone.
"""

from __future__ import annotations

import errno
import io
import os
import select
from collections.abc import Callable, Sequence
from typing import Final, TextIO, final

from agentcompass.progress.text import encodable

_CHUNK_BYTES: Final = 512
"""Less than any pipe or terminal takes at once when it says that it is ready."""
_POLL_MILLISECONDS: Final = 100
_GONE: Final = frozenset({errno.EPIPE, errno.EIO, errno.EBADF, errno.ENXIO, errno.ECONNRESET})

_ERASE_LINE_END: Final = "\x1b[K"
_ERASE_BELOW: Final = "\x1b[J"
_HOME: Final = "\x1b[H"


@final
class Output:
    """A text stream as a place to send text to.

    A real file is written through its descriptor: a thread that is stuck inside Python's own buffers would hold a
    lock that the interpreter needs at its end.

    Args:
        stream: Usually `sys.stderr`; anything with `write` and `flush` will do.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._fd = _descriptor(stream)
        self.encoding: str | None = getattr(stream, "encoding", None)
        self.is_gone = False
        """Nobody reads any more: a closed pipe, a hung-up terminal. Everything written is dropped."""

    @property
    def is_terminal(self) -> bool:
        """Whether the stream is a terminal that moves its cursor when told to."""
        if self._fd is None or os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
            return False
        return os.isatty(self._fd)

    def size(self) -> tuple[int, int]:
        """Return the terminal's columns and rows now; 80 by 24 where there is no telling."""
        try:
            columns, rows = os.get_terminal_size(self._fd if self._fd is not None else 2)
        except OSError:
            columns, rows = 0, 0
        return columns or 80, rows or 24

    def abandon(self) -> None:
        """Write nothing from now on: somebody else may be writing here."""
        self.is_gone = True

    def send(self, text: str, gives_up: Callable[[], bool]) -> bool:
        """Write all of `text`, waiting while the stream takes nothing.

        Args:
            text: Characters that the encoding lacks are written as escapes.
            gives_up: Asked several times a second while waiting; when true, the rest is dropped.

        Returns:
            Whether everything was written.
        """
        if self.is_gone:
            return False
        try:
            if self._fd is None:
                self._stream.write(encodable(text, self.encoding) if self.encoding else text)
                self._stream.flush()
                return True
            return self._send_bytes(self._fd, text, gives_up)
        except ValueError:  # a stream that somebody closed
            self.is_gone = True
        except (
            OSError
        ) as error:  # a full disk may have room again later, a closed pipe has no reader ever
            self.is_gone = error.errno in _GONE
        return False

    def _send_bytes(self, fd: int, text: str, gives_up: Callable[[], bool]) -> bool:
        rest = memoryview(encodable(text, self.encoding).encode(self.encoding or "ascii"))
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        while rest:
            is_ready = poll.poll(_POLL_MILLISECONDS)
            if self.is_gone:
                return False
            if not is_ready:
                if gives_up():
                    return False
                continue
            try:
                rest = rest[os.write(fd, rest[:_CHUNK_BYTES]) :]
            except BlockingIOError:
                if gives_up():
                    return False
        return True


@final
class Region:
    """The last lines of a terminal, painted again and again below everything else.

    The cursor rests at the start of the line under the region and is never hidden, and no mode of the terminal is
    changed: whatever ends the process, within a painting too, the terminal is left in order.
    """

    def __init__(self) -> None:
        self._height = 0

    def paint(self, lines: Sequence[str], above: str = "") -> str:
        """Return what replaces the region by `lines`, after `above` (complete lines) has been put over it.

        Lines are narrower and fewer than the terminal; those of `above` may be of any length.
        """
        over = f"{_ERASE_BELOW}{above}" if above else ""
        return f"{self._to_top()}{over}{self._body(lines)}"

    def repaint_all(self, lines: Sequence[str], above: Sequence[str]) -> str:
        """The same for a terminal that has become narrower, where no one knows how old lines were wrapped: all anew."""
        return f"{_HOME}{_ERASE_BELOW}{_lines(above)}{self._body(lines)}"

    def clear(self, above: str = "") -> str:
        """Return what removes the region and leaves `above` in its place."""
        text = f"{self._to_top()}{_ERASE_BELOW}{above}"
        self._height = 0
        return text

    def _to_top(self) -> str:
        return f"\r\x1b[{self._height}A" if self._height else "\r"

    def _body(self, lines: Sequence[str]) -> str:
        self._height = len(lines)
        return f"{_lines(lines)}{_ERASE_BELOW}"


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}{_ERASE_LINE_END}\n" for line in lines)


def _descriptor(stream: TextIO) -> int | None:
    # Only of a real file: a notebook's stream has a descriptor too, but it leads elsewhere.
    if type(stream) is not io.TextIOWrapper:
        return None
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None
