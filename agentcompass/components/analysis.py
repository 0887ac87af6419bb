"""What analyzers see, what they say, and the two usual ways to sum it up. The extension point is `base.Analyzer`."""

from __future__ import annotations

import abc
import heapq
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias, TypeVar, final

import attrs

from agentcompass.data import frozen
from agentcompass.records import JSON, ExecutionRecord

G = TypeVar("G")

LEFT_OUT: Final = "left-out"
"""`type` of the step that stands for steps which are not shown, since one or all together are too long."""
MAX_LABELS: Final = 200
"""Labels of one analyzer that are counted apart; labels beyond them share a row."""
MAX_EXAMPLES: Final = 3
OTHER: Final = "(other)"
"""The row of labels beyond `MAX_LABELS`."""

Step: TypeAlias = Mapping[str, JSON]
"""A step of a trajectory: a JSON object, as the harness emitted it."""


@frozen(kw_only=True)
class AnalyzerParams:
    """Parameters that every analyzer has."""

    enabled: bool = True
    """Whether it looks at attempts at all."""


@frozen(kw_only=True, eq=False)
class FinishedAttempt:
    """An execution of an attempt, on disk, as analyzers see it."""

    record: ExecutionRecord
    """As the journal has it: of a long answer head and tail."""
    directory: Path | None
    """Where its files are; None if it left none, or if an earlier run executed it."""
    steps: Callable[[], Iterator[Step]]
    """Reads the trajectory from its beginning, a step at a time; nothing if there is none. Each call reads anew. Steps
    belong to all analyzers: do not change them. One of type `left-out` stands for what is too long to be shown."""


@frozen(kw_only=True)
class Finding:
    """Something an analyzer noticed about an attempt."""

    label: str
    """What it is, from a small set of words: the summary has a row for each. At most 80 characters are kept."""
    detail: str = ""
    """This case, for people. At most 500 characters are kept."""
    value: float | None = None
    """A finite figure: seconds, tokens, repeats; None where there is none."""


@frozen(kw_only=True)
class Noted:
    """A finding, and the execution it is about."""

    task_id: str
    attempt: int
    execution: int
    finding: Finding


@frozen(kw_only=True)
class SummaryRow:
    """A line of the summary of an analyzer."""

    label: str
    count: int
    """Executions that people should look at; 0 for a row that only gives figures."""
    detail: str = ""
    examples: tuple[tuple[str, int], ...] = ()
    """Task id and attempt of some of them."""


class Summarizer(abc.ABC):
    """Sums up the findings of one analyzer over a run; made anew for each summary. Memory must stay bounded."""

    @abc.abstractmethod
    def add(self, noted: Noted) -> None:
        """Take one finding into account; findings come in the order in which attempts finished."""

    @abc.abstractmethod
    def rows(self) -> Iterable[SummaryRow]:
        """Return the lines of the summary, most important first."""


@final
class Counts(Summarizer):
    """How often each label was noticed, most often first, with the first cases as examples."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def add(self, noted: Noted) -> None:
        """Count it under its label."""
        group = _group_of(self._groups, noted.finding.label, _Group)
        group.count += 1
        if not group.detail:
            group.detail = noted.finding.detail
        if len(group.examples) < MAX_EXAMPLES:
            group.examples.append((noted.task_id, noted.attempt))

    def rows(self) -> Iterable[SummaryRow]:
        """Return a line for each label."""
        by_count = sorted(self._groups.items(), key=lambda item: -item[1].count)
        return [
            SummaryRow(label=label, count=g.count, detail=g.detail, examples=tuple(g.examples))
            for label, g in by_count
        ]


@attrs.define
class _Group:
    count: int = 0
    detail: str = ""
    examples: list[tuple[str, int]] = attrs.field(factory=list)


@final
class Figures(Summarizer):
    """Distribution of the values of each label, and how many are far out.

    Far out is what lies above the third quartile by more than three times the interquartile range (Tukey 1977,
    *Exploratory Data Analysis*, 2D), among at least `MIN_VALUES` values, and above a floor.

    Args:
        show: Makes text of a value.
        floor: Values up to it are never far out, whatever the others are.
    """

    MIN_VALUES: Final = 8

    def __init__(self, show: Callable[[float], str], floor: float = 0.0) -> None:
        self._show, self._floor = show, floor
        self._values: dict[str, _Values] = {}

    def add(self, noted: Noted) -> None:
        """Take the value of a finding into account; one without value is left out."""
        value = noted.finding.value
        if value is None:
            return
        known = _group_of(self._values, noted.finding.label, _Values)
        known.all.append(value)
        entry = (value, -len(known.all), (noted.task_id, noted.attempt))
        if len(known.largest) < MAX_EXAMPLES:
            heapq.heappush(known.largest, entry)
        else:
            heapq.heappushpop(known.largest, entry)

    def rows(self) -> Iterable[SummaryRow]:
        """Return a line for each label, those with most values far out first."""
        rows = [self._row(label, known) for label, known in self._values.items()]
        return sorted(rows, key=lambda row: -row.count)

    def _row(self, label: str, known: _Values) -> SummaryRow:
        values = sorted(known.all)
        first, median, third = _quartiles(values)
        # the outer fence
        far_out = max(self._floor, third + 3 * (third - first))
        fence = far_out if len(values) >= self.MIN_VALUES else None
        count = 0 if fence is None else sum(1 for value in values if value > fence)
        show = self._show
        detail = f"median {show(median)}, most {show(values[-1])}"
        if count and fence is not None:
            detail += f"; far out above {show(fence)}"
        largest = sorted(known.largest, reverse=True)[:count]
        return SummaryRow(
            label=label, count=count, detail=detail, examples=tuple(key for _, _, key in largest)
        )


@attrs.define
class _Values:
    all: array[float] = attrs.field(factory=lambda: array("d"))
    largest: list[tuple[float, int, tuple[str, int]]] = attrs.field(factory=list)


def _quartiles(values: list[float]) -> list[float]:
    """Of sorted values, of which there is at least one."""
    from statistics import quantiles  # noqa: PLC0415  # brings fractions and decimals, for which no run should wait

    return quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


def _group_of(groups: dict[str, G], label: str, make: Callable[[], G]) -> G:
    if label not in groups and len(groups) >= MAX_LABELS:
        label = OTHER
    known = groups.get(label)
    if known is None:
        known = groups[label] = make()
    return known
