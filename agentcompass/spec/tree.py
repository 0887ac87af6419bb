"""Values as somebody wrote them: plain data in which every item knows where it came from.

Files, SDK objects and arguments all become such trees; merging and checking need no other form.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, Final, TypeAlias, final

import attrs

from agentcompass.data import frozen
from agentcompass.errors import did_you_mean
from agentcompass.secrets import MASK, Secret
from agentcompass.spec.problems import Problems, join_path

MAX_DEPTH: Final = 50
"""Levels of nesting that are accepted: far more than any setting needs, far less than the interpreter's stack."""


@frozen(kw_only=True)
class Origin:
    """Where a value was written."""

    layer: str
    """What kind of source: `config file`, `orchestration`, `argument`, ..."""
    where: str
    """`FILE:LINE:COLUMN` of the value, or the door it came in by; see `Problem.where`."""
    path: str = ""
    """Dotted path in its own document."""
    key_where: str | None = None
    """Position of its key, where that is known."""


@frozen(kw_only=True, eq=False)
class Written:
    """A value with its origin. Immutable; the same value overridden is a new one that remembers the old."""

    data: Any
    """None, bool, int, float, str, `Secret`, a tuple of `Written`, or a dict of `Written` by key."""
    origin: Origin
    text: str | None = None
    """What stood in the file, where a field of type string should have that: `3.10`, `0123`."""
    is_secret: bool = False
    """It stands in a field whose name says secret."""
    stored: str | None = None
    """What is written down instead of it: `${NAME}` for what came by reference, a mask for what is secret. None: it
    was given in clear, and is masked if it is secret."""
    counted: str | None = None
    """What counts for the fingerprint instead of it: values in the place of references, unless they are secret."""
    fault: str | None = None
    """Why it cannot be used (an unset variable); a problem only where somebody does use it."""
    resets: bool = False
    """A mapping that follows an explicit null or another kind of value: what is below it does not shine through."""
    overrode: Written | None = None
    """The value that this one took the place of."""

    @property
    def public(self) -> Any:
        """The value as a message may show it: without what is secret."""
        if self.is_secret:
            return self.stored or MASK
        return self.data if self.counted is None else self.counted

    @property
    def is_mapping(self) -> bool:
        """Whether it has keys."""
        return isinstance(self.data, dict)

    def get(self, key: str) -> Written | None:
        """Return the item of a mapping; None if there is none, or this is no mapping."""
        return self.data.get(key) if isinstance(self.data, dict) else None

    def items(self) -> Iterator[tuple[str, Written]]:
        """Iterate over a mapping; over nothing if this is none."""
        yield from self.data.items() if isinstance(self.data, dict) else ()

    def without(self, *keys: str) -> Written:
        """Return a mapping without some keys; what is no mapping as it is."""
        if not self.is_mapping:
            return self
        return attrs.evolve(self, data={k: v for k, v in self.items() if k not in keys})


@final
class Source:
    """What an object was read from. Not made by attrs, so that `attrs.asdict` hands it on as it is."""

    def __init__(self, node: Written) -> None:
        self.node = node


def text_of(node: Written | None) -> str | None:
    """Return what a name or an id says, as it was typed, unchecked; None if it says nothing."""
    return None if node is None or node.data is None else str(node.text or node.data)


Key: TypeAlias = str | int


def mapping(origin: Origin, items: Mapping[str, Written] | None = None) -> Written:
    """Return a mapping node."""
    return Written(data=dict(items or {}), origin=origin)


def kind_of(data: object) -> str:
    """Name a value's kind as a person would: `a mapping`, `a list`, `a string`, ..."""
    data = data.data if isinstance(data, Written) else data
    names: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (type(None), "null"),
        (bool, "a boolean"),
        (int, "an integer"),
        (float, "a number"),
        ((str, Secret), "a string"),
        ((list, tuple), "a list"),
        (dict, "a mapping"),
    )
    return next((name for types, name in names if isinstance(data, types)), type(data).__name__)


def at(node: Written, keys: tuple[Key, ...]) -> tuple[Written, str]:
    """Follow keys as far as they lead; return the node reached and the whole path, in its own document's words."""
    for number, key in enumerate(keys):
        below = node.data
        is_item = isinstance(key, int) and isinstance(below, tuple) and key < len(below)
        if not is_item and not (isinstance(below, dict) and key in below):
            path = node.origin.path
            for rest in keys[number:]:
                path = join_path(path, rest)
            return node, path
        node = below[key]
    return node, node.origin.path


def report(problems: Problems, node: Written, sentence: str, *keys: Key) -> None:
    """Add a problem about the value at `keys` below `node`."""
    found, path = at(node, keys)
    problems.add(found.origin.where, path, sentence)


def report_key(problems: Problems, item: Written, sentence: str) -> None:
    """Add a problem about a key, where the key stands and not its value."""
    origin = item.origin
    problems.add(origin.key_where or origin.where, origin.path, sentence)


