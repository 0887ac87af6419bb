"""Which wire protocols there are, and which one a harness and an endpoint have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from agentcompass.components.messages import Message, Reply, Tool
from agentcompass.components.models import anthropic
from agentcompass.components.models.anthropic import Anthropic
from agentcompass.components.models.openai_chat import OpenAIChat
from agentcompass.components.models.openai_completions import OpenAICompletions
from agentcompass.components.models.openai_responses import OpenAIResponses
from agentcompass.errors import ConfigurationError
from agentcompass.records import JSON, Usage
from agentcompass.spec.protocols import AUTO


class StreamedAnswer(Protocol):
    """Puts a streamed answer together: the same object as the endpoint would have sent in one piece."""

    @property
    def usage(self) -> JSON:
        """The usage so far; None while nothing of it can be relied on."""
        ...

    @property
    def error(self) -> JSON:
        """What came as an error instead of the rest; None if nothing did."""
        ...

    @property
    def is_finished(self) -> bool:
        """Whether the endpoint said why the answer ends."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether nothing more of the answer comes: what an endpoint sends after that is not waited for."""
        ...

    def add(self, payload: JSON) -> None:
        """Take the data of one event.

        Raises:
            ModelError: It is none (`malformed-response`).
        """
        ...

    def whole(self) -> Mapping[str, JSON]:
        """Return the answer in one piece."""
        ...


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

    def headers(self, key: str | None, host: str) -> dict[str, str]:
        """Return the headers that the protocol has of its own.

        Args:
            key: Authenticates; None where the endpoint needs none.
            host: Of the endpoint.
        """
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

    def with_defaults(self, body: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return a whole request, with what it needs and nobody has set."""
        ...

    def new_stream(self) -> StreamedAnswer:
        """Return what collects the events of one streamed answer."""
        ...

    def failure(self, payload: Mapping[str, JSON]) -> JSON:
        """Return the error of an answer that came as if all were well; None if there is none."""
        ...

    def reply(self, payload: Mapping[str, JSON], usage: Usage) -> Reply:
        """Read an answer.

        Raises:
            ModelError: It is none (`malformed-response`).
        """
        ...


CODECS: Final[Mapping[str, Codec]] = {
    codec.name: codec
    for codec in (OpenAIChat(), OpenAIResponses(), Anthropic(), OpenAICompletions())
}

OPERATIONS: Final[Mapping[str, str]] = {
    "chat/completions": "openai-chat",
    "completions": "openai-completions",
    "responses": "openai-responses",
    "messages": "anthropic",
}
"""Which protocol a URL speaks that ends like this; longer endings first."""


def choose_codec(
    asked: Sequence[str], harness: Sequence[str], base_path: str, host: str = ""
) -> Codec:
    """Return the first protocol that the endpoint, the harness and this package speak.

    `auto` stands for the protocol whose operation the URL ends with. Otherwise it stands for those of the harness, best
    first, but `anthropic` before all others where the URL says so: the host is Anthropic's, or a part of the path is
    `anthropic`, as it is for servers that speak several protocols.

    Args:
        asked: The user's choice, best first.
        harness: What the harness can use, best first.
        base_path: The path of the endpoint's URL.
        host: The host of the endpoint's URL.

    Raises:
        ConfigurationError: There is none.
    """
    wanted = [
        name
        for item in asked
        for name in (_automatic(harness, base_path, host) if item == AUTO else (item,))
    ]
    for name in wanted:
        if name in harness and name in CODECS:
            return CODECS[name]
    raise ConfigurationError(
        f"no model protocol in common: the model is set to {', '.join(asked) or 'none'}, "
        f"the harness speaks {', '.join(harness) or 'none'}, this package {', '.join(CODECS)}",
        hint="Set api_protocol to one that the harness speaks, or to auto.",
    )


def _automatic(harness: Sequence[str], base_path: str, host: str) -> Sequence[str]:
    named = operation_at_end(base_path)
    if named is not None:
        return (OPERATIONS[named],)
    if host == anthropic.HOST or Anthropic.name in base_path.split("/"):
        return (Anthropic.name, *harness)
    return harness


def operation_at_end(path: str) -> str | None:
    """Return the operation that a URL's path ends with, if it is a complete one."""
    return next((name for name in OPERATIONS if path.rstrip("/").endswith("/" + name)), None)
