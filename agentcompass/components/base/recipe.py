"""An adjustment of sandboxes for one combination of components."""

from __future__ import annotations

import abc

from agentcompass.components.base.component import Component, P
from agentcompass.components.base.environment import SandboxPlan
from agentcompass.components.base.task import Task
from agentcompass.spec.resolved import Request


class Recipe(Component[P]):
    """A named, tested adjustment for one combination of benchmark, harness, model and environment."""

    @abc.abstractmethod
    def matches(self, request: Request) -> bool:
        """Whether it applies to a request."""

    def adjust(self, request: Request, task: Task, plan: SandboxPlan) -> SandboxPlan:
        """Return the sandbox plan for a task as this combination needs it."""
        return plan
