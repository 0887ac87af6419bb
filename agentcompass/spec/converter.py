"""The one cattrs converter: strict hooks that read `Written` leaves.

Nothing is coerced: `"yes"` is no boolean, 2.9 no integer, `true` no number, a string no list. NaN and infinities are
refused everywhere. Hooks raise ValueError or TypeError whose text says what is wrong; cattrs adds the keys that lead there.
"""

from __future__ import annotations

import enum
import functools
import math
import os
import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import attrs
import cattrs
from cattrs.cols import is_any_set, is_mapping, is_sequence, mapping_structure_factory
from cattrs.errors import BaseValidationError, IterableValidationError, IterableValidationNote
from cattrs.gen import make_dict_structure_fn

from agentcompass.errors import did_you_mean
from agentcompass.secrets import Secret
from agentcompass.spec.ranges import Range
from agentcompass.spec.tree import Written, kind_of

_PATH_BYTES: Final = 4095
_NAME_BYTES: Final = 255
"""What Linux and its file systems take (limits.h, PATH_MAX and NAME_MAX)."""

T = TypeVar("T")
Hook = Callable[[Any, Any], Any]


class UnusableError(ValueError):
    """A value with a fault is used: its reference could not be followed."""


def raw(node: Written) -> Any:
    """Return a tree in the form the converter reads: dicts, lists, None, and `Written` leaves."""
    if isinstance(node.data, dict):
        return {key: raw(item) for key, item in node.data.items()}
    if isinstance(node.data, tuple):
        return [raw(item) for item in node.data]
    return None if node.data is None else node


def _data(value: Any) -> Any:
    """A leaf's value; raises for one that cannot be used."""
    if not isinstance(value, Written):
        return value
    if value.fault:
        raise UnusableError(value.fault)
    if isinstance(value.data, float) and not math.isfinite(value.data):
        raise ValueError(f"must be a finite number, not {value.data}")
    return value.data


def _mismatch(wanted: str, value: Any) -> TypeError:
    data = value.data if isinstance(value, Written) else value
    if isinstance(data, bool | int | float):
        shown = f": {str(data).lower() if isinstance(data, bool) else data}"
    elif isinstance(value, Written) and isinstance(data, str):
        shown = f": {_quoted(value)}"
    else:
        shown = ""
    hint = ""
    if wanted == "true or false" and data in {"yes", "no", "on", "off", "True", "False"}:
        hint = " (write true or false)"
    return TypeError(f"must be {wanted}, not {kind_of(data)}{shown}{hint}")


def _quoted(value: Any) -> str:
    return f"{(value.public if isinstance(value, Written) else value)!r:.60}"


def _structure_bool(value: Any, _: Any) -> bool:
    data = _data(value)
    if isinstance(data, bool):
        return data
    raise _mismatch("true or false", value)


def _structure_int(value: Any, _: Any) -> int:
    data = _data(value)
    if isinstance(data, int) and not isinstance(data, bool):
        return data
    raise _mismatch("an integer", value)


def _structure_float(value: Any, _: Any) -> float:
    data = _data(value)
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise _mismatch("a number", value)
    try:
        return float(data)
    except OverflowError:
        raise ValueError("is too large a number") from None


def _structure_str(value: Any, _: Any) -> str:
    data = _data(value)
    text = value.text if isinstance(value, Written) else None
    if isinstance(data, Secret):
        text = data.reveal()
    elif isinstance(data, str):
        text = data
    if text is None:
        raise _mismatch("a string", value)
    if "\0" in text:
        raise ValueError("must not contain a NUL character")
    return text


def _structure_path(value: Any, _: Any) -> Path:
    text = _structure_str(value, str)
    if not text:
        raise ValueError("must be a path, not an empty string")
    try:
        names = os.fsencode(text).split(b"/")
    except UnicodeEncodeError:
        raise ValueError("has characters that no path can have") from None
    if max(map(len, names)) > _NAME_BYTES or len(b"/".join(names)) > _PATH_BYTES:
        raise ValueError(
            f"is too long for a path: at most {_NAME_BYTES} bytes a name and {_PATH_BYTES} in all"
        )
    return Path(text)


def _structure_secret(value: Any, _: Any) -> Secret:
    if isinstance(value, Written) and isinstance(value.data, Secret):
        return value.data
    text = _structure_str(value, str)
    return Secret(text, value.stored if isinstance(value, Written) else None)


def _structure_json(value: Any, _: Any = None) -> Any:
    """Any JSON value, with all its items checked."""
    if isinstance(value, dict):
        return _collect(value.items(), dict)
    if isinstance(value, list):
        return list(_collect(enumerate(value), dict).values())
    data = _data(value)
    return data.reveal() if isinstance(data, Secret) else data


def _collect(items: Any, make: Callable[[Any], T], kind: Any = Any) -> T:
    """Structure items, and raise one error for all that fail, as cattrs' own collections do."""
    done, failed = [], []
    for key, item in items:
        try:
            done.append((key, converter().structure(item, kind)))
        except (BaseValidationError, ValueError, TypeError) as exc:
            exc.__notes__ = [*getattr(exc, "__notes__", []), IterableValidationNote("", key, kind)]
            failed.append(exc)
    if failed:
        raise IterableValidationError("", failed, dict)
    return make(done)


