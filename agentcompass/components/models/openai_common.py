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
    """Return an error that came as if all were well, also beside a choice or in it; None if there is none."""
    if payload.get("error"):
        return payload
    choices = payload.get("choices")
    is_there = isinstance(choices, list) and choices and isinstance(choices[0], Mapping)
    return choice_failure(first_choice(payload)) if is_there else None


def choice_failure(choice: Mapping[str, JSON]) -> JSON:
    """Return the error that a choice ended with; None if there is none.

    No part of OpenAI's API: routers to many endpoints say so where one of these fails in the middle of an answer.
    Source: OpenRouter API reference, "Errors" (`finish_reason: "error"`).
    """
    error = choice.get("error")
    if not error and choice.get("finish_reason") != "error":
        return None
    return {"error": error or {"message": "the answer ended with an error"}}


def beside_call(call: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return what a tool call has beside the protocol's own fields: a signature, or the like."""
    return {key: value for key, value in call.items() if key not in _CALL and value is not None}


def first_choice(payload: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return the first choice of an answer, wherever it is listed.

    Raises:
        ModelError: There is none (`malformed-response`).
    """
    choices = payload.get("choices")
    if not isinstance(choices, list) or not choices:
        raise malformed("it has no choices")
    if not isinstance(choices[0], Mapping):
        raise malformed("its first choice is no object")
    others = (choice for choice in choices if isinstance(choice, Mapping))
    return next((choice for choice in others if not choice.get("index")), choices[0])


def stop_reason(choice: Mapping[str, JSON]) -> StopReason:
    """Return why the model stopped; a reason unknown here, or none, is "other"."""
    reason = choice.get("finish_reason")
    return _STOP_REASONS.get(reason, "other") if isinstance(reason, str) else "other"
