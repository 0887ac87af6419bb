"""Whoever looks at finished attempts."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import ClassVar

from agentcompass.components.analysis import (
    AnalyzerParams,
    Counts,
    Finding,
    FinishedAttempt,
    Summarizer,
)
from agentcompass.components.base.component import Component, P


class Analyzer(Component[P]):
    """Looks at an attempt after it is durable; whatever it does, only its own findings suffer.

    Called in a worker thread, in the order in which attempts finish. Keep no state: an attempt may be looked at twice.
    """

    Params: ClassVar[type] = AnalyzerParams

    @abc.abstractmethod
    def analyze(self, attempt: FinishedAttempt) -> Iterable[Finding]:
        """Return what is worth knowing; called for graded and infra executions alike.

        One that takes longer than the engine's limit is not asked again in this run.
        """

    def summarizer(self) -> Summarizer:
        """Return what sums up its findings over a run."""
        return Counts()