def _structure_literal(value: Any, kind: Any) -> Any:
    words = get_args(kind)
    data = _data(value)
    for word in words:
        if word == data and type(word) is type(data):
            return word
    if isinstance(data, str) and all(isinstance(word, str) for word in words):
        near = did_you_mean(data, words) if len(words) > 12 else ""
        raise ValueError(f"must be one of {', '.join(map(str, words))}, not {_quoted(value)}{near}")
    raise _mismatch(f"one of {', '.join(map(str, words))}", value)


def _structure_enum(value: Any, kind: type[enum.Enum]) -> enum.Enum:
    data = _data(value)
    for member in kind:
        if data is member or (type(member.value) is type(data) and member.value == data):
            return member
    raise _mismatch(f"one of {', '.join(str(member.value) for member in kind)}", value)


def _make_annotated(kind: Any) -> Hook:
    inner, *extras = get_args(kind)
    ranges = [extra for extra in extras if isinstance(extra, Range)]

    def hook(value: Any, _: Any) -> Any:
        result = converter().structure(value, inner)
        for each in ranges:
            fault = each.fault(result)
            if fault:
                raise ValueError(fault)
        return result

    return hook


def _make_union(kind: Any) -> Hook:
    """The first member that fits; with None, null. A lone member's problem is reported as its own."""
    members = [member for member in get_args(kind) if member is not types.NoneType]
    allows_null = len(members) < len(get_args(kind))

    def hook(value: Any, _: Any) -> Any:
        if value is None and allows_null:
            return None
        fitting = [member for member in members if _could_be(value, member)] or members
        for member in fitting[:-1]:
            try:
                return converter().structure(value, member)
            except (BaseValidationError, ValueError, TypeError):
                continue
        return converter().structure(value, fitting[-1])

    return hook


def _could_be(value: Any, member: Any) -> bool:
    """Whether a value's shape is that of a union's member, so that the problem told is that of the right member."""
    origin = _origin(member)
    if origin is Annotated:
        return _could_be(value, get_args(member)[0])
    if isinstance(value, dict):
        return attrs.has(origin) or is_mapping(member) or member is Any
    if isinstance(value, list):
        return is_sequence(member) or is_any_set(member) or origin is tuple or member is Any
    data = value.data if isinstance(value, Written) else value
    if isinstance(data, bool | int | float):
        return isinstance(data, origin) if origin in {bool, int, float} else member is Any
    if isinstance(data, str):
        return origin in {str, Path, Secret, Literal, Any}
    return True


def _make_list(kind: Any) -> Hook:
    origin = _origin(kind)
    args = [arg for arg in get_args(kind) if arg is not Ellipsis]
    make = next((t for t in (list, set, frozenset) if origin is t), tuple)
    if is_any_set(kind) and make is tuple:
        make = frozenset
    is_record = origin is tuple and Ellipsis not in get_args(kind) and bool(args)

    def hook(value: Any, _: Any) -> Any:
        if not isinstance(value, list):
            raise _mismatch("a list", value)
        if not is_record:
            inner = args[0] if args else Any
            return make(item for _, item in _collect(enumerate(value), list, inner))
        if len(value) != len(args):
            raise ValueError(f"must have {len(args)} items, not {len(value)}")
        return tuple(converter().structure(*pair) for pair in zip(value, args, strict=True))

    return hook


def _make_mapping(kind: Any, made: cattrs.Converter) -> Hook:
    keys_and_values = get_args(kind)
    inner: Hook = mapping_structure_factory(
        kind, made, structure_to=dict, key_type=str if keys_and_values else Any
    )
    return _guarded(inner)


def _make_attrs(cls: type, made: cattrs.Converter) -> Hook:
    return _guarded(make_dict_structure_fn(cls, made, _cattrs_forbid_extra_keys=True))


def _guarded(inner: Hook) -> Hook:
    def hook(value: Any, kind: Any) -> Any:
        if not isinstance(value, dict):
            raise _mismatch("a mapping", value)
        return inner(value, kind)

    return hook


def _origin(kind: Any) -> Any:
    """`tuple` of `tuple[int, ...]`; a type without parameters itself."""
    return get_origin(kind) or kind


def _is_list(kind: Any) -> bool:
    return _origin(kind) is tuple or is_sequence(kind) or is_any_set(kind)


@functools.cache
def converter() -> cattrs.Converter:
    """Return the one converter, made when it is first needed."""
    made = cattrs.Converter(forbid_extra_keys=True, detailed_validation=True)
    anything = made.register_structure_hook_func
    factory = made.register_structure_hook_factory
    anything(lambda kind: kind is Any or kind is object, _structure_json)
    factory(attrs.has, _make_attrs)
    factory(is_mapping, _make_mapping)
    factory(_is_list, _make_list)
    factory(lambda kind: _origin(kind) in {Union, types.UnionType}, _make_union)
    factory(lambda kind: _origin(kind) is Annotated, _make_annotated)
    anything(lambda kind: _origin(kind) is Literal, _structure_literal)
    anything(lambda kind: isinstance(kind, type) and issubclass(kind, enum.Enum), _structure_enum)
    hooks: tuple[tuple[Any, Hook], ...] = (
        (bool, _structure_bool),
        (int, _structure_int),
        (float, _structure_float),
        (str, _structure_str),
        (Path, _structure_path),
        (Secret, _structure_secret),
    )
    for kind, hook in hooks:
        made.register_structure_hook(kind, hook)
    return made
