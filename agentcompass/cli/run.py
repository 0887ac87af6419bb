"""`agentcompass run BENCHMARK HARNESS MODEL`."""

from __future__ import annotations

import sys
from typing import Final

from agentcompass.cli import errors
from agentcompass.cli.common import FORMAT_METAVAR, FORMAT_TEXT
from agentcompass.cli.errors import Context
from agentcompass.cli.output import Emitter, Format
from agentcompass.cli.parameters import OptionCommand, flag
from agentcompass.options import RunOptions
from agentcompass.spec.resolved import Orchestration

DRY_RUN: Final = flag(
    "dry-run",
    bool,
    False,
    text="Resolve and check everything, print it as YAML with what it needs, and run and write nothing.",
)
FORMAT: Final = flag("format", Format, "text", text=FORMAT_TEXT, metavar=FORMAT_METAVAR)


def run(options: RunOptions, *, dry_run: bool, format: Format, context: Context) -> int:  # noqa: A002  # the flag's name
    """Evaluate a model, in a harness, on a benchmark."""
    from agentcompass import api  # noqa: PLC0415  # not needed for --help
    from agentcompass.plan.resolve import resolve_run  # noqa: PLC0415  # as above

    if dry_run:
        sys.dont_write_bytecode = True  # plug-ins are imported, and nothing is to be written
    orchestration = resolve_run(options, as_flags=True, **api.surroundings())
    context.scrubber.register(*orchestration.secrets)
    if dry_run:
        from agentcompass.cli.dry_run import show  # noqa: PLC0415  # as above

        return show(orchestration, context, format)
    return evaluate(orchestration, context, format)


def evaluate(orchestration: Orchestration, context: Context, format: Format) -> int:  # noqa: A002  # as above
    """Run an orchestration of one request, show its result, and return the exit code."""
    from agentcompass import api  # noqa: PLC0415  # not needed for --help
    from agentcompass.cli import render  # noqa: PLC0415  # as above
    from agentcompass.components import registry  # noqa: PLC0415  # as above

    result = api.run_orchestration(orchestration, handle_signals=True)
    (outcome,) = result.requests.values()
    emitter = Emitter()
    if format == "json":
        emitter.json(context.scrubbed(render.outcome_json(outcome)))
    elif outcome.result is not None:
        emitter.text(context.clean(render.result_text(outcome.result)))
        (request,) = orchestration.requests
        if (
            outcome.status == "completed"
            and request.regrade_of is None
            and not registry.load("harness", request.harness.id).needs_model
        ):
            emitter.text(render.model_hint(request.benchmark.id))
    if outcome.status != "completed":
        errors.tell_outcome(outcome, context, sys.stderr, is_alone=True)
    return api.exit_code(result)


command: Final = OptionCommand(RunOptions, run, extra=(DRY_RUN, FORMAT))
