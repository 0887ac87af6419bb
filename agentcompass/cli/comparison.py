"""Several results as one table, a line each, that fits the screen: what `launch` and `summary DIR DIR` print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from agentcompass.cli.output import aligned, column_widths
from agentcompass.progress import text
from agentcompass.records import JSON, OrchestrationResult, RequestOutcome

_GAP: Final = 2
"""Columns between two cells."""
_NARROWEST: Final = 8
"""Of the column of names, however wide the figures are."""
_NONE: Final = "-"
_HEAD: Final = ("status", "score", "coverage", "tokens", "cost", "time")


def orchestration_text(result: OrchestrationResult, columns: int) -> str:
    """Return how each request ended, and where its results are.

    Args:
        result: Of a launch.
        columns: How wide the table may be.
    """
    outcomes = result.requests.values()
    rows = [(outcome.name, _figures(outcome.status, outcome.result)) for outcome in outcomes]
    head = f"{text.printable(result.name)}: {result.status.replace('_', ' ')}"
    return "\n".join([head, named_table("request", _HEAD, rows, columns), *_places(outcomes)])


def results_text(results: Sequence[Mapping[str, JSON]], columns: int) -> str:
    """Return results of runs, dictionaries as `run_evaluation` returns them, as a table."""
    known = Counter(result["metadata"]["name"] for result in results)
    rows = []
    for result in results:
        metadata = result["metadata"]
        name = metadata["name"]
        # runs of one name are told apart by their id
        label = name if known[name] == 1 else f"{name} {metadata['run_id']}"
        rows.append((label, _figures(result["summary"]["status"], result)))
    return named_table("run", _HEAD, rows, columns)


def named_table(
    title: str, head: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]], columns: int
) -> str:
    """Return rows of a name and figures as a table that is no wider than the screen.

    A name that leaves no room for its figures has a line of its own, above them; one that is wider than the screen
    loses its middle.

    Args:
        title: Of the column of names.
        head: Titles of the figures.
        rows: Names and figures, as many as `head` has.
        columns: How wide the table may be.
    """
    cells = [(title, tuple(map(text.printable, head)))]
    cells += [(text.printable(name), tuple(map(text.printable, row))) for name, row in rows]
    widths = column_widths([figures for _name, figures in cells])
    room = max(_NARROWEST, columns - sum(widths) - _GAP * len(widths))
    names = [text.cells(name) for name, _figures in cells]
    width = max(size for size in names if size <= room)
    lines = []
    for (name, figures), size in zip(cells, names, strict=True):
        if size > room:
            lines.append(text.narrowed(name, columns))
            name = ""  # noqa: PLW2901  # it stands above
        lines.append(aligned([(name, *figures)], [width, *widths]))
    return "\n".join(lines)


def _figures(status: str, result: Mapping[str, JSON] | None) -> Sequence[str]:
    """What stands under `_HEAD`; a dash is what does not apply, and what is not known says so."""
    shown = status.replace("_", " ")
    if result is None:
        return (shown, *(_NONE for _ in _HEAD[1:]))
    summary = result["summary"]
    usage, seconds = summary["usage"], summary["elapsed_seconds"]
    return (
        shown,
        _score(result),
        f"{summary['coverage']:.1%}",
        _tokens(usage) if usage["calls"] else _NONE,
        text.money(usage["cost_usd"]).removeprefix("cost ") if usage["calls"] else _NONE,
        _NONE if seconds is None else text.duration(seconds),
    )


def _score(result: Mapping[str, JSON]) -> str:
    """Over all that was planned if it completed; else over what is graded, and said to be."""
    summary = result["summary"]
    if summary["status"] == "completed":
        return text.score(summary["score"], summary["ci95"])
    metrics = result["metrics"]
    graded = metrics["scores"][metrics["primary"]]["graded_value"]
    return text.score(graded, None) + ("" if graded is None else " so far")


def _tokens(usage: Mapping[str, JSON]) -> str:
    if usage["unmetered_calls"] == usage["calls"]:
        return "unknown"
    return text.amount(usage["total_tokens"]) + ("+" if usage["unmetered_calls"] else "")


def _places(outcomes: Iterable[RequestOutcome]) -> Iterable[str]:
    places = [outcome.paths["run_dir"] for outcome in outcomes if "run_dir" in outcome.paths]
    if places:
        yield "results:"
    for place in places:
        yield f"  {text.printable(place)}"
