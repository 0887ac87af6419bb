"""The options of a command, made from the one list of options.

An `OptionCommand` has a signature that cyclopts reads: names, types, help and converters all come from
`agentcompass.options`. Here stands only how each form is written on a command line.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast, final

from cyclopts import Group, Parameter

from agentcompass.cli import values
from agentcompass.cli.common import Given
from agentcompass.options import NamedOption, RuntimeOptions, options_of
from agentcompass.spec.docs import field_docs

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

_WORDS: Final = {"URL": "URL", "KEY": "KEY", "PROTOCOL": "PROTOCOL", "NAME": "NAME", "ONLY": "NAME"}
"""What help calls the value of an option, by the last part of its name, unless it is an id."""

CONTEXT: Final = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=Given)
"""The parameter by which a command gets what the whole command line knows."""


@final
class OptionCommand:
    """A command that collects options and hands them on: a function, whose signature cyclopts reads.

    Args:
        cls: The options.
        body: Called with the options, the values of `positional` and `extra` by name, and `context`; returns the
            exit code.
        positional: Arguments of the command that are no options of `cls`.
        extra: Flags of the command that are no options of `cls`.
        only: Names of the options that the command has; None: all.
        line: The arguments that are to be read, if they are known; see `on`.
    """

    def __init__(
        self,
        cls: type[RuntimeOptions],
        body: Callable[..., int],
        *,
        positional: Sequence[inspect.Parameter] = (),
        extra: Sequence[inspect.Parameter] = (),
        only: Collection[str] | None = None,
        line: Sequence[str] | None = None,
    ) -> None:
        self._cls, self._body, self._line = cls, body, line
        self._positional, self._extra, self._only = positional, extra, only
        self.__doc__ = body.__doc__

    def on(self, line: Sequence[str]) -> OptionCommand:
        """Return the command with those options only that a line names.

        To cyclopts an option costs a third of a millisecond, given or not. If the line has anything else that looks
        like an option, all are there, for the help or the message that it will end in.
        """
        return OptionCommand(
            self._cls,
            self._body,
            positional=self._positional,
            extra=self._extra,
            only=self._only,
            line=line,
        )

    def __call__(self, *arguments: Any, **named: Any) -> int:
        """Call the body with what cyclopts has read."""
        given = self.__signature__.bind(*arguments, **named).arguments
        names = {parameter.name for parameter in (*self._positional, *self._extra, CONTEXT)}
        others = {parameter.name: parameter.default for parameter in self._extra}
        others |= {name: given.pop(name) for name in tuple(given) if name in names}
        return self._body(self._cls(**_with_reuse(given)), **others)

    @functools.cached_property
    def __signature__(self) -> inspect.Signature:
        stdin = values.Stdin()
        shown = _shown(self._cls, self._only)
        named = self._named(shown)
        docs = field_docs(cast("type", self._cls)) if named is None else {}
        own = [_parameter(option, docs, stdin) for option in (shown if named is None else named)]
        more = (*self._positional, *self._extra, CONTEXT)
        return inspect.Signature(sorted((*own, *more), key=lambda parameter: parameter.kind))

    @property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]  # as those of a function
        return {name: p.annotation for name, p in self.__signature__.parameters.items()}

    def _named(self, shown: Sequence[NamedOption]) -> list[NamedOption] | None:
        """The options that are to be declared; None for all."""
        if self._line is None:
            return None
        words = {word.partition("=")[0] for word in self._line if word.startswith("-")} - {"-"}
        extra = {f"--{parameter.name.replace('_', '-')}" for parameter in self._extra}
        if not words <= extra.union(*map(_names, shown)):
            return None
        return [option for option in shown if option.form == "positional" or words & _names(option)]


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


# --- from an option to a parameter


def _shown(cls: type[RuntimeOptions], only: Collection[str] | None) -> list[NamedOption]:
    seen: set[str] = set()
    shown = []
    for option in options_of(cls):
        if only is not None and option.name not in only:
            continue
        if option.flag is not None and option.flag not in seen:
            seen.add(option.flag)  # reuse and reuse_run_id are one flag
            shown.append(option)
    return shown


def _names(option: NamedOption) -> set[str]:
    """What a command line may call it."""
    name = str(option.flag)
    return {name, f"--no-{name.removeprefix('--')}"} if option.form == "switch" else {name}


def _parameter(
    option: NamedOption, docs: Mapping[str, str], stdin: values.Stdin
) -> inspect.Parameter:
    annotation, details = _annotation(option, stdin)
    is_positional = option.form == "positional"
    if not is_positional:
        details["group"] = _group(option)
    common = Parameter(
        name=option.flag,
        help=docs.get(option.name, ""),
        show_default=False,
        show_choices=False,
        **details,
    )
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


def _annotation(option: NamedOption, stdin: values.Stdin) -> tuple[Any, dict[str, Any]]:
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
            "converter": values.reuse,
        }
    if option.form == "repeated":
        return list[str] | None, {"negative": "", "metavar": _metavar(option)}
    if option.form == "value" and {str, Sequence[str]} <= _members(option.type):
        # One value, or several in order of preference.
        details = {"negative": "", "metavar": _metavar(option), "converter": values.one_or_more}
        return list[str] | None, details
    if option.form == "pairs":
        is_float = float in _members(option.type, deep=True)
        convert = values.pairs_of(values.number if is_float else values.whole_number)
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
            "converter": values.json_of(option.form, str(option.flag), stdin),
            "allow_leading_hyphen": True,  # `-` is standard input
        }
    return _single(option, once)


def _single(option: NamedOption, once: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    members = _members(option.type)
    literal = next((member for member in members if typing.get_origin(member) is Literal), None)
    if literal is not None:
        return literal | None, {**once, "metavar": _choices(literal)}
    details = {**once, "metavar": _metavar(option)}
    for kind, convert in ((float, values.number), (int, values.whole_number)):
        if kind in members:
            return kind | None, {**details, "converter": values.one(convert)}
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
    return _WORDS.get(last, "ID")


def _with_reuse(values: Mapping[str, Any]) -> dict[str, Any]:
    reuse = values.get("reuse")
    if isinstance(reuse, str):
        return {**values, "reuse": True, "reuse_run_id": reuse}
    return dict(values)
