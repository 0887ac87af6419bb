"""The one form of a conversation between harnesses and model protocols.

A protocol (`components/models/`) turns these into its wire form and back; a harness sees nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from agentcompass.data import frozen
from agentcompass.records import JSON, Usage

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]


@frozen(kw_only=True)
class ToolCall:
    """A call that the model asks for. `arguments` is the text it sent: perhaps not valid JSON."""

    id: str
    name: str
    arguments: str


@frozen(kw_only=True)
class Verbatim:
    """A reply in its endpoint's own words: signatures and encrypted reasoning are valid only as they came.

    The protocol it is from sends it back in the place of the message, with what a harness has changed in text and
    tool calls since; the other protocols know nothing of it.
    """

    protocol: str
    items: tuple[Mapping[str, JSON], ...]
    """Content blocks (`anthropic`), output items (`openai-responses`), or one object of fields (`openai-chat`)."""
    text: str
    """The text of the message that was read from them: another text there is a harness's."""


@frozen(kw_only=True)
class Message:
    """One message. `content` is text, or a tuple of parts, for every protocol in the OpenAI chat form.

    A part is `{"type": "text", "text": ...}` or `{"type": "image_url", "image_url": {"url": ...}}`, where the URL may
    hold the image (`data:image/png;base64,...`); what has another `type` goes to the endpoint as it is. A part may
    carry a marker that ends a prefix worth caching: `cache_control` as `anthropic` defines it, or
    `prompt_cache_breakpoint` as the OpenAI protocols do. Each protocol sends the markers that it knows.
    """

    role: Role
    content: str | tuple[Mapping[str, JSON], ...] = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """Of an assistant message."""
    tool_call_id: str | None = None
    """Of a tool message: the call it answers."""
    reasoning: str | None = None
    """What a reasoning model showed of its thinking; not part of the answer, and not sent back."""
    verbatim: Verbatim | None = None
    """Of a reply: what is sent back in its place, so that thinking goes on from turn to turn."""

    @property
    def text(self) -> str:
        """The text of the message, parts joined."""
        if isinstance(self.content, str):
            return self.content
        return "".join(str(part.get("text", "")) for part in self.content)


@frozen(kw_only=True)
class Tool:
    """A function the model may call; `parameters` is a JSON Schema object."""

    name: str
    description: str
    parameters: Mapping[str, JSON]


StopReason: TypeAlias = Literal[
    "stop", "length", "tool_calls", "refusal", "content_filter", "other"
]


@frozen(kw_only=True)
class Reply:
    """What one model call gave."""

    message: Message
    stop_reason: StopReason
    usage: Usage
    model: str | None = None
    """The model the endpoint says it used."""
    response_id: str | None = None
