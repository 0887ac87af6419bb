"""The component `docker`: what is checked before a run, the images, and the life of a sandbox."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Final, final

import attrs
import trio

from agentcompass.components.base import (
    Capabilities,
    Environment,
    ImageSource,
    MiB,
    SandboxPlan,
    Session,
)
from agentcompass.components.environments.docker import belongings, namespace, relay
from agentcompass.components.environments.docker.compose.plans import (
    Projects,
    plan_of_main,
    sources_of,
)
from agentcompass.components.environments.docker.compose.project import Project
from agentcompass.components.environments.docker.config import relayed_hosts, resources_of
from agentcompass.components.environments.docker.engine import Connected, Engine
from agentcompass.components.environments.docker.limits import limit_problems
from agentcompass.components.environments.docker.making import Made, Maker, Order
from agentcompass.components.environments.docker.mounts import (
    data_problems,
    mount_of,
    volume_problems,
)
from agentcompass.components.environments.docker.params import DockerParams, check
from agentcompass.components.environments.docker.session import DockerSession, Place, only_waits
from agentcompass.components.environments.docker.storage import StorageLimit
from agentcompass.components.environments.docker.supply import Supply
from agentcompass.components.environments.space import DiskSpace
from agentcompass.containers import life, processes
from agentcompass.containers.address import find_engine
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.containers.together import together
from agentcompass.containers.wire import Ask, path_of
from agentcompass.errors import PreflightError
from agentcompass.records import Lease

MIN_FREE_BYTES: Final = 512 * MiB
"""Where the engine keeps its data; with less nothing is begun."""
HOST_DETAIL: Final = "host"
SETTLE_SECONDS: Final = 10.0
"""How long a container that is not there may still be being made, by a request that nobody awaits any more."""
_SETTLE_PAUSE: Final = 0.25


@final
class DockerEnvironment(Environment[DockerParams]):
    """Sandboxes that are containers."""

    id = "docker"
    description = "A container of a Docker or Podman engine for each sandbox"
    Params: ClassVar[type] = DockerParams

    def __init__(self, params: DockerParams) -> None:
        super().__init__(params)
        check(params)
        # No boundary where services of this machine are reached by its network, or its files by a mount.
        self.capabilities = Capabilities(
            images=True,
            network_control=True,
            resource_limits=True,
            users=True,
            is_security_boundary=(params.network == "none" or bool(params.allowed_hosts))
            and all(mount.is_read_only for mount in map(mount_of, params.mounts)),
        )
        # A command's streams, and a question about it; and what listens for allowed hosts.
        self.descriptors = 4 + 2 * len(params.allowed_hosts)
        self._engine = Engine(params.host)
        self._root = Path("/")
        self._space: DiskSpace | None = None
        self._supply = Supply(params)
        self._projects = Projects(params)
        self._maker = Maker(params)
        self._noted: set[str] = set()
        """What people were told once."""

    def lease_details(self) -> Mapping[str, str]:
        """The engine's address, so that a container is found again from a shell with another one."""
        return {HOST_DETAIL: self._host} if self._host else {}

    @cached_property
    def _host(self) -> str | None:
        try:
            return find_engine(self.params.host, environ=os.environ, home=Path.home()).host
        except DockerError:
            return None  # whoever asks this engine is told

    async def preflight(self) -> None:
        """Check the engine: that it answers, runs Linux, has space, and can do what the parameters ask for.

        Raises:
            PreflightError: It does not; the message has a line for each problem.
        """
        try:
            async with self._engine.use() as connected:
                info = await connected.docker.info()
                problems = list(self._problems(info, connected.docker))
                problems += await self._network_problems(connected.docker)
                problems += await volume_problems(self.params.mounts, connected.docker)
        except DockerError as error:
            raise PreflightError(error.message, hint=error.hint) from error
        if problems:
            raise PreflightError(
                "\n".join(problems), hint="docs/environments.md says more on each of these."
            )

    def _problems(self, info: Mapping[str, Any], docker: Docker) -> Iterator[str]:
        if info.get("OSType", "linux") != "linux":
            yield f"the Docker engine at {docker.address} runs {info['OSType']} containers, not Linux"
        yield from data_problems(self.params.mounts, info.get("DockerRootDir") or "")
        if docker.address.socket_path is not None:
            yield from self._problems_here(info, docker)
        yield from limit_problems(info, resources_of(self.params, SandboxPlan()), docker.address)

    def _problems_here(self, info: Mapping[str, Any], docker: Docker) -> Iterator[str]:
        """Of an engine on this machine."""
        self._root = Path(info.get("DockerRootDir") or "/")
        try:
            free = shutil.disk_usage(self._root).free
        except OSError:
            pass  # only root may look there; or it is a virtual machine's
        else:
            if docker.is_here:
                self._space = DiskSpace(lambda: self._root)
            if free < MIN_FREE_BYTES:
                yield (
                    f"{self._root}, where the Docker engine keeps its data, has only {free // MiB} MiB free: "
                    "`docker system df` tells what uses it, `docker system prune` frees what is not in use"
                )
        for mount in map(mount_of, self.params.mounts):
            if docker.is_here and not mount.is_volume and not Path(mount.source).exists():
                yield f"the mount's source {mount.source} is not there"

    async def _network_problems(self, docker: Docker) -> list[str]:
        network = self.params.network
        if self.params.allowed_hosts:
            can = docker.is_here and await trio.to_thread.run_sync(namespace.is_possible)
            return [] if can else [
                "allowed_hosts needs an engine on this machine, and root: only root may enter the name spaces of containers"
            ]  # fmt: skip
        if network in ("default", "none"):
            return []
        ask = Ask("GET", path_of("networks", network), f"look for the network {network}")
        if await docker.call(ask, accept={404}) is not None:
            return []
        return [f"there is no network {network!r}: make it with `docker network create {network}`"]

    async def check_listening(self) -> None:
        """Check that the name spaces of containers can be entered.

        Raises:
            PreflightError: They cannot.
        """
        async with self._engine.use() as connected:
            if not await namespace.can_listen(connected.docker):
                raise PreflightError(
                    "to let programs in containers reach the model needs an engine on this machine, and root: "
                    "only root may enter the name spaces of containers"
                )

    # --- images

    def images_of(self, plan: SandboxPlan) -> Collection[ImageSource]:
        """Return the images of a plan and of the services beside it; see `Environment.images_of`.

        Raises:
            SandboxError: None is named (code `no-such-image`), or the Compose file cannot be used (`bad-compose`,
                `unsupported-sandbox`).
        """
        return frozenset(self._sources(plan, self._projects.of(plan)).values())

    def _sources(self, plan: SandboxPlan, project: Project | None) -> Mapping[str, ImageSource]:
        return {
            name: self._supply.chosen(source) for name, source in sources_of(plan, project).items()
        }

    async def check_images(
        self, sources: Collection[ImageSource]
    ) -> Mapping[ImageSource, int | None]:
        """Return sizes in bytes, None of what must be pulled or built first; see `supply.Supply.check`.

        Raises:
            PreflightError: There are some that cannot be had, each named with the reason.
        """
        try:
            async with self._engine.use() as connected:
                return await self._supply.check(connected.images, sources)
        except DockerError as error:
            raise PreflightError(error.message, hint=error.hint) from error

    async def fetch_image(self, source: ImageSource, tell: Callable[[str], None]) -> None:
        """Wait for an engine that is away, then pull or build an image unless it is there.

        Raises:
            SandboxError: As of `fetch`.
        """
        await self._engine.awaited(tell)
        async with self._engine.use() as connected:
            await self._supply.bring(connected.images, source, tell)

    async def fetch(self, plan: SandboxPlan, tell: Callable[[str], None]) -> None:
        """Wait for an engine that is away, then pull or build the images of a plan unless they are there.

        Raises:
            SandboxError: They cannot be had (codes `no-such-image`, `build-failed`, `build-timeout`, `pull-failed`,
                `pull-rate-limited`, ...), their Compose file cannot be used (`bad-compose`, `unsupported-sandbox`), or
                the engine did not come back (`engine-unreachable`).
        """
        await self._engine.awaited(tell)
        async with self._engine.use() as connected:
            project = await self._project(connected.docker, plan)
            for note in () if project is None else project.notes:
                if note not in self._noted:
                    self._noted.add(note)
                    tell(note)
            await self._bring(connected, plan, project, tell)

    async def _project(self, docker: Docker, plan: SandboxPlan) -> Project | None:
        if plan.compose is None:
            return None
        return await trio.to_thread.run_sync(self._projects.of, plan, limiter=docker.threads)

    async def _bring(
        self,
        connected: Connected,
        plan: SandboxPlan,
        project: Project | None,
        tell: Callable[[str], None],
    ) -> Mapping[str, str]:
        """Have all images, and return their names by service."""
        sources = self._sources(plan, project)
        bring = partial(self._supply.bring, connected.images, tell=tell)
        names = await together(*(partial(bring, source) for source in sources.values()))
        return dict(zip(sources, names, strict=True))

    # --- sandboxes

    @asynccontextmanager
    async def open(self, plan: SandboxPlan, lease: Lease) -> AsyncIterator[Session]:
        """Start a container and lend it, with those of its Compose file; afterwards all are gone, unless `lease.keep`.

        Raises:
            SandboxError: They could not be made or started (codes `no-such-image`, `start-failed`, `service-failed`,
                `relay-failed`, and those of `fetch` and of the engine), or the sandbox wrote more than `storage_mb`
                (`storage-exceeded`).
        """
        async with self._engine.use() as connected:
            docker = connected.docker
            docker.undo_seconds = min(docker.undo_seconds, self.close_timeout_seconds or math.inf)
            made: Made | None = None
            try:
                made = await self._make(connected, plan, lease)
                life.bind(docker, made.state)
                place = await self._place(docker, plan, made)
                async with trio.open_nursery() as nursery:
                    limit = await self._watch(docker, nursery, plan, made.state)
                    place = attrs.evolve(place, storage=limit)
                    yield DockerSession(docker, place, self._space, nursery)
                    nursery.cancel_scope.cancel(reason="the sandbox closes")
            finally:
                if made is not None:
                    docker.lives.pop(made.state.id, None)
                # If this is cancelled, the engine asks for the removal by lease.
                if not lease.keep and plan.compose is None:
                    await life.remove(docker, lease.name)
                elif not lease.keep:
                    await belongings.remove_all(docker, lease)

    async def _make(self, connected: Connected, plan: SandboxPlan, lease: Lease) -> Made:
        project = await self._project(connected.docker, plan)
        images = await self._bring(connected, plan, project, lambda _text: None)
        if project is not None:
            plan = plan_of_main(plan, project.main)
        order = Order(plan=plan, lease=lease, project=project, images=images)
        return await self._maker.make(connected, order)

    async def _watch(
        self, docker: Docker, nursery: trio.Nursery, plan: SandboxPlan, state: life.ContainerState
    ) -> StorageLimit | None:
        """Start what goes on beside the work; return what looks after the sandbox's storage, unless the engine does."""
        if hosts := relayed_hosts(self.params, plan):
            opened = await trio.to_thread.run_sync(
                relay.listen, hosts, state.pid, state.id, limiter=docker.threads
            )
            nursery.start_soon(opened.serve)
        limit_mb = resources_of(self.params, plan).storage_mb
        if limit_mb is None or self._maker.can_limit_storage:
            return None
        limit = StorageLimit(docker, state, limit_mb)
        nursery.start_soon(limit.watch)
        return limit

    async def _place(self, docker: Docker, plan: SandboxPlan, made: Made) -> Place:
        config = made.state.details["Config"]
        address = docker.address
        options = () if address.source == "the default" else ("-H", address.host)
        return Place(
            name=made.state.name,
            workdir=config.get("WorkingDir") or "/",
            user=config.get("User") or "",
            env={**self.params.env_variables, **made.env},
            enter=("docker", *options),
            noted=await processes.note(docker, made.state) if only_waits(made.state) else {},
            can_start_anew=not relayed_hosts(self.params, plan),
            services=made.services and made.services.ended,
        )

    async def remove(self, lease: Lease) -> None:
        """Remove all that was made for a lease, wherever its engine is; see `Environment.remove`.

        Raises:
            SandboxError: Something is still there, the engine cannot be asked, or what has the sandbox's name is not this
                lease's (code `bad-lease`).
        """
        async with self._engine_of(lease).use() as connected:
            until = trio.current_time() + self._settle_seconds(lease)
            while True:
                removed = await belongings.remove_all(connected.docker, lease)
                if removed.has_sandbox:
                    break  # it is made last: nothing more is on its way
                if removed.has_others and not self._is_settled(lease):
                    until = max(until, trio.current_time() + SETTLE_SECONDS)
                if trio.current_time() >= until:
                    break
                await trio.sleep(_SETTLE_PAUSE)
        self._maker.unanswered.discard(lease.id)

    def _is_settled(self, lease: Lease) -> bool:
        """Whether all that was ever asked for has been answered."""
        return lease.owner.pid == os.getpid() and lease.id not in self._maker.unanswered

    def _settle_seconds(self, lease: Lease) -> float:
        """How long it is to be believed that a container which is not there may still come."""
        if self._is_settled(lease):
            return 0.0
        if lease.id in self._maker.unanswered:
            return SETTLE_SECONDS
        # The engine goes on with what a killed process has asked it for.
        begun = datetime.fromisoformat(lease.created_at)
        return SETTLE_SECONDS - (datetime.now(UTC) - begun).total_seconds()

    def _engine_of(self, lease: Lease) -> Engine:
        host = lease.details.get(HOST_DETAIL)
        if host is None or host == self._host:
            return self._engine  # with its certificates, where it has some
        return Engine(host)
