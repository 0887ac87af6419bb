"""Analyzers of a third party, good and bad; named by import path, as `support.analyzers:Raising`."""

from __future__ import annotations

import itertools
import threading
from typing import ClassVar

import attrs

from agentcompass.components.analysis import (
    AnalyzerParams,
    Finding,
    Noted,
    Summarizer,
    SummaryRow,
)
from agentcompass.components.base import Analyzer


@attrs.frozen(kw_only=True)
class LengthParams(AnalyzerParams):
    """Parameters of `length`."""

    unit: str = "characters"
    """What the answer's length is called."""


class Length(Analyzer[LengthParams]):
    id = "length"
    Params = LengthParams

    def analyze(self, attempt):
        steps = sum(1 for _ in attempt.steps())
        detail = f"{steps} steps, {attempt.directory is not None}"
        yield Finding(label=self.params.unit, detail=detail, value=len(attempt.record.answer or ""))

    def summarizer(self):
        return Total()


class Total(Summarizer):
    def __init__(self):
        self.sum = 0

    def add(self, noted: Noted):
        self.sum += noted.finding.value

    def rows(self):
        return [SummaryRow(label="total", count=0, detail=str(self.sum))]


class Raising(Analyzer[AnalyzerParams]):
    id = "raising"

    def analyze(self, attempt):
        yield Finding(label="before")
        raise SystemExit("the analyzer gave up")


class Hanging(Analyzer[AnalyzerParams]):
    id = "hanging"
    released: ClassVar[threading.Event] = threading.Event()
    calls: ClassVar[list[str]] = []

    def analyze(self, attempt):
        self.calls.append(attempt.record.task_id)
        self.released.wait(20)
        return [Finding(label="too late")]


class Nonsense(Analyzer[AnalyzerParams]):
    id = "nonsense"
    given: ClassVar[object] = None

    def analyze(self, attempt):
        return self.given


class Asynchronous(Analyzer[AnalyzerParams]):
    id = "asynchronous"

    def analyze(self, attempt):
        # a plain function, so that looking at the class shows nothing
        return self._analyze_later()

    async def _analyze_later(self):
        return []


class Endless(Analyzer[AnalyzerParams]):
    id = "endless"

    def analyze(self, attempt):
        return (Finding(label="x" * 10_000, detail="y" * 10_000) for _ in itertools.count())


class BadSummary(Analyzer[AnalyzerParams]):
    id = "bad_summary"

    def analyze(self, attempt):
        return [Finding(label="fine")]

    def summarizer(self):
        raise ValueError("no summary today")


class Unmakable(Analyzer[AnalyzerParams]):
    id = "unmakable"

    def __init__(self, params):
        raise OSError("its model is not there")

    def analyze(self, attempt):
        raise AssertionError("it was never made")


class Silent(Analyzer[AnalyzerParams]):
    id = "silent"

    def analyze(self, attempt):
        return []


class HangingSummary(Analyzer[AnalyzerParams]):
    id = "hanging_summary"

    def analyze(self, attempt):
        return [Finding(label="fine")]

    def summarizer(self):
        return Stuck()


class Stuck(Summarizer):
    def add(self, noted):
        pass

    def rows(self):
        Hanging.released.wait(20)
        return [SummaryRow(label="too late", count=1)]


class TextSummary(HangingSummary):
    id = "text_summary"

    def summarizer(self):
        return Texts()


class Texts(Summarizer):
    def add(self, noted):
        pass

    def rows(self):
        return ["three of them were fine"]
