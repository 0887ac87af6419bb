"""Which services the plan of a task has, and what their file adds to the plan."""

from __future__ import annotations

from typing import Final, final

import attrs

from agentcompass.components.base import ImageSource, Resources, SandboxPlan
from agentcompass.components.environments.docker.compose.project import Project, Service
from agentcompass.components.environments.docker.compose.reader import read_project
from agentcompass.components.environments.docker.params import DockerParams
from agentcompass.errors import SandboxError

_LIMITS: Final = tuple(attrs.fields_dict(Resources))


@final
class Projects:
    """The Compose files of a run, each read once, so that all sandboxes of a task are alike.

    Args:
        params: The user's.
    """

    def __init__(self, params: DockerParams) -> None:
        self._params = params
        self._read: dict[object, Project] = {}

    def of(self, plan: SandboxPlan) -> Project | None:
        """Return the services of a plan; None if it has no file of them. Blocking.

        Raises:
            SandboxError: The file cannot be used (code `bad-compose`), or not with the user's parameters
                (`unsupported-sandbox`).
        """
        if plan.compose is None:
            return None
        key = (plan.compose, tuple(sorted(plan.env.items())), plan.resources)
        project = self._read.get(key)
        if project is None:
            project = self._read[key] = read_project(plan)
        if self._params.allowed_hosts and project.main.networks is not None:
            raise SandboxError(
                "allowed_hosts cannot be had with services beside a sandbox: it would need a network with them",
                code="unsupported-sandbox",
                retryable=False,
                hint="Leave allowed_hosts out, or leave out the tasks with a Compose file.",
            )
        return project


def plan_of_main(plan: SandboxPlan, main: Service) -> SandboxPlan:
    """Return a plan with what a file says of the sandbox itself, where the task says nothing."""
    limits = {
        name: getattr(main.resources, name)
        if getattr(plan.resources, name) is None
        else getattr(plan.resources, name)
        for name in _LIMITS
    }
    return attrs.evolve(
        plan,
        workdir=plan.workdir or main.working_dir,
        user=plan.user or main.user,
        env={**main.env, **plan.env},
        resources=Resources(**limits),
    )


def sources_of(plan: SandboxPlan, project: Project | None) -> dict[str, ImageSource]:
    """Return where the images of a plan come from, by service; the sandbox's own under an empty name where it is alone."""
    if project is None:
        return {"": ImageSource(image=plan.image, build=plan.build)}
    return {service.name: project.source_of(service, plan) for service in project.services}
