"""A set of tasks and the way to score them."""

from __future__ import annotations

import abc
import enum
from collections.abc import Iterable
from typing import ClassVar

from agentcompass.components.base.component import Component, P
from agentcompass.components.base.environment import SandboxPlan
from agentcompass.components.base.loading import LoadContext
from agentcompass.components.base.model import Model
from agentcompass.components.base.session import Session
from agentcompass.components.base.task import AgentOutcome, Evaluation, Task, TaskInput
from agentcompass.errors import InfraError
from agentcompass.records import Metric
from agentcompass.spec.resolved import ModelConfig


class Where(enum.Enum):
    """Where a benchmark evaluates."""

    NOWHERE = "none"
    """Without a sandbox."""
    REUSE = "reuse"
    """In the agent's sandbox, after every process of it has been ended."""
    FRESH = "fresh"
    """In a new sandbox that the agent never touched; only `SandboxPlan.artifacts` go there."""


class Benchmark(Component[P]):
    """A set of tasks and the way to score them."""

    metrics: ClassVar[tuple[Metric, ...]]
    evaluates_in: Where = Where.NOWHERE
    """Given on the class, or set by the constructor where a parameter decides."""
    keeps_processes: ClassVar[bool] = False
    """With `Where.REUSE`: what the agent left running belongs to its answer, such as a server that the tests ask, and
    is not ended before the evaluation. It runs beside the evaluator then, which has to see to its own safety."""
    evaluate_timeout_seconds: ClassVar[float] = 1800.0

    @abc.abstractmethod
    async def load_tasks(self, ctx: LoadContext) -> Iterable[Task]:
        """Return the tasks, in order, already narrowed to what the parameters select.

        Raises:
            ConfigurationError: A parameter or the user's data is wrong, unknown ids of a selection included.
            PreflightError: The data is not there; the message says how to get it.
        """

    def dataset_version(self) -> str:
        """Identify the content of the data, after `load_tasks`: a revision or a hash; part of the fingerprint."""
        return ""

    def plan(self, task: Task, plan: SandboxPlan) -> SandboxPlan:
        """Adjust the sandbox for a task; `plan` is the default."""
        return plan

    def needs_agent_sandbox(self, task: Task) -> bool:
        """Whether the agent works in a sandbox even when its harness would not need one."""
        return self.evaluates_in is Where.REUSE

    def needs_evaluation_sandbox(self, task: Task) -> bool:
        """Whether this task is evaluated in the sandbox that `evaluates_in` names."""
        return self.evaluates_in is not Where.NOWHERE

    @abc.abstractmethod
    async def prepare(self, task: Task, session: Session | None) -> TaskInput:
        """Set the sandbox up and return what the agent is told. `session` is None where none is needed."""

    async def solve(self, task: Task, session: Session | None) -> AgentOutcome:
        """Apply the reference solution as an agent would; what the `oracle` harness does.

        Raises:
            InfraError: The task has no reference solution (code `no-reference-solution`, not retryable).
        """
        raise InfraError(
            f"task {task.id!r} has no reference solution",
            code="no-reference-solution",
            retryable=False,
        )

    async def collect(self, task: Task, session: Session) -> None:
        """Make what `SandboxPlan.artifacts` names, such as a patch, in the agent's sandbox, where no process is left.

        Within the collect deadline; not called where the evaluation is in the agent's own sandbox.

        Raises:
            InfraError: It cannot be made.
        """

    @abc.abstractmethod
    async def evaluate(
        self, task: Task, outcome: AgentOutcome, session: Session | None
    ) -> Evaluation:
        """Judge what the agent left. An agent that did nothing scores its worst: that is a verdict, not a failure.

        Raises:
            EvaluatorError: There is no verdict.
        """

    def judge_model(self) -> ModelConfig | None:
        """Return the endpoint of a model that has a say in the evaluation; None: there is none.

        It is asked within the evaluate deadline, under the same limits as the tested model where both are one
        endpoint; what it uses is counted apart.

        Raises:
            ConfigurationError: Parameters of it are missing or wrong.
        """
        return None

    async def judge(
        self, task: Task, outcome: AgentOutcome, session: Session | None, judge: Model
    ) -> Evaluation:
        """Judge what the agent left, with a model's help: called instead of `evaluate` where there is a `judge_model`.

        Raises:
            EvaluatorError: There is no verdict.
            ModelError: The judge's endpoint failed.
        """
        return await self.evaluate(task, outcome, session)
