"""What several commands take: the form of their output, and what the whole command line knows."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from cyclopts import Parameter

from agentcompass.cli.errors import Context
from agentcompass.cli.output import Format

FORMAT_TEXT: Final = "Form of the result on standard output. Default: text."
FORMAT_METAVAR: Final = "text|json"

FormatFlag: TypeAlias = Annotated[
    Format,
    Parameter(
        name="--format",
        help=FORMAT_TEXT,
        metavar=FORMAT_METAVAR,
        show_choices=False,
        show_default=False,
    ),
]
"""`--format` of a command that prints a result."""

Given: TypeAlias = Annotated[Context, Parameter(parse=False)]
"""Handed to each command by `app.run`; not on the command line."""
