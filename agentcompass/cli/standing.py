"""How a run or a launch stands, as a person reads it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from agentcompass.api.standing import RequestStanding, Standing
from agentcompass.cli.comparison import named_table
from agentcompass.cli.output import aligned, column_widths
from agentcompass.errors import counted
from agentcompass.progress import text
from agentcompass.records import Usage

_MAX_ACTIVITIES: Final = 10
_MAX_TROUBLES: Final = 5
_MESSAGE: Final = 200
_LABEL: Final = 9
"""Columns of the names of lines, so that they are the same above and below sections."""
_TASK: Final = 40
"""Columns of a task id."""
_NO_LAST_WORD: Final = (
    "it ended without writing its last state (killed, machine restarted, or no space left)"
)

Rows = Iterator[tuple[str, str]]


def text_of(
    standing: Standing,
    others: Sequence[Path],
    columns: int,
    now: float,
    *,
    results_dir: Path | None = None,
) -> str:
    """Return lines: what it is, how far it is, what runs, what went wrong, and what to do next.

    Args:
        standing: Of a run or a launch.
        others: Directories of those that are under way beside it.
        columns: How wide tables may be.
        now: Seconds since the epoch: when it stood so.
        results_dir: Where commands look that are told nothing else; None if that is not known.
    """
    elapsed = standing.elapsed_seconds
    since = "" if elapsed is None else f", {text.duration(elapsed)}"
    lines = [f"{text.printable(standing.name)}: {standing.status.replace('_', ' ')}{since}"]
    if standing.kind == "launch":
        rows = [(request.name, _figures(request)) for request in standing.requests]
        head = ("status", "done", "running", _undone(standing), "score")
        lines.append(named_table("request", head, rows, columns))
    lines += _listed([*_process(standing), *_progress(standing, now)])
    lines += _section(f"running ({len(standing.activities)}):", _activities(standing), columns)
    lines += _section("trouble:", _troubles(standing), columns)
    lines += _listed([*_end(standing, results_dir), *(("also", str(path)) for path in others)])
    return "\n".join(lines)


def _listed(rows: Sequence[tuple[str, str]]) -> list[str]:
    cells = [tuple(map(text.printable, row)) for row in rows]
    return [aligned(cells, [max(_LABEL, column_widths(cells)[0]), 0])] if cells else []


def _section(title: str, rows: Sequence[tuple[str, ...]], columns: int) -> list[str]:
    """Rows under a title; what is wider than the screen loses its end."""
    if not rows:
        return []
    cells = [tuple(map(text.printable, row)) for row in rows]
    lines = aligned(cells, column_widths(cells), indent="  ").split("\n")
    return [title, *(text.cut(line, columns) for line in lines)]


def _figures(request: RequestStanding) -> tuple[str, ...]:
    has_plan = request.planned > 0
    return (
        request.status.replace("_", " "),
        f"{request.done}/{request.planned}" if has_plan else "-",
        str(request.running) if has_plan else "-",
        str(request.waiting) if has_plan else "-",
        _score(request),
    )


def _score(request: RequestStanding) -> str:
    """Over all that was planned if it completed; else over what is graded, and said to be."""
    if request.score is None:
        is_over = request.planned > 0 and request.status != "running"
        return "n/a" if is_over else "-"
    so_far = "" if request.status in ("completed", "unreadable") else " so far"
    return text.score(request.score, request.ci95) + so_far


def _process(standing: Standing) -> Rows:
    pid = standing.process.pid
    if standing.status == "interrupted":
        yield ("process", f"{pid} is gone: {_NO_LAST_WORD}")
    elif standing.status == "running":
        where = (
            " elsewhere: another host or container" if standing.process_state == "elsewhere" else ""
        )
        yield ("process", f"{pid}{where}, alive")
    if standing.ending is not None:
        left = text.duration(standing.ending.seconds_left)
        yield ("ending", f"by {standing.ending.reason}; cleanup has {left} left")


def _progress(standing: Standing, now: float) -> Rows:
    requests = standing.requests
    planned, done = (sum(getattr(one, name) for one in requests) for name in ("planned", "done"))
    if planned:
        yield ("attempts", f"{planned} planned: {', '.join(_parts(standing, done))}")
    verdicts = [
        f"{count} {verdict}"
        for verdict in ("graded", "infra", "cancelled", "skipped")
        if (count := sum(one.verdicts.get(verdict, 0) for one in requests))
    ]
    reused = sum(one.reused for one in requests)
    if reused:
        verdicts.append(f"{reused} reused")
    if verdicts:
        yield ("verdicts", ", ".join(verdicts))
    if standing.kind == "run" and requests[0].score is not None:
        yield (requests[0].metric or "score", _score(requests[0]))
    if speed := list(_speed(standing, now)):
        yield ("speed", ", ".join(speed))
    usage = sum((one.usage for one in requests), Usage())
    if usage.calls:
        yield ("tokens", f"{text.tokens(usage)}, {text.money(usage.cost_usd)}")


def _undone(standing: Standing) -> str:
    """How attempts are called that are neither done nor running."""
    return "waiting" if standing.status == "running" else "missing"


def _parts(standing: Standing, done: int) -> Iterator[str]:
    names = ("running", "waiting", "waiting_for_retry", "not_needed")
    running, waiting, again, not_needed = (
        sum(getattr(one, name) for one in standing.requests) for name in names
    )
    yield f"{done} done"
    if running:
        yield f"{running} running"
    if waiting:
        yield f"{waiting} {_undone(standing)}" + (f" ({again} for a retry)" if again else "")
    if not_needed:
        yield f"{not_needed} not needed"


def _speed(standing: Standing, now: float) -> Iterator[str]:
    if standing.per_second:
        yield text.pace(standing.per_second)
    left = standing.left_seconds
    if left is not None and standing.ending is None:
        yield f"about {text.duration(left)} left{_until(now + left)}"
    retries = ", ".join(f"{n} {code}" for code, n in standing.model_retries.items())
    if retries:
        yield f"model calls tried again in the last minute: {retries}"


def _until(at: float) -> str:
    try:
        return datetime.fromtimestamp(at).astimezone().strftime(" (%a %H:%M)")
    except (OverflowError, ValueError, OSError):  # further away than a calendar goes
        return ""


def _activities(standing: Standing) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for one in standing.activities[:_MAX_ACTIVITIES]:
        number = f" #{one.attempt}" if one.attempt > 1 else ""
        notes = [
            f"try {one.execution}" if one.execution > 1 else "",
            counted(one.model_retries, "model retry", "model retries") if one.model_retries else "",
            f"waits for {one.waits_for}" if one.waits_for else "",
            one.request if standing.kind == "launch" else "",
        ]
        rows.append(
            (
                text.narrowed(text.printable(one.task), _TASK) + number,
                one.phase or "start",
                text.duration(one.phase_seconds),
                ", ".join(filter(None, notes)),
            )
        )
    more = len(standing.activities) - len(rows)
    return [*rows, (f"and {more} more", "", "", "")] if more else rows


def _troubles(standing: Standing) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for one in standing.troubles[:_MAX_TROUBLES]:
        where = [one.request if standing.kind == "launch" else "", one.task]
        said = ": ".join(filter(None, [*where, text.shortened(one.message, _MESSAGE)]))
        rows.append((str(one.count), one.code, f"{text.duration(one.seconds_ago)} ago", said))
    more = len(standing.troubles) - len(rows)
    return [*rows, ("...", counted(more, "more cause"), "", "")] if more else rows


def _end(standing: Standing, results_dir: Path | None) -> Rows:
    for request in standing.requests:
        if request.error:
            name = f"{text.printable(request.name)}: " if standing.kind == "launch" else ""
            yield ("error", name + request.error)
    sandboxes = sum(request.sandboxes for request in standing.requests)
    if sandboxes and standing.status == "running":
        yield ("sandboxes", str(sandboxes))
    elif sandboxes:
        close = shlex.join(["agentcompass", "env", "close", *_place(standing, results_dir)])
        yield ("sandboxes", f"{sandboxes} may be left: `{close}` removes them")
    yield ("results", standing.directory)
    if standing.status == "running":
        return
    if standing.kind == "run" and standing.requests[0].finish_command:
        yield ("next", standing.requests[0].finish_command)
    elif any(
        request.finish_command or request.status == "interrupted" for request in standing.requests
    ):
        is_known = any(one.done or one.status == "unreadable" for one in standing.requests)
        words = ["--reuse"] if is_known else []
        if place := _place(standing, results_dir):
            words += ["--results-dir", *place]
        command = " ".join(["agentcompass launch FILE", *map(shlex.quote, words)])
        yield ("next", f"{command}, with the file and options of this launch")


def _place(standing: Standing, results_dir: Path | None) -> list[str]:
    """The directory that a command has to be given: none where it looks there by itself."""
    directory = Path(standing.directory)
    if results_dir is not None and directory.is_relative_to(results_dir):
        return []
    return [str(directory if standing.kind == "run" else directory.parent)]
