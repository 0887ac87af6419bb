"""Notices text that has degenerated into repeating itself."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final, final

from agentcompass.components.analysis import AnalyzerParams, Finding, FinishedAttempt
from agentcompass.components.analyzers.reading import is_reply, text_of
from agentcompass.components.base import Analyzer
from agentcompass.data import frozen
from agentcompass.spec.ranges import PositiveInt

WINDOW: Final = 4096
"""Characters at the end of a text in which a loop is looked for."""
MIN_TIMES: Final = 4
"""How often a unit must come to be a loop."""
MAX_TEXTS: Final = 1000
"""Texts of an attempt that are read."""
_SHOWN: Final = 80
_MAX_RATIO: Final = 0.35
"""Text of which half is a loop compresses below this; ordinary prose and code do not, or not by much."""


@frozen(kw_only=True)
class RepetitionParams(AnalyzerParams):
    """Parameters of `repetition`."""

    min_chars: PositiveInt = 200
    """Characters that a loop must cover, at least."""


@frozen(kw_only=True)
class Loop:
    """A unit that a text repeats up to its end; the last time perhaps not whole."""

    unit: str
    times: int
    chars: int


@final
class Repetition(Analyzer[RepetitionParams]):
    """Finds answers, replies and reasoning that end in a loop over at least half of their last 4096 characters."""

    id = "repetition"
    Params: ClassVar[type] = RepetitionParams

    def analyze(self, attempt: FinishedAttempt) -> Iterable[Finding]:
        """Return at most one finding for each place: answer, reply, reasoning."""
        seen: set[str] = set()
        for place, text in _texts(attempt):
            loop = None if place in seen else find_loop(text, self.params.min_chars)
            if loop is not None:
                seen.add(place)
                unit = " ".join(loop.unit[:_SHOWN].split())
                detail = f"{loop.times} times at the end: {unit}"
                yield Finding(label=f"loop-in-{place}", detail=detail, value=loop.times)


def find_loop(text: str, min_chars: int = RepetitionParams().min_chars) -> Loop | None:
    """Return the loop in which a text ends, in time linear in `WINDOW` and independent of the text's length.

    It must come `MIN_TIMES` times and cover `min_chars` and half of the window; a unit without a letter or digit
    (a ruler, blank lines) is none. The periods of all suffixes come from the prefix function of the reversed text
    (Knuth, Morris, Pratt 1977).
    """
    tail = text[-WINDOW:]
    needed = max(min_chars, len(tail) // 2)
    if len(tail) < needed or not _is_compressible(tail):
        return None
    length, period = _longest_periodic_suffix(tail, needed)
    unit = tail[-period:] if period else ""
    if not any(map(str.isalnum, unit)):
        return None
    return Loop(unit=unit, times=length // period, chars=length)


def _is_compressible(text: str) -> bool:
    """Cheap test, in C, which spares ordinary text the search."""
    data = text.encode(errors="replace")
    return len(zlib.compress(data, 1)) < _MAX_RATIO * len(data) + 64


def _longest_periodic_suffix(text: str, needed: int) -> tuple[int, int]:
    """The length of the longest suffix of at least `needed` characters with a period, and that period; else zeros."""
    reverse = text[::-1]
    borders = [0] * len(reverse)
    best = (0, 0)
    border = 0
    for at in range(1, len(reverse)):
        char = reverse[at]
        while border and char != reverse[border]:
            border = borders[border - 1]
        border += char == reverse[border]
        borders[at] = border
        length, period = at + 1, at + 1 - border
        if length >= needed and length >= MIN_TIMES * period:
            best = (length, period)
    return best


def _texts(attempt: FinishedAttempt) -> Iterator[tuple[str, str]]:
    if attempt.record.answer:
        yield "answer", attempt.record.answer
    replies = (step for step in attempt.steps() if is_reply(step))
    for _, step in zip(range(MAX_TEXTS), replies, strict=False):
        yield "reply", text_of(step.get("content"))
        yield "reasoning", text_of(step.get("reasoning"))
