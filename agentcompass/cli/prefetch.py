"""`agentcompass prefetch BENCHMARK`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import attrs

from agentcompass.cli import errors
from agentcompass.cli.common import FORMAT_METAVAR, FORMAT_TEXT
from agentcompass.cli.errors import Context
from agentcompass.cli.output import Emitter, Format
from agentcompass.cli.parameters import OptionCommand, flag
from agentcompass.errors import AgentCompassError, ConfigurationError
from agentcompass.options import RunOptions

if TYPE_CHECKING:
    from agentcompass.engine.prefetch import Fetched, Prefetched
    from agentcompass.records import JSON

OPTIONS: Final = (
    "benchmark", "environment", "benchmark_params", "harness_params", "environment_params", "enabled_recipes",
    "recipe_dirs", "config_path", "data_dir", "timeout_seconds", "auto_install_dependencies", "progress", "log_level",
)  # fmt: skip
"""Those of a run that decide what it needs, and how that is told."""
NOBODY: Final = "http://nobody.invalid/v1"
"""Endpoint of a harness that calls a model; nothing is asked here."""
_ENDED_BY: Final = {
    "sigint": "Ctrl-C",
    "sigterm": "SIGTERM",
    "sighup": "SIGHUP",
    "timeout": "timeout_seconds",
}
_GO_ON: Final = "the same command goes on with what is missing"
HARNESS: Final = flag(
    "harness",
    str,
    "nop",
    text="Harness of the run to come: its program is brought too, and recipes may depend on it.",
    metavar="ID",
)
AT_ONCE: Final = flag(
    "at-once", int, 4, text="Images that are pulled or built side by side. Default: 4.", metavar="N"
)
FORMAT: Final = flag("format", Format, "text", text=FORMAT_TEXT, metavar=FORMAT_METAVAR)


def prefetch(
    options: RunOptions,
    *,
    harness: str,
    at_once: int,
    format: Format,  # noqa: A002  # the flag's name
    context: Context,
) -> int:
    """Download the data of a benchmark and the program of a harness, and pull or build the images of the tasks."""
    from agentcompass import api  # noqa: PLC0415  # not needed for --help
    from agentcompass.plan.resolve import resolve_run  # noqa: PLC0415  # as above

    if at_once < 1:
        raise ConfigurationError(f"--at-once {at_once} would bring nothing")
    options = attrs.evolve(options, harness=harness, model="none", model_base_url=NOBODY)
    orchestration = resolve_run(options, as_flags=True, **api.surroundings())
    context.scrubber.register(*orchestration.secrets)
    from agentcompass.api.prefetch import run  # noqa: PLC0415  # loads the engine

    result = run(orchestration, at_once=at_once)
    found = result.found
    emitter = Emitter()
    if format == "json":
        emitter.json(context.scrubbed(_document(found)))
    else:
        emitter.text(context.clean("\n".join(_lines(found))))
    for one in (found.program, *found.images):
        if one is not None and one.error is not None:
            is_named = one.name in one.error.message
            errors.report(one.error, context, sys.stderr, about="" if is_named else one.name)
    for task, reason in found.broken:
        errors.report(AgentCompassError(reason), context, sys.stderr, about=task)
    if result.ended_by is not None:
        ended_by = _ENDED_BY.get(result.ended_by, result.ended_by)
        errors.tell(f"ended by {ended_by}: {_GO_ON}", context, sys.stderr)
    return result.exit_code


def _lines(found: Prefetched) -> Iterator[str]:
    yield f"tasks   {found.tasks:,}"
    if found.program is not None:
        status = found.program.status
        yield f"program {found.program.name}: {'is there' if status == 'there' else status}"
    if not found.images:
        return
    counts = {
        what: sum(one.status == status for one in found.images)
        for status, what in (
            ("brought", "brought"),
            ("there", "were there"),
            ("failed", "failed"),
            ("missing", "missing"),
        )
    }
    told = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    yield f"images  {len(found.images):,}: {told}"
    yield f"size    {_size(_total(found))}, what images share counted for each"


def _total(found: Prefetched) -> int:
    return sum(one.size_bytes or 0 for one in found.images)


def _size(number: int) -> str:
    return f"{number / 1e9:,.1f} GB" if number >= 1e9 else f"{number / 1e6:,.0f} MB"


def _document(found: Prefetched) -> JSON:
    return {
        "tasks": found.tasks,
        "program": None if found.program is None else _fetched(found.program),
        "images": [{**_fetched(one), "size_bytes": one.size_bytes} for one in found.images],
        "broken_tasks": dict(found.broken),
        "size_bytes": _total(found),
    }


def _fetched(one: Fetched) -> dict[str, JSON]:
    error = None if one.error is None else one.error.message
    return {"name": one.name, "status": one.status, "error": error}


command: Final = OptionCommand(RunOptions, prefetch, only=OPTIONS, extra=(HARNESS, AT_ONCE, FORMAT))
