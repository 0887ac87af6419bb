"""`agentcompass summary RUN_DIR`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agentcompass.cli import errors
from agentcompass.cli.common import FormatFlag, Given
from agentcompass.cli.errors import Context
from agentcompass.cli.output import Emitter


def command(
    run_dir: Path,
    /,
    *,
    format: FormatFlag = "text",  # noqa: A002  # the flag's name
    analyze: Annotated[
        bool,
        Parameter(
            name="--analyze",
            negative="",
            show_default=False,
            help="First let the analyzers look at all attempts of a run that is over, and write its summary anew.",
        ),
    ] = False,
    context: Given,
) -> int:
    """Show the scores of a run directory, computed anew from its journal; it may still run.

    Parameters
    ----------
    run_dir
        Of the run.
    """
    from agentcompass.plan.surroundings import working_directory  # noqa: PLC0415  # not needed for --help

    if not run_dir.is_absolute():
        run_dir = working_directory() / run_dir
    if analyze:
        _analyze(run_dir, context)
    from agentcompass.cli import render  # noqa: PLC0415  # not needed for --help
    from agentcompass.store.summary import result_dict  # noqa: PLC0415  # as above

    result = result_dict(run_dir)
    if format == "json":
        Emitter().json(result)
    else:
        Emitter().text(context.clean(render.result_text(result)))
    return 0


def _analyze(run_dir: Path, context: Context) -> None:
    import trio  # noqa: PLC0415  # not needed for --help

    from agentcompass.engine.analysis import analyze_again  # noqa: PLC0415  # as above

    trio.run(
        analyze_again,
        run_dir,
        lambda text: errors.tell(f"warning: {text}", context, sys.stderr),
    )
