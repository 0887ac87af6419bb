"""How many tokens and calls attempts use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, final

from agentcompass.components.analysis import (
    AnalyzerParams,
    Figures,
    Finding,
    FinishedAttempt,
    Summarizer,
)
from agentcompass.components.base import Analyzer
from agentcompass.data import frozen
from agentcompass.spec.ranges import NonNegativeInt


@frozen(kw_only=True)
class TokenUseParams(AnalyzerParams):
    """Parameters of `token_use`."""

    floor: NonNegativeInt = 100
    """A use up to it is never called high, however low the others are."""


@final
class TokenUse(Analyzer[TokenUseParams]):
    """Gives tokens and calls of each attempt that called a model; the summary tells which are far out.

    Attempts with a call that reported no usage are left out: their tokens are not known.
    """

    id = "token_use"
    Params: ClassVar[type] = TokenUseParams

    def analyze(self, attempt: FinishedAttempt) -> Iterable[Finding]:
        """Return the figures of an execution."""
        usage = attempt.record.usage
        if usage.calls == 0:
            return
        yield Finding(label="calls", value=usage.calls)
        if usage.unmetered_calls == 0:
            yield Finding(label="input tokens", value=usage.input_tokens)
            yield Finding(label="output tokens", value=usage.output_tokens)

    def summarizer(self) -> Summarizer:
        """Return the distribution of each figure."""
        return Figures(lambda number: f"{number:,.0f}", floor=self.params.floor)
