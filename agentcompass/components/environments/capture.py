"""What is kept of a command's output: its head and its tail, in constant memory."""

from __future__ import annotations

from typing import final


@final
class HeadTail:
    """Collects bytes, and beyond a limit drops them from the middle.

    Args:
        limit_bytes: How many are kept, half of them from the beginning; what is dropped is named by a marker beside them.
    """

    def __init__(self, limit_bytes: int) -> None:
        limit = max(0, limit_bytes)
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self._seen = 0

    @property
    def is_truncated(self) -> bool:
        """Whether something was dropped."""
        return self._seen > self._head_limit + self._tail_limit

    def add(self, data: bytes) -> None:
        """Append output."""
        self._seen += len(data)
        room = self._head_limit - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        # Cutting at twice the limit moves every byte once at most.
        if len(self._tail) > 2 * self._tail_limit:
            self._cut()

    def text(self) -> str:
        """What was kept, decoded once as UTF-8 with replacement characters."""
        self._cut()
        dropped = self._seen - len(self._head) - len(self._tail)
        marker = f"\n[... {dropped} bytes dropped ...]\n".encode() if dropped else b""
        return b"".join((self._head, marker, self._tail)).decode(errors="replace")

    def _cut(self) -> None:
        del self._tail[: max(0, len(self._tail) - self._tail_limit)]
