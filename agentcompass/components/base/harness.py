"""The agent loop that attempts a task with a model."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

from agentcompass.components.base.component import Component, P
from agentcompass.components.base.environment import SandboxPlan
from agentcompass.components.base.loading import LoadContext
from agentcompass.components.base.model import Model
from agentcompass.components.base.session import Session
from agentcompass.components.base.task import AgentOutcome, TaskInput
from agentcompass.records import JSON


class Emit(Protocol):
    """Appends one step to the attempt's trajectory, on disk, while it runs. A step is a JSON object with a `type`."""

    async def __call__(self, step: Mapping[str, JSON]) -> None:
        """Append a step."""

    def folder(self) -> Path:
        """Make and return a directory, kept with the attempt, for what is no step, such as a recording."""
        ...


class Harness(Component[P]):
    """The agent loop that attempts a task with a model."""

    needs_model: ClassVar[bool] = True
    """An attempt in which no model call was made is then `infra`, never a zero."""
    needs_sandbox: ClassVar[bool] = False
    uses_reference: ClassVar[bool] = False
    protocols: ClassVar[tuple[str, ...]] = ("openai-chat",)
    """Model protocols it can use, best first."""
    sends: ClassVar[tuple[str, ...]] = ()
    """Model parameters that it sets itself in every call (`tools`): a user's would have no effect, and are refused."""
    brings_client: ClassVar[bool] = False
    """Its programs in the sandbox call the model by themselves, by `Model.serve`."""
    run_timeout_seconds: ClassVar[float] = 1800.0

    def varying(self) -> Sequence[str]:
        """Return regular expressions of texts in its requests that say something else in each run, such as the date. Pure.

        A replay overlooks them, wherever they stand. Everything else has to be the same as when it was recorded.
        """
        return ()

    async def preflight(self) -> None:
        """Check that it can work, before anything costs; its `extra` is there.

        Raises:
            ConfigurationError: A parameter is wrong.
            PreflightError: Something is missing; the message says what to do.
        """

    async def fetch(self, ctx: LoadContext) -> None:
        """Bring what its attempts share, such as a program, unless it is there; after `preflight`, before the first attempt.

        Raises:
            PreflightError: It cannot be had.
        """

    def equip(self, plan: SandboxPlan) -> SandboxPlan:
        """Return the plan of an agent's sandbox with what this harness needs in it. Pure."""
        return plan

    @abc.abstractmethod
    async def run(
        self, task_input: TaskInput, session: Session | None, model: Model, emit: Emit
    ) -> AgentOutcome:
        """Attempt the task.

        Args:
            task_input: What the agent is told.
            session: The agent's sandbox; None if neither harness nor benchmark needs one.
            model: The endpoint; every call raises if the request has none.
            emit: Where trajectory steps go.

        Returns:
            What the agent left. Running out of turns or context is an outcome with `stopped_by`, not an error;
            the run deadline is the engine's, which then grades what is there.

        Raises:
            ModelError: The endpoint failed.
            SandboxError: The sandbox failed.
        """
