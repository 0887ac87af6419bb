"""Renders what the code says about itself: help pages for `help.txt`, and the generated parts of the documentation.

`python -m agentcompass.cli.help --write [FILE...]` rewrites `help.txt`, and in Markdown files every block between
`<!-- KIND: WORDS -->` and `<!-- end -->`: `help: run` is the help of a command, the others are tables of `cli.reference`.
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from agentcompass.cli.app import build
from agentcompass.cli.entry import HELP_FILE
from agentcompass.cli.reference import render

COLUMNS: Final = 80

_BLOCK: Final = re.compile(
    r"(<!-- (?P<kind>[a-z-]+): (?P<words>[^\n]*?) *-->\n).*?(<!-- end -->)", re.DOTALL
)


def page(*command: str) -> str:
    """Return the help of a command at 80 columns; without one, that of the whole command line."""
    stream = io.StringIO()
    console = Console(file=stream, width=COLUMNS, color_system=None, force_terminal=False)
    build().help_print(list(command), console=console)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    return "\n".join(lines).strip("\n") + "\n"


def with_pages(markdown: str) -> str:
    """Return a Markdown text with its generated blocks renewed.

    Raises:
        KeyError: A block asks for what there is not, or for a field that is not described.
    """

    def renewed(block: re.Match[str]) -> str:
        kind, words = block["kind"], block["words"]
        text = f"```text\n{page(*words.split())}```\n" if kind == "help" else render(kind, words)
        return f"{block[1]}{text}{block[4]}"

    return _BLOCK.sub(renewed, markdown)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        Path(HELP_FILE).write_text(page(), encoding="utf-8")
        for name in sys.argv[2:]:
            file = Path(name)
            file.write_text(with_pages(file.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        sys.stdout.write(page(*sys.argv[1:]))
