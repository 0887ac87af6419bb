"""Results as people read them on a terminal. Pure: the dictionary that callers get goes in, text comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from agentcompass.cli.output import table
from agentcompass.errors import counted
from agentcompass.progress import text
from agentcompass.records import JSON, OrchestrationResult, RequestOutcome

_MAX_FAILURES: Final = 10
_MAX_CATEGORIES: Final = 30
_MAX_NOTICED: Final = 10
_MESSAGE: Final = 120

Rows = Iterator[Sequence[str]]


def result_text(result: Mapping[str, JSON]) -> str:
    """Return what `run_evaluation` returns as lines: score first, what to do next last."""
    metadata, summary = result["metadata"], result["summary"]
    headline = f"{text.printable(metadata['name'])}: {summary['status'].replace('_', ' ')}"
    parts = [headline, table([*_scores(result["metrics"]), *_counts(summary, result["metrics"])])]
    parts += _section("without a score", _failures(summary["failures"]))
    parts += _section("by category", _categories(result["metrics"]))
    parts += _section("noticed", _noticed(summary.get("analysis")))
    parts.append(table([*_cost(summary), *_paths(result["paths"], summary)]))
    return "\n".join(parts)


def model_hint(benchmark: str) -> str:
    """Return how to put in a model, for people who have just tried a benchmark without one."""
    return (
        f"\nNo model was asked. With one:\n  agentcompass run {text.printable(benchmark)} openai_chat MODEL"
        " --model-base-url https://HOST/v1 --model-api-key '${API_KEY}'"
    )


def outcome_json(outcome: RequestOutcome) -> JSON:
    """Return the dictionary of `run_evaluation`; without results, one with the same keys that tells the error."""
    if outcome.result is not None:
        return outcome.result
    return {
        "metadata": None,
        "metrics": None,
        "summary": {"status": outcome.status, "error": outcome.error},
        "paths": dict(outcome.paths),
    }


def orchestration_json(result: OrchestrationResult) -> JSON:
    """Return an orchestration's result as one JSON object."""
    return {
        "id": result.id,
        "name": result.name,
        "status": result.status,
        "started_at": result.started_at,
        "finished_at": result.finished_at,
        "ended_by": result.ended_by,
        "requests": {
            name: {
                "status": outcome.status,
                "error": outcome.error,
                "error_kind": None
                if outcome.exception is None
                else type(outcome.exception).__name__,
                "result": outcome.result,
                "paths": dict(outcome.paths),
            }
            for name, outcome in result.requests.items()
        },
    }


def _section(title: str, rows: Rows) -> list[str]:
    lines = list(rows)
    return [f"{title}:", table(lines, indent="  ")] if lines else []


def _scores(metrics: Mapping[str, JSON]) -> Rows:
    primary_first = sorted(
        metrics["scores"].items(), key=lambda item: item[0] != metrics["primary"]
    )
    for name, score in primary_first:
        yield (name, text.score(score["value"], score["ci95"]))
        if score["pass_at_k"]:
            yield ("", _pass_rates(score, metrics["k"]))
        bounds = score["bounds"] or (None, None)
        is_closed = None not in bounds  # an open scale has no such end
        if score["graded_value"] is None and score["value"] is not None and is_closed:
            possible = f"anything from {bounds[0]:.3f} to {bounds[1]:.3f} is possible"
            yield ("", f"nothing was graded: this is no score, and {possible}")
        elif score["value"] != score["graded_value"] and score["graded_value"] is not None:
            between = f", between {bounds[0]:.3f} and {bounds[1]:.3f} in all" if is_closed else ""
            yield ("", f"{score['graded_value']:.3f} over graded attempts only{between}")


def _pass_rates(score: Mapping[str, JSON], k: int) -> str:
    rates = {
        f"avg@{k}": score["avg_at_k"],
        **{f"pass@{j}": value for j, value in score["pass_at_k"].items() if int(j) in (1, k)},
        f"pass^{k}": score["pass_hat_k"],
    }
    return "  ".join(
        f"{name} {'undefined' if value is None else format(value, '.3f')}"
        for name, value in rates.items()
    )


