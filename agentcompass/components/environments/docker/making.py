"""From a plan to running containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, final

import attrs
import trio

from agentcompass.components.base import SandboxPlan
from agentcompass.components.environments.docker import belongings, storage
from agentcompass.components.environments.docker.compose import files
from agentcompass.components.environments.docker.compose.bodies import (
    Group,
    environment_of,
    program_of,
)
from agentcompass.components.environments.docker.compose.project import Project
from agentcompass.components.environments.docker.compose.start import Services
from agentcompass.components.environments.docker.config import container_config, lifetime_of
from agentcompass.components.environments.docker.engine import Connected
from agentcompass.components.environments.docker.params import DockerParams
from agentcompass.containers import life
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.data import frozen
from agentcompass.errors import SandboxError
from agentcompass.records import Lease


@frozen(kw_only=True, eq=False)
class Order:
    """A sandbox that is to be made."""

    plan: SandboxPlan
    """With what a Compose file says of the sandbox itself."""
    lease: Lease
    project: Project | None
    images: Mapping[str, str]
    """Names of images that the engine has, as of `plans.sources_of`."""

    @property
    def image(self) -> str:
        """Of the sandbox itself."""
        return self.images["" if self.project is None else self.project.main.name]

    @property
    def without_shared(self) -> Order:
        """The same, without directories of this machine."""
        return attrs.evolve(self, plan=attrs.evolve(self.plan, shared={}))


@frozen(kw_only=True, eq=False)
class Made:
    """A sandbox that runs."""

    state: life.ContainerState
    env: Mapping[str, str] = attrs.field(repr=False)
    """Of its commands, beside the user's."""
    services: Services | None
    """Those beside it."""


@final
class Maker:
    """Makes containers, and learns what the engine can.

    Args:
        params: The user's.
    """

    def __init__(self, params: DockerParams) -> None:
        self._params = params
        self.can_limit_storage = True
        self._can_mount = True
        self.unanswered: set[str] = set()
        """Leases of which something may be being made, since the engine gave no answer."""

    async def make(self, connected: Connected, order: Order) -> Made:
        """Make and start the containers of an order. What fails half way is left to the lease.

        Raises:
            SandboxError: They could not be made or started; see `DockerEnvironment.open`.
        """
        docker, lease = connected.docker, order.lease
        program = await self._program(connected, order)
        try:
            services = await self._create(docker, order, program)
        except DockerError as error:
            if error.status is None:
                self.unanswered.add(lease.id)
            raise
        try:
            await (services.start() if services else life.start(docker, lease.name))
        except DockerError as error:
            if error.status is None or not error.retryable:
                raise
            raise SandboxError(error.message, code="start-failed") from error
        state = await life.running(docker, lease.name)
        return Made(state=state, env=order.plan.env, services=services)

    async def _create(
        self, docker: Docker, order: Order, program: Sequence[str]
    ) -> Services | None:
        """Make what is to be started, once more without what the engine turns out not to be able to."""
        while True:
            limits_storage, can_mount = self.can_limit_storage, self._can_mount
            shares = can_mount and docker.address.socket_path is not None
            shown = order if shares else order.without_shared
            body = self._body(shown, program, limits_storage=limits_storage)
            try:
                return await self._created(docker, order, body, can_mount=can_mount)
            except DockerError as error:
                if limits_storage and storage.is_unsupported(error):
                    self.can_limit_storage = False
                elif can_mount and files.is_elsewhere(error.message):
                    self._can_mount = False
                else:
                    raise
            if order.project is not None:
                await belongings.remove_all(docker, order.lease)

    async def _created(
        self, docker: Docker, order: Order, body: Mapping[str, Any], *, can_mount: bool
    ) -> Services | None:
        if order.project is None:
            platform = self._params.platform
            await life.create(docker, order.lease.name, body, platform=platform)
            return None
        is_closed = not order.plan.network or self._params.network == "none"
        networks = order.project.networks
        group = Group(
            params=self._params,
            lease=order.lease,
            networks=dict.fromkeys(networks, True) if is_closed else networks,
        )
        layout = await trio.to_thread.run_sync(
            partial(files.laid_out, order.project, group, can_mount=can_mount and docker.is_here),
            limiter=docker.threads,
        )
        services = Services(docker, order.project, group, order.images)
        named = self._params.network not in ("default", "none")
        joins = named and not is_closed and order.project.main.networks is not None
        await services.make(layout, body, self._params.network if joins else None)
        return services

    def _body(
        self, order: Order, program: Sequence[str], *, limits_storage: bool
    ) -> Mapping[str, Any]:
        # A program needs init: without it nothing in the container could end it after its time.
        params = attrs.evolve(self._params, init=True) if program else self._params
        body = container_config(
            params,
            order.plan,
            order.lease,
            order.image,
            lifetime=lifetime_of(order.lease, datetime.now(UTC)),
            program=program,
            limits_storage=limits_storage,
        )
        if order.project is not None and program:
            # Commands have them from their call; a program of the image has nowhere else to get them.
            body["Env"] = environment_of(order.project.main)
        return body

    async def _program(self, connected: Connected, order: Order) -> Sequence[str]:
        """The main process: the user's, else that of the Compose file, after an entry point."""
        entry_point: Sequence[str] | None = None
        command: Sequence[str] = self._params.command
        if not command:
            if order.project is None:
                return ()
            entry_point, command = program_of(order.project.main)
        if entry_point is None:
            found = await connected.images.inspect(order.image) or {}
            entry_point = (found.get("Config") or {}).get("Entrypoint") or ()
        return (*entry_point, *command)
