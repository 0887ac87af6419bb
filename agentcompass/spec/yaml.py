"""YAML 1.2 and JSON files as trees in which every value knows its line and column.

Built from the parser's node graph instead of its objects, so that a field of type string gets the text that was
typed (`no`, `3.10`, `0123`), and so that duplicate keys, foreign tags and aliases without end are found here.

Source: YAML 1.2.2, section 10.3 (core schema).
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any, Final, final

import attrs
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from agentcompass.data import frozen
from agentcompass.regular import NotRegularError, open_regular
from agentcompass.spec.problems import Problems, join_path
from agentcompass.spec.tree import MAX_DEPTH, Origin, Written

MAX_BYTES: Final = 1 << 20
"""Size of a file that is read; parsing takes seconds for each MiB."""
MAX_VALUES: Final = 50_000
"""Values of a file, aliases counted as often as they are used."""

_TAG: Final = "tag:yaml.org,2002:"
_TEXT_TAGS: Final = {_TAG + name for name in ("str", "timestamp", "value")}
_NULL: Final = re.compile(r"~|null|Null|NULL|")
_TRUE: Final = re.compile(r"true|True|TRUE")
_FALSE: Final = re.compile(r"false|False|FALSE")
_INT: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE: Final = re.compile(r"([-+]?)\.(?:inf|Inf|INF)")
_NAN: Final = re.compile(r"\.(?:nan|NaN|NAN)")


def load_file(
    path: Path, layer: str, problems: Problems, *, name: str | None = None
) -> Written | None:
    """Read a file of YAML, or of JSON if it is called `.json`.

    Args:
        path: The file.
        layer: What its values' origins are called.
        problems: Gets everything that keeps the file from being read.
        name: What the file is called in messages; default its path.

    Returns:
        The top-level mapping, an empty one for an empty file; None if the whole of it cannot be read.
    """
    name = name or str(path)
    text = _read(path, name, problems)
    return (
        None
        if text is None
        else load_text(text, name, layer, problems, is_json=path.suffix == ".json")
    )


def load_text(
    text: str, name: str, layer: str, problems: Problems, *, is_json: bool = False
) -> Written | None:
    """Do the same for text that is called `name` in messages."""
    if not text.strip():
        return Written(data={}, origin=Origin(layer=layer, where=name))
    if is_json:
        try:
            json.loads(text, parse_constant=_refuse_constant)
        except ValueError as exc:
            problems.add(_json_position(name, exc), "", f"is not JSON: {_json_reason(exc)}")
            return None
        except RecursionError:
            problems.add(name, "", f"nested more than {MAX_DEPTH} levels deep")
            return None
    found = _compose(text, name, problems)
    if not found:
        return None
    root = found[0]
    if root is None or _is_null(root):
        return Written(data={}, origin=Origin(layer=layer, where=name))
    return _Builder(name=name, layer=layer, problems=problems).build_root(root)


def _read(path: Path, name: str, problems: Problems) -> str | None:
    try:
        # of what a shell gives by `<(command)` or /dev/stdin, somebody holds the other end
        is_given = path.is_relative_to("/dev")
        with path.open("rb") if is_given else open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        problems.add(name, "", "there is no such file")
    except (IsADirectoryError, NotRegularError):
        kind = "a directory, not a file" if path.is_dir() else "not a regular file"
        problems.add(name, "", f"is {kind}")
    except (OSError, ValueError) as exc:
        problems.add(name, "", f"cannot be read: {getattr(exc, 'strerror', None) or exc}")
    else:
        if len(data) > MAX_BYTES:
            problems.add(name, "", f"is larger than {MAX_BYTES >> 20} MiB")
            return None
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            line = data[: exc.start].count(b"\n") + 1
            problems.add(f"{name}:{line}", "", f"is not UTF-8: byte 0x{data[exc.start]:02x}")
    return None


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is no JSON number")


def _json_position(name: str, exc: ValueError) -> str:
    return f"{name}:{exc.lineno}:{exc.colno}" if isinstance(exc, json.JSONDecodeError) else name


def _json_reason(exc: ValueError) -> str:
    return exc.msg if isinstance(exc, json.JSONDecodeError) else str(exc)


def _is_null(node: Node) -> bool:
    return isinstance(node, ScalarNode) and _NULL.fullmatch(str(node.value)) is not None


def _compose(text: str, name: str, problems: Problems) -> tuple[Node | None] | None:
    """The node graph in a tuple, which holds None for a document of comments only; None after a problem."""
    try:
        node: Node | None = YAML(typ="rt", pure=True).compose(text)
    except MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        line = f" (line {mark.line + 1})" if mark else ""
        parts = [part for part in (exc.context, exc.problem) if part]
        problems.add(where, "", f"is not valid YAML: {', '.join(parts)}{line}{_tab_hint(exc)}")
    except YAMLError as exc:
        problems.add(name, "", f"is not valid YAML: {str(exc).splitlines()[0]}")
    except RecursionError:
        problems.add(name, "", f"nested more than {MAX_DEPTH} levels deep")
    except (ValueError, OverflowError, AttributeError, AssertionError, TypeError) as exc:
        # the parser lets its own slips through on malformed input (a bad escape, a bad directive)
        problems.add(name, "", f"is not valid YAML: {exc}")
    else:
        return (node,)
    return None


def _tab_hint(exc: MarkedYAMLError) -> str:
    return "; indent with spaces, not tabs" if "\\t" in (exc.problem or "") else ""


@frozen(kw_only=True)
class _Place:
    """Where a node is used: its path, how deep, and the position of its key."""

    path: str = ""
    depth: int = 0
    key_where: str | None = None

    def below(self, key: str | int, key_where: str | None = None) -> _Place:
        return _Place(path=join_path(self.path, key), depth=self.depth + 1, key_where=key_where)


class _TooLargeError(Exception):
    """Aliases make the file larger than it may be."""


@final
@attrs.define(eq=False)
class _Builder:
    """Turns one file's node graph into a tree."""

    name: str
    layer: str
    problems: Problems
    _count: int = 0
    _open: set[int] = attrs.field(factory=set)

    def build_root(self, node: Node) -> Written | None:
        if not isinstance(node, MappingNode):
            what = "a list" if isinstance(node, SequenceNode) else "a single value"
            self.problems.add(self._where(node), "", f"must be a mapping at the top, not {what}")
            return None
        try:
            return self._build(node, _Place())
        except _TooLargeError:
            self.problems.add(
                self.name, "", f"has more than {MAX_VALUES} values once its aliases are followed"
            )
            return None

    def _build(self, node: Node, place: _Place) -> Written:
        self._count += 1
        if self._count > MAX_VALUES:
            raise _TooLargeError
        where = self._where(node)
        origin = Origin(layer=self.layer, where=where, path=place.path, key_where=place.key_where)
        if id(node) in self._open:
            return self._refuse(origin, "an alias that leads back into itself")
        if place.depth > MAX_DEPTH:
            return self._refuse(origin, f"nested more than {MAX_DEPTH} levels deep")
        if isinstance(node, ScalarNode):
            return self._scalar(node, origin)
        tag = "map" if isinstance(node, MappingNode) else "seq"
        if str(node.tag) != _TAG + tag:
            return self._refuse(origin, self._tag_sentence(node))
        self._open.add(id(node))
        try:
            if isinstance(node, MappingNode):
                return Written(data=self._items(node, place), origin=origin)
            items = enumerate(node.value)
            data = tuple(self._build(item, place.below(index)) for index, item in items)
            return Written(data=data, origin=origin)
        finally:
            self._open.discard(id(node))

    def _items(self, node: MappingNode, place: _Place) -> dict[str, Written]:
        own: dict[str, Written] = {}
        merged: dict[str, Written] = {}
        for key_node, value_node in node.value:
            where = self._where(key_node)
            if str(key_node.tag) == _TAG + "merge":
                merged |= {
                    k: v for k, v in self._merged(value_node, place).items() if k not in merged
                }
                continue
            if not isinstance(key_node, ScalarNode) or not key_node.value:
                self.problems.add(where, place.path, "keys must be non-empty plain text")
                continue
            key = _joined_surrogates(str(key_node.value))
            if place.depth == 0 and key.startswith("x-"):
                continue
            if key in own:
                first = own[key].origin.key_where
                sentence = f"the key stands here twice (first at {first})"
                self.problems.add(where, join_path(place.path, key), sentence)
                continue
            own[key] = self._build(value_node, place.below(key, where))
        return {**{k: v for k, v in merged.items() if k not in own}, **own}

    def _merged(self, node: Node, place: _Place) -> dict[str, Written]:
        """What `<<` brings in: of several mappings, the earlier one wins."""
        sources = node.value if isinstance(node, SequenceNode) else [node]
        items: dict[str, Written] = {}
        for source in sources:
            if not isinstance(source, MappingNode) or id(source) in self._open:
                self.problems.add(self._where(node), place.path, "`<<` takes mappings only")
                continue
            self._open.add(id(source))
            try:
                items = {**self._items(source, place), **items}
            finally:
                self._open.discard(id(source))
        return items

    def _scalar(self, node: ScalarNode, origin: Origin) -> Written:
        text = _joined_surrogates(str(node.value))
        tag = str(node.tag)
        if tag in _TEXT_TAGS or (
            tag.startswith(_TAG) and node.style is not None and _implicit(tag)
        ):
            return Written(data=text, origin=origin)
        if not _implicit(tag):
            return self._refuse(origin, self._tag_sentence(node))
        try:
            data = _core_value(text)
        except ValueError:
            return self._refuse(origin, "a number with too many digits")
        return Written(data=data, origin=origin, text=None if data is None else text)

    def _tag_sentence(self, node: Node) -> str:
        tag = str(node.tag).replace(_TAG, "!!")
        return f"the tag {tag} is not allowed: values are plain text, numbers, lists and mappings"

    def _refuse(self, origin: Origin, sentence: str) -> Written:
        self.problems.add(origin.where, origin.path, sentence)
        return Written(data=None, origin=origin)

    def _where(self, node: Node) -> str:
        mark = node.start_mark
        return f"{self.name}:{mark.line + 1}:{mark.column + 1}" if mark else self.name


def _implicit(tag: str) -> bool:
    return tag in {_TAG + name for name in ("null", "bool", "int", "float")}


def _core_value(text: str) -> Any:
    """The value of a plain scalar; anything else is text (`yes`, `1_000`, `1:30`)."""
    for pattern, value in ((_NULL, None), (_TRUE, True), (_FALSE, False), (_NAN, math.nan)):
        if pattern.fullmatch(text):
            return value
    if _INT.fullmatch(text):
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        return int(text, base)
    if _FLOAT.fullmatch(text):
        return float(text)
    infinite = _INFINITE.fullmatch(text)
    return float(f"{infinite[1]}inf") if infinite else text


def _joined_surrogates(text: str) -> str:
    """JSON writes characters beyond the BMP as two escapes, which the YAML reader leaves apart."""
    if not any("\ud800" <= char <= "\udfff" for char in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
