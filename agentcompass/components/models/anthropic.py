"""The `anthropic` protocol: `POST messages`. Pure.

Source: Anthropic API reference, "Create a Message", "Extended thinking", "Prompt caching", "Versioning"; the servers
that imitate it (vLLM, SGLang, Ollama, llama.cpp, DeepSeek, gateways).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, final

import attrs

from agentcompass.components.messages import Message, Reply, StopReason, Tool, ToolCall, Verbatim
from agentcompass.components.models.anthropic_stream import AnthropicStream
from agentcompass.components.models.failures import cannot_send, malformed
from agentcompass.components.models.fields import (
    arguments_object,
    arguments_text,
    call_name,
    named,
    objects,
    text_at,
)
from agentcompass.components.models.verbatim import Item, replayed
from agentcompass.records import JSON, Usage

VERSION: Final = "2023-06-01"
"""Not the newer 2026-10-21, which answers in the same form but refuses `temperature`, `top_p` and `top_k`."""
HOST: Final = "api.anthropic.com"
DEFAULT_MAX_TOKENS: Final = 21_333
"""`max_tokens` where the user sets none, since a request must have it: what Anthropic's own client allows without
streaming, which is an hour for 128,000 tokens and ten minutes at most."""

_STOP_REASONS: Final[Mapping[JSON, StopReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}
_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)


@final
class Anthropic:
    """Conversations with tools and thinking."""

    name: ClassVar[str] = "anthropic"
    operation: ClassVar[str] = "messages"

    def headers(self, key: str | None, host: str) -> dict[str, str]:
        """Return version and key; to others than Anthropic, some of which look nowhere else, it is a bearer token too."""
        headers = {"anthropic-version": VERSION}
        if key:
            headers["x-api-key"] = key
            if host != HOST:
                headers["Authorization"] = f"Bearer {key}"
        return headers

    def chat_body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, JSON]:
        """Return messages and tools in their wire form; all system messages stand before the conversation."""
        body: dict[str, JSON] = {"messages": _turns(messages)}
        system = [
            block for message in messages if message.role == "system" for block in _content(message)
        ]
        if system:
            body["system"] = system
        if tools:
            body["tools"] = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": dict(tool.parameters),
                }
                for tool in tools
            ]
        return body

    def completion_body(self, prompt: str, stop: Sequence[str]) -> dict[str, JSON]:
        """Raise: this protocol cannot continue a text."""
        raise cannot_send(f"{self.name} has no call that continues a text; use openai-completions")

    def with_defaults(self, body: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return a request with a `max_tokens`."""
        return {"max_tokens": DEFAULT_MAX_TOKENS, **body}

    def new_stream(self) -> AnthropicStream:
        """Return what collects the events of one streamed answer."""
        return AnthropicStream()

    def failure(self, payload: Mapping[str, JSON]) -> JSON:
        """Return an error that came as if all were well; None if there is none."""
        return payload if payload.get("type") == "error" or payload.get("error") else None

    def reply(self, payload: Mapping[str, JSON], usage: Usage) -> Reply:
        """Read an answer; raises `ModelError` (`malformed-response`) if it is none."""
        if not isinstance(payload.get("content"), list):
            raise malformed("it has no content")
        said = objects(payload["content"], "its content")
        blocks = [_usable(block, index) for index, block in enumerate(said)]
        text = "".join(text_at(block, "text", "a block") for block in said if _FORM.is_text(block))
        thinking = [text_at(block, "thinking", "a block") for block in said]
        calls = [
            # as the model wrote them, which is not always what can be sent back
            attrs.evolve(call, arguments=arguments_text(given.get("input")))
            for block, given in zip(blocks, said, strict=True)
            if (call := _FORM.call_of(block)) is not None
        ]
        text = text or _explanation(payload)
        message = Message(
            role="assistant",
            content=text,
            tool_calls=tuple(calls),
            reasoning="\n\n".join(filter(None, thinking)) or None,
            verbatim=Verbatim(
                protocol=self.name,
                items=tuple(block for block in blocks if not _is_blank(block)),
                text=text,
            ),
        )
        reason = payload.get("stop_reason")
        return Reply(
            message=message,
            stop_reason=_STOP_REASONS.get(reason, "other") if isinstance(reason, str) else "other",
            usage=usage,
            model=named(payload, "model"),
            response_id=named(payload, "id"),
        )


