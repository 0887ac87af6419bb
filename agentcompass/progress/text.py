"""Text for people's terminals: made harmless, made short, and made of characters the terminal can show."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import attrs

from agentcompass.data import frozen
from agentcompass.records import Usage

_ESCAPES: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # control sequences: colours, cursor
    r"|(?:\x1b[\]P^_X]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # titles, links, device strings
    r"|\x1b[ -/]*[0-~]?"  # everything else that begins with ESC
)
_LINE_ENDS: Final = re.compile("\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_BIDI: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Controls that make a terminal show text in another order than it has."""

_CONTROLS: Final[dict[int, str | None]] = {
    **dict.fromkeys((*range(0x20), *range(0x7F, 0xA0), *_BIDI)),
    **dict.fromkeys(range(0xD800, 0xE000), "\ufffd"),
    0x09: " ",
    0x0A: "\n",
}


_LONGEST: Final = 10_000
"""Characters of one untrusted text that are looked at."""

Clean: TypeAlias = Callable[[str], str]
"""Makes an untrusted text fit to be shown: what `cleaner` returns."""


def printable(text: str, *, multiline: bool = False) -> str:
    """Return `text` without anything that a terminal would obey instead of show.

    Terminal escapes go as a whole, other control characters and bidirectional overrides are dropped, lone
    surrogates become U+FFFD.

    Args:
        text: From an agent, a task, a model or a file: untrusted.
        multiline: Keep line ends (as newlines); otherwise they become spaces.
    """
    text = _LINE_ENDS.sub("\n", _ESCAPES.sub("", text)).translate(_CONTROLS)
    return text if multiline else text.replace("\n", " ")


def shortened(text: str, limit: int) -> str:
    """Return `text`, or its beginning with `...` when it has more than `limit` characters."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def cells(text: str) -> int:
    """Return how many columns of a terminal a printable text takes: East Asian characters take two, accents none."""
    if text.isascii():
        return len(text)
    return sum(map(_cells_of, text))


def _cells_of(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def narrowed(text: str, limit: int) -> str:
    """Return `text`, or its beginning and its end with `...` between, in at most `limit` columns (3 or more)."""
    if cells(text) <= limit:
        return text
    end = _taken(text[::-1], (limit - 3) // 2)[::-1]
    return f"{_taken(text, limit - 3 - cells(end))}...{end}"


def cut(text: str, limit: int) -> str:
    """Return `text`, or its beginning with `...` where it takes more than `limit` columns."""
    return text if cells(text) <= limit else f"{_taken(text, limit - 3)}..."


def _taken(text: str, limit: int) -> str:
    """As much of the beginning of a text as fits into so many columns."""
    widths = itertools.accumulate(map(_cells_of, text))
    return text[: sum(width <= limit for width in widths)]


def cleaner(scrub: Callable[[str], str], limit: int = 1000, *, multiline: bool = False) -> Clean:
    """Return a function that makes a text printable and free of secrets, of at most `limit` characters.

    The order matters: an escape inside a secret would hide it from the scrubber, and so would a cut.
    """

    def clean(text: str) -> str:
        return shortened(scrub(printable(text[:_LONGEST], multiline=multiline)), limit)

    return clean


@frozen(kw_only=True)
class Glyphs:
    """The few characters beyond ASCII that the display uses."""

    full: str
    rest: str
    dot: str
    ellipsis: str
    rule: str


UNICODE: Final = Glyphs(
    full="\u2501", rest="\u2500", dot="\u00b7", ellipsis="\u2026", rule="\u2500"
)
ASCII: Final = Glyphs(full="#", rest="-", dot="|", ellipsis="...", rule="-")


def glyphs_for(encoding: str | None) -> Glyphs:
    """Return the glyphs that a stream of this encoding can show; None counts as ASCII."""
    try:
        "".join(attrs.astuple(UNICODE)).encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def encodable(text: str, encoding: str | None) -> str:
    """Return `text` with every character that `encoding` lacks written as a backslash escape."""
    codec = encoding or "ascii"
    try:
        return text.encode(codec, errors="backslashreplace").decode(codec)
    except LookupError:
        return text.encode("ascii", errors="backslashreplace").decode("ascii")


def duration(seconds: float) -> str:
    """Return a length of time as people say it: `42s`, `12m 05s`, `3h 07m`, `2d 04h`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02}h"


def amount(number: int) -> str:
    """Return a count in at most five characters: `950`, `12.3k`, `4.56M`."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if number >= size:
            return (
                f"{number / size:.3g}{unit}" if number < 999.5 * size else f"{number // size}{unit}"
            )
    return str(number)


def tokens(usage: Usage) -> str:
    """Return the tokens of calls as a short number; `+` if some calls did not tell, `unknown` if none did."""
    if usage.calls and usage.unmetered_calls == usage.calls:
        return "unknown"
    return amount(usage.total_tokens) + ("+" if usage.unmetered_calls else "")


def money(dollars: float | None) -> str:
    """Return US dollars with the digits that matter; None, an unknown price, says so."""
    if dollars is None:
        return "cost unknown"
    return f"${dollars:.2f}" if dollars >= 0.1 or dollars == 0 else f"${dollars:.4f}"


def score(value: float | None, interval: Sequence[float] | None) -> str:
    """Return a score with its interval: `0.625 [0.470, 0.758]`; None is `n/a`."""
    if value is None:
        return "n/a"
    shown = _figure(value)
    return (
        shown if interval is None else f"{shown} [{_figure(interval[0])}, {_figure(interval[1])}]"
    )


def _figure(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.6g}"


def pace(per_second: float | None) -> str:
    """Return a rate in the unit that reads best: `2.5/s`, `12/min`, `3.1/h`; None is empty."""
    if not per_second:
        return ""
    for factor, unit in ((1, "s"), (60, "min")):
        number = per_second * factor
        if number >= 1:
            return f"{amount(int(number)) if number >= 100 else format(number, '.3g')}/{unit}"
    return f"{per_second * 3600:.3g}/h"
