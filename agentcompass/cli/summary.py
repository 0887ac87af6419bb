"""`agentcompass summary RUN_DIR ...`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agentcompass.cli import errors
from agentcompass.cli.common import FormatFlag, Given
from agentcompass.cli.errors import Context
from agentcompass.cli.output import Emitter
from agentcompass.errors import ConfigurationError, StoreError
from agentcompass.records import JSON


def command(
    *run_dirs: Annotated[
        Path,
        Parameter(
            name="RUN_DIR",
            help="Of the run; several give a table with a line for each, and with `--format json` an array. Required.",
        ),
    ],
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
    """Show the scores of a run directory, or compare several, computed anew from their journals; they may still run."""
    from agentcompass.plan.surroundings import working_directory  # noqa: PLC0415  # not needed for --help
    from agentcompass.store.summary import result_dict  # noqa: PLC0415  # as above

    if not run_dirs:
        raise ConfigurationError(
            "RUN_DIR requires an argument",
            hint="`agentcompass summary --help` shows what can be given.",
        )
    here = working_directory() if any(not path.is_absolute() for path in run_dirs) else Path("/")
    results: list[dict[str, JSON]] = []
    failed = 0
    for run_dir in (here / path for path in run_dirs):
        try:
            if analyze:
                _analyze(run_dir, context)
            results.append(result_dict(run_dir))
        except StoreError as error:
            failed = errors.report(error, context, sys.stderr)
    _show(results, format, context, is_alone=len(run_dirs) == 1)
    return failed


def _show(
    results: list[dict[str, JSON]],
    format: str,  # noqa: A002  # the flag's name
    context: Context,
    *,
    is_alone: bool,
) -> None:
    from agentcompass.cli import comparison, render  # noqa: PLC0415  # not needed for --help

    emitter = Emitter()
    if format == "json" and (results or not is_alone):
        emitter.json(results[0] if is_alone else results)
    elif results and is_alone:
        emitter.text(context.clean(render.result_text(results[0])))
    elif results:
        emitter.text(context.clean(comparison.results_text(results, emitter.columns)))


def _analyze(run_dir: Path, context: Context) -> None:
    import trio  # noqa: PLC0415  # not needed for --help

    from agentcompass.engine.analysis import analyze_again  # noqa: PLC0415  # as above

    trio.run(
        analyze_again,
        run_dir,
        lambda text: errors.tell(f"warning: {text}", context, sys.stderr),
    )
