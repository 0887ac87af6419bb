"""A whole answer as the events of a stream, as an endpoint of its protocol would have sent them. Pure.

What `StreamedAnswer` puts together is taken apart again: a program that asks for a stream gets one, whatever answers it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from agentcompass.net.sse import DONE
from agentcompass.records import JSON

Event = dict[str, Any]


def unrolled(protocol: str, answer: Mapping[str, JSON]) -> Iterator[bytes]:
    """Return the stream of an answer, an event each."""
    if protocol in ("anthropic", "openai-responses"):
        make = message_events if protocol == "anthropic" else response_events
        for event in make(answer):
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
        return
    for event in chat_events(answer):
        yield f"data: {json.dumps(event)}\n\n".encode()
    yield f"data: {DONE}\n\n".encode()


# --- openai-chat and openai-completions


def chat_events(answer: Mapping[str, Any]) -> Iterator[Event]:
    """The chunks of a completion, usage last."""
    is_text = any("text" in choice for choice in answer["choices"])
    head = {
        "id": answer.get("id") or "answer",
        "object": "text_completion" if is_text else "chat.completion.chunk",
        "created": answer.get("created") or 0,
        "model": answer.get("model") or "",
    }
    for choice in answer["choices"]:
        ended = {"finish_reason": choice.get("finish_reason")}
        for part in _choice_parts(choice, ended):
            yield {**head, "choices": [{"index": choice.get("index") or 0, **part}]}
    if answer.get("usage") is not None:
        yield {**head, "choices": [], "usage": answer["usage"]}


def _choice_parts(choice: Mapping[str, Any], ended: Event) -> Iterator[Event]:
    if "message" not in choice:
        yield from ({"text": piece, "finish_reason": None} for piece in halves(choice["text"]))
        yield {"text": "", **ended}
        return
    for delta in _deltas(choice["message"]):
        yield {"delta": delta, "finish_reason": None}
    yield {"delta": {}, **ended}


def _deltas(message: Mapping[str, Any]) -> Iterator[Event]:
    yield {"role": message.get("role") or "assistant", "content": ""}
    for name, value in message.items():
        if name in ("role", "tool_calls"):
            continue
        if isinstance(value, str):
            yield from ({name: piece} for piece in halves(value))
        elif value is not None:
            yield {name: value}
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") or {}
        begun = {**call, "function": {**function, "arguments": ""}}
        yield {"tool_calls": [{"index": index, **begun}]}
        for piece in halves(function.get("arguments") or ""):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


# --- openai-responses


def response_events(answer: Mapping[str, Any]) -> Iterator[Event]:
    """The events of a response: every item begins, grows and is done, and the last event has all of it again."""
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    events: list[Event] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(answer["output"]):
        events += _item_events(index, item)
    status = answer.get("status") or "completed"
    events.append({"type": f"response.{status}", "response": dict(answer)})
    return ({**event, "sequence_number": number} for number, event in enumerate(events))


def _item_events(index: int, item: Mapping[str, Any]) -> Iterator[Event]:
    at = {"output_index": index, "item_id": item.get("id") or ""}
    hidden = {"content": [], "arguments": "", "encrypted_content": "not yet", "summary": []}
    begun = {name: hidden.get(name, value) for name, value in item.items()}
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    if item.get("type") == "message":
        for place, part in enumerate(item.get("content") or ()):
            yield from _part_events({**at, "content_index": place}, part)
    if item.get("type") == "function_call":
        arguments = item.get("arguments") or ""
        for piece in halves(arguments):
            yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
        done = {"arguments": arguments, "name": item.get("name")}
        yield {"type": "response.function_call_arguments.done", **at, **done}
    yield {"type": "response.output_item.done", "output_index": index, "item": dict(item)}


def _part_events(at: Mapping[str, Any], part: Mapping[str, Any]) -> Iterator[Event]:
    name = "refusal" if part.get("type") == "refusal" else "text"
    kind = "response.refusal" if name == "refusal" else "response.output_text"
    logprobs: Event = {} if name == "refusal" else {"logprobs": []}
    text = part.get(name) or ""
    yield {"type": "response.content_part.added", **at, "part": {**part, name: ""}}
    for piece in halves(text):
        yield {"type": f"{kind}.delta", **at, "delta": piece, **logprobs}
    yield {"type": f"{kind}.done", **at, name: text, **logprobs}
    yield {"type": "response.content_part.done", **at, "part": dict(part)}


# --- anthropic

_ENDS: Final = ("stop_reason", "stop_sequence", "stop_details")
_PIECES: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "text": (("text", "text_delta"),),
    "thinking": (("thinking", "thinking_delta"), ("signature", "signature_delta")),
}
"""By type of block: what of it comes in pieces, and in which type of delta."""
_CALLS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
"""Types of blocks whose input comes in pieces."""


def message_events(answer: Mapping[str, Any]) -> Iterator[Event]:
    """The events of a message: the input is counted at the start, the output at the end, with a ping between."""
    usage = answer.get("usage")
    ends = [name for name in _ENDS if name in answer]
    begun = {**answer, **dict.fromkeys(ends), "content": []}
    if usage is not None:
        begun["usage"] = {**usage, "output_tokens": 1}
    yield {"type": "message_start", "message": begun}
    yield {"type": "ping"}
    for index, block in enumerate(answer["content"]):
        yield from _block_events(index, block)
    told = {} if usage is None else {"usage": {"output_tokens": usage.get("output_tokens") or 0}}
    yield {"type": "message_delta", "delta": {name: answer[name] for name in ends}, **told}
    yield {"type": "message_stop"}


def _block_events(index: int, block: Mapping[str, Any]) -> Iterator[Event]:
    begun, deltas = dict(block), []
    for name, kind in _PIECES.get(block["type"], ()):
        # a signature comes in one piece
        text = block.get(name) or ""
        parts: Sequence[str] = [text] if name == "signature" else halves(text)
        begun[name] = ""
        deltas += [{"type": kind, name: part} for part in parts]
    if block["type"] in _CALLS:
        given = block.get("input")
        begun["input"] = {}
        text = given if isinstance(given, str) else json.dumps(given or {})
        parts = ("", *halves(text))
        deltas += [{"type": "input_json_delta", "partial_json": part} for part in parts]
    if citations := block.get("citations"):
        begun["citations"] = []
        deltas += [{"type": "citations_delta", "citation": each} for each in citations]
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    yield from ({"type": "content_block_delta", "index": index, "delta": each} for each in deltas)
    yield {"type": "content_block_stop", "index": index}


def halves(text: str) -> tuple[str, ...]:
    """A text in two pieces, or in one if it is short."""
    middle = len(text) // 2
    return tuple(piece for piece in (text[:middle], text[middle:]) if piece)
