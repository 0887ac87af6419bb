"""Values from the text of a command line: numbers, NAME=N, JSON. Strict, and every refusal shows what was read.

Converters are called by cyclopts, which puts the option's name before the text of a `ValueError`.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, final

import attrs
from cyclopts import Token

from agentcompass.records import JSON

_SHOWN: Final = 200
"""Characters of a faulty value that a message shows."""

_DIGITS: Final = 18
"""Of the largest whole number: no count or limit needs more."""

Converter: TypeAlias = Callable[[Any, Sequence[Token]], Any]
"""Gets the annotation, which tells nothing new here, and what was given."""


def one(convert: Callable[[str], Any]) -> Converter:
    """Return the converter of an option with one value."""
    return lambda _type, tokens: convert(tokens[0].value)


def one_or_more(_type: Any, tokens: Sequence[Token]) -> str | list[str]:
    """Return a value that was given once as it is, and several as a list."""
    values = [token.value for token in tokens]
    return values[0] if len(values) == 1 else values


def whole_number(text: str) -> int:
    """Read an integer; ValueError for everything else, `2.9` and `1_000` included."""
    if not re.fullmatch(r"[+-]?[0-9]+", text.strip()):
        raise ValueError(f"{_quoted(text)} is not a whole number")
    if len(text.strip()) > _DIGITS:
        raise ValueError(f"{_quoted(text)} is too large a number")
    return int(text)


def number(text: str) -> float:
    """Read a finite number; ValueError for everything else."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in text:
        raise ValueError(f"{_quoted(text)} is not a number")
    return value


def pairs_of(convert: Callable[[str], float]) -> Converter:
    """Return the converter of an option that is repeated as NAME=N; no name may come twice."""

    def pairs(_type: Any, tokens: Sequence[Token]) -> dict[str, float]:
        found: dict[str, float] = {}
        for token in tokens:
            name, equals, text = token.value.partition("=")
            if not (name and equals):
                raise ValueError(f"{_quoted(token.value)} is not of the form NAME=N")
            if name in found:
                raise ValueError(f"{name!r} is given twice")
            found[name] = convert(text)
        return found

    return pairs


def reuse(_type: Any, tokens: Sequence[Token]) -> bool | str:
    """`--reuse` alone has an implicit value; `--reuse ID` and `--reuse=ID` a text."""
    token = tokens[0]
    if token.implicit_value is True:
        return True
    if not token.value:
        raise ValueError("the run id after `--reuse=` is empty")
    return token.value


@final
@attrs.define
class Stdin:
    """Standard input, which one option of a command line may ask for."""

    asked_by: str | None = None

    def read(self, option: str) -> str:
        """Return all of it; ValueError if another option had it, or there is none."""
        if self.asked_by is not None:
            raise ValueError(f"standard input is already the value of {self.asked_by}")
        self.asked_by = option
        if sys.stdin is None:
            raise ValueError("there is no standard input")
        return sys.stdin.buffer.read().decode()


def json_of(form: Literal["object", "array"], option: str, stdin: Stdin) -> Converter:
    """Return the converter of an option in JSON: the text itself, `@FILE`, or `-` for standard input.

    Args:
        form: An object, or an array of strings.
        option: Its name, for messages about standard input.
        stdin: Shared by all options of a command.
    """
    wanted, name = (
        (dict, "a JSON object") if form == "object" else (list, "a JSON array of strings")
    )

    def convert(_type: Any, tokens: Sequence[Token]) -> JSON:
        text, source = _json_text(tokens[0].value, option, stdin)
        try:
            value = json.loads(
                text, object_pairs_hook=_without_repetition, parse_constant=_no_constant
            )
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{source} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
            ) from None
        except RecursionError:
            raise ValueError(f"{source} is nested too deeply") from None
        is_right = isinstance(value, wanted) and (
            form == "object" or all(isinstance(item, str) for item in value)
        )
        if not is_right:
            shown = json.dumps(value, ensure_ascii=False)
            raise ValueError(f"must be {name}; it was read as {_cut(shown)}")
        return value

    return convert


def _json_text(text: str, option: str, stdin: Stdin) -> tuple[str, str]:
    """The JSON text behind an argument, and how a message calls it."""
    try:
        if text == "-":
            return stdin.read(option), "standard input"
        if text.startswith("@"):
            return Path(text[1:]).read_text(encoding="utf-8"), f"file {text[1:]!r}"
    except OSError as error:
        raise ValueError(f"file {text[1:]!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{text!r} is not UTF-8 text: {error.reason}") from None
    return text, _quoted(text)


def _without_repetition(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {twice!r} stands twice in one JSON object")
    return found


def _no_constant(word: str) -> JSON:
    raise ValueError(f"{word} is no JSON value")


def _quoted(text: str) -> str:
    return repr(_cut(text))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
