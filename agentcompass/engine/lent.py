"""What a harness is lent beside the sandbox: a way to keep things, and a model even where there is none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import final

from agentcompass.components.base import AgentOutcome, AttemptModel, Gateway
from agentcompass.components.messages import Reply
from agentcompass.errors import ModelError
from agentcompass.records import JSON, Usage


@final
class Keeper:
    """The `Emit` of one execution.

    Args:
        emit: Appends a step to its trajectory.
        folder: Makes the directory for what is no step.
    """

    def __init__(
        self, emit: Callable[[Mapping[str, JSON]], Awaitable[None]], folder: Callable[[], Path]
    ) -> None:
        self._emit, self.folder = emit, folder

    async def __call__(self, step: Mapping[str, JSON]) -> None:
        """Append a step."""
        await self._emit(step)


@final
class NoModel:
    """What a harness gets when the request has no model."""

    id = "none"
    protocol = "none"
    usage = Usage()
    asked = replies = 0

    async def chat(self, *_args: object, **_kwargs: object) -> Reply:
        """Refuse."""
        raise _no_model()

    complete = chat

    def serve(self, *_args: object, **_kwargs: object) -> AbstractAsyncContextManager[Gateway]:
        """Refuse."""
        raise _no_model()

    def revoke(self) -> None:
        """Nothing to revoke."""


def _no_model() -> ModelError:
    return ModelError(
        "this harness declares that it needs no model", code="no-model", retryable=False
    )


def no_answer(model: AttemptModel, outcome: AgentOutcome) -> ModelError:
    """Return what to raise of an agent that had no answer from its model."""
    if model.asked == 0:
        return ModelError("the harness made no model call", code="no-model-call", retryable=False)
    ended = " before its time was over" if outcome.stopped_by == "timeout" else ""
    return ModelError(f"the endpoint gave no answer to the harness{ended}", code="no-model-answer")
