"""Which wire protocols there are, and which one a harness and an endpoint have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from agentcompass.components.messages import Message, Reply, Tool
from agentcompass.components.models.openai_chat import OpenAIChat
from agentcompass.components.models.openai_completions import OpenAICompletions
from agentcompass.components.models.openai_stream import StreamedAnswer
from agentcompass.errors import ConfigurationError
from agentcompass.records import JSON, Usage

AUTO: Final = "auto"


class Codec(Protocol):
    """A protocol's wire form: requests out of conversations, replies out of answers. Pure."""

    @property
    def name(self) -> str:
        """The protocol's name."""
        ...

    @property
    def operation(self) -> str:
        """The last part of the path that requests go to, as `chat/completions`."""
        ...

    def chat_body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, JSON]:
        """Return what a request for the next message says, model and parameters apart.

        Raises:
            ModelError: The protocol has no such call.
        """
        ...

    def completion_body(self, prompt: str, stop: Sequence[str]) -> dict[str, JSON]:
        """Return what a request to continue a text says; as for `chat_body`."""
        ...

    def new_stream(self) -> StreamedAnswer:
        """Return what collects the events of one streamed answer."""
        ...

    def reply(self, payload: Mapping[str, JSON], usage: Usage) -> Reply:
        """Read an answer.

        Raises:
            ModelError: It is none (`malformed-response`).
        """
        ...


CODECS: Final[Mapping[str, Codec]] = {
    codec.name: codec for codec in (OpenAIChat(), OpenAICompletions())
}

OPERATIONS: Final[Mapping[str, str]] = {
    "chat/completions": "openai-chat",
    "completions": "openai-completions",
    "responses": "openai-responses",
    "messages": "anthropic",
}
"""Which protocol a URL speaks that ends like this; longer endings first."""


def choose_codec(asked: Sequence[str], harness: Sequence[str], base_path: str) -> Codec:
    """Return the first protocol that the endpoint, the harness and this package speak.

    Args:
        asked: The user's choice, best first; `auto` stands for the harness's protocols, best first, or for the one
            that the URL itself names.
        harness: What the harness can use, best first.
        base_path: The path of the endpoint's URL.

    Raises:
        ConfigurationError: There is none.
    """
    wanted = [
        name
        for item in asked
        for name in (_automatic(harness, base_path) if item == AUTO else (item,))
    ]
    for name in wanted:
        if name in harness and name in CODECS:
            return CODECS[name]
    raise ConfigurationError(
        f"no model protocol in common: the model is set to {', '.join(asked) or 'none'}, "
        f"the harness speaks {', '.join(harness) or 'none'}, this package {', '.join(CODECS)}",
        hint="Set api_protocol to one that the harness speaks, or to auto.",
    )


def _automatic(harness: Sequence[str], base_path: str) -> Sequence[str]:
    named = operation_at_end(base_path)
    return harness if named is None else (OPERATIONS[named],)


def operation_at_end(path: str) -> str | None:
    """Return the operation that a URL's path ends with, if it is a complete one."""
    return next((name for name in OPERATIONS if path.rstrip("/").endswith("/" + name)), None)
