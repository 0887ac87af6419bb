"""Terminal recordings (asciicast, version 2): what a terminal showed is cut into events anywhere, also in the middle of a secret."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, Final, final

import attrs

from agentcompass.secrets import MASK, Scrubber

SUFFIX: Final = ".cast"
_OUTPUT: Final = "o"
_MAX_LINE: Final = 16 * 1024 * 1024
"""Bytes of an event; a longer one is passed on as it is, in pieces."""
_WINDOW: Final = 64 * 1024
"""Characters of output that are looked at together, and more if a secret is that long."""


@attrs.define(eq=False)
class _Line:
    """A line, and what it shows if it is an event of output."""

    data: bytes
    head: Sequence[object] = ()
    text: str = ""
    is_changed: bool = False

    def cut(self, start: int, end: int, instead: str) -> None:
        self.text = f"{self.text[: max(start, 0)]}{instead}{self.text[end:]}"
        self.is_changed = True
        self.data = json.dumps([*self.head, self.text]).encode() + b"\n"


def shows_secret(file: BinaryIO, scrubber: Scrubber) -> bool:
    """Whether a secret is shown, be it cut across events. Blocking."""
    return any(line.is_changed for line in _cleaned(_lines(file), scrubber))


def scrubbed(file: BinaryIO, scrubber: Scrubber) -> Iterator[bytes]:
    """Return the lines of a recording that shows none: it is masked in the event where it begins. Blocking."""
    return (line.data for line in _cleaned(_lines(file), scrubber))


def _lines(file: BinaryIO) -> Iterator[_Line]:
    while data := file.readline(_MAX_LINE):
        yield _line(data)


def _line(data: bytes) -> _Line:
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        return _Line(data)
    match event:
        case [int() | float() as at, str() as kind, str() as text] if kind == _OUTPUT:
            return _Line(data, (at, kind), text)
    return _Line(data)


def _cleaned(lines: Iterable[_Line], scrubber: Scrubber) -> Iterator[_Line]:
    window = _Window(scrubber)
    for line in lines:
        if window.add(line):
            yield from window.settle()
    yield from window.settle(is_end=True)


@final
class _Window:
    """The last lines, as long as what they show may be the beginning of a secret."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._lines: list[_Line] = []
        self._size = 0

    def add(self, line: _Line) -> bool:
        """Take a line; return whether it is time to settle."""
        self._lines.append(line)
        self._size += len(line.text)
        return self._size > 2 * max(_WINDOW, self._scrubber.longest)

    def settle(self, *, is_end: bool = False) -> list[_Line]:
        """Mask what begins long enough before the end, and give out the lines that are done."""
        text = "".join(line.text for line in self._lines)
        done = len(text) if is_end else len(text) - self._scrubber.longest
        spans = [span for span in self._scrubber.found_in(text) if span[0] < done]
        until = max([done, *(end for _, end in spans)])
        n_done = self._mask(spans, until)
        given, self._lines = self._lines[:n_done], self._lines[n_done:]
        self._size = sum(len(line.text) for line in self._lines)
        return given

    def _mask(self, spans: Sequence[tuple[int, int]], until: int) -> int:
        """Mask spans of the text of all lines, and return how many lines end before a place in it."""
        begin, n_done = 0, 0
        for number, line in enumerate(self._lines, 1):
            end = begin + len(line.text)
            inside = [span for span in spans if span[0] < end and span[1] > begin < end]
            for start, stop in reversed(inside):
                line.cut(start - begin, stop - begin, MASK if start >= begin else "")
            n_done = number if end <= until else n_done
            begin = end
        return n_done
