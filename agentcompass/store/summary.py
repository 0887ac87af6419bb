"""From a run directory to its report, `metrics.json`, `summary.md` and the dictionary that callers get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentcompass.metrics.board import score_tasks
from agentcompass.records import JSON
from agentcompass.store.analysis import read_analysis
from agentcompass.store.files import explained, replace_file
from agentcompass.store.jsonl import CorruptLine
from agentcompass.store.reader import read_run
from agentcompass.store.report import Report
from agentcompass.store.request import finish_command
from agentcompass.store.summary_page import summary_page
from agentcompass.store.tally import Tally


def summarize(run_dir: Path, *, write: bool = True) -> Report:
    """Sum up a run from its journal and its plan: in linear time, memory growing with attempts, not with answers.

    Args:
        run_dir: Of a run at any stage.
        write: Whether to replace `metrics.json` and `summary.md`.

    Raises:
        StoreError: There is no run, it cannot be read, or the files cannot be written.
    """
    run = read_run(run_dir)
    tally = Tally(run.plan, is_regraded=run.info.regraded_from is not None)
    corrupt: list[CorruptLine] = []
    for record in run.records(corrupt.append):
        tally.add(record)
    board = score_tasks(
        list(tally.outcomes()),
        run.plan.metrics,
        k=run.plan.k,
        strategy=run.plan.attempt_strategy,
    )
    report = Report(
        paths=run.paths,
        info=run.info,
        plan=run.plan,
        status=run.status,
        board=board,
        failures=tally.failures(),
        retried=tally.retried(),
        stopped_by=tally.stopped_by(),
        executions=tally.executions,
        reused=tally.reused,
        usage=tally.usage,
        judge_usage=tally.judge_usage,
        reused_usage=tally.reused_usage,
        execution_seconds=tally.execution_seconds,
        unplanned=tally.unplanned,
        corrupt_lines=tuple(corrupt),
        analysis=read_analysis(run.paths.analysis_file),
        finish_command=finish_command(run.info, run_dir, is_any_graded=board.counts.graded > 0)
        if board.coverage < 1
        else None,
    )
    if write:
        write_report(report)
    return report


def write_report(report: Report) -> None:
    """Replace `metrics.json` and `summary.md`.

    Raises:
        StoreError: They cannot be written.
    """
    data = json.dumps(report.as_json(), indent=2, allow_nan=False)
    for path, text in (
        (report.paths.metrics_file, data + "\n"),
        (report.paths.summary_file, summary_page(report)),
    ):
        with explained("write", path):
            replace_file(path, text.encode(errors="replace"), sync=True)


def result_dict(run_dir: Path, report: Report | None = None) -> dict[str, JSON]:
    """Return what `run_evaluation` returns: metadata, metrics, summary and paths, all plain JSON.

    Args:
        run_dir: Of the run.
        report: Its report, if it is at hand; else it is made from the journal.

    Raises:
        StoreError: There is no run, or it cannot be read.
    """
    report = report or summarize(run_dir, write=False)
    info, paths = report.info, report.paths
    metadata: dict[str, Any] = {
        "run_id": info.run_id,
        "name": info.name,
        "status": report.status,
        "started_at": info.started_at,
        "finished_at": info.finished_at,
        "fingerprint": info.fingerprint,
        "reused_from": info.reused_from,
        "regraded_from": info.regraded_from,
        "versions": dict(info.versions),
        "request": dict(info.request),
    }
    files = {
        "run_dir": paths.run_dir,
        "run": paths.run_file,
        "attempts": paths.journal_file,
        "metrics": paths.metrics_file,
        "summary": paths.summary_file,
        "events": paths.events_file,
        "log": paths.log_file,
    }
    return {
        "metadata": metadata,
        "metrics": report.metrics_json(),
        "summary": report.summary_json(),
        "paths": {role: str(path) for role, path in files.items()},
    }
