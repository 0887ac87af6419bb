"""Notices agents that do the same again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Annotated, ClassVar, Final, final

from agentcompass.components.analysis import AnalyzerParams, Finding, FinishedAttempt
from agentcompass.components.analyzers.reading import Call, calls_in
from agentcompass.components.base import Analyzer
from agentcompass.data import frozen
from agentcompass.errors import counted
from agentcompass.spec.ranges import Range

LONGEST_CYCLE: Final = 4
"""Calls of the longest cycle that is looked for."""
_SHOWN: Final = 120


@frozen(kw_only=True)
class RepeatedToolCallsParams(AnalyzerParams):
    """Parameters of `repeated_tool_calls`."""

    min_repeats: Annotated[int, Range(minimum=2)] = 3
    """How often in a row the same call, or the same cycle of calls, must come."""


@frozen(kw_only=True)
class Repeat:
    """A cycle of calls that came several times in a row."""

    length: int
    """Calls in the cycle."""
    times: int
    last: Call
    """The last call of the cycle."""


@final
class RepeatedToolCalls(Analyzer[RepeatedToolCallsParams]):
    """Finds the longest row of equal calls, or of cycles of up to four calls, in a trajectory."""

    id = "repeated_tool_calls"
    Params: ClassVar[type] = RepeatedToolCallsParams

    def analyze(self, attempt: FinishedAttempt) -> Iterable[Finding]:
        """Return at most one finding: the longest row."""
        found = longest_repeat(call for step in attempt.steps() for call in calls_in(step))
        if found is None or found.times < self.params.min_repeats:
            return
        call = f"{found.last.name[:_SHOWN]} {found.last.arguments[:_SHOWN]}".strip()
        if found.length == 1:
            label, detail = "same-call", f"{found.times} times in a row: {call}"
        else:
            label = "same-cycle"
            detail = f"{counted(found.length, 'call')}, {found.times} times in a row, the last one {call}"
        yield Finding(label=label, detail=detail, value=found.times)


def longest_repeat(calls: Iterable[Call]) -> Repeat | None:
    """Return the cycle that was repeated most calls long, in one pass and constant memory; None if none was.

    Of cycles that cover equally many calls the shortest counts: three equal calls are no cycle of two.
    """
    recent: deque[int] = deque(maxlen=LONGEST_CYCLE)
    equal = [0] * (LONGEST_CYCLE + 1)
    best, covered = None, 0
    for call in calls:
        value = hash(call)
        for length in range(1, len(recent) + 1):
            equal[length] = equal[length] + 1 if recent[-length] == value else 0
            times = equal[length] // length + 1
            if times > 1 and times * length > covered:
                covered, best = times * length, Repeat(length=length, times=times, last=call)
        recent.append(value)
    return best
