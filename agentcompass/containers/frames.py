"""The engine's raw stream: standard output and error of one program on one connection, taken apart. Pure.

Each frame has a head of eight bytes: which stream (0 and 1 output, 2 error, 3 the engine's own words), three of zero,
and the length, big-endian.

Source: Docker Engine API, "Attach to a container", "Stream format".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, final

STDOUT: Final = 1
STDERR: Final = 2
_STREAMS: Final = {0: STDOUT, 1: STDOUT, 2: STDERR, 3: STDERR}
_HEAD: Final = struct.Struct(">BxxxL")


@final
class Frames:
    """Takes a stream as it comes and gives it in pieces; keeps no more than an incomplete head."""

    def __init__(self) -> None:
        self._head = b""
        self._stream, self._left = 0, 0

    @property
    def is_complete(self) -> bool:
        """Whether what has come so far ends with a frame."""
        return not self._head and not self._left

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Give the pieces of what has come, each with its stream: `STDOUT` or `STDERR`.

        Raises:
            ValueError: It is no such stream.
        """
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                at += len(piece)
                self._left -= len(piece)
                yield self._stream, piece
                continue
            missing = _HEAD.size - len(self._head)
            self._head += data[at : at + missing]
            at += missing
            if len(self._head) == _HEAD.size:
                number, self._left = _HEAD.unpack(self._head)
                if number not in _STREAMS or any(self._head[1:4]):
                    raise ValueError(f"no frame begins with {self._head!r}")
                self._stream, self._head = _STREAMS[number], b""
