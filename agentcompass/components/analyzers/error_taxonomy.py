"""Groups what went wrong: infrastructure causes, and what evaluators said about attempts that did not succeed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, final

from agentcompass.components.analysis import AnalyzerParams, Finding, FinishedAttempt
from agentcompass.components.base import Analyzer
from agentcompass.records import JSON, ExecutionRecord

_TELLING: Final = (
    "error_type", "error", "exception", "reason", "result", "status", "outcome", "timed_out", "exit_code", "returncode",
)  # fmt: skip
"""Names of evaluator details that say why, most telling first."""
_SHORT: Final = 60
_READ: Final = 2000
_VARIABLE: Final = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b|\d+(?:\.\d+)?")
"""What differs between two cases of one error: addresses, hashes, numbers."""


@final
class ErrorTaxonomy(Analyzer[AnalyzerParams]):
    """Infra executions by phase, code and kind of message; graded ones without success by the evaluator's words.

    An attempt whose every metric is at least 1 counts as a success: nothing is said about it.
    """

    id = "error_taxonomy"

    def analyze(self, attempt: FinishedAttempt) -> Iterable[Finding]:
        """Return one finding for an execution that went wrong."""
        record = attempt.record
        failure = record.failure
        if failure is not None:
            label = f"{record.verdict}: {failure.phase}: {failure.code}"
            yield Finding(label=label, detail=failure.message)
        elif not is_success(record):
            yield from _evaluator_says(record)


def is_success(record: ExecutionRecord) -> bool:
    """Whether every metric is at least 1: what success means for binary metrics."""
    metrics = record.metrics or {}
    return bool(metrics) and all(value >= 1 for value in metrics.values())


def signature(text: str) -> str:
    """Return the first line of a message with numbers, hashes and addresses as `#`, so that like cases are alike."""
    line = next(iter(text[:_READ].strip().splitlines()), "")
    return _VARIABLE.sub("#", line)[:_SHORT].strip()


def _evaluator_says(record: ExecutionRecord) -> Iterator[Finding]:
    for name in _TELLING:
        said = _said(record.details.get(name), name)
        if said:
            yield Finding(
                label=f"evaluator: {name}: {said}", detail=str(record.details[name])[:_READ]
            )
            return


def _said(value: JSON, name: str) -> str:
    if isinstance(value, str):
        return signature(value)
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, int) and name in {"exit_code", "returncode"}:
        return str(value)[:_SHORT] if value else ""
    return ""
