"""The `openai-chat` protocol: `POST chat/completions`. Pure.

Source: OpenAI API reference, "Create chat completion"; for what it has no word for: `reasoning_content` (DeepSeek,
SGLang, llama.cpp), `reasoning` (vLLM, Groq), `reasoning_details` (OpenRouter), `extra_content` of calls (Gemini).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Final, final

from agentcompass.components.messages import Message, Reply, Tool, ToolCall, Verbatim
from agentcompass.components.models.failures import cannot_send, malformed
from agentcompass.components.models.fields import arguments_text, call_name, named, text_or_none
from agentcompass.components.models.openai_common import (
    bearer,
    beside_call,
    choices_failure,
    first_choice,
    stop_reason,
    with_stream_usage,
)
from agentcompass.components.models.openai_stream import ChoiceStream
from agentcompass.records import JSON, Usage

_REASONING: Final = ("reasoning_content", "reasoning")
_SENT_BACK: Final = (*_REASONING, "reasoning_details", "extra_content")


@final
class OpenAIChat:
    """Conversations with tools.

    There is no common form of reasoning. With a message that calls tools, an endpoint is sent back what it said of its
    own, under the names that it used: some refuse a request without it, others every name but their own.
    """

    name: ClassVar[str] = "openai-chat"
    operation: ClassVar[str] = "chat/completions"

    def headers(self, key: str | None, host: str) -> dict[str, str]:
        """Return the header with the key."""
        return bearer(key)

    def chat_body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, JSON]:
        """Return messages and tools in their wire form."""
        body: dict[str, JSON] = {"messages": [_message(message) for message in messages]}
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
        return body

    def completion_body(self, prompt: str, stop: Sequence[str]) -> dict[str, JSON]:
        """Raise: this protocol cannot continue a text."""
        raise cannot_send(f"{self.name} has no call that continues a text; use openai-completions")

    def with_defaults(self, body: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return a request that asks for usage, if it is streamed."""
        return with_stream_usage(body)

    def new_stream(self) -> ChoiceStream:
        """Return what collects the events of one streamed answer."""
        return ChoiceStream()

    def failure(self, payload: Mapping[str, JSON]) -> JSON:
        """Return an error that came as if all were well; None if there is none."""
        return choices_failure(payload)

    def reply(self, payload: Mapping[str, JSON], usage: Usage) -> Reply:
        """Read an answer; raises `ModelError` (`malformed-response`) if it is none."""
        choice = first_choice(payload)
        message = choice.get("message")
        if not isinstance(message, Mapping):
            raise malformed("its choice has no message")
        content, thinking = _content(message)
        refusal = text_or_none(message.get("refusal"), "the refusal")
        text = content or refusal or ""
        calls = tuple(_tool_calls(message.get("tool_calls")))
        reason = stop_reason(choice)
        return Reply(
            message=Message(
                role="assistant",
                content=text,
                tool_calls=calls,
                reasoning=_reasoning(message) or thinking or None,
                verbatim=_verbatim(message, text, calls),
            ),
            stop_reason="refusal" if refusal and reason == "stop" else reason,
            usage=usage,
            model=named(payload, "model"),
            response_id=named(payload, "id"),
        )


def _message(message: Message) -> dict[str, JSON]:
    content = message.content if isinstance(message.content, str) else list(message.content)
    wire: dict[str, JSON] = {"role": message.role, "content": content}
    if message.tool_calls:
        own = _own_words(message)
        extras = own.pop("tool_calls", {})
        wire["content"] = content or None
        wire |= own
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
                **extras.get(call.id, {}),
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _own_words(message: Message) -> dict[str, JSON]:
    """What the endpoint said that the protocol has no field for; under `tool_calls`, by the id of each."""
    verbatim = message.verbatim
    if verbatim is None or verbatim.protocol != OpenAIChat.name:
        return {}
    return dict(verbatim.items[0])


def _verbatim(message: Mapping[str, JSON], text: str, calls: Sequence[ToolCall]) -> Verbatim | None:
    own = {name: message[name] for name in _SENT_BACK if message.get(name) is not None}
    extras = {
        call.id: kept
        for call, wire in zip(calls, message.get("tool_calls") or (), strict=True)
        if (kept := beside_call(wire))
    }
    if extras:
        own["tool_calls"] = extras
    return Verbatim(protocol=OpenAIChat.name, items=(own,), text=text) if own else None


def _tool(tool: Tool) -> dict[str, JSON]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    return {"type": "function", "function": function}


def _content(message: Mapping[str, JSON]) -> tuple[str | None, str]:
    """The text of a message, and thinking that some servers put among its parts."""
    content = message.get("content")
    if not isinstance(content, list):
        return text_or_none(content, "the content"), ""
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
        (value for name in _REASONING if isinstance(value := message.get(name), str) and value),
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
        yield ToolCall(
            # answers refer to calls by id: one without gets its place
            id=str(call.get("id") or f"call_{index}"),
            name=call_name(function),
            arguments=arguments_text(function.get("arguments")),
        )
