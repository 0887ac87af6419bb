"""`--dry-run`: what would run, and whether everything for it is there. Writes nothing."""

from __future__ import annotations

import io
import sys

import trio
from ruamel.yaml import YAML

from agentcompass.cli import errors
from agentcompass.cli.errors import Context
from agentcompass.cli.output import Emitter
from agentcompass.components.base import Where
from agentcompass.engine.parts import build
from agentcompass.engine.planning import check_model, check_room
from agentcompass.errors import AgentCompassError
from agentcompass.records import JSON
from agentcompass.spec.dump import resolved_as_dict
from agentcompass.spec.resolved import Orchestration, Request

_WIDTH = 100


def show(orchestration: Orchestration, context: Context) -> int:
    """Print the orchestration as a file that would give it again, then check what it needs.

    Returns:
        The exit code: 0, or that of the first thing that is missing; all of them are told on standard error.
    """
    Emitter().text(as_yaml(resolved_as_dict(orchestration)))
    for note in orchestration.notes:
        errors.tell(f"note: {note}", context, sys.stderr)
    codes = [
        errors.report(error, context, sys.stderr) for error in trio.run(_missing, orchestration)
    ]
    return codes[0] if codes else 0


def as_yaml(value: JSON) -> str:
    """Return a JSON value as YAML 1.2, in blocks and in its own order."""
    yaml = YAML()
    yaml.width = _WIDTH
    yaml.indent(mapping=2, sequence=4, offset=2)
    stream = io.StringIO()
    yaml.dump(value, stream)
    return stream.getvalue()


async def _missing(orchestration: Orchestration) -> list[AgentCompassError]:
    found: list[AgentCompassError] = []
    runtime = orchestration.runtime
    try:
        check_room(runtime.results_dir)
    except AgentCompassError as error:
        found.append(error)
    for request in orchestration.requests:
        try:
            await _check(request, orchestration)
        except AgentCompassError as error:
            found.append(error)
    return found


async def _check(request: Request, orchestration: Orchestration) -> None:
    parts = build(request, orchestration.runtime.recipe_dirs)
    check_model(request, parts.harness)
    # Which tasks need a sandbox is known once they are loaded, and loading may download.
    if parts.harness.needs_sandbox or parts.benchmark.evaluates_in is not Where.NOWHERE:
        await parts.environment.preflight()
