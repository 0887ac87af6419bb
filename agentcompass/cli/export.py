"""`agentcompass export RUN_DIR`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from agentcompass.cli import errors
from agentcompass.cli.common import Given, existing_directory
from agentcompass.cli.output import Emitter
from agentcompass.errors import counted


def command(
    run_dir: Annotated[
        Path, Parameter(name="RUN_DIR", help="Of the run, complete or not. Required.")
    ],
    /,
    *,
    format_: Annotated[
        str,
        Parameter(
            name="--format",
            help="Form of the files: `atif`, the trajectory of each attempt as Harbor interchanges them; `swebench`, patches as "
            "SWE-bench's own evaluation reads them. Required.",
            metavar="FORM",
        ),
    ],
    output: Annotated[
        Path | None,
        Parameter(
            name="--output",
            help="Directory of the files, which is made. Default: `export/FORM` of the run.",
            metavar="DIR",
            show_default=False,
        ),
    ] = None,
    context: Given,
) -> int:
    """Write a run in the form of another tool, and print the directory; nothing of the run is changed."""
    from agentcompass.plan.surroundings import working_directory  # noqa: PLC0415  # not needed for --help
    from agentcompass.store.export import export_run  # noqa: PLC0415  # as above
    from agentcompass.store.reader import read_run  # noqa: PLC0415  # as above

    run = read_run(existing_directory(run_dir))
    target = None if output is None else working_directory() / output
    exported = export_run(run, format_, target)
    for reason, count in Counter(missing.reason for missing in exported.missing).items():
        text = f"warning: {counted(count, 'attempt')} left out: {reason}"
        errors.tell(text, context, sys.stderr)
    if exported.corrupt_lines:
        lines = counted(exported.corrupt_lines, "line")
        errors.tell(f"warning: {lines} of the journal cannot be read", context, sys.stderr)
    errors.tell(f"{counted(exported.files, 'file')} written", context, sys.stderr)
    Emitter().text(context.clean(str(exported.directory)))
    return 0
