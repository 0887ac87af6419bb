"""The `openai-responses` protocol: `POST responses`. Pure.

Each request carries the whole conversation; nothing is left to the endpoint's memory. Source: OpenAI API reference,
"Create a response"; the guides "Reasoning models" and "Conversation state"; vLLM, llama.cpp and Ollama, which imitate it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, final

from agentcompass.components.messages import Message, Reply, StopReason, Tool, ToolCall, Verbatim
from agentcompass.components.models.failures import cannot_send, malformed
from agentcompass.components.models.fields import (
    arguments_text,
    call_name,
    named,
    objects,
    text_at,
)
from agentcompass.components.models.openai_common import bearer
from agentcompass.components.models.openai_responses_stream import ResponsesStream
from agentcompass.components.models.verbatim import Item, replayed
from agentcompass.records import JSON, Usage

_ENCRYPTED: Final = "reasoning.encrypted_content"
_UNFINISHED: Final[Mapping[JSON, StopReason]] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}
_OPEN_STATUSES: Final = ("queued", "in_progress", "cancelled")


@final
class OpenAIResponses:
    """Conversations with tools and reasoning."""

    name: ClassVar[str] = "openai-responses"
    operation: ClassVar[str] = "responses"

    def headers(self, key: str | None, host: str) -> dict[str, str]:
        """Return the header with the key."""
        return bearer(key)

    def chat_body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, JSON]:
        """Return messages and tools in their wire form."""
        body: dict[str, JSON] = {"input": [item for each in messages for item in _items(each)]}
        if tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                    # without it the endpoint asks more of a schema than the other protocols do
                    "strict": False,
                }
                for tool in tools
            ]
        return body

    def completion_body(self, prompt: str, stop: Sequence[str]) -> dict[str, JSON]:
        """Raise: this protocol cannot continue a text."""
        raise cannot_send(f"{self.name} has no call that continues a text; use openai-completions")

    def with_defaults(self, body: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return a request that asks for reasoning in a form that can be sent back, where reasoning is set at all."""
        if body.get("reasoning") is None:  # models that do not reason refuse to be asked
            return dict(body)
        return {"include": [_ENCRYPTED], **body}

    def new_stream(self) -> ResponsesStream:
        """Return what collects the events of one streamed answer."""
        return ResponsesStream()

    def failure(self, payload: Mapping[str, JSON]) -> JSON:
        """Return an error that came as if all were well; None if there is none."""
        return payload if payload.get("error") or payload.get("status") == "failed" else None

    def reply(self, payload: Mapping[str, JSON], usage: Usage) -> Reply:
        """Read an answer; raises `ModelError` (`malformed-response`) if it is none."""
        status = payload.get("status")
        if status in _OPEN_STATUSES:
            raise malformed(f"its status is {status!r}")
        if not isinstance(payload.get("output"), list):
            raise malformed("it has no output")
        items = [
            _usable(item, index)
            for index, item in enumerate(objects(payload["output"], "its output"))
        ]
        calls = tuple(call for call in map(_FORM.call_of, items) if call is not None)
        # notes on the way are no part of the answer, unless there is nothing else
        texts = [_text(item) for item in items if _FORM.is_text(item) and not _is_note(item)]
        notes = [_text(item) for item in items if _is_note(item)]
        thoughts = [_thought(item) for item in items if item.get("type") == "reasoning"]
        if not texts and not calls:
            texts, notes = notes, []
        text = "".join(texts)
        message = Message(
            role="assistant",
            content=text,
            tool_calls=calls,
            reasoning="\n\n".join(filter(None, [*thoughts, *notes])) or None,
            verbatim=Verbatim(protocol=self.name, items=tuple(items), text=text),
        )
        return Reply(
            message=message,
            stop_reason=_stop_reason(payload, items, calls),
            usage=usage,
            model=named(payload, "model"),
            response_id=named(payload, "id"),
        )


@final
class _Form:
    """The output items of a response."""

    name: ClassVar[str] = OpenAIResponses.name

    def is_text(self, item: Item) -> bool:
        return item.get("type") == "message"

    def is_reasoning(self, item: Item) -> bool:
        return item.get("type") == "reasoning"

    def call_of(self, item: Item) -> ToolCall | None:
        if item.get("type") != "function_call":
            return None
        arguments = arguments_text(item.get("arguments"))
        return ToolCall(id=item["call_id"], name=call_name(item), arguments=arguments)

    def text_item(self, text: str) -> Item:
        return {"type": "message", "role": "assistant", "content": text}

    def call_item(self, call: ToolCall) -> Item:
        return {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments or "{}",
        }


_FORM: Final = _Form()


def _items(message: Message) -> Iterable[Item]:
    if message.role == "assistant":
        return replayed(message, _FORM)
    content: JSON = message.content
    if not isinstance(content, str):
        content = [_part(part) for part in content]
    if message.role == "tool":
        return [
            {"type": "function_call_output", "call_id": message.tool_call_id, "output": content}
        ]
    return [{"type": "message", "role": message.role, "content": content}]


def _part(part: Item) -> Item:
    """A part of a message, with its caching marker; one of another kind goes as it is."""
    kept = {name: part[name] for name in ("prompt_cache_breakpoint",) if name in part}
    if part.get("type") == "text":
        return {"type": "input_text", "text": part.get("text"), **kept}
    if part.get("type") != "image_url":
        return part
    image = part.get("image_url")
    given = image if isinstance(image, Mapping) else {"url": image}
    return {
        "type": "input_image",
        "image_url": given.get("url"),
        "detail": given.get("detail") or "auto",
        **kept,
    }


def _usable(item: Item, index: int) -> Item:
    """An item as it can be sent back: without nulls, which the endpoint refuses, and a call with its id."""
    kept = {name: value for name, value in item.items() if value is not None}
    if item.get("type") == "function_call":
        kept["call_id"] = named(item, "call_id") or f"call_{index}"
    return kept


def _is_note(item: Item) -> bool:
    return _FORM.is_text(item) and item.get("phase") == "commentary"


def _text(item: Item) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    parts = objects(content, "the content of a message")
    return "".join(
        text_at(part, "text", "a part") or text_at(part, "refusal", "a part") for part in parts
    )


def _thought(item: Item) -> str:
    """The reasoning as far as it is shown: word for word by open models, else summarised."""
    for name in ("content", "summary"):
        shown = [
            text_at(part, "text", "reasoning") for part in objects(item.get(name), "reasoning")
        ]
        if any(shown):
            return "\n\n".join(shown)
    return ""


def _stop_reason(
    payload: Mapping[str, JSON], items: Iterable[Item], calls: Sequence[ToolCall]
) -> StopReason:
    if payload.get("status") == "incomplete":
        details = payload.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, Mapping) else None
        return _UNFINISHED.get(reason, "other") if isinstance(reason, str) else "other"
    if calls:
        return "tool_calls"
    texts = (item.get("content") for item in items if _FORM.is_text(item))
    parts = (part for content in texts if isinstance(content, list) for part in content)
    return "refusal" if any(part.get("type") == "refusal" for part in parts) else "stop"
