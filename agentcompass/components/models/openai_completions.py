"""The `openai-completions` protocol: `POST completions`, for base models. Pure.

Source: OpenAI API reference, "Create completion" (legacy), as self-hosted servers still offer it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, final

from agentcompass.components.messages import Message, Reply, Tool
from agentcompass.components.models.failures import cannot_send, malformed
from agentcompass.components.models.fields import named, text_or_none
from agentcompass.components.models.openai_common import (
    bearer,
    choices_failure,
    first_choice,
    stop_reason,
    with_stream_usage,
)
from agentcompass.components.models.openai_stream import ChoiceStream
from agentcompass.records import JSON, Usage


@final
class OpenAICompletions:
    """Texts to be continued."""

    name: ClassVar[str] = "openai-completions"
    operation: ClassVar[str] = "completions"

    def headers(self, key: str | None, host: str) -> dict[str, str]:
        """Return the header with the key."""
        return bearer(key)

    def chat_body(self, messages: Sequence[Message], tools: Sequence[Tool]) -> dict[str, JSON]:
        """Raise: this protocol knows no messages."""
        raise cannot_send(f"{self.name} cannot hold a conversation; use openai-chat")

    def completion_body(self, prompt: str, stop: Sequence[str]) -> dict[str, JSON]:
        """Return prompt and stop sequences in their wire form."""
        return {"prompt": prompt, "stop": list(stop)} if stop else {"prompt": prompt}

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
        text = text_or_none(choice.get("text"), "the text")
        if text is None:
            raise malformed("its choice has no text")
        return Reply(
            message=Message(role="assistant", content=text),
            stop_reason=stop_reason(choice),
            usage=usage,
            model=named(payload, "model"),
            response_id=named(payload, "id"),
        )
