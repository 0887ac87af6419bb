"""Notices answers and outputs that were cut off."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, final

from agentcompass.components.analysis import AnalyzerParams, Finding, FinishedAttempt
from agentcompass.components.analyzers.reading import is_reply
from agentcompass.components.base import Analyzer

_STOPPED: Final = {
    "max_tokens": ("answer-cut", "the answer reached the limit of output tokens"),
    "context": ("context-full", "the conversation no longer fitted into the model's context"),
}


@final
class Truncation(Analyzer[AnalyzerParams]):
    """Says which attempts reached a limit of tokens, and which saw outputs of commands that were cut."""

    id = "truncation"

    def analyze(self, attempt: FinishedAttempt) -> Iterable[Finding]:
        """Return a finding for each kind of cut."""
        stopped = _STOPPED.get(attempt.record.stopped_by or "")
        if stopped is not None:
            yield Finding(label=stopped[0], detail=stopped[1])
        replies = outputs = 0
        for step in attempt.steps():
            replies += is_reply(step) and step.get("stop_reason") == "length"
            outputs += step.get("truncated") is True
        if replies:
            yield Finding(label="reply-cut", detail=f"{replies} replies were cut", value=replies)
        outputs += attempt.record.details.get("truncated") is True
        if outputs:
            yield Finding(label="output-cut", detail=f"{outputs} outputs were cut", value=outputs)
