"""The containers of a project: made under names of the lease, started in their order, and watched until all are well."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, final, get_args

import attrs
import trio

from agentcompass.components.environments.docker.compose.bodies import (
    Group,
    network_body,
    side_body,
    with_service,
)
from agentcompass.components.environments.docker.compose.files import Layout, copy_all
from agentcompass.components.environments.docker.compose.project import Condition, Project, Service
from agentcompass.components.environments.docker.config import labels_of
from agentcompass.containers import life, resources
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.containers.together import together
from agentcompass.errors import SandboxError
from agentcompass.records import JSON

AT_ONCE: Final = 4
"""Calls for one sandbox at the engine at once, so that many sandboxes stay within the open files of this process."""
STEADY_SECONDS: Final = 0.5
"""How long a service without a health check must run to count as started: most that cannot are over by then."""
MAX_RESTARTS: Final = 5
"""How often a service may start again before that counts as a failure to start."""
LOG_LINES: Final = 20
"""Of a service that failed, in the error."""
_NO_ADDRESSES: Final = (
    "Each sandbox with services has networks of its own: lower task_concurrency, or give the engine more addresses"
    " (default-address-pools in its daemon.json)."
)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 0.5


@final
class Services:
    """The containers of one sandbox.

    Args:
        docker: The engine.
        project: What they are.
        group: What they have in common.
        images: Names of images that the engine has, by service.
    """

    def __init__(
        self, docker: Docker, project: Project, group: Group, images: Mapping[str, str]
    ) -> None:
        self._docker, self._project, self._group, self._images = docker, project, group, images
        self._names = {side.name: group.name_of(side.name) for side in project.sides}
        self._names[project.main.name] = group.lease.name
        self._places = trio.CapacityLimiter(AT_ONCE)

    async def make(
        self, layout: Layout, main: Mapping[str, Any], extra_network: str | None
    ) -> None:
        """Make networks, volumes and containers, and copy files into them.

        The sandbox's own container comes last: once that is there, nothing more is being made.

        Args:
            layout: Of the files.
            main: The body for the sandbox, without what its service says.
            extra_network: One of the engine's that the sandbox joins too.

        Raises:
            DockerError: Something was not made.
            SandboxError: A file cannot be read (code `bad-compose`).
        """
        project, group = self._project, self._group
        labels = labels_of(group.lease)
        volumes = [
            partial(resources.create_volume, self._docker, group.name_of(name), labels)
            for name in layout.volumes
        ]
        networks = [partial(self._make_network, name) for name in group.networks]
        await together(*networks, *volumes, at_once=AT_ONCE)
        sides = [partial(self._make_side, side, layout) for side in project.sides]
        await together(*sides, at_once=AT_ONCE)
        body = with_service(group, main, project.main, layout.mounts[project.main.name])
        await self._create(project.main, body)
        await together(*self._joining(extra_network), at_once=AT_ONCE)
        await copy_all(self._docker, layout.copies, self._names)

    async def start(self) -> None:
        """Start all, each when what it waits for is so, and return when all are well.

        Raises:
            SandboxError: One ended or is not well (code `service-failed`); the message has the end of its log.
        """
        marks = {service.name: _Mark() for service in self._project.services}
        await together(*(partial(self._bring_up, one, marks) for one in self._project.services))
        for side in self._project.sides:
            state = await self._state(side)
            if not state.is_running and state.exit_code != 0:
                raise await self._failed(side, _how_it_ended(state))

    async def ended(self) -> Mapping[str, JSON]:
        """Return how those services have ended by now that did not end well, by name."""
        found: dict[str, JSON] = {}
        for side in self._project.sides:
            state = await life.inspect(self._docker, self._names[side.name])
            if state is None:
                found[side.name] = "removed by somebody else"
            elif not state.is_running and state.exit_code != 0:
                found[side.name] = _how_it_ended(state)
        return found

    # --- making

    async def _make_network(self, name: str) -> None:
        is_podman = "podman" in self._docker.version.name.lower()
        body = network_body(self._group, name, hides_host=not is_podman)
        try:
            await resources.create_network(self._docker, self._group.name_of(name), body)
        except DockerError as error:
            if error.code != "no-address-pool":
                raise
            raise DockerError(
                error.message, code=error.code, status=error.status, hint=_NO_ADDRESSES
            ) from error

    async def _make_side(self, side: Service, layout: Layout) -> None:
        body = side_body(self._group, side, self._images[side.name], layout.mounts[side.name])
        await self._create(side, body)

    async def _create(self, service: Service, body: Mapping[str, Any]) -> None:
        platform = self._group.params.platform or service.platform
        await life.create(self._docker, self._names[service.name], body, platform=platform)

    def _joining(self, extra_network: str | None) -> list[partial[Any]]:
        """The networks beside the first one of each container."""
        join = partial(resources.connect_network, self._docker)
        found = [
            partial(join, self._group.name_of(name), self._names[service.name], aliases=aliases)
            for service in self._project.services
            for name, aliases in list((service.networks or {}).items())[1:]
        ]
        if extra_network is not None:
            found.append(partial(join, extra_network, self._group.lease.name))
        return found

    # --- starting

    async def _bring_up(self, service: Service, marks: Mapping[str, _Mark]) -> None:
        for name, condition in service.depends_on.items():
            await marks[name].reached[condition].wait()
        async with self._places:
            await life.start(self._docker, self._names[service.name])
        mark = marks[service.name]
        mark.reached["service_started"].set()
        wanted = {
            one.depends_on[service.name]: one.name
            for one in self._project.services
            if service.name in one.depends_on
        }
        pause = _FIRST_PAUSE
        while not await self._is_up(service, mark, wanted):
            await trio.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)

    async def _is_up(self, service: Service, mark: _Mark, wanted: Mapping[Condition, str]) -> bool:
        """Whether all is so that others may wait for.

        Args:
            service: That was started.
            mark: Gets what is so by now.
            wanted: What others wait for, with one of them.
        """
        state = await self._state(service)
        health = (state.details["State"].get("Health") or {}).get("Status") or "none"
        if state.details.get("RestartCount", 0) > MAX_RESTARTS:
            raise await self._failed(service, "ends again and again")
        if state.status == "restarting":
            return False
        if not state.is_running:
            if state.exit_code != 0 or "service_healthy" in wanted:
                raise await self._failed(service, _how_it_ended(state))
            mark.reached["service_completed_successfully"].set()
            return True
        if health == "unhealthy":
            raise await self._failed(service, f"is not well: {_last_check(state)}")
        if health == "none" and "service_healthy" in wanted:
            raise SandboxError(
                f"the service {wanted['service_healthy']} waits until {service.name} is healthy, which has no healthcheck",
                code="bad-compose",
                retryable=False,
            )
        if health == "healthy":
            mark.reached["service_healthy"].set()
        is_steady = service is self._project.main or mark.runs_since(state) >= STEADY_SECONDS
        is_well = health == "healthy" or (health == "none" and is_steady)
        return is_well and "service_completed_successfully" not in wanted

    async def _state(self, service: Service) -> life.ContainerState:
        async with self._places:
            state = await life.inspect(self._docker, self._names[service.name])
        if state is None:
            raise SandboxError(
                f"the container of the service {service.name} is gone", code="service-failed"
            )
        return state

    async def _failed(self, service: Service, how: str) -> SandboxError:
        """The error for a service that could not be started, with what it said last."""
        log = ""
        if not service.tty:  # that has another form
            with suppress(DockerError):
                log = await life.logs(self._docker, self._names[service.name], lines=LOG_LINES)
        text = f"the service {service.name} {how}"
        return SandboxError(
            f"{text}\n{log.rstrip()}" if log.strip() else text, code="service-failed"
        )


@final
@attrs.define(eq=False)
class _Mark:
    """What of a service is so, for those that wait for it."""

    reached: Mapping[Condition, trio.Event] = attrs.field(
        factory=lambda: {condition: trio.Event() for condition in get_args(Condition)}
    )
    _start: tuple[str, float] = ("", 0.0)

    def runs_since(self, state: life.ContainerState) -> float:
        """Return how long its container has been seen running since its last start, in seconds."""
        now = trio.current_time()
        if self._start[0] != state.started_at:
            self._start = (state.started_at, now)
        return now - self._start[1]


def _how_it_ended(state: life.ContainerState) -> str:
    cause = "out of memory" if state.is_oom_killed else state.error
    return f"ended with exit code {state.exit_code}{f' ({cause})' if cause else ''}"


def _last_check(state: life.ContainerState) -> str:
    """What the last health check of a container said."""
    checks = state.details["State"]["Health"].get("Log") or [{}]
    words = str(checks[-1].get("Output") or "").strip()
    return words[-500:] or f"exit code {checks[-1].get('ExitCode')}"
