"""Functions whose keyword arguments are the fields of an options class, so that no option is declared twice.

Type checkers see the signature through a `ParamSpec`; at run time the function gets `__signature__`, and a docstring
in which the entry `options:` is replaced by one for each field.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import attrs

from agentcompass.errors import ConfigurationError, did_you_mean
from agentcompass.options import RuntimeOptions, options_of
from agentcompass.spec.docs import field_docs

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")
OptionsT = TypeVar("OptionsT", bound=RuntimeOptions)

_WIDTH = 100


def takes(
    options: Callable[P, OptionsT],
) -> Callable[[Callable[[OptionsT], R]], Callable[P, R]]:
    """Make a function of an options object one of keyword arguments.

    Args:
        options: The class, whose constructor is the signature.
    """

    def decorate(function: Callable[[OptionsT], R]) -> Callable[P, R]:
        return cast("Callable[P, R]", _entry_point(function, options))

    return decorate


def takes_after_first(
    options: Callable[P, OptionsT],
) -> Callable[[Callable[[S, OptionsT], R]], Callable[Concatenate[S, P], R]]:
    """The same for a function with one more argument, which stays as it is, before the options object."""

    def decorate(function: Callable[[S, OptionsT], R]) -> Callable[Concatenate[S, P], R]:
        return cast("Callable[Concatenate[S, P], R]", _entry_point(function, options))

    return decorate


def _entry_point(function: Callable[..., Any], options: Any) -> Callable[..., Any]:
    bind = functools.partial(_bind, function.__name__, _leading(function), options)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def entry(*leading: Any, **arguments: Any) -> Any:
            return await function(*bind(leading, arguments))

    else:

        @functools.wraps(function)
        def entry(*leading: Any, **arguments: Any) -> Any:
            return function(*bind(leading, arguments))

    entry.__doc__ = _with_fields(inspect.getdoc(function), options)
    entry.__signature__ = _signature(function, options)  # type: ignore[attr-defined]  # read by inspect
    return entry


def _bind(
    name: str,
    leading: Sequence[inspect.Parameter],
    options: type[RuntimeOptions],
    values: tuple[Any, ...],
    arguments: dict[str, Any],
) -> tuple[Any, ...]:
    """Return what the function itself takes: the values of its leading parameters, and the options object."""
    for parameter in leading[len(values) :]:
        if parameter.name not in arguments:
            raise ConfigurationError(f"{name}() needs the argument {parameter.name!r}")
        values = (*values, arguments.pop(parameter.name))
    if len(values) > len(leading):
        allowed = " and ".join(repr(parameter.name) for parameter in leading) or "none"
        raise ConfigurationError(
            f"{name}() was given {len(values)} positional arguments; it takes {allowed}",
            hint="give every other argument by its name",
        )
    known = attrs.fields_dict(options)
    for given in arguments:
        if given not in known:
            raise ConfigurationError(
                f"{name}() has no argument {given!r}{did_you_mean(given, known)}"
            )
    return (*values, options(**arguments))


def _leading(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())[:-1]


def _names(options: type[RuntimeOptions]) -> list[str]:
    """The fields in the order in which people read them: what is special to the class first."""
    listed = options_of(options)
    return [option.name for option in sorted(listed, key=lambda option: option.is_shared)]


def _signature(function: Callable[..., Any], options: type[RuntimeOptions]) -> inspect.Signature:
    of_function, of_class = inspect.signature(function), inspect.signature(options)
    fields = [of_class.parameters[name] for name in _names(options)]
    return of_function.replace(parameters=[*_leading(function), *fields])


def _with_fields(doc: str | None, options: type[RuntimeOptions]) -> str | None:
    if doc is None:  # python -OO
        return None
    docs = field_docs(cast("Any", options))
    entries = "\n".join(
        textwrap.fill(
            f"{name}: {docs.get(name, '')}",
            _WIDTH,
            initial_indent=" " * 4,
            subsequent_indent=" " * 8,
            break_on_hyphens=False,
        )
        for name in _names(options)
    )
    return "\n".join(
        entries if line.startswith("    options:") else line for line in doc.splitlines()
    )
