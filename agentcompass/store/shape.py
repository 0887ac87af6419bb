"""Whether JSON data is of the types that an attrs class declares: strictly, so that nobody who uses it is surprised.

What a class annotates is the one declaration. A float may be written as an integer, and a path is a text; nothing else
stands for something else: `true` is no number, `"3"` is none, `1e999` is none.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import attrs

_Check: TypeAlias = Callable[[Any], str | None]
"""Given a value, returns None, or what is wrong as the end of a sentence that began with the value's name."""

MAX_INT: Final = 2**63
"""Whole numbers are below it: what counts something never reaches it, and arithmetic with floats still works."""


def problem(cls: type, data: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the fields of a JSON object; None if nothing is.

    Args:
        cls: An attrs class of plain types: text, numbers, `Literal`, unions, mappings, tuples, other such classes, Any.
        data: Fields that are missing are not missed, and those that `cls` does not have are ignored.

    Returns:
        A sentence without its end, as `usage.calls is not a whole number`.
    """
    for name, check in _checks(cls).items():
        if name in data and (wrong := check(data[name])) is not None:
            return f"{name}{wrong}"
    return None


@functools.cache
def _checks(cls: type) -> Mapping[str, _Check]:
    hints = get_type_hints(cls)  # without the ranges that may be annotated
    return {field.name: _check_for(hints[field.name]) for field in attrs.fields(cls)}


def _check_for(kind: Any) -> _Check:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return lambda _value: None
    if kind in _SCALARS:
        return _SCALARS[kind]
    if origin in {Union, types.UnionType}:
        return _one_of([_check_for(argument) for argument in arguments])
    if origin is Literal:
        return _literal(frozenset(arguments))
    if origin is tuple:
        return _array(arguments)
    if attrs.has(kind):
        return functools.partial(_object, kind)
    return _mapping(_check_for(arguments[1]))


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) else " is not a text"


def _bool(value: Any) -> str | None:
    return None if isinstance(value, bool) else " is not true or false"


def _none(value: Any) -> str | None:
    return None if value is None else " is not null"


def _int(value: Any) -> str | None:
    is_good = isinstance(value, int) and not isinstance(value, bool) and -MAX_INT < value < MAX_INT
    return None if is_good else " is not a whole number"


def _float(value: Any) -> str | None:
    limit = (
        sys.float_info.max
    )  # compared exactly, also integers that no float can hold; false for NaN
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    is_good = is_number and -limit <= value <= limit
    return None if is_good else " is not a finite number"


_SCALARS: Final[Mapping[Any, _Check]] = {
    str: _text, Path: _text, bool: _bool, int: _int, float: _float, type(None): _none,
}  # fmt: skip


def _one_of(checks: list[_Check]) -> _Check:
    def check(value: Any) -> str | None:
        wrong = [check(value) for check in checks]
        return None if None in wrong else wrong[0]

    return check


def _literal(known: frozenset[Any]) -> _Check:
    def check(value: Any) -> str | None:
        is_known = isinstance(value, str) and value in known
        return None if is_known else " is none of its known values"

    return check


def _array(kinds: tuple[Any, ...]) -> _Check:
    is_open = kinds[-1] is Ellipsis
    checks = [_check_for(kind) for kind in kinds if kind is not Ellipsis]

    def check(value: Any) -> str | None:
        if not isinstance(value, list | tuple):
            return " is not an array"
        if not is_open and len(value) != len(checks):
            return f" is not an array of {len(checks)}"
        for at, item in enumerate(value):
            if (wrong := checks[0 if is_open else at](item)) is not None:
                return f"[{at}]{wrong}"
        return None

    return check


def _mapping(check_item: _Check) -> _Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, Mapping):
            return " is not an object"
        for name, item in value.items():
            if (wrong := check_item(item)) is not None:
                return f".{name:.80}{wrong}"
        return None

    return check


def _object(cls: type, value: Any) -> str | None:
    if isinstance(value, cls):  # made from JSON before
        return None
    if not isinstance(value, Mapping):
        return " is not an object"
    wrong = problem(cls, value)
    return None if wrong is None else f".{wrong}"
