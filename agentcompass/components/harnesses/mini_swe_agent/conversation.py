"""Between the package's messages, which are dicts in the form of OpenAI's chat, and ours. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, final

import attrs

from agentcompass.components.harnesses.mini_swe_agent.config import CacheControl, ModelKwargs
from agentcompass.components.harnesses.tool_loop.conversation import acceptable
from agentcompass.components.messages import Message, Reply, Role
from agentcompass.records import JSON

ANTHROPIC: Final = "anthropic"
_MARK: Final[Mapping[str, JSON]] = {"cache_control": {"type": "ephemeral"}}


@final
class Said(dict[str, Any]):
    """A reply as the package keeps it, with the message it was made from: only that can be sent back with its reasoning."""

    def __init__(self, reply: Reply, **extra: JSON) -> None:
        message = reply.message
        super().__init__(role="assistant", content=message.content or None, extra=extra)
        self.message = acceptable(message)
        if message.reasoning is not None:
            self["reasoning_content"] = message.reasoning
        if message.tool_calls:
            self["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in message.tool_calls
            ]


def ours(
    messages: Sequence[Mapping[str, Any]], cache_control: CacheControl | None, protocol: str
) -> list[Message]:
    """Return a conversation as it is sent.

    Args:
        messages: The package's.
        cache_control: Whether the last message is marked for the endpoint's cache; None: if the protocol has such marks.
        protocol: Of the endpoint.
    """
    sent = [message.message if isinstance(message, Said) else told(message) for message in messages]
    if cache_control == "default_end" or (cache_control is None and protocol == ANTHROPIC):
        sent[-1] = _marked(sent[-1])
    return sent


def request_params(kwargs: ModelKwargs, protocol: str) -> dict[str, JSON]:
    """Return what goes into each request beside the conversation, in the words of the protocol."""
    allowed = kwargs.parallel_tool_calls
    if protocol != ANTHROPIC:
        return {} if allowed is None else {"parallel_tool_calls": allowed}
    # there, several calls are allowed unless forbidden
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    return {"tool_choice": choice} if allowed is False else {}


def told(message: Mapping[str, Any]) -> Message:
    """Return a message to the model."""
    role: Role = message["role"]
    return Message(role=role, content=message["content"], tool_call_id=message.get("tool_call_id"))


def calls_of(reply: Reply) -> list[Any]:
    """Return the calls of a reply as objects like those of OpenAI's package, which is what the package reads."""
    return [
        SimpleNamespace(
            id=call.id, function=SimpleNamespace(name=call.name, arguments=call.arguments)
        )
        for call in reply.message.tool_calls
    ]


def kept(reply: Reply) -> dict[str, JSON]:
    """Return what the package keeps of a reply beside the message."""
    return {
        "cost": reply.usage.cost_usd or 0.0,
        "response": {
            "id": reply.response_id,
            "model": reply.model,
            "finish_reason": reply.stop_reason,
            "content": reply.message.content,
            "usage": attrs.asdict(reply.usage),
        },
    }


def _marked(message: Message) -> Message:
    return attrs.evolve(message, content=({"type": "text", "text": message.text, **_MARK},))
