"""The one form of a conversation between harnesses and model protocols.

A protocol (`components/models/`) turns these into its wire form and back; a harness sees nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

from agentcompass.records import JSON, Usage

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


@attrs.frozen(kw_only=True)
class ToolCall:
    """A call that the model asks for. `arguments` is the text it sent: perhaps not valid JSON."""

    id: str
    name: str
    arguments: str


@attrs.frozen(kw_only=True)
class Message:
    """One message. `content` is text, or a tuple of parts in the OpenAI chat form (text, image_url)."""

    role: Role
    content: str | tuple[Mapping[str, JSON], ...] = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """Of an assistant message."""
    tool_call_id: str | None = None
    """Of a tool message: the call it answers."""
    reasoning: str | None = None
    """What a reasoning model showed of its thinking; not part of the answer."""

    @property
    def text(self) -> str:
        """The text of the message, parts joined."""
        if isinstance(self.content, str):
            return self.content
        return "".join(str(part.get("text", "")) for part in self.content)


@attrs.frozen(kw_only=True)
class Tool:
    """A function the model may call; `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: Mapping[str, JSON]


StopReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "other"]


@attrs.frozen(kw_only=True)
class Reply:
    """What one model call gave."""

    message: Message
    stop_reason: StopReason
    usage: Usage
    model: str | None = None
    """The model the endpoint says it used."""
    response_id: str | None = None
