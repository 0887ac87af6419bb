"""The options of a command, made from the one list of options.

`command_for` gives a function whose signature cyclopts reads: names, types, help and converters all come from
`agentcompass.options`. Here stands only how each form is written on a command line.
"""

from __future__ import annotations

import inspect
import json
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, cast

import attrs
from cyclopts import Group, Parameter, Token

from agentcompass.cli.common import Given
from agentcompass.options import NamedOption, RuntimeOptions, options_of
from agentcompass.records import JSON
from agentcompass.spec.docs import field_docs

T = TypeVar("T", bound=RuntimeOptions)

_SHOWN: Final = 200
"""Characters of a faulty value that a message shows."""

_GROUPS: Final[Mapping[str, Group]] = {
    name: Group(title, sort_key=position)
    for position, (name, title) in enumerate(
        (
            ("benchmark", "Components"),
            ("model", "Model"),
            ("execution", "Execution"),
            ("output", "Results and reuse"),
            ("runtime", "Runtime"),
            ("command", "This command"),
        )
    )
}
_GROUP_OF_SECTION: Final = {"harness": "benchmark", "environment": "benchmark"}

CONTEXT: Final = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=Given)
"""The parameter by which a command gets what the whole command line knows."""


def command_for(
    cls: type[T],
    body: Callable[..., int],
    *,
    positional: Sequence[inspect.Parameter] = (),
    extra: Sequence[inspect.Parameter] = (),
) -> Callable[..., int]:
    """Return a command that collects options and hands them on.

    Args:
        cls: The options.
        body: Called with the options, the values of `positional` and `extra` by name, and `context`; returns the
            exit code.
        positional: Arguments of the command that are no options of `cls`.
        extra: Flags of the command that are no options of `cls`.
    """
    stdin = _Stdin()
    docs = field_docs(cast("type", cls))
    own = [_parameter(option, docs, stdin) for option in _shown(cls)]
    more = (*positional, *extra, CONTEXT)
    signature = inspect.Signature(sorted((*own, *more), key=lambda parameter: parameter.kind))
    names = {parameter.name for parameter in more}

    def command(*arguments: Any, **named: Any) -> int:
        values = signature.bind(*arguments, **named).arguments
        others = defaults_of(extra) | {
            name: values.pop(name) for name in tuple(values) if name in names
        }
        return body(cls(**_with_reuse(values)), **others)

    command.__signature__ = signature  # type: ignore[attr-defined]  # what cyclopts reads
    command.__annotations__ = {
        parameter.name: parameter.annotation for parameter in signature.parameters.values()
    }
    command.__doc__ = body.__doc__
    return command


def flag(name: str, annotation: Any, default: Any, *, text: str, **more: Any) -> inspect.Parameter:
    """Return a flag of a command itself, such as `--dry-run`."""
    parameter = Parameter(
        name=f"--{name}",
        help=text,
        group=_GROUPS["command"],
        negative="",
        show_default=False,
        **more,
    )
    return inspect.Parameter(
        name.replace("-", "_"),
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[annotation, parameter],
    )


def defaults_of(parameters: Sequence[inspect.Parameter]) -> dict[str, Any]:
    """Return the defaults of parameters by name."""
    return {parameter.name: parameter.default for parameter in parameters}


# --- from an option to a parameter


def _shown(cls: type[RuntimeOptions]) -> list[NamedOption]:
    seen: set[str] = set()
    shown = []
    for option in options_of(cls):
        if option.flag is not None and option.flag not in seen:
            seen.add(option.flag)  # reuse and reuse_run_id are one flag
            shown.append(option)
    return shown


def _parameter(option: NamedOption, docs: Mapping[str, str], stdin: _Stdin) -> inspect.Parameter:
    annotation, details = _annotation(option, stdin)
    help_text = docs.get(option.name, "")
    common = Parameter(
        name=option.flag, help=help_text, show_default=False, show_choices=False, **details
    )
    is_positional = option.form == "positional"
    if not is_positional:
        common = Parameter.combine(common, Parameter(group=_group(option)))
    return inspect.Parameter(
        option.name,
        inspect.Parameter.POSITIONAL_ONLY if is_positional else inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if is_positional else None,
        annotation=Annotated[annotation, common],
    )


def _group(option: NamedOption) -> Group:
    if option.form == "reuse":
        return _GROUPS["output"]
    section = (option.path or "runtime").partition(".")[0]
    return _GROUPS[_GROUP_OF_SECTION.get(section, section)]


