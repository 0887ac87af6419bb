"""Server-sent events out of bytes, as they arrive. Pure.

Source: WHATWG HTML, 9.2 "Server-sent events". Lines are split as bytes and decoded whole, so that a character cut in
two by the network is never damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, final

DONE: Final = "[DONE]"
"""The data of the event by which OpenAI-like endpoints end a stream."""

_BOM: Final = b"\xef\xbb\xbf"
_EVENT_END: Final = b"\n\n"


class EventTooLargeError(ValueError):
    """A line or an event is longer than the limit."""


class ServerSentEvent(
    NamedTuple
):  # which is made in a third of the time: there is one for every token
    """One event: its type, and its data lines joined by newlines."""

    data: str
    event: str = "message"


@final
class EventDecoder:
    """Cuts a byte stream into events.

    Args:
        max_event_bytes: Limit of one line and of the data of one event, so that a stream without line ends cannot
            take all memory.
    """

    def __init__(self, *, max_event_bytes: int) -> None:
        self._max_event_bytes = max_event_bytes
        self._rest = bytearray()
        """What came after the last complete line."""
        self._scanned = 0
        """So much of `_rest` is known to hold no line end: long lines are searched once, not once a chunk."""
        self._is_first_line = True
        self._data: list[bytes] = []
        self._data_size = 0
        self._event = ""

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Take the next bytes and return the events that they complete.

        Raises:
            EventTooLargeError: The limit is exceeded; the decoder must not be used any more.
        """
        self._rest += chunk
        return [*self._plain_events(), *self._events()]

    def finish(self) -> list[ServerSentEvent]:
        """Return what the end of the stream completes: an event whose closing empty line was left out, if any."""
        line = bytes(self._rest).rstrip(b"\r")
        self._rest.clear()
        self._scanned = 0
        found = [self._take(line), self._take(b"")] if line else [self._take(b"")]
        return [event for event in found if event is not None]

    def _plain_events(self) -> list[ServerSentEvent]:
        """Take complete events off the front for as long as they have the one form in which all endpoints send them.

        That is one line of data, after which kind of event it is or not; it takes a fourth of the time.
        """
        if self._is_first_line and len(self._rest) >= len(_BOM):
            self._rest, self._is_first_line = self._rest.removeprefix(_BOM), False
        end = self._rest.rfind(_EVENT_END)
        if end < 0 or self._is_first_line or self._data or self._event or b"\r" in self._rest:
            return []
        events: list[ServerSentEvent] = []
        size = 0
        for block in bytes(self._rest[:end]).split(_EVENT_END):
            event = _plain_event(block) if len(block) <= self._max_event_bytes else None
            if event is None:
                break
            events.append(event)
            size += len(block) + len(_EVENT_END)
        del self._rest[:size]
        self._scanned = max(0, self._scanned - size)
        return events

    def _events(self) -> Iterator[ServerSentEvent]:
        for line in self._lines():
            if (event := self._take(line)) is not None:
                yield event

    def _lines(self) -> Iterator[bytes]:
        start = 0
        while (end := self._line_end(max(start, self._scanned))) is not None:
            yield bytes(self._rest[start : end[0]])
            start = end[1]
        del self._rest[:start]
        # a final "\r" stays unscanned: the next chunk may begin with its "\n"
        self._scanned = len(self._rest) - self._rest.endswith(b"\r")
        if len(self._rest) > self._max_event_bytes:
            raise EventTooLargeError(f"a line of more than {self._max_event_bytes} bytes")

    def _line_end(self, start: int) -> tuple[int, int] | None:
        """Where the next line ends and where the one after begins; None if it is not complete."""
        feed = self._rest.find(b"\n", start)
        carriage = self._rest.find(b"\r", start, feed if feed >= 0 else len(self._rest))
        if carriage < 0:
            return None if feed < 0 else (feed, feed + 1)
        if carriage + 1 == len(self._rest):
            return None
        return carriage, carriage + (2 if self._rest[carriage + 1] == ord("\n") else 1)

    def _take(self, line: bytes) -> ServerSentEvent | None:
        if self._is_first_line:
            line, self._is_first_line = line.removeprefix(_BOM), False
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._data_size += len(value) + 1
            if self._data_size > self._max_event_bytes:
                raise EventTooLargeError(f"an event of more than {self._max_event_bytes} bytes")
        elif name == b"event":
            self._event = value.decode(errors="replace")
        return None  # comments have an empty name; id and retry are for clients that reconnect

    def _dispatch(self) -> ServerSentEvent | None:
        data, event = self._data, self._event
        self._data, self._data_size, self._event = [], 0, ""
        if not data:
            return None
        return ServerSentEvent(
            data=b"\n".join(data).decode(errors="replace"), event=event or "message"
        )


def _plain_event(block: bytes) -> ServerSentEvent | None:
    """The event of a block without carriage returns, if it has at most a type and one line of data, in this order."""
    kind = "message"
    if block.startswith(b"event: "):
        line, _, block = block.partition(b"\n")
        kind = line[7:].decode(errors="replace") or kind
    if not block.startswith(b"data: ") or b"\n" in block:
        return None
    return ServerSentEvent(block[6:].decode(errors="replace"), kind)
