"""The agent that does nothing: what a benchmark gives for an untouched task, without a model."""

from __future__ import annotations

from typing import final

from agentcompass.components.base import (
    AgentOutcome,
    Emit,
    Harness,
    Model,
    NoParams,
    Session,
    TaskInput,
)


@final
class Nop(Harness[NoParams]):
    """Leaves the task as it is. A benchmark that gives it more than its worst score has a fault."""

    id = "nop"
    needs_model = False

    async def run(
        self, task_input: TaskInput, session: Session | None, model: Model, emit: Emit
    ) -> AgentOutcome:
        """Return no answer."""
        return AgentOutcome()