def report_unknown_keys(problems: Problems, node: Written, known: tuple[str, ...]) -> None:
    """Add a problem, with the nearest known key, for each key of a mapping that is not known."""
    for key, item in node.items():
        if key not in known:
            report_key(problems, item, f"unknown key{did_you_mean(key, known)}")


def from_python(value: object, origin: Origin, problems: Problems) -> Written:
    """Turn native objects into a tree.

    Args:
        value: JSON-like data; paths and enum members become text, attrs instances mappings of what is not None.
        origin: Of the whole; items get longer paths.
        problems: Gets what is not JSON-like: foreign objects, keys that are no strings, nesting without end.
    """
    return _convert(value, origin, problems, 0)


def _convert(value: object, origin: Origin, problems: Problems, depth: int) -> Written:
    if depth > MAX_DEPTH:
        problems.add(origin.where, origin.path, f"nested more than {MAX_DEPTH} levels deep")
        return Written(data=None, origin=origin)
    if attrs.has(type(value)):
        return _section(
            _given_fields(value), getattr(value, "_source", None), origin, problems, depth
        )
    if isinstance(value, Mapping):
        if isinstance(value.get("_source", ""), Source | None):  # as `attrs.asdict` gives a section
            given = {k: v for k, v in value.items() if v is not None and k != "_source"}
            return _section(given, value["_source"], origin, problems, depth)
        return _convert_mapping(value, origin, problems, depth)
    if isinstance(value, list | tuple):
        items = tuple(
            _convert(
                item, attrs.evolve(origin, path=join_path(origin.path, i)), problems, depth + 1
            )
            for i, item in enumerate(value)
        )
        return Written(data=items, origin=origin)
    data = _scalar(value)
    if not isinstance(data, bool | int | float | str | Secret | None):
        problems.add(origin.where, origin.path, f"must be a plain value, not {_name(value)}")
        data = None
    return Written(data=data, origin=origin)


def _section(
    given: Mapping[str, object],
    source: Source | None,
    origin: Origin,
    problems: Problems,
    depth: int,
) -> Written:
    made = _convert_mapping(given, origin, problems, depth)
    return made if source is None else _with_nulls(recalled(made, source.node), source.node)


def _convert_mapping(
    value: Mapping[Any, object], origin: Origin, problems: Problems, depth: int
) -> Written:
    items = {}
    for key, item in value.items():
        if isinstance(key, str) and key:
            where = attrs.evolve(origin, path=join_path(origin.path, key))
            items[key] = _convert(item, where, problems, depth + 1)
        else:
            problems.add(
                origin.where, origin.path, f"keys must be non-empty strings, not {key!r:.40}"
            )
    return Written(data=items, origin=origin)


def _scalar(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    return str(value) if isinstance(value, PurePath) else value


def recalled(made: Written, source: Written) -> Written:
    """Return a tree of objects that were read from a file: what is still as it was read has the place it stood at.

    Args:
        made: From the objects, which may have been changed.
        source: What was read.
    """
    if made.is_mapping and source.is_mapping:
        read = source.data
        items = {k: recalled(v, read[k]) if k in read else v for k, v in made.items()}
        return attrs.evolve(source, data=items)
    if isinstance(made.data, tuple) and isinstance(source.data, tuple):
        if len(made.data) != len(source.data):
            return made
        pairs = zip(made.data, source.data, strict=True)
        return attrs.evolve(source, data=tuple(recalled(*pair) for pair in pairs))
    is_same = type(made.data) is type(source.data) and made.data == source.data
    return source if is_same or made.data == source.text is not None else made


def _with_nulls(node: Written, source: Written) -> Written:
    """In objects None means not given: what stood in the file as an explicit null and is still None comes back."""
    nulls = {k: v for k, v in source.items() if v.data is None and node.get(k) is None}
    return attrs.evolve(node, data={**node.data, **nulls})


_NUMBERS_BY_NAME: Final = {"provider_limits", "env_open_qps"}
"""Mappings in which also what is called `id` is a number."""


def plain(node: Written) -> Any:
    """Return a tree as dicts, lists and plain values; ids and names as they were typed."""
    if isinstance(node.data, dict):
        return {key: _typed(key, item) for key, item in node.items()}
    return [plain(item) for item in node.data] if isinstance(node.data, tuple) else node.data


def _typed(key: str, node: Written) -> Any:
    if key in _NUMBERS_BY_NAME and node.is_mapping:
        return {name: item.data for name, item in node.items()}
    return node.text if key in {"id", "name"} and node.text is not None else plain(node)


def _name(value: object) -> str:
    return f"an object of {type(value).__module__}.{type(value).__qualname__}"


def _given_fields(instance: Any) -> dict[str, object]:
    """The fields of a section class that were given: None means not given."""
    # a request's own fields first: people look for its name
    fields = sorted(attrs.fields(type(instance)), key=lambda field: field.inherited)
    values = {field.name: getattr(instance, field.name) for field in fields}
    return {k: v for k, v in values.items() if v is not None and not k.startswith("_")}
