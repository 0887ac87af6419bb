"""Holds plain data against types: the typed dictionaries by which client packages say what a request may hold.

Stricter than these packages themselves are at run time: every key must be one that the type knows.
"""

import types
from collections import abc
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Required, Union, get_args, get_origin, get_type_hints

import typing_extensions


def misfits(value: Any, kind: Any, at: str = "") -> list[str]:
    """Return what of a value does not fit a type, by path; nothing if all of it does."""
    origin = get_origin(kind)
    if origin in {Annotated, typing_extensions.Annotated, Required, typing_extensions.Required}:
        return misfits(value, get_args(kind)[0], at)
    if origin in {Union, types.UnionType}:
        attempts = [misfits(value, each, at) for each in get_args(kind)]
        # the attempt that went deepest is the one that was meant
        return max(attempts, key=lambda found: len(found[0])) if all(attempts) else []
    if typing_extensions.is_typeddict(kind):
        return _typed_dict(value, kind, at)
    if origin in {Literal, typing_extensions.Literal}:
        return [] if value in get_args(kind) else [f"{at}: {value!r} is none of {get_args(kind)}"]
    if origin in {list, abc.Iterable, abc.Sequence} or _is_sequence_of_texts(kind):
        return _sequence(value, (*get_args(kind), Any)[0], at)
    if origin in {dict, abc.Mapping}:
        return [] if isinstance(value, Mapping) else [f"{at}: no object"]
    if kind in {Any, object}:
        return []
    plain = type(None) if kind is None else kind
    is_fit = type(value) is plain or (plain is float and type(value) is int)
    return [] if is_fit else [f"{at}: {value!r:.60} is no {kind}"]


def _typed_dict(value: Any, kind: Any, at: str) -> list[str]:
    if not isinstance(value, Mapping):
        return [f"{at}: {value!r:.60} is no {kind.__name__}"]
    hints = get_type_hints(kind, include_extras=False)
    found = [f"{at}.{key}: {kind.__name__} has no such key" for key in value if key not in hints]
    found += [f"{at}.{key}: is required" for key in kind.__required_keys__ if key not in value]
    for key, inner in value.items():
        if key in hints:
            found += misfits(inner, hints[key], f"{at}.{key}")
    return found


def _sequence(value: Any, kind: Any, at: str) -> list[str]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return [f"{at}: no list"]
    return [found for n, item in enumerate(value) for found in misfits(item, kind, f"{at}[{n}]")]


def _is_sequence_of_texts(kind: Any) -> bool:
    return getattr(get_origin(kind), "__name__", "") == "SequenceNotStr"
