"""`agentcompass regrade RUN_DIR`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from agentcompass.cli.errors import Context
from agentcompass.cli.output import Format
from agentcompass.cli.parameters import OptionCommand
from agentcompass.cli.run import FORMAT, evaluate
from agentcompass.options import RegradeOptions

_RUN_DIR: Final = inspect.Parameter(
    "run_dir",
    inspect.Parameter.POSITIONAL_ONLY,
    annotation=Annotated[
        Path, Parameter(name="RUN_DIR", help="Directory of the run, complete or not. Required.")
    ],
)


def regrade(
    options: RegradeOptions,
    *,
    run_dir: Path,
    format: Format,  # noqa: A002  # the flag's name
    context: Context,
) -> int:
    """Evaluate again what the agents of a run left, as a new run."""
    from agentcompass import api  # noqa: PLC0415  # not needed for --help
    from agentcompass.plan.regrade_request import resolve_regrade  # noqa: PLC0415  # as above

    orchestration = resolve_regrade(run_dir, options, as_flags=True, **api.surroundings())
    context.scrubber.register(*orchestration.secrets)
    return evaluate(orchestration, context, format)


command: Final = OptionCommand(RegradeOptions, regrade, positional=(_RUN_DIR,), extra=(FORMAT,))
