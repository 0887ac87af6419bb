"""Standard output: results and nothing else, in characters it can show, to a reader who may be gone."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias, final

from agentcompass.errors import StoreError
from agentcompass.progress.text import cells, encodable, printable

Format: TypeAlias = Literal["text", "json"]

COLUMNS: Final = 80
"""That a table may take where nobody says how wide the screen is."""


@final
class Emitter:
    """Writes results to standard output."""

    def text(self, text: str) -> None:
        """Write lines; a reader who has left (`| head`) is no error, and neither is a closed stream.

        Raises:
            StoreError: A file cannot be written: the disk is full.
        """
        if sys.stdout is None:
            return
        try:
            sys.stdout.write(encodable(text.rstrip("\n") + "\n", sys.stdout.encoding))
            sys.stdout.flush()
        except OSError as error:
            self.forget_stdout()
            if error.errno in {
                errno.EPIPE,
                errno.EIO,
            }:  # nobody reads any more; the terminal was closed
                return
            raise StoreError(f"standard output cannot be written: {error.strerror}") from error

    @property
    def columns(self) -> int:
        """How wide a table may be: what the terminal has, but not less than 80; 80 where there is no terminal."""
        try:
            return max(COLUMNS, os.get_terminal_size(sys.stdout.fileno()).columns)
        except (AttributeError, OSError, ValueError):  # no stream, no file, no terminal, closed
            return COLUMNS

    def json(self, value: Any) -> None:
        """Write one JSON value, indented and in ASCII."""
        self.text(json.dumps(value, indent=2, allow_nan=False))

    def forget_stdout(self) -> None:
        """Send all further output to nowhere, also what the interpreter flushes at its end."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def table(rows: Sequence[Sequence[str]], indent: str = "") -> str:
    """Return rows as lines with aligned columns; cells are one line each, without anything a terminal would obey.

    What a cell holds cannot eat its padding or its neighbour: it is cleaned before it is put beside them.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    return aligned(rows, column_widths(rows), indent)


def column_widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """Return how wide each column of printable cells is, in columns of the terminal."""
    return [max(map(cells, column)) for column in zip(*rows, strict=True)]


def aligned(rows: Sequence[Sequence[str]], widths: Sequence[int], indent: str = "") -> str:
    """Return rows of printable cells as lines, each cell filled up to the width of its column."""
    return "\n".join(
        indent
        + "  ".join(
            cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    )
