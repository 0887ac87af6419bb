"""What the OpenAI protocols have in common. Pure."""

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
_CALL: Final = frozenset({"id", "type", "function", "index"})


def bearer(key: str | None) -> dict[str, str]:
    """Return the header that authenticates, if there is a key."""
    return {"Authorization": f"Bearer {key}"} if key else {}


def with_stream_usage(body: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return a request that, if it is streamed, asks for usage, which chunks do not carry by themselves."""
    wanted = {"stream_options": {"include_usage": True}} if body.get("stream") is True else {}
    return {**wanted, **body}


def choices_failure(payload: Mapping[str, JSON]) -> JSON:
    """Return an error that came as if all were well; None if there is none."""
    return payload if payload.get("error") and not payload.get("choices") else None


def beside_call(call: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return what a tool call has beside the protocol's own fields: a signature, or the like."""
    return {key: value for key, value in call.items() if key not in _CALL and value is not None}


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
