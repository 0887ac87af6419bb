"""How a text is compared with the acceptable answers of a task. Pure; nothing here runs a user's regex."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from agentcompass.data import frozen

MAX_CHARACTERS: Final = 100_000
"""How much of an answer is searched for numbers and patterns: its end, where final answers stand."""

_NUMBER: Final = re.compile(
    r"""(?<![\w])\.\d+                                   # .5
    |   (?<![\w])(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)        # 1,234 or 1234, not the 2 of H2O
        (?:\.\d+)?(?:[eE][-+]?\d{1,3}(?!\d))?""",
    re.VERBOSE | re.ASCII,
)
_SIGN: Final = re.compile(r"(?:^|[^\w)\]])(?P<sign>[-+\u2212])[$\u20ac\u00a3\u00a5]?$")
_CURRENCY_FIRST: Final = re.compile(r"[$\u20ac\u00a3\u00a5](?P<sign>[-+\u2212])$")


@frozen(kw_only=True)
class Comparison:
    """What counts as the same."""

    ignore_case: bool
    ignore_whitespace: bool
    absolute_tolerance: float
    relative_tolerance: float

    def normal(self, text: str) -> str:
        """Return the form in which texts are compared."""
        if self.ignore_whitespace:
            text = " ".join(text.split())
        return text.casefold() if self.ignore_case else text

    def is_exact(self, text: str, answers: Iterable[str]) -> bool:
        """Return whether a text is one of the answers."""
        return self.normal(text) in {self.normal(answer) for answer in answers}

    def contains(self, text: str, answers: Iterable[str]) -> bool:
        """Return whether one of the answers occurs in a text."""
        normal = self.normal(text)
        return any(self.normal(answer) in normal for answer in answers)

    def is_numeric(self, text: str, answers: Iterable[str]) -> bool:
        """Return whether the last number of a text is that of one of the answers, within the tolerance."""
        value = last_number(text)
        if value is None:
            return False
        return any(self._is_near(value, last_number(answer)) for answer in answers)

    def _is_near(self, value: Decimal, expected: Decimal | None) -> bool:
        if expected is None:
            return False
        relative = Decimal(self.relative_tolerance) * abs(expected)
        return value == expected or abs(value - expected) <= max(
            Decimal(self.absolute_tolerance), relative
        )


def last_number(text: str) -> Decimal | None:
    """Return the last number that stands in a text; None if there is none.

    Commas between groups of three digits and a currency sign before the number are skipped, a percent sign or unit
    after it is ignored (`50%` is 50). A minus counts unless it stands between two operands: `-$3` is -3, `10-3` ends
    with 3. Digits that continue a word (`H2O`) are none. Only the last `MAX_CHARACTERS` are searched.
    """
    text = text[-MAX_CHARACTERS:]
    matches = deque(_NUMBER.finditer(text), maxlen=1)
    if not matches:
        return None
    last = matches[0]
    before = text[max(0, last.start() - 3) : last.start()]
    sign = _SIGN.search(before) or _CURRENCY_FIRST.search(before)
    value = Decimal(last[0].replace(",", ""))
    return value if sign is None or sign["sign"] == "+" else -value