def _counts(summary: Mapping[str, JSON], metrics: Mapping[str, JSON]) -> Rows:
    counts = summary["counts"]
    verdicts = ("graded", "infra", "cancelled", "skipped")
    parts = ", ".join(f"{counts[name]} {name}" for name in verdicts if counts[name])
    yield ("coverage", f"{summary['coverage']:.1%}")
    yield ("attempts", f"{counts['planned']} planned: {parts or 'none finished'}")
    if summary["reused"]:
        yield ("reused", f"{counted(summary['reused'], 'attempt')} of an earlier run")
    if summary["stopped_by"]:
        causes = ", ".join(f"{n} by {cause}" for cause, n in summary["stopped_by"].items())
        yield ("stopped", f"{causes}; graded on what was there")
    if summary["corrupt_lines"]:
        yield ("journal", f"{counted(len(summary['corrupt_lines']), 'line')} cannot be read")


def _failures(groups: Sequence[Mapping[str, JSON]]) -> Rows:
    for group in groups[:_MAX_FAILURES]:
        message = text.shortened(text.printable(group["message"] or ""), _MESSAGE)
        yield (
            str(group["count"]),
            group["verdict"],
            group["phase"] or "-",
            group["code"],
            f"e.g. {group['task_id']}: {message}",
        )
    if len(groups) > _MAX_FAILURES:
        yield ("...", counted(len(groups) - _MAX_FAILURES, "more cause"), "", "", "")


def _categories(metrics: Mapping[str, JSON]) -> Rows:
    categories = list(metrics["categories"].items())
    for name, board in categories[:_MAX_CATEGORIES]:
        score = board["scores"][metrics["primary"]]
        tasks = counted(board["counts"]["tasks"], "task")
        yield (name, text.score(score["value"], score["ci95"]), tasks)
    if len(categories) > _MAX_CATEGORIES:
        yield ("...", f"{len(categories) - _MAX_CATEGORIES} more", "")


def _noticed(analysis: Mapping[str, JSON] | None) -> Rows:
    rows = [row for row in analysis["rows"] if row["count"]] if analysis else []
    most_first = sorted(rows, key=lambda row: -int(row["count"]))
    for row in most_first[:_MAX_NOTICED]:
        example = row["examples"][0]["task_id"] if row["examples"] else ""
        detail = text.shortened(text.printable(row["detail"]), _MESSAGE)
        where = f"e.g. {example}: {detail}" if example else detail
        yield (str(row["count"]), row["analyzer"], row["label"], where)
    if len(rows) > _MAX_NOTICED:
        yield ("...", f"{len(rows) - _MAX_NOTICED} more, in the summary", "", "")


def _cost(summary: Mapping[str, JSON]) -> Rows:
    usage = summary["usage"]
    if usage["calls"]:
        unknown = f", {usage['unmetered_calls']} without usage" if usage["unmetered_calls"] else ""
        split = f"{usage['input_tokens']:,} in, {usage['output_tokens']:,} out"
        is_known = usage["unmetered_calls"] < usage["calls"]
        total = f"{usage['total_tokens']:,} ({split})" if is_known else "unknown"
        yield ("tokens", f"{total} in {counted(usage['calls'], 'call')}{unknown}")
        yield ("cost", text.money(usage["cost_usd"]).removeprefix("cost "))
    elapsed = summary["elapsed_seconds"]
    if elapsed is not None:
        yield ("time", text.duration(elapsed))


def _paths(paths: Mapping[str, str], summary: Mapping[str, JSON]) -> Rows:
    yield ("results", paths["run_dir"])
    yield ("summary", paths["summary"])
    if summary["coverage"] < 1 and summary["status"] != "running" and summary["finish_command"]:
        yield ("next", summary["finish_command"])


def plain(value: Any) -> str:
    """Return a setting's value as one line."""
    import json  # noqa: PLC0415  # a table of settings needs it, a result does not

    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
