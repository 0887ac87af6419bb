"""The `openai-chat` protocol: `POST chat/completions`. Pure.

Source: OpenAI API reference, "Create chat completion"; `reasoning_content` and `reasoning` as DeepSeek, vLLM, SGLang
and OpenRouter send them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, final

from agentcompass.components.messages import Message, Reply, Tool, ToolCall
from agentcompass.components.models.failures import cannot_send, malformed
from agentcompass.components.models.openai_common import (
    first_choice,
    named,
    stop_reason,
    text_or_none,
)
from agentcompass.components.models.openai_stream import StreamedAnswer
from agentcompass.records import JSON, Usage


@final
class OpenAIChat:
    """Conversations with tools. Reasoning is read but not sent back: most endpoints refuse or ignore it."""

    name: ClassVar[str] = "openai-chat"
    operation: ClassVar[str] = "chat/completions"

    def chat_body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, JSON]:
        """Return messages and tools in their wire form."""
        body: dict[str, JSON] = {"messages": [_message(message) for message in messages]}
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        return body

    def completion_body(self, prompt: str, stop: Sequence[str]) -> dict[str, JSON]:
        """Raise: this protocol cannot continue a text."""
        raise cannot_send(f"{self.name} has no call that continues a text; use openai-completions")

    def new_stream(self) -> StreamedAnswer:
        """Return what collects the events of one streamed answer."""
        return StreamedAnswer()

    def reply(self, payload: Mapping[str, JSON], usage: Usage) -> Reply:
        """Read an answer; raises `ModelError` (`malformed-response`) if it is none."""
        choice = first_choice(payload)
        message = choice.get("message")
        if not isinstance(message, Mapping):
            raise malformed("its choice has no message")
        content, thinking = _content(message)
        return Reply(
            message=Message(
                role="assistant",
                content=content,
                tool_calls=tuple(_tool_calls(message.get("tool_calls"))),
                reasoning=_reasoning(message) or thinking or None,
            ),
            stop_reason=stop_reason(choice),
            usage=usage,
            model=named(payload, "model"),
            response_id=named(payload, "id"),
        )


def _message(message: Message) -> dict[str, JSON]:
    content = message.content if isinstance(message.content, str) else list(message.content)
    wire: dict[str, JSON] = {"role": message.role, "content": content}
    if message.tool_calls:
        wire["content"] = content or None
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _tool(tool: Tool) -> dict[str, JSON]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def _content(message: Mapping[str, JSON]) -> tuple[str, str]:
    """The text of a message, and thinking that some servers put among its parts."""
    content = message.get("content")
    if not isinstance(content, list):
        text = text_or_none(content, "the content")
        return (
            text_or_none(message.get("refusal"), "the refusal") or ""
        ) if text is None else text, ""
    parts = [part for part in content if isinstance(part, Mapping)]
    if len(parts) < len(content):
        raise malformed("a part of its content is no object")
    return (
        "".join(_part_text(part, "text") for part in parts),
        "".join(_part_text(part, "thinking") for part in parts),
    )


def _part_text(part: Mapping[str, JSON], name: str) -> str:
    value = part.get(name)
    if isinstance(value, list):  # thinking may again consist of parts
        return "".join(_part_text(inner, "text") for inner in value if isinstance(inner, Mapping))
    return text_or_none(value, f"a part's {name}") or ""


def _reasoning(message: Mapping[str, JSON]) -> str:
    return next(
        (
            value
            for name in ("reasoning_content", "reasoning")
            if isinstance(value := message.get(name), str) and value
        ),
        "",
    )


def _tool_calls(calls: JSON) -> Iterable[ToolCall]:
    if calls is None:
        return
    if not isinstance(calls, list):
        raise malformed("its tool calls are no list")
    for index, call in enumerate(calls):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            raise malformed("a tool call names no function")
        name = function.get("name")
        if not isinstance(name, str) or not name:
            raise malformed("a tool call has no name")
        arguments = function.get("arguments")
        yield ToolCall(
            # answers refer to calls by id: one without gets its place
            id=str(call.get("id") or f"call_{index}"),
            name=name,
            arguments=_arguments(arguments),
        )


def _arguments(value: JSON) -> str:
    """Arguments as text: an object, which some servers send, becomes what it should have been."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
