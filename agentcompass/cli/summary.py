"""`agentcompass summary RUN_DIR`."""

from __future__ import annotations

from pathlib import Path

from agentcompass.cli.common import FormatFlag, Given
from agentcompass.cli.output import Emitter


def command(
    run_dir: Path,
    /,
    *,
    format: FormatFlag = "text",  # noqa: A002  # the flag's name
    context: Given,
) -> int:
    """Show the scores of a run directory, computed anew from its journal; it may still run.

    Parameters
    ----------
    run_dir
        Of the run.
    """
    from agentcompass.cli import render  # noqa: PLC0415  # not needed for --help
    from agentcompass.store.summary import result_dict  # noqa: PLC0415  # as above

    result = result_dict(run_dir.absolute())
    if format == "json":
        Emitter().json(result)
    else:
        Emitter().text(context.clean(render.result_text(result)))
    return 0