def _annotation(option: NamedOption, stdin: _Stdin) -> tuple[Any, dict[str, Any]]:
    """The type that cyclopts sees, and what else it must know."""
    once = {"allow_repeating": False}
    if option.form == "positional":
        return str, {}
    if option.form == "switch":
        return bool | None, once
    if option.form == "reuse":
        return bool | str | None, {
            **once,
            "negative": "",
            "metavar": "[RUN_ID]",
            "converter": _reuse,
        }
    if option.form == "repeated":
        return list[str] | None, {"negative": "", "metavar": _metavar(option)}
    if option.form == "value" and {str, Sequence[str]} <= _members(option.type):
        # One value, or several in order of preference.
        details = {"negative": "", "metavar": _metavar(option), "converter": _one_or_more}
        return list[str] | None, details
    if option.form == "pairs":
        number = float if float in _members(option.type, deep=True) else int
        convert = _pairs(_strict_float if number is float else _strict_int)
        return list[str] | None, {
            "negative": "",
            "metavar": "NAME=N",
            "converter": convert,
            "allow_leading_hyphen": True,
        }
    if option.form in ("object", "array"):
        return str | None, {
            **once,
            "metavar": "JSON",
            "converter": _json(option.form, str(option.flag), stdin),
            "allow_leading_hyphen": True,  # `-` is standard input
        }
    return _single(option, once)


def _single(option: NamedOption, once: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    members = _members(option.type)
    literal = next((member for member in members if typing.get_origin(member) is Literal), None)
    if literal is not None:
        return literal | None, {**once, "metavar": _choices(literal)}
    details = {**once, "metavar": _metavar(option)}
    for number, convert in ((float, _strict_float), (int, _strict_int)):
        if number in members:
            return number | None, {**details, "converter": _one(convert)}
    return str | None, details


def _members(annotation: Any, *, deep: bool = False) -> set[Any]:
    """The members of a union, type aliases included; with `deep` also the arguments of generic types."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType) or (
        deep and typing.get_args(annotation)
    ):
        parts = [_members(part, deep=deep) for part in typing.get_args(annotation)]
        return set().union(*parts)
    return {annotation}


def _choices(literal: Any) -> str:
    """Return how help shows the values of a `Literal`: all of them, or a word where they are many."""
    values = typing.get_args(literal)
    return "|".join(values) if len(values) <= 3 else "LEVEL"


def _metavar(option: NamedOption) -> str:
    members = _members(option.type, deep=True)
    if Path in members:
        return "PATH"
    if option.name.endswith("_seconds"):
        return "SECONDS"
    if members & {int, float}:
        return "N"
    last = str(option.flag).rpartition("-")[2].upper()
    return last if last in ("URL", "KEY", "PROTOCOL", "NAME") else "ID"


# --- from the command line's text to values

_Converter = Callable[[Any, Sequence[Token]], Any]


def _one(convert: Callable[[str], Any]) -> _Converter:
    return lambda _type, tokens: convert(tokens[0].value)


def _one_or_more(_type: Any, tokens: Sequence[Token]) -> str | list[str]:
    values = [token.value for token in tokens]
    return values[0] if len(values) == 1 else values


def _strict_int(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
        raise ValueError(f"{_quoted(text)} is not a whole number")
    return int(text)


def _strict_float(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in text:
        raise ValueError(f"{_quoted(text)} is not a number")
    return number


def _pairs(convert: Callable[[str], float]) -> _Converter:
    def pairs(_type: Any, tokens: Sequence[Token]) -> dict[str, float]:
        found: dict[str, float] = {}
        for token in tokens:
            name, equals, number = token.value.partition("=")
            if not (name and equals):
                raise ValueError(f"{_quoted(token.value)} is not of the form NAME=N")
            if name in found:
                raise ValueError(f"{name!r} is given twice")
            found[name] = convert(number)
        return found

    return pairs


def _reuse(_type: Any, tokens: Sequence[Token]) -> bool | str:
    """`--reuse` alone has an implicit value; `--reuse ID` and `--reuse=ID` a text."""
    token = tokens[0]
    if token.implicit_value is True:
        return True
    if not token.value:
        raise ValueError("the run id after `--reuse=` is empty")
    return token.value


def _with_reuse(values: Mapping[str, Any]) -> dict[str, Any]:
    reuse = values.get("reuse")
    if isinstance(reuse, str):
        return {**values, "reuse": True, "reuse_run_id": reuse}
    return dict(values)


@attrs.define
class _Stdin:
    """Standard input, which one option may ask for."""

    asked_by: str | None = None

    def read(self, option: str) -> str:
        if self.asked_by is not None:
            raise ValueError(f"standard input is already the value of {self.asked_by}")
        self.asked_by = option
        if sys.stdin is None:
            raise ValueError("there is no standard input")
        return sys.stdin.buffer.read().decode()


def _json(form: str, option: str, stdin: _Stdin) -> _Converter:
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


def _json_text(text: str, option: str, stdin: _Stdin) -> tuple[str, str]:
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
