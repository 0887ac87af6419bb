"""`agentcompass status [DIR]`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import attrs
from cyclopts import Parameter

from agentcompass.cli.common import FormatFlag, Given, existing_directory
from agentcompass.cli.output import Emitter
from agentcompass.errors import ConfigurationError


def command(
    dir_: Annotated[
        Path | None,
        Parameter(
            name="DIR",
            help="Of a run or a launch; of any other directory, the newest one below it. Default: the results root of"
            " the settings.",
        ),
    ] = None,
    /,
    *,
    format: FormatFlag = "text",  # noqa: A002  # the flag's name
    context: Given,
) -> int:
    """Show what a run or a launch in another process is doing now, read from its files."""
    from agentcompass.api.newest import choose  # noqa: PLC0415  # not needed for --help
    from agentcompass.api.observe import observe  # noqa: PLC0415  # as above
    from agentcompass.cli import standing  # noqa: PLC0415  # as above

    chosen = choose(existing_directory(dir_))
    now = time.time()  # noqa: TID251  # events carry wall-clock times
    found = observe(chosen.directory, now)
    emitter = Emitter()
    if format == "json":
        others = [str(path) for path in chosen.others]
        emitter.json(context.scrubbed({**attrs.asdict(found), "at": now, "others": others}))
    else:
        text = standing.text_of(
            found, chosen.others, emitter.columns, now, results_dir=_default_directory()
        )
        emitter.text(context.clean(text))
    return 0


def _default_directory() -> Path | None:
    """The results root of the settings; None if they are wrong: what is asked for may be somewhere else."""
    try:
        return existing_directory(None)
    except ConfigurationError:
        return None
