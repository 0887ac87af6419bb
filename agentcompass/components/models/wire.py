"""JSON to and from the wire: any text survives, and large bodies do not hold up the event loop."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final

import trio

from agentcompass.records import JSON

INLINE_LIMIT: Final = 256 * 1024
"""Bytes up to which a body is coded in place (about a millisecond); larger ones go to a worker thread."""


async def encode(body: Mapping[str, JSON]) -> bytes:
    """Return a request body as UTF-8; lone surrogates become JSON escapes.

    Raises:
        ValueError: A value cannot stand in JSON (NaN, a foreign object).
    """
    if _is_small(body):
        return _encode_at_once(body)
    return await trio.to_thread.run_sync(_encode, body)


async def decode(body: bytes) -> JSON:
    """Return what a body says; bytes that are no UTF-8 become replacement characters.

    Raises:
        ValueError: It is no JSON.
    """
    if len(body) <= INLINE_LIMIT:
        return decode_now(body)
    return await trio.to_thread.run_sync(decode_now, body)


def decode_now(body: bytes | str) -> JSON:
    """The same in place, for small bodies and parts of streams."""
    try:
        if isinstance(body, str):
            # what stands in a stream begins and ends without white space: half of the work is to look for it
            value, end = _scanned(body)
            if end == len(body):
                return value
        return json.loads(body)
    except UnicodeDecodeError:
        assert isinstance(body, bytes)  # a str is not decoded
        return decode_now(body.decode(errors="replace"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _scanned(text: str) -> tuple[JSON, int]:
    """The value at the beginning of a text, and where it ends; None and -1 if there is none."""
    try:
        return _DECODER.raw_decode(text)
    except ValueError:
        return None, -1


_DECODER: Final = json.JSONDecoder()


def _encode_at_once(body: Mapping[str, JSON]) -> bytes:
    try:
        return _AS_IT_IS.encode(body).encode()
    except UnicodeEncodeError:
        return _encode(body)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _encode(body: Mapping[str, JSON]) -> bytes:
    """Encode a list element by element: the encoder keeps the interpreter lock for as long as one call takes."""
    members = []
    for name, value in body.items():
        if isinstance(value, list):
            encoded = b"[" + b",".join(_piece(item) for item in value) + b"]"
        else:
            encoded = _piece(value)
        members.append(_piece(name) + b":" + encoded)
    return b"{" + b",".join(members) + b"}"


def _piece(value: JSON) -> bytes:
    try:
        return _AS_IT_IS.encode(value).encode()
    except UnicodeEncodeError:
        return _ESCAPED.encode(value).encode("ascii")
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _plain(value: object) -> JSON:
    """Read-only mappings and other collections, as JSON knows them."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        return list(value)
    raise TypeError(f"a {type(value).__name__} cannot be sent as JSON")


_AS_IT_IS: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_plain)
_ESCAPED: Final = json.JSONEncoder(allow_nan=False, default=_plain)
"""For texts with halves of characters, which have no bytes of their own."""


def _is_small(value: JSON) -> bool:
    """Whether the text in a value is certainly below the limit; looks no further than it must."""
    rest, todo = INLINE_LIMIT, [value]
    while todo and rest > 0:
        item = todo.pop()
        if isinstance(item, str):
            rest -= len(item)
        elif isinstance(item, list | tuple):
            todo.extend(item)
            rest -= 8 * len(item)
        elif isinstance(item, Mapping):
            todo.extend(item.values())
            rest -= 16 * len(item)
    return rest > 0
