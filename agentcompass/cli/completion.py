"""`agentcompass completion SHELL`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentcompass.cli.common import Given
from agentcompass.cli.output import Emitter

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
        Emitter().text(context.clean(str(build().install_completion(shell=shell))))
    else:
        Emitter().text(build().generate_completion(shell=shell))
    return 0
