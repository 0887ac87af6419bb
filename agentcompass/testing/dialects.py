"""Answers in the protocols of model endpoints, whole and as the events of a stream: plain data, as the APIs define it.

Each protocol has a function from what is said to the answer in one piece, and one from that answer to its events.
Tests hold all of them against the types of the official client packages (`unit/models/test_official_types.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
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


def chat_events(answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The chunks of a chat completion, usage last."""
    choice = answer["choices"][0]
    message = dict(choice["message"])
    yield chunk({"role": message.pop("role"), "content": ""})
    calls = message.pop("tool_calls", ())
    for name, value in message.items():
        if isinstance(value, str):
            yield from (chunk({name: piece}) for piece in halves(value))
        elif value is not None:
            yield chunk({name: value})
    for index, call in enumerate(calls):
        text = call["function"]["arguments"]
        begun = {**call, "function": {**call["function"], "arguments": ""}}
        yield chunk({"tool_calls": [{"index": index, **begun}]})
        for piece in halves(text):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, finish_reason=choice["finish_reason"])
    if "usage" in answer:
        yield {**chunk({}), "choices": [], "usage": answer["usage"]}


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


def response_events(answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of a response: every item begins, grows and is done, and the last event has all of it again."""
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    events = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(answer["output"]):
        events += _item_events(index, item)
    events.append({"type": f"response.{answer['status']}", "response": dict(answer)})
    return ({**event, "sequence_number": number} for number, event in enumerate(events))


def _item_events(index: int, item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    at = {"output_index": index, "item_id": item["id"]}
    hidden = {"content": [], "arguments": "", "encrypted_content": "not yet", "summary": []}
    begun = {name: hidden.get(name, value) for name, value in item.items()}
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    if item["type"] == "message":
        for place, part in enumerate(item["content"]):
            yield from _part_events({**at, "content_index": place}, part)
    if item["type"] == "function_call":
        for piece in halves(item["arguments"]):
            yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
        done = {"arguments": item["arguments"], "name": item["name"]}
        yield {"type": "response.function_call_arguments.done", **at, **done}
    yield {"type": "response.output_item.done", "output_index": index, "item": dict(item)}


def _part_events(at: Mapping[str, Any], part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    name = "refusal" if part["type"] == "refusal" else "text"
    kind = "response.refusal" if name == "refusal" else "response.output_text"
    logprobs: dict[str, Any] = {} if name == "refusal" else {"logprobs": []}
    yield {"type": "response.content_part.added", **at, "part": {**part, name: ""}}
    for piece in halves(part[name]):
        yield {"type": f"{kind}.delta", **at, "delta": piece, **logprobs}
    yield {"type": f"{kind}.done", **at, name: part[name], **logprobs}
    yield {"type": "response.content_part.done", **at, "part": dict(part)}


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


def message_events(answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of a message: the input is counted at the start, the output at the end, with a ping between."""
    usage = answer.get("usage")
    begun = {**answer, "content": [], "stop_reason": None, "stop_details": None}
    if usage is not None:
        begun["usage"] = {**usage, "output_tokens": 1}
    yield {"type": "message_start", "message": begun}
    yield {"type": "ping"}
    for index, block in enumerate(answer["content"]):
        yield from _block_events(index, block)
    ended = {name: answer[name] for name in ("stop_reason", "stop_sequence", "stop_details")}
    told = {} if usage is None else {"usage": {"output_tokens": usage["output_tokens"]}}
    yield {"type": "message_delta", "delta": ended, **told}
    yield {"type": "message_stop"}


_PIECES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "text": (("text", "text_delta"),),
    "thinking": (("thinking", "thinking_delta"), ("signature", "signature_delta")),
}


def _block_events(index: int, block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    pieces = _PIECES.get(block["type"], ())
    empty: dict[str, Any] = dict.fromkeys((name for name, _ in pieces), "")
    deltas: list[dict[str, Any]] = []
    for name, kind in pieces:
        # a signature comes in one piece
        parts = [block[name]] if name == "signature" else halves(block[name])
        deltas += [{"type": kind, name: part} for part in parts]
    if block["type"] == "tool_use":
        empty = {"input": {}}
        text = json.dumps(block["input"])
        deltas = [
            {"type": "input_json_delta", "partial_json": part} for part in ("", *halves(text))
        ]
    begun = {**block, **empty}
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def halves(text: str) -> tuple[str, ...]:
    """A text in two pieces, or in one if it is short."""
    middle = len(text) // 2
    return tuple(piece for piece in (text[:middle], text[middle:]) if piece)
