"""What of a terminal is worth showing: what was added since the last look, and of much output its two ends. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentcompass.data import frozen
from agentcompass.errors import counted

_MARKER_BYTES: Final = 64
"""Room for the line that stands for what was left out."""


@frozen(kw_only=True)
class Look:
    """A look at the terminal, by which the next one knows what is new."""

    top: int
    """Number of the first visible line, counted from the first one of all."""
    height: int
    """Lines that are visible."""
    lines: tuple[str, ...]
    """Those, without the empty ones below the last text."""


@frozen(kw_only=True)
class Excerpt:
    """Lines of the terminal, perhaps without their middle."""

    head: tuple[str, ...]
    tail: tuple[str, ...] = ()
    """What comes after the gap; empty only if there is none."""
    omitted: int = 0
    """Lines in the gap."""


def without_blank_end(lines: Sequence[str]) -> tuple[str, ...]:
    """Return lines up to the last that is not empty."""
    count = len(lines)
    while count and not lines[count - 1].strip():
        count -= 1
    return tuple(lines[:count])


def news(before: Look, now: Excerpt) -> Excerpt | None:
    """Return what was added since a look.

    Args:
        before: The look.
        now: Everything from the line on which `before` began to the end of the terminal.

    Returns:
        The lines from the last one of `before` on, which the new text may continue. None if nothing was added, or if
        what was seen is not there any more as it was: the screen was cleared, a program draws on it.
    """
    known = len(before.lines)
    if known == 0:
        return now if now.head or now.tail else None
    last = known - 1
    if len(now.head) < known or now.head[:last] != before.lines[:last]:
        return None
    if not now.head[last].startswith(before.lines[last]):
        return None
    if len(now.head) == known and now.head[last] == before.lines[last] and not now.tail:
        return None
    return Excerpt(head=now.head[last:], tail=now.tail, omitted=now.omitted)


def limited(excerpt: Excerpt, max_bytes: int) -> tuple[str, bool]:
    """Return lines as a text of at most `max_bytes` in UTF-8, with a line for what was left out, and whether any was.

    Lines are kept whole, as many from both ends as there is room for; only a single one too long for its half is cut.
    """
    front, back = excerpt.head, excerpt.tail if excerpt.omitted else excerpt.head
    if excerpt.omitted == 0:
        text = "\n".join(front)
        if len(text.encode()) <= max_bytes:
            return text, False
    # without a gap the ends cannot meet: both together are shorter than what did not fit
    room = max(0, max_bytes - _MARKER_BYTES) // 2
    begin, end = _fitting(front, room), _fitting(back[::-1], room)[::-1]
    kept = len(begin) + len(end)
    omitted = len(excerpt.head) + len(excerpt.tail) + excerpt.omitted - kept
    begin = begin or (_cut(front[0], room),)
    end = end or (_cut(back[-1], room, from_end=True),)
    return "\n".join((*begin, f"[... {counted(omitted, 'line')} left out ...]", *end)), True


def _fitting(lines: Sequence[str], room: int) -> tuple[str, ...]:
    """As many of the first lines as fit."""
    size = 0
    for count, line in enumerate(lines):
        size += len(line.encode()) + 1
        if size > room:
            return tuple(lines[:count])
    return tuple(lines)


def _cut(line: str, room: int, *, from_end: bool = False) -> str:
    data = line.encode()
    return (data[-room:] if from_end and room else data[:room]).decode(errors="ignore")
