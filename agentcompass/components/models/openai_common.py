"""What the two older OpenAI protocols have in common. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentcompass.components.messages import StopReason
from agentcompass.components.models.failures import malformed
from agentcompass.records import JSON

_STOP_REASONS: Final[Mapping[JSON, StopReason]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


def first_choice(payload: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return the first choice of an answer.

    Raises:
        ModelError: There is none (`malformed-response`).
    """
    choices = payload.get("choices")
    if not isinstance(choices, list) or not choices:
        raise malformed("it has no choices")
    if not isinstance(choices[0], Mapping):
        raise malformed("its first choice is no object")
    return choices[0]


def stop_reason(choice: Mapping[str, JSON]) -> StopReason:
    """Return why the model stopped; a reason unknown here, or none, is "other"."""
    reason = choice.get("finish_reason")
    return _STOP_REASONS.get(reason, "other") if isinstance(reason, str) else "other"


def text_or_none(value: JSON, what: str) -> str | None:
    """Return a text.

    Raises:
        ModelError: It is something else (`malformed-response`).
    """
    if value is None or isinstance(value, str):
        return value
    raise malformed(f"{what} is no text")


def named(payload: Mapping[str, JSON], name: str) -> str | None:
    """Return a text that informs only: whatever else stands there is left out."""
    value = payload.get(name)
    return value if isinstance(value, str) and value else None
