"""The strings under the fields of a class: the one place where a setting is described."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import sys
from collections.abc import Iterator, Mapping


@functools.cache
def field_docs(cls: type) -> Mapping[str, str]:
    """Return the string under each annotated field of a class and its bases, whitespace folded.

    A field without one is absent; so is everything of a class whose source cannot be read.
    """
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        docs |= _own_docs(base)
    return docs


def _own_docs(cls: type) -> dict[str, str]:
    docs = {}
    for field, below in itertools.pairwise(_bodies(cls.__module__).get(cls.__qualname__, ())):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        text = getattr(getattr(below, "value", None), "value", None)
        if isinstance(below, ast.Expr) and isinstance(text, str):
            docs[field.target.id] = " ".join(text.split())
    return docs


@functools.cache
def _bodies(module: str) -> Mapping[str, list[ast.stmt]]:
    """The statements of each class of a module, by qualified name.

    A module is read once for all its classes: `inspect.getsource` takes five times as long for a single one.
    """
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (KeyError, OSError, TypeError, SyntaxError):
        return {}
    return dict(_classes(tree, ""))


def _classes(node: ast.AST, place: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.ClassDef):
            yield f"{place}{inner.name}", inner.body
            yield from _classes(inner, f"{place}{inner.name}.")
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _classes(inner, f"{place}{inner.name}.<locals>.")
        elif isinstance(inner, ast.stmt):
            yield from _classes(inner, place)
