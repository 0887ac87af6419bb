"""Plain data as YAML 1.2 in blocks, such that `spec.yaml` reads exactly the same again.

Text that any reader of YAML could take for something else is quoted: `no`, `3.10`, `2024-01-01`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from agentcompass.secrets import Secret
from agentcompass.spec.converter import raw
from agentcompass.spec.tree import Written

_WORD: Final = r"[A-Za-z0-9_./@+=:*-]*[A-Za-z0-9_./@+=*-]"
_PLAIN: Final = re.compile(rf"[A-Za-z_/](?:{_WORD})?(?: {_WORD})*")
"""Words that begin with a letter; a colon that ends one would make a key of it."""
_KEYWORD: Final = re.compile(r"y|n|yes|no|on|off|true|false|null", re.IGNORECASE)
"""Of YAML 1.2, and of 1.1, which other tools read."""


def to_yaml(value: Any) -> str:
    """Return JSON values as YAML, in their own order; leaves of a tree (`Written`) as they were typed."""
    return "".join(
        f"{line}\n" for line in _block(raw(value) if isinstance(value, Written) else value)
    )


def _block(value: Any) -> Iterator[str]:
    """The lines of a value."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _under(f"{_scalar(key)}:", item, "  ")
    elif isinstance(value, list | tuple) and value:
        for item in value:
            first, *rest = _block(item)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    else:
        yield _scalar(value)


def _under(key: str, value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict | list | tuple) and value:
        yield key
        yield from (f"{indent}{line}" for line in _block(value))
    else:
        yield f"{key} {_scalar(value)}"


def _scalar(value: Any) -> str:
    if isinstance(value, Written):
        is_number = not isinstance(value.data, str | Secret) and value.text is not None
        return value.text if is_number and value.text else _scalar(value.data)
    if isinstance(value, Secret):
        value = value.written
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and not _KEYWORD.fullmatch(value):
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(char if char.isprintable() else _escaped(char) for char in quoted)


def _escaped(char: str) -> str:
    return f"\\U{ord(char):08x}" if ord(char) > 0xFFFF else f"\\u{ord(char):04x}"
