"""Answers in the protocols of model endpoints, in one piece: plain data, as the APIs define it.

Each protocol has a function from what is said to the answer in one piece; `components.models.unrolled` makes the events of
a stream of it. Tests hold all of them against the types of the official client packages
(`unit/models/test_official_types.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Calls = Sequence[tuple[str, Any]]
"""Name and arguments of each tool call; ids are `call-0`, `call-1`, ..."""

USAGE: Mapping[str, Any] = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
RESPONSE_USAGE: Mapping[str, Any] = {
    "input_tokens": 12,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 3,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 15,
}
MESSAGE_USAGE: Mapping[str, Any] = {
    "input_tokens": 12,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 3,
}


# --- openai-chat and openai-completions


def choices(
    kind: str, choice: Mapping[str, Any], usage: Mapping[str, Any] | None
) -> dict[str, Any]:
    """An answer with one choice."""
    answer = {
        "id": "response-1",
        "object": kind,
        "created": 0,
        "model": "served-model",
        "choices": [{"index": 0, **choice}],
    }
    return answer if usage is None else {**answer, "usage": dict(usage)}


def chunk(delta: Mapping[str, Any], *, finish_reason: str | None = None) -> dict[str, Any]:
    """An event of a chat completion."""
    choice = {"delta": dict(delta), "finish_reason": finish_reason}
    return choices("chat.completion.chunk", choice, None)


# --- openai-responses


def output_text(text: str, *, index: int = 0, **more: Any) -> dict[str, Any]:
    """The output item that says something."""
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return output_message(part, index=index, **more)


def output_refusal(text: str) -> dict[str, Any]:
    """The output item that refuses."""
    return output_message({"type": "refusal", "refusal": text})


def output_message(part: Mapping[str, Any], *, index: int = 0, **more: Any) -> dict[str, Any]:
    """An output item with one part."""
    said = {"role": "assistant", "status": "completed", "content": [dict(part)]}
    return {"id": f"msg-{index}", "type": "message", **said, **more}


def output_call(name: str, arguments: str, *, index: int = 0) -> dict[str, Any]:
    """The output item of a tool call."""
    return {
        "id": f"fc-{index}",
        "type": "function_call",
        "status": "completed",
        "call_id": f"call-{index}",
        "name": name,
        "arguments": arguments,
    }


def output_reasoning(
    summary: str | None = None, *, encrypted: str | None = "opaque", shown: str | None = None
) -> dict[str, Any]:
    """The output item of reasoning: summarised, encrypted, or shown as open models do."""
    item: dict[str, Any] = {"id": "rs-0", "type": "reasoning", "summary": []}
    if summary is not None:
        item["summary"] = [{"type": "summary_text", "text": summary}]
    if shown is not None:
        item["content"] = [{"type": "reasoning_text", "text": shown}]
    return {**item, "encrypted_content": encrypted}


def response(
    output: Sequence[Mapping[str, Any]],
    *,
    status: str = "completed",
    reason: str | None = None,
    error: Mapping[str, Any] | None = None,
    usage: Mapping[str, Any] | None = RESPONSE_USAGE,
) -> dict[str, Any]:
    """A response. `reason` says why it is incomplete."""
    return {
        "id": "response-1",
        "object": "response",
        "created_at": 0,
        "status": status,
        "error": error,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": None,
        "metadata": {},
        "model": "served-model",
        "output": [dict(item) for item in output],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None if usage is None else dict(usage),
    }


# --- anthropic


def text_block(text: str) -> dict[str, Any]:
    """The content block that says something."""
    return {"type": "text", "text": text, "citations": None}


def thinking_block(thinking: str, signature: str = "signed") -> dict[str, Any]:
    """The content block of thinking that is shown."""
    return {"type": "thinking", "thinking": thinking, "signature": signature}


def redacted_block(data: str = "opaque") -> dict[str, Any]:
    """The content block of thinking that is not shown."""
    return {"type": "redacted_thinking", "data": data}


def tool_block(name: str, arguments: Mapping[str, Any], *, index: int = 0) -> dict[str, Any]:
    """The content block of a tool call."""
    return {"type": "tool_use", "id": f"call-{index}", "name": name, "input": dict(arguments)}


def message(
    content: Sequence[Mapping[str, Any]],
    *,
    stop_reason: str = "end_turn",
    stop_details: Mapping[str, Any] | None = None,
    usage: Mapping[str, Any] | None = MESSAGE_USAGE,
) -> dict[str, Any]:
    """A message."""
    answer = {
        "id": "response-1",
        "type": "message",
        "role": "assistant",
        "model": "served-model",
        "content": [dict(block) for block in content],
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "stop_details": stop_details,
    }
    return answer if usage is None else {**answer, "usage": dict(usage)}
