"""Standard output: results and nothing else, in characters it can show, to a reader who may be gone."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, final

from agentcompass.errors import StoreError
from agentcompass.progress.text import encodable, printable

Format: TypeAlias = Literal["text", "json"]


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
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return "\n".join(
        indent
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
