"""Notices attempts in which the model or the agent said nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from agentcompass.components.analysis import AnalyzerParams, Finding, FinishedAttempt, Step
from agentcompass.components.analyzers.reading import calls_in, is_reply, text_of
from agentcompass.components.base import Analyzer
from agentcompass.errors import counted


@final
class EmptyOutput(Analyzer[AnalyzerParams]):
    """Says which attempts were graded on an empty answer, and which had empty replies on the way.

    No answer at all is none of these: where files are judged there is no text.
    """

    id = "empty_output"

    def analyze(self, attempt: FinishedAttempt) -> Iterable[Finding]:
        """Return a finding for each kind of emptiness."""
        record = attempt.record
        if record.answer is not None and not record.answer.strip():
            why = f"stopped by {record.stopped_by}" if record.stopped_by else "it ended by itself"
            yield Finding(label="empty-answer", detail=why)
        usage = record.usage
        if usage.calls > usage.unmetered_calls and usage.output_tokens == 0:
            yield Finding(label="no-output-tokens", detail=f"in {counted(usage.calls, 'call')}")
        empty = sum(1 for step in attempt.steps() if is_reply(step) and _is_empty(step))
        if empty:
            yield Finding(label="empty-reply", detail=f"{empty} empty replies", value=empty)


def _is_empty(step: Step) -> bool:
    return not text_of(step.get("content")).strip() and next(calls_in(step), None) is None