@final
class _Form:
    """The content blocks of a reply."""

    name: ClassVar[str] = Anthropic.name

    def is_text(self, item: Item) -> bool:
        return item.get("type") == "text"

    def is_reasoning(self, item: Item) -> bool:
        return item.get("type") in ("thinking", "redacted_thinking")

    def call_of(self, item: Item) -> ToolCall | None:
        if item.get("type") != "tool_use":
            return None
        arguments = arguments_text(item.get("input"))
        return ToolCall(id=item["id"], name=call_name(item), arguments=arguments)

    def text_item(self, text: str) -> Item:
        return {"type": "text", "text": text}

    def call_item(self, call: ToolCall) -> Item:
        return {
            "type": "tool_use",
            "id": call.id,
            "name": call.name,
            "input": arguments_object(call.arguments),
        }


_FORM: Final = _Form()


def _turns(messages: Iterable[Message]) -> list[JSON]:
    """User and assistant by turns: all results of parallel calls must be in one message, the first after them."""
    turns: list[dict[str, JSON]] = []
    for message in messages:
        content = [] if message.role == "system" else _content(message)
        role = "assistant" if message.role == "assistant" else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += content
        elif content:
            turns.append({"role": role, "content": content})
    return list(turns)


def _content(message: Message) -> list[Item]:
    """The blocks of one message; a text that is blank is refused by the endpoint, and left out."""
    if message.role == "assistant":
        return replayed(message, _FORM)
    if message.role == "tool":
        return [_result(message)]
    if isinstance(message.content, str):
        blocks: Iterable[Item] = [_FORM.text_item(message.content)]
    else:
        blocks = map(_block, message.content)
    return [block for block in blocks if not _is_blank(block)]


def _is_blank(block: Item) -> bool:
    return block.get("type") == "text" and not str(block.get("text", "")).strip()


def _result(message: Message) -> Item:
    result: dict[str, JSON] = {"type": "tool_result", "tool_use_id": message.tool_call_id}
    if isinstance(message.content, str):
        content: JSON = message.content
    else:
        content = [block for part in message.content if not _is_blank(block := _block(part))]
    return {**result, "content": content} if content else result


def _block(part: Item) -> Item:
    """A part of a message, with its caching marker; one of another kind goes as it is."""
    kept = {name: part[name] for name in ("cache_control",) if name in part}
    if part.get("type") == "text":
        return {"type": "text", "text": part.get("text"), **kept}
    if part.get("type") != "image_url":
        return part
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, Mapping) else image
    if not isinstance(url, str):
        raise cannot_send("an image of a message has no URL")
    return {"type": "image", "source": _source(url), **kept}


def _source(url: str) -> JSON:
    if not url.startswith("data:"):
        return {"type": "url", "url": url}
    found = _DATA_URL.fullmatch(url)
    if found is None:
        raise cannot_send("an image of a message is no base64 data URL")
    return {"type": "base64", "media_type": found[1], "data": found[2]}


def _usable(block: Item, index: int) -> Item:
    """A block as it can be sent back: a call has an id, and an object as its input, also where it was cut off."""
    if block.get("type") != "tool_use":
        return block
    given = block.get("input")
    return {
        **block,
        "id": named(block, "id") or f"call_{index}",
        "input": given if isinstance(given, dict) else arguments_object(arguments_text(given)),
    }


def _explanation(payload: Mapping[str, JSON]) -> str:
    """Why there is no text, where a refusal says so."""
    details = payload.get("stop_details")
    return (named(details, "explanation") or "") if isinstance(details, Mapping) else ""
