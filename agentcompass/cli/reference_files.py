"""The files of a run, field by field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agentcompass.cli.cells import Row, code, described, first_paragraph, table
from agentcompass.metrics.board import Board, Counts, score_tasks
from agentcompass.metrics.scores import Score
from agentcompass.plan.explain import docs_of
from agentcompass.records import (
    ExecutionRecord,
    Failure,
    Lease,
    Metric,
    ProcessIdentity,
    Usage,
)
from agentcompass.spec.docs import field_docs
from agentcompass.store.analysis import StoredFinding
from agentcompass.store.info import RunInfo, RunPlan
from agentcompass.store.layout import RunPaths
from agentcompass.store.orchestration import OrchestrationInfo, RequestEntry
from agentcompass.store.report import FailureGroup, Report

OBJECTS: Final[Mapping[str, type]] = {
    "run.json": RunInfo,
    "plan.json": RunPlan,
    "metric": Metric,
    "attempts.jsonl": ExecutionRecord,
    "failure": Failure,
    "usage": Usage,
    "score": Score,
    "counts": Counts,
    "failure group": FailureGroup,
    "finding": StoredFinding,
    "orchestration.json": OrchestrationInfo,
    "request entry": RequestEntry,
    "lease": Lease,
    "process": ProcessIdentity,
}
"""What stands in the files, by the heading below which it is described."""
METRICS_FILE: Final = "metrics.json"
_OF_METRICS: Final[Mapping[str, str]] = {
    "primary": "Name of the metric that heads the report.",
    "scores": "By metric, a [score](#score).",
    "categories": "By category its `coverage`, `counts` and `scores`, with `(none)` for tasks without one; empty when no "
    "task has one.",
    "score": "The `value` of the primary metric.",
    "ci95": "Its interval.",
    "counts": "Where the planned attempts went: [counts](#counts).",
    "failures": "Attempts without a score, by cause, most frequent first: [failure groups](#failure-group).",
    "retried": "Executions that failed and were followed by one with a score: failure groups, too.",
    "analysis": "What [analyzers](analysis.md) noticed, as `analysis.json` has it; null until all was analysed.",
    "unplanned_records": "Records of attempts that the plan does not have; they count nowhere.",
    "corrupt_lines": "Lines of the journal that could not be used: `number`, from 1, and `reason`.",
}
"""Keys that no single field describes."""


def fields(name: str) -> str:
    """The fields of one of `OBJECTS`, or the keys of `metrics.json`."""
    if name == METRICS_FILE:
        return table(("field", "meaning"), _metrics_file())
    rows = [
        (code(doc.key), _linked(doc.type), described(doc.key, doc.doc))
        for doc in docs_of("", OBJECTS[name])
    ]
    return table(("field", "type", "meaning"), rows)


def _linked(text: str) -> str:
    """A type with other objects as links to the headings that describe them."""
    for heading, cls in OBJECTS.items():
        anchor = re.sub(r"\W+", "-", heading.replace(".", ""))
        text = re.sub(rf"\b{cls.__name__}\b", f"[{heading}](#{anchor})", text)
    return re.sub(r"( or null)+", " or null", text)


def _metrics_file() -> list[Row]:
    """A row for each key that is really written, in that order."""
    docs: dict[str, str] = {}
    for cls in (Board, RunPlan, RunInfo, Report):
        docs.update(field_docs(cls))
    docs["elapsed_seconds"] = first_paragraph(Report.elapsed_seconds)
    docs.update(_OF_METRICS)
    return [(code(key), described(key, docs.get(key))) for key in _empty_report().as_json()]


def _empty_report() -> Report:
    metrics = (Metric(name="m"),)
    info = RunInfo(
        run_id="",
        name="",
        status="running",
        started_at="",
        owner=ProcessIdentity(boot_id="", pid=1, started=1),
        fingerprint="",
        identity={},
        request={},
    )
    return Report(
        paths=RunPaths(Path()),
        info=info,
        plan=RunPlan(tasks=(), k=1, attempt_strategy="avg", metrics=metrics, min_coverage=1.0),
        status="running",
        board=score_tasks([], metrics, k=1, strategy="avg"),
    )
