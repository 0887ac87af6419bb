"""Cells of the tables of the reference: how a name, a type, a default, a description stand in Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from agentcompass.cli.render import plain
from agentcompass.plan.explain import KeyDoc
from agentcompass.store import markdown

Row: TypeAlias = Sequence[str]

SCHEMA: Final = "Version of this form; raised when readers that do not know it could be misled."
"""What every field of that name is for."""
LONGEST: Final = 60
"""Characters of a default that is shown."""


def table(head: Row, rows: Iterable[Row]) -> str:
    """Return a table of a line each."""
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    return markdown.table(head, escaped) + "\n"


def code(text: str | None) -> str:
    """Return a word of our own as code; nothing for None."""
    return f"`{text}`" if text else ""


def described(key: str, doc: str | None) -> str:
    """Return the description of a key, as who reads a file sees it: None is null there.

    Raises:
        KeyError: It has none.
    """
    text = SCHEMA if key == "schema" else doc
    if not text:
        raise KeyError(f"{key} is described nowhere: put a string under the field")
    return re.sub(r"\bNone\b", "null", text)


def first_paragraph(thing: object) -> str:
    """Return what a docstring begins with, as one line."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def default(doc: KeyDoc) -> str:
    """Return what counts when a setting is not given."""
    if doc.is_required:
        return "required"
    if doc.default in ([], {}):
        return "none"
    shown = plain(doc.default)
    if len(shown) > LONGEST or "\n" in shown:
        return "a text of its own"
    return code(shown.removesuffix(".0") if isinstance(doc.default, float) else shown)
