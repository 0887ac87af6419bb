"""Ranges of numbers, declared on the type of a field: `limit: PositiveInt = 10`.

They stand in the annotation, not in a validator, so that a problem is reported with the exact path of the value.
"""

from __future__ import annotations

import math
from typing import Annotated, TypeAlias

from agentcompass.data import frozen


@frozen(kw_only=True)
class Range:
    """The numbers that a field accepts, both ends included unless said otherwise."""

    minimum: float = -math.inf
    maximum: float = math.inf
    above_minimum: bool = False
    """The minimum itself is not accepted."""

    def __str__(self) -> str:
        """Say the range as a person would: `at least 0, at most 1`."""
        low = f"{'above' if self.above_minimum else 'at least'} {self.minimum:g}"
        ends = [low] if self.minimum > -math.inf else []
        if self.maximum < math.inf:
            ends.append(f"at most {self.maximum:g}")
        return ", ".join(ends)

    def fault(self, value: float) -> str | None:
        """Return what is wrong with a value, as `must be at least 1, not 0`; None if it is in range."""
        if value < self.minimum or (self.above_minimum and value == self.minimum):
            bound = "above" if self.above_minimum else "at least"
            return f"must be {bound} {self.minimum:g}, not {value:g}"
        if value > self.maximum:
            return f"must be at most {self.maximum:g}, not {value:g}"
        return None


NonNegativeInt: TypeAlias = Annotated[int, Range(minimum=0)]
PositiveInt: TypeAlias = Annotated[int, Range(minimum=1)]
NonNegativeFloat: TypeAlias = Annotated[float, Range(minimum=0)]
PositiveFloat: TypeAlias = Annotated[float, Range(minimum=0, above_minimum=True)]
Fraction: TypeAlias = Annotated[float, Range(minimum=0, maximum=1)]
