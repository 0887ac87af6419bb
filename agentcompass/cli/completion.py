"""`agentcompass completion SHELL`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentcompass.cli.common import Given
from agentcompass.cli.output import Emitter
from agentcompass.errors import StoreError

Shell: TypeAlias = Literal["bash", "zsh", "fish"]


def command(
    shell: Shell,
    /,
    *,
    install: bool = False,
    context: Given,
) -> int:
    """Print the script that completes agentcompass in a shell, or install it.

    Parameters
    ----------
    shell
        For which shell.
    install
        Write the script where the shell looks for it, and print the path.
    """
    from agentcompass.cli.app import build  # noqa: PLC0415  # the app imports this module by name

    if install:
        try:
            path = build().install_completion(shell=shell)
        except (OSError, RuntimeError) as error:  # RuntimeError: there is no home directory
            why = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) else error
            raise StoreError(
                f"the completion cannot be installed: {why}",
                hint=f"`agentcompass completion {shell}` prints the script, for you to put where the shell looks.",
            ) from error
        Emitter().text(context.clean(str(path)))
    else:
        Emitter().text(build().generate_completion(shell=shell))
    return 0
