"""Standard output: results and nothing else, in characters it can show, to a reader who may be gone."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, final

from agentcompass.progress.text import Glyphs, encodable, glyphs_for

Format: TypeAlias = Literal["text", "json"]


@final
class Emitter:
    """Writes results to standard output."""

    @property
    def glyphs(self) -> Glyphs:
        """The characters beyond ASCII that may be used."""
        return glyphs_for(sys.stdout.encoding)

    def text(self, text: str) -> None:
        """Write lines; a reader who has left (`| head`) is no error."""
        try:
            sys.stdout.write(encodable(text.rstrip("\n") + "\n", sys.stdout.encoding))
            sys.stdout.flush()
        except BrokenPipeError:
            self.forget_stdout()

    def json(self, value: Any) -> None:
        """Write one JSON value, indented and in ASCII."""
        self.text(json.dumps(value, indent=2, allow_nan=False))

    def table(self, rows: Sequence[Sequence[str]], indent: str = "") -> None:
        """Write rows with aligned columns; the last column is as long as it likes."""
        self.text(table(rows, indent))

    def forget_stdout(self) -> None:
        """Send all further output to nowhere, also what the interpreter flushes at its end."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def table(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Return rows as lines with aligned columns."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        indent
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
