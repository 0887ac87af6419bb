"""Text that others wrote, made safe to stand in Markdown."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Final

_ESCAPE_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
)
_SPECIAL: Final = re.compile(r"[\\`*_\[\]<>|~&#$@!]")
_INVISIBLE: Final = {"Cc": " ", "Cf": "", "Cs": "?", "Co": "?", "Cn": "?", "Zl": " ", "Zp": " "}
"""By Unicode category: controls, direction marks, lone surrogates, unassigned characters, line separators."""


def clean(text: str, limit: int = 200) -> str:
    """Return a text as one line of at most `limit` printable characters, without terminal escapes."""
    line = " ".join(_visible(text[: 8 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def _visible(text: str) -> str:
    """The text on one line, its spaces as they are."""
    plain = _ESCAPE_SEQUENCE.sub("", text)
    return "".join(_INVISIBLE.get(unicodedata.category(c), c) for c in plain)


def escape(text: str, limit: int = 200) -> str:
    """Return a text cleaned and with everything escaped that Markdown would take for markup or a link."""
    safe = _SPECIAL.sub(r"\\\g<0>", clean(text, limit))
    return safe.replace("://", r"\://").replace("www.", r"www\.")


def code(text: str, limit: int = 120) -> str:
    """Return a text as inline code, which can be copied; escaped instead where code could be broken out of."""
    short = clean(text, limit)
    if not short or any(c in short for c in "`|\\"):
        return escape(text, limit) or "(empty)"
    return f"`{short}`"


def block(text: str) -> str:
    """Return a command as a fenced block of one line that nothing in it can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{_visible(text)}\n{fence}"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are Markdown already."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)
