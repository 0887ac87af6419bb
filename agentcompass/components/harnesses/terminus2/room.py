"""How much of the model's context a conversation takes: what the endpoint said, and an estimate of what came since."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, final

from agentcompass.components.messages import Message
from agentcompass.records import Usage

FREED_TOKENS: Final = 4000
"""That must be free for the account of a conversation that was too long. Source: the documentation of Terminus 2."""
_BYTES_PER_TOKEN: Final = 4
_PER_MESSAGE: Final = 8
_PER_IMAGE: Final = 1000


def estimated_tokens(messages: Sequence[Message]) -> int:
    """Estimate the tokens of messages: four bytes each, and a thousand for an image."""
    total = 0
    for message in messages:
        total += _PER_MESSAGE + len(message.text.encode(errors="replace")) // _BYTES_PER_TOKEN
        if not isinstance(message.content, str):
            total += _PER_IMAGE * sum(part.get("type") != "text" for part in message.content)
    return total


@final
class Room:
    """The context of a model.

    Args:
        context_tokens: Its length; None if that is not known.
    """

    def __init__(self, context_tokens: int | None) -> None:
        self._limit = context_tokens
        self._scale = 1.0
        """By which the endpoint counts more than is estimated."""
        self._taken: int | None = None
        """By the conversation up to its last reply, as the endpoint said."""

    def learn(self, messages: Sequence[Message], usage: Usage) -> None:
        """Note what the endpoint said about a request and its reply."""
        if usage.input_tokens:
            self._scale = max(1.0, usage.input_tokens / max(1, estimated_tokens(messages)))
            self._taken = usage.total_tokens

    def forget(self) -> None:
        """Another conversation begins."""
        self._taken = None

    def free(self, history: Sequence[Message], told: Sequence[Message]) -> float:
        """Return how many tokens are free for the next reply; infinity where the context's length is not known."""
        if self._limit is None:
            return math.inf
        if self._taken is None:
            return self._limit - self._scale * estimated_tokens([*history, *told])
        return self._limit - self._taken - self._scale * estimated_tokens(told)

    def unwound(
        self, history: Sequence[Message], told: Sequence[Message], kept: int
    ) -> list[Message]:
        """Return a conversation that was too long without its last exchanges: at least one, and enough to sum it up.

        Args:
            history: The conversation up to its last reply.
            told: What the model was to be told then.
            kept: So many of the first messages stay in any case.
        """
        refused = self._scale * estimated_tokens([*history, *told])
        limit = min(refused, refused if self._limit is None else self._limit) - FREED_TOKENS
        left = list(history)
        while len(left) > kept:
            del left[max(kept, len(left) - 2) :]
            if self._scale * estimated_tokens(left) <= limit:
                break
        return left
