r"""Strict JSON, one value a line: what cannot be read back as it was is not written.

No NaN, no infinity, no object turned into text behind one's back. Lone surrogates, which model output does
contain, are written as `\udXXX` escapes. The characters that some readers take for line ends (U+0085, U+2028,
U+2029) are escaped, so that no reader can be misled; we ourselves split on `\n` only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from agentcompass.data import frozen
from agentcompass.records import JSON
from agentcompass.regular import open_regular

Scrub: TypeAlias = Callable[[str], str]

MAX_DEPTH: Final = 200
"""Deeper nesting is refused: readers in many languages give up there."""
MAX_INT_BITS: Final = 14000
"""About as many as Python converts to text and back (4300 digits)."""

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class NotJSONError(ValueError):
    """A value that JSON cannot represent.

    Args:
        path: Where in the value, as `$.details.scores[3]`.
        reason: What is there.
    """

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


@frozen(kw_only=True)
class CorruptLine:
    """A line that could not be used, and was skipped."""

    number: int
    """From 1."""
    reason: str


def dumps(value: JSON) -> str:
    """Return a value as compact JSON text, possibly with lone surrogates in it.

    Raises:
        NotJSONError: Something in it is not JSON; the error says where.
    """
    try:
        text = _encode(value)
        if _is_plain(value):
            return text
    except (TypeError, ValueError, RuntimeError):
        pass  # plain() says what and where, or mends what can be mended
    return _encode(plain(value))


def to_line(text: str) -> bytes:
    """Return JSON text as a line of UTF-8 that holds no line end but its last byte."""
    if not text.isascii():
        text = text.replace("\x85", "\\u0085")
        text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    # A lone surrogate can only stand inside a JSON string, where this is the right escape for it.
    return text.encode(errors="backslashreplace") + b"\n"


def encode(value: JSON, scrub: Scrub | None = None) -> bytes:
    """Return a value as one line.

    Args:
        value: Mappings must have text keys; tuples become arrays.
        scrub: Removes secrets from every text in the value.

    Raises:
        NotJSONError: Something in it is not JSON.
    """
    text = dumps(value)
    if scrub is not None and scrub(text) != text:
        text = _encode(plain(value, scrub))
    return to_line(text)


def decode(line: bytes) -> JSON:
    """Return the value of a line.

    Raises:
        ValueError: It is not strict JSON in UTF-8.
    """
    try:
        return _decoder.decode(line.decode())
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text:.40} is too large for a float")
    return number


_decoder: Final = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite_float)


def plain(value: JSON, scrub: Scrub | None = None, path: str = "$", depth: int = 0) -> Any:
    """Return a value as dicts, lists and scalars of the built-in types themselves.

    Args:
        value: What is to be written.
        scrub: Applied to every text, keys included.
        path: Where `value` stands, for messages.
        depth: How deep it stands.

    Raises:
        NotJSONError: Something in it is not JSON.
    """
    if isinstance(value, str):
        return str.__str__(value) if scrub is None else scrub(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _plain_number(value, path)
    if depth >= MAX_DEPTH:
        raise NotJSONError(path[:200], f"nested deeper than {MAX_DEPTH}, or contains itself")
    if isinstance(value, Mapping):
        result = {}
        for key, item in list(value.items()):
            if not isinstance(key, str):
                raise NotJSONError(path, f"key {key!r:.80} is {_type_name(key)}, not a text")
            name = str.__str__(key) if scrub is None else scrub(key)
            result[name] = plain(item, scrub, f"{path}.{key:.80}", depth + 1)
        return result
    if isinstance(value, list | tuple):
        items = list(value)
        return [plain(item, scrub, f"{path}[{i}]", depth + 1) for i, item in enumerate(items)]
    raise NotJSONError(path, f"{_type_name(value)} is not a JSON value")


def _plain_number(value: float, path: str) -> float:
    if isinstance(value, int):
        if value.bit_length() > MAX_INT_BITS:
            raise NotJSONError(path, f"an integer of {value.bit_length()} bits is too long")
        return int(value)
    if not math.isfinite(value):
        raise NotJSONError(path, f"{value!r} is not a finite number")
    return float(value)


def _type_name(value: object) -> str:
    kind = type(value)
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def _is_plain(value: JSON) -> bool:
    """Whether what the C encoder accepts means the same when read back: its keys are text, its depth is bounded."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                if item and set(map(type, item)) != {str}:
                    return False
                children: Any = item.values()
            elif kind is list or kind is tuple:
                children = item
            elif kind in _SCALARS:
                continue
            else:
                return False
            below += [child for child in children if type(child) not in _SCALARS]
        if not below:
            return True
        level = below
    return False


def weight(value: JSON, max_nodes: int = 500) -> int:
    """Estimate the bytes that a value takes in memory, in bounded time: for back-pressure, not for accounting."""
    total, stack, nodes = 0, [value], 0
    while stack and nodes < max_nodes:
        item = stack.pop()
        nodes += 1
        total += 64
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, Mapping):
            total += 64 * len(item)
            stack.extend(list(item.values())[:max_nodes])
        elif isinstance(item, list | tuple):
            total += 16 * len(item)
            stack.extend(item[:max_nodes])
    return total


def read_lines(path: Path, on_corrupt: Callable[[CorruptLine], None]) -> Iterator[tuple[int, JSON]]:
    """Read a file line by line, holding one line at a time.

    A last line without its line end is what a crash leaves of a line that was never announced: it is dropped.

    Args:
        path: A file of JSON lines; one that is not there has no lines.
        on_corrupt: Told of every complete line that is not JSON; it is skipped.

    Yields:
        Line number from 1, value.

    Raises:
        OSError: The file cannot be read.
    """
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return
    with file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                value = decode(line)
            except ValueError as error:
                on_corrupt(CorruptLine(number=number, reason=f"not JSON: {error!s:.200}"))
            else:
                yield number, value
