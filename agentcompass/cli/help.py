"""Renders what `agentcompass --help` says, for `help.txt`; `python -m agentcompass.cli.help --write` rewrites it."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from agentcompass.cli.app import build
from agentcompass.cli.entry import HELP_FILE

COLUMNS: Final = 80


def rendered() -> str:
    """Return the help of the whole command line, at 80 columns."""
    stream = io.StringIO()
    console = Console(file=stream, width=COLUMNS, color_system=None, force_terminal=False)
    build().help_print([], console=console)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        Path(HELP_FILE).write_text(rendered(), encoding="utf-8")
    else:
        sys.stdout.write(rendered())
