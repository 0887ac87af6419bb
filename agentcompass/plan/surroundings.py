"""What resolving takes from the process and may not be there."""

from __future__ import annotations

from pathlib import Path

from agentcompass.errors import PreflightError


def working_directory() -> Path:
    """Return where relative paths start.

    Raises:
        PreflightError: It was removed, or cannot be read.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise PreflightError(
            f"the working directory cannot be used: {error.strerror}",
            hint="It was probably removed. Change to a directory that exists.",
        ) from error
