"""What answers hold, read field by field: what it should be, or an error that says which part is wrong. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agentcompass.components.models.failures import malformed
from agentcompass.records import JSON


def named(payload: Mapping[str, JSON], name: str) -> str | None:
    """Return a text that informs only: whatever else stands there is left out."""
    value = payload.get(name)
    return value if isinstance(value, str) and value else None


def text_or_none(value: JSON, what: str) -> str | None:
    """Return a text.

    Raises:
        ModelError: It is something else (`malformed-response`).
    """
    if value is None or isinstance(value, str):
        return value
    raise malformed(f"{what} is no text")


def text_at(item: Mapping[str, JSON], name: str, what: str) -> str:
    """Return the text of a field, empty if there is none; raises as `text_or_none`."""
    return text_or_none(item.get(name), f"the {name} of {what}") or ""


def objects(value: JSON, what: str) -> list[Mapping[str, JSON]]:
    """Return a list of objects, empty for null.

    Raises:
        ModelError: It is something else (`malformed-response`).
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise malformed(f"{what} is no list of objects")
    for item in value:
        if not isinstance(item, dict):
            raise malformed(f"{what} is no list of objects")
    return value


def call_name(item: Mapping[str, JSON]) -> str:
    """Return the name of the tool that is called.

    Raises:
        ModelError: There is none (`malformed-response`).
    """
    name = item.get("name")
    if not isinstance(name, str) or not name:
        raise malformed("a tool call has no name")
    return name


def arguments_text(value: JSON) -> str:
    """Return the arguments of a call as text, which some protocols and servers send as an object."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def arguments_object(text: str) -> dict[str, JSON]:
    """Return arguments as an object, for protocols that send nothing else; no arguments are an empty one.

    What is none is wrapped, so that the model sees what it wrote.
    """
    if not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"not_an_object": text}
