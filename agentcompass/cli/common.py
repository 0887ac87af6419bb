"""What several commands take: the form of their output, a directory, and what the whole command line knows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
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


def existing_directory(given: Path | None) -> Path:
    """Return the absolute path of a directory that was named or, if none was, the results root of the settings.

    Raises:
        ConfigurationError: There is no such directory, or a configuration file is wrong.
    """
    from agentcompass.errors import ConfigurationError  # noqa: PLC0415  # not needed for --help
    from agentcompass.plan.resolve import configured_runtime  # noqa: PLC0415  # as above
    from agentcompass.plan.surroundings import working_directory  # noqa: PLC0415  # as above

    if given is None:
        return configured_runtime(cwd=working_directory(), environ=os.environ).results_dir
    path = given if given.is_absolute() else working_directory() / given
    if not _is(Path.is_dir, path):
        if _is(Path.exists, path):
            raise ConfigurationError(
                f"{str(given)!r} is a file, not a directory",
                hint="Give the directory that it is in.",
            )
        raise ConfigurationError(f"there is no directory {str(given)!r}")
    return path


def _is(what: Callable[[Path], bool], path: Path) -> bool:
    try:
        return what(path)
    except OSError:  # no path at all: too long
        return False
