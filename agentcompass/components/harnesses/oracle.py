"""The agent that knows the reference solution: what a benchmark gives for a right answer, without a model."""

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
from agentcompass.errors import InfraError


@final
class Oracle(Harness[NoParams]):
    """Applies the reference solution. A task that it does not solve is broken, or its environment is."""

    id = "oracle"
    needs_model = False
    uses_reference = True

    async def run(
        self, task_input: TaskInput, session: Session | None, model: Model, emit: Emit
    ) -> AgentOutcome:
        """Return what the benchmark's `solve` returns.

        Raises:
            InfraError: The task has no reference solution (code `no-reference-solution`).
        """
        if task_input.solve is None:
            raise InfraError(
                "this benchmark offers no reference solution",
                code="no-reference-solution",
                retryable=False,
            )
        return await task_input.solve()
