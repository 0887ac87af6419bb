"""`summary.md`: what a person wants to see first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Final

from agentcompass.errors import counted
from agentcompass.metrics.scores import Score
from agentcompass.store.markdown import block, code, escape, table
from agentcompass.store.report import FailureGroup, Report

MAX_ROWS: Final = 50
"""Causes of failure, categories and the like that are listed; the rest is counted."""
MAX_RETRIED: Final = 10
"""Causes of failures that did no harm."""
_CAUSE: Final = ("phase", "cause", "example", "message")


def summary_page(report: Report) -> str:
    """Return a report as Markdown. No text of agents, tasks or components can change its structure."""
    parts = [
        _headline(report),
        _scores(report),
        _pass_rates(report),
        _counts(report),
        _failures(report),
        _retried(report),
        _stopped(report),
        _categories(report),
        _analysis(report),
        _cost(report),
        _files(report),
        _finish(report),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _headline(report: Report) -> str:
    score, info = report.primary_score, report.info
    lines = [
        f"# {escape(info.name)}: {escape(report.plan.primary.name)} {_with_interval(score)}",
        "",
        f"- Status: **{report.status}**{f' ({escape(info.error, 500)})' if info.error else ''}",
        f"- Coverage: {report.coverage:.1%} ({_coverage_words(report)}; {report.plan.min_coverage:.0%} asked for)",
        f"- Run: {code(info.run_id)}, started {escape(info.started_at)}",
    ]
    if report.coverage < 1 and score.bounds is not None:
        worst, best = score.bounds
        lines.append(
            f"- With everything that is missing at its worst {_number(worst)}, at its best {_number(best)}"
        )
    if info.reused_from:
        lines.append(
            f"- {counted(report.reused, 'attempt')} taken over from run {code(info.reused_from)}"
        )
    if info.regraded_from:
        lines.append(f"- Evaluated again: what run {code(info.regraded_from)} left")
    if report.corrupt_lines:
        lines.append(
            f"- **{counted(len(report.corrupt_lines), 'line')} of the journal cannot be read**: what they held is missing"
        )
    return "\n".join(lines)


def _coverage_words(report: Report) -> str:
    counts = report.board.counts
    if report.plan.attempt_strategy == "pass":
        return f"{counts.resolved} of {counted(counts.tasks, 'task')} resolved"
    return f"{counts.graded} of {counted(counts.planned, 'attempt')} graded"


def _scores(report: Report) -> str:
    rows = [
        [
            code(name),
            _number(score.value),
            _interval(score),
            _number(score.stderr),
            _number(score.graded_value),
        ]
        for name, score in report.board.scores.items()
    ]
    header = ["metric", "value", "95 % interval", "std. error", "graded only"]
    return f"## Scores\n\n{table(header, rows)}"


def _pass_rates(report: Report) -> str:
    rated = {name: score for name, score in report.board.scores.items() if score.pass_at_k}
    if not rated:
        return ""
    shown = _some_of(report.plan.k)
    header = ["metric", "avg@k", *(f"pass@{j}" for j in shown), f"pass^{report.plan.k}"]
    rows = [
        [
            code(name),
            _number(score.avg_at_k),
            *(_number(score.pass_at_k.get(j)) for j in shown),
            _number(score.pass_hat_k),
        ]
        for name, score in rated.items()
    ]
    words = (
        f"{counted(report.plan.k, 'attempt')} a task, strategy `{report.plan.attempt_strategy}`."
    )
    return f"## Attempts per task\n\n{words}\n\n{table(header, rows)}"


def _some_of(k: int) -> list[int]:
    """1, 2, 4, 8, ... and k itself: a table that fits on a page."""
    powers = [1 << n for n in range(k.bit_length())]
    return powers if powers[-1] == k else [*powers, k]


def _counts(report: Report) -> str:
    counts = report.board.counts
    header = ["planned", "graded", "infra", "cancelled", "skipped"]
    row = [counts.planned, counts.graded, counts.infra, counts.cancelled, counts.skipped]
    text = f"## Attempts\n\n{table(header, [[str(n) for n in row]])}"
    if counts.not_needed:
        text += (
            f"\n\nOf those skipped, not needed since their task had succeeded: {counts.not_needed}."
        )
    return text


def _failures(report: Report) -> str:
    if not report.failures:
        return ""
    rows = [
        [str(group.count), group.verdict, *_cause(group)] for group in report.failures[:MAX_ROWS]
    ]
    header = ["attempts", "verdict", *_CAUSE]
    return f"## Without a score\n\n{table(header, rows)}{_rest(len(report.failures))}"


def _retried(report: Report) -> str:
    if not report.retried:
        return ""
    rows = [[str(group.count), *_cause(group)] for group in report.retried[:MAX_RETRIED]]
    words = "Infrastructure failures after which another execution of the attempt gave a score."
    left = len(report.retried) - len(rows)
    rest = f"\n\n... and {counted(left, 'more cause')}." if left else ""
    return f"## Retried\n\n{words}\n\n{table(['executions', *_CAUSE], rows)}{rest}"


def _cause(group: FailureGroup) -> list[str]:
    return [
        group.phase or "-",
        code(group.code),
        f"{code(group.task_id)} / {group.attempt}",
        escape(group.message),
    ]


def _stopped(report: Report) -> str:
    if not report.stopped_by:
        return ""
    items = list(report.stopped_by.items())[:MAX_ROWS]
    rows = [[escape(cause, 60), str(count)] for cause, count in items]
    text = table(["stopped by", "graded attempts"], rows)
    return (
        f"## Stopped early, and graded on what was there\n\n{text}{_rest(len(report.stopped_by))}"
    )


def _categories(report: Report) -> str:
    categories = report.board.categories
    if not categories:
        return ""
    primary = report.plan.primary.name
    rows = [
        [
            escape(name, 80),
            str(board.counts.tasks),
            _number(board.scores[primary].value),
            _interval(board.scores[primary]),
            f"{board.coverage:.1%}",
        ]
        for name, board in list(categories.items())[:MAX_ROWS]
    ]
    header = ["category", "tasks", escape(primary), "95 % interval", "coverage"]
    return f"## By category\n\n{table(header, rows)}{_rest(len(categories))}"


def _analysis(report: Report) -> str:
    analysis = report.analysis
    if analysis is None:
        return _not_analysed(report)
    header = ["analyzer", "noticed", "executions", "detail", "examples"]
    rows = [
        [
            code(row["analyzer"]),
            escape(row["label"], 80),
            str(row["count"] or "-"),
            escape(row["detail"]),
            ", ".join(code(str(example["task_id"]), 60) for example in row["examples"][:3]),
        ]
        for row in sorted(analysis["rows"], key=lambda row: row["count"] == 0)[:MAX_ROWS]
    ]
    parts = ["## Analysis", f"Executions looked at: {analysis['analyzed']}."]
    if rows:
        parts.append(table(header, rows) + _rest(len(analysis["rows"])))
    if analysis["left"]:
        parts.append(f"Not looked at in time: {analysis['left']}. {_how_to_analyse(report)}")
    if analysis["notes"]:
        parts.append("\n".join(f"- {escape(note, 300)}" for note in analysis["notes"][:MAX_ROWS]))
    return "\n\n".join(parts)


def _not_analysed(report: Report) -> str:
    execution = report.info.request.get("execution")
    wanted = isinstance(execution, Mapping) and execution.get("enable_analysis")
    if not wanted or report.status == "running":
        return ""
    return f"## Analysis\n\nThe run ended before it was analysed. {_how_to_analyse(report)}"


def _how_to_analyse(report: Report) -> str:
    command = shlex.join(["agentcompass", "summary", str(report.paths.run_dir), "--analyze"])
    return f"To look at all of it now:\n\n{block(command)}"


def _cost(report: Report) -> str:
    return "## Cost\n\n" + "\n".join(f"- {line}" for line in _cost_lines(report))


def _cost_lines(report: Report) -> Iterator[str]:
    usage = report.usage
    yield (
        f"Tokens: {usage.total_tokens:,} = {usage.input_tokens:,} in ({usage.cached_tokens:,} cached)"
        f" + {usage.output_tokens:,} out ({usage.reasoning_tokens:,} reasoning), {counted(usage.calls, 'call')}"
    )
    if usage.unmetered_calls:
        yield f"Without usage: {counted(usage.unmetered_calls, 'call')}, whose tokens are not in these sums"
    cost = "unknown" if usage.cost_usd is None else f"{usage.cost_usd:,.4f} US dollars"
    yield f"Price: {cost}"
    if report.reused:
        tokens = counted(report.reused_usage.total_tokens, "token")
        yield f"Paid for by an earlier run: {tokens} of these"
    elapsed = report.elapsed_seconds
    wall = "not over" if elapsed is None else _duration(elapsed)
    yield (
        f"Time: {wall} on the clock, {_duration(report.execution_seconds)} in"
        f" {counted(report.executions + report.reused, 'execution')}"
    )


def _files(report: Report) -> str:
    paths = report.paths
    findings = [(paths.findings_file, "what analyzers noticed, by execution")]
    known = [
        (paths.journal_file, "every execution, a line each"),
        (paths.metrics_file, "these numbers for programs"),
        *(findings if report.analysis is not None else ()),
        (paths.run_file, "what was asked, with all versions"),
        (paths.tasks_dir, "trajectories and artifacts by task"),
        (paths.log_file, "log"),
    ]
    lines = [f"- {code(path.name)}: {words}" for path, words in known]
    return f"## Files\n\nIn {code(str(paths.run_dir), 4096)}:\n\n" + "\n".join(lines)


def _finish(report: Report) -> str:
    if report.finish_command is None or report.status == "running":
        return ""
    return (
        "## Finish what is missing\n\n"
        "Executes what has no score and takes over the rest; secrets come from the environment again.\n\n"
        + block(report.finish_command)
    )


def _rest(total: int) -> str:
    return f"\n\n... and {total - MAX_ROWS} more." if total > MAX_ROWS else ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _interval(score: Score) -> str:
    if score.ci95 is None:
        return "-"
    return f"{score.ci95[0]:.4f} to {score.ci95[1]:.4f}"


def _with_interval(score: Score) -> str:
    if score.value is None:
        return "not available"
    return _number(score.value) + (f" ({_interval(score)})" if score.ci95 else "")


def _duration(seconds: float) -> str:
    if seconds < 59.95:
        return f"{max(0.0, seconds):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
