"""`agentcompass launch ORCHESTRATION_PATH`."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from agentcompass.cli import errors
from agentcompass.cli.errors import Context
from agentcompass.cli.output import Emitter, Format
from agentcompass.cli.parameters import OptionCommand, flag
from agentcompass.cli.run import DRY_RUN, FORMAT
from agentcompass.options import LaunchOptions

_PATH: Final = inspect.Parameter(
    "orchestration_path",
    inspect.Parameter.POSITIONAL_ONLY,
    annotation=Annotated[
        Path, Parameter(name="ORCHESTRATION_PATH", help="File of YAML or JSON. Required.")
    ],
)
_RUN_ID: Final = flag(
    "run-id",
    str | None,
    None,
    text="Name of every request's new run directory, whatever the file says.",
    metavar="ID",
)
_REUSE: Final = flag(
    "reuse",
    bool,
    False,
    text="Reuse earlier results in every request that does not say otherwise itself.",
)


def launch(  # the command's own flags
    options: LaunchOptions,
    *,
    orchestration_path: Path,
    run_id: str | None,
    reuse: bool,
    dry_run: bool,
    format: Format,  # noqa: A002  # the flag's name
    context: Context,
) -> int:
    """Run the evaluations of an orchestration file."""
    from agentcompass import api  # noqa: PLC0415  # not needed for --help
    from agentcompass.plan.resolve import LaunchFlags, resolve_launch  # noqa: PLC0415  # as above

    if dry_run:
        sys.dont_write_bytecode = True  # plug-ins are imported, and nothing is to be written
    flags = LaunchFlags(run_id=run_id, reuse=reuse or None)
    orchestration = resolve_launch(orchestration_path, options, flags=flags, **api.surroundings())
    context.scrubber.register(*orchestration.secrets)
    if dry_run:
        from agentcompass.cli.dry_run import show  # noqa: PLC0415  # as above

        return show(orchestration, context, format)
    from agentcompass.cli import comparison, render  # noqa: PLC0415  # as above

    result = api.run_orchestration(orchestration, handle_signals=True)
    emitter = Emitter()
    if format == "json":
        emitter.json(context.scrubbed(render.orchestration_json(result)))
    else:
        emitter.text(context.clean(comparison.orchestration_text(result, emitter.columns)))
    for outcome in result.requests.values():
        if outcome.status != "completed":
            errors.tell_outcome(outcome, context, sys.stderr, is_alone=False)
    return api.exit_code(result)


command: Final = OptionCommand(
    LaunchOptions, launch, positional=(_PATH,), extra=(_RUN_ID, _REUSE, DRY_RUN, FORMAT)
)
