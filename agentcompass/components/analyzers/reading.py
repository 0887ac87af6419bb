"""What steps of a trajectory say, whichever harness wrote them: every reading is tolerant and in bounded time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from agentcompass.components.analysis import Step
from agentcompass.records import JSON

_CALL_TYPES: Final = frozenset({"tool_call", "tool-call", "call", "action", "command", "exec"})
_INPUTS: Final = ("arguments", "command", "action", "input", "keystrokes", "content")
_REPLY_TYPES: Final = frozenset({"reply", "assistant"})


class Call(NamedTuple):
    """What an agent did in a step: a tool and what it was given, as text."""

    name: str
    arguments: str


def is_reply(step: Step) -> bool:
    """Whether a step is what a model answered."""
    kind = _kind(step)
    return kind in _REPLY_TYPES or (kind == "message" and step.get("role") == "assistant")


def text_of(content: JSON) -> str:
    """Return the text of a message's content: text, or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "".join(text for text in parts if isinstance(text, str))
    return ""


def calls_in(step: Step) -> Iterator[Call]:
    """Yield the calls of a step: those in `tool_calls`, or the step itself if its type says that it is one."""
    listed = step.get("tool_calls")
    if isinstance(listed, list) and listed:
        for item in listed:
            if isinstance(item, Mapping):
                function = item.get("function")
                call = function if isinstance(function, Mapping) else item
                yield Call(str(call.get("name", "")), _text(call.get("arguments")))
    elif _kind(step) in _CALL_TYPES:
        given = next((step[key] for key in _INPUTS if step.get(key) is not None), None)
        yield Call(str(step.get("name") or _kind(step)), _text(given))


def seconds_of(step: Step) -> float | None:
    """Return how long a step took, if it says so."""
    return number(step.get("seconds"))


def number(value: JSON) -> float | None:
    """Return a number that is not negative as a float; None for everything else, booleans included."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        try:
            return float(value)
        except OverflowError:
            return None
    return None


def _kind(step: Step) -> str:
    kind = step.get("type")
    return kind if isinstance(kind, str) else ""


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
