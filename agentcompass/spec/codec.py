"""From written values to typed objects: strict, and all problems at once, each with its exact place.

The types come from attrs classes, ranges from their annotations (`spec.ranges`); `spec.converter` says what is accepted.
"""

from __future__ import annotations

import enum
import functools
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import PurePath
from typing import Any, TypeVar

import attrs
from cattrs.errors import (
    BaseValidationError,
    ForbiddenExtraKeysError,
    IterableValidationNote,
    StructureHandlerNotFoundError,
)

from agentcompass.records import JSON
from agentcompass.secrets import Secret
from agentcompass.spec.converter import UnusableError, converter, raw
from agentcompass.spec.problems import Problems
from agentcompass.spec.tree import (
    Key,
    Written,
    at,
    kind_of,
    report,
    report_key,
    report_unknown_keys,
)

T = TypeVar("T")


def structure(node: Written, cls: type[T], problems: Problems) -> T | None:
    """Make an object of an attrs class from a mapping.

    Keys with an explicit null are left out, so that the class's default counts.

    Returns:
        The object; None after at least one problem was added.
    """
    value = structure_value(without_nulls(node), cls, problems)
    return typing.cast("T | None", value)


def structure_settings(node: Written, cls: type[T], problems: Problems) -> T:
    """Make an object of a class in which every field has a default, each field by itself.

    Returns:
        The object; a field that is wrong was reported and has its default, so that the others can be checked further.
    """
    return cls(**_good_fields(node, cls, problems, is_used=True))


def structure_value(node: Written, kind: Any, problems: Problems, *, is_used: bool = True) -> Any:
    """Make a value of any supported type; None after a problem was added.

    Args:
        node: As written.
        kind: A type.
        problems: Gets what is wrong.
        is_used: False leaves out the faults of references: whoever uses the value will meet them.
    """
    try:
        return converter().structure(raw(node), kind)
    except StructureHandlerNotFoundError as exc:
        report(problems, node, f"has a type that cannot be read: {exc.type_}")
    except (BaseValidationError, ValueError, TypeError) as exc:
        for keys, cause in _leaves(exc, ()):
            if is_used or not isinstance(cause, UnusableError):
                _report_cause(problems, node, keys, cause)
    except NameError as exc:
        report(problems, node, f"belongs to a class whose annotations cannot be resolved: {exc}")
    return None


def check_fields(
    node: Written, cls: type, problems: Problems, *, elsewhere: Mapping[str, str] | None = None
) -> None:
    """Check those fields of a class that are written, each by itself; what is missing is not missed.

    Args:
        node: A mapping, or null.
        cls: An attrs class.
        problems: Gets unknown keys and values of the wrong type; not the faults of references, since it is not known
            yet whether anybody uses the value.
        elsewhere: Keys that belong to another place, with the sentence that says so.
    """
    for key, sentence in (elsewhere or {}).items():
        misplaced = node.get(key)
        if misplaced is not None:
            report_key(problems, misplaced, sentence)
    _good_fields(node.without(*elsewhere) if elsewhere else node, cls, problems, is_used=False)


def _good_fields(node: Written, cls: type, problems: Problems, *, is_used: bool) -> dict[str, Any]:
    """The values of those written fields that are as they should be."""
    if node.data is None:
        return {}
    if not node.is_mapping:
        report(problems, node, f"must be a mapping, not {kind_of(node)}")
        return {}
    fields = fields_of(cls)
    report_unknown_keys(problems, node, tuple(fields))
    good = {}
    for key, item in node.items():
        if key in fields and item.data is not None:
            value = structure_value(without_nulls(item), fields[key], problems, is_used=is_used)
            if value is not None:
                good[key] = value
    return good


@functools.cache
def fields_of(cls: type) -> Mapping[str, Any]:
    """Return the types of an attrs class's fields by name, annotations resolved."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in attrs.fields(cls) if field.init}


def without_nulls(node: Written) -> Written:
    """Return a tree without the keys whose value is an explicit null; lists keep theirs."""
    if not isinstance(node.data, dict):
        return node
    items = {k: without_nulls(item) for k, item in node.items() if item.data is not None}
    return attrs.evolve(node, data=items)


def default_of(field: attrs.Attribute[Any]) -> JSON:
    """Return the default of an attrs class's field as plain JSON; None also where it has none, or a computed one."""
    default: Any = field.default
    if default is attrs.NOTHING or getattr(default, "takes_self", False):
        return None
    factory = getattr(default, "factory", None)
    return as_json(default if factory is None else factory())


def changed_fields(instance: Any) -> tuple[str, ...]:
    """Return the names of those fields of an attrs object that differ from their defaults."""
    fields = attrs.fields(type(instance))
    return tuple(
        field.name
        for field in fields
        if field.init and as_json(getattr(instance, field.name)) != default_of(field)
    )


def as_json(value: object) -> JSON:
    """Return a typed value as plain JSON: attrs objects as mappings, paths as text, secrets as references."""
    if isinstance(value, Secret):
        return value.written
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, enum.Enum):
        return as_json(value.value)
    if attrs.has(type(value)):
        cls: Any = type(value)
        names = [field.name for field in attrs.fields(cls)]
        return {name: as_json(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, AbstractSet):
        return sorted((as_json(item) for item in value), key=repr)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_json(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


def _leaves(exc: Exception, keys: tuple[Key, ...]) -> Iterator[tuple[tuple[Key, ...], Exception]]:
    """Every cause inside an error, with the keys that lead to it."""
    if not isinstance(exc, BaseValidationError):
        yield keys, exc
        return
    pairs, rest = exc.group_exceptions()  # type: ignore[attr-defined]  # both subclasses have it
    for sub, note in pairs:
        key = note.index if isinstance(note, IterableValidationNote) else note.name
        yield from _leaves(sub, (*keys, key))
    for sub in rest:
        yield from _leaves(sub, keys)


def _report_cause(
    problems: Problems, node: Written, keys: tuple[Key, ...], cause: Exception
) -> None:
    if isinstance(cause, ForbiddenExtraKeysError):
        place, _ = at(node, keys)
        report_unknown_keys(problems, place, tuple(fields_of(cause.cl)))
    elif isinstance(cause, KeyError) and keys[-1:] == cause.args:
        report(problems, node, "is required", *keys)
    else:
        sentence = str(cause.args[0]) if cause.args else type(cause).__name__
        # a class's own validator speaks of its field by name: 'limit' must be >= 1
        named = re.match(r"'(\w+)' ", sentence)
        here, _ = at(node, keys)
        extra = (named[1],) if named and here.get(named[1]) is not None else ()
        told, _ = at(here, extra)
        if isinstance(told.data, str) and told.data:
            sentence = sentence.replace(told.data, str(told.public))
        report(problems, node, sentence, *keys, *extra)
