"""The component `docker`: what is checked before a run, the images, and the life of a sandbox."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Final, final

import trio

from agentcompass.components.base import Capabilities, Environment, MiB, SandboxPlan, Session
from agentcompass.components.environments.docker import relay, storage
from agentcompass.components.environments.docker.config import (
    LEASE_LABEL,
    container_config,
    lifetime_of,
    relayed_hosts,
    resources_of,
)
from agentcompass.components.environments.docker.engine import Connected, Engine
from agentcompass.components.environments.docker.mounts import data_problems, mount_of
from agentcompass.components.environments.docker.params import DockerParams, check
from agentcompass.components.environments.docker.session import DockerSession, Place
from agentcompass.components.environments.docker.supply import Supply
from agentcompass.components.environments.space import DiskSpace
from agentcompass.containers import life
from agentcompass.containers.address import find_engine
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.containers.wire import Ask, path_of
from agentcompass.errors import PreflightError, SandboxError
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
        self._can_limit_storage = True
        self._unanswered: set[str] = set()
        """Leases of containers that may be being made, since the engine gave no answer."""

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
        asked = resources_of(self.params, SandboxPlan())
        for is_asked, key, what in (
            (asked.memory_mb, "MemoryLimit", "memory"),
            (asked.cpus, "CpuCfsQuota", "processors"),
            (asked.pids, "PidsLimit", "processes"),
        ):
            if is_asked and info.get(key) is False:
                yield f"the Docker engine at {docker.address} cannot limit {what}"

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
            can = docker.is_here and await trio.to_thread.run_sync(relay.is_possible)
            return [] if can else [
                "allowed_hosts needs an engine on this machine, and root: only root may enter the name spaces of containers"
            ]  # fmt: skip
        if network in ("default", "none"):
            return []
        ask = Ask("GET", path_of("networks", network), f"look for the network {network}")
        if await docker.call(ask, accept={404}) is not None:
            return []
        return [f"there is no network {network!r}: make it with `docker network create {network}`"]

    # --- images

    async def check_images(self, images: Collection[str]) -> frozenset[str]:
        """Return those of the images that must be pulled or built first; see `supply.Supply.check`.

        Raises:
            PreflightError: There are some that cannot be had, each named with the reason.
        """
        try:
            async with self._engine.use() as connected:
                return await self._supply.check(connected.images, images)
        except DockerError as error:
            raise PreflightError(error.message, hint=error.hint) from error

    async def fetch(self, plan: SandboxPlan, tell: Callable[[str], None]) -> None:
        """Wait for an engine that is away, then pull or build the image of a plan unless it is there.

        Raises:
            SandboxError: It cannot be had (codes `no-such-image`, `build-failed`, `pull-failed`,
                `pull-rate-limited`, ...), or the engine did not come back (`engine-unreachable`).
        """
        await self._engine.awaited(tell)
        async with self._engine.use() as connected:
            await self._supply.bring(connected.images, plan.image, tell)

    # --- sandboxes

    @asynccontextmanager
    async def open(self, plan: SandboxPlan, lease: Lease) -> AsyncIterator[Session]:
        """Start a container and lend it; afterwards it is gone, unless `lease.keep`.

        Raises:
            SandboxError: It could not be made or started (codes `no-such-image`, `start-failed`, `relay-failed`, and
                those of the engine), or it wrote more than `storage_mb` (`storage-exceeded`).
        """
        async with self._engine.use() as connected:
            docker = connected.docker
            state: life.ContainerState | None = None
            try:
                state = await self._start(connected, plan, lease)
                life.bind(docker, state)
                async with trio.open_nursery() as nursery:
                    await self._watch(docker, nursery, plan, state)
                    yield DockerSession(
                        docker, self._place(docker, plan, state), self._space, nursery
                    )
                    nursery.cancel_scope.cancel(reason="the sandbox closes")
            finally:
                if state is not None:
                    docker.lives.pop(state.id, None)
                # If this is cancelled, the engine asks for the removal by lease.
                if not lease.keep:
                    await life.remove(docker, lease.name)

    async def _start(
        self, connected: Connected, plan: SandboxPlan, lease: Lease
    ) -> life.ContainerState:
        docker = connected.docker
        image = await self._supply.bring(connected.images, plan.image, lambda _text: None)
        entry_point = await self._entry_point(connected, image)
        lifetime = lifetime_of(lease, datetime.now(UTC))

        def config(*, limits_storage: bool) -> dict[str, Any]:
            return container_config(
                self.params,
                plan,
                lease,
                image,
                lifetime=lifetime,
                entry_point=entry_point,
                limits_storage=limits_storage,
            )

        make = partial(life.create, docker, lease.name, platform=self.params.platform)
        try:
            try:
                await make(config(limits_storage=self._can_limit_storage))
            except DockerError as error:
                if not storage.is_unsupported(error):
                    raise
                self._can_limit_storage = False
                await make(config(limits_storage=False))
        except DockerError as error:
            if error.status is None:
                self._unanswered.add(lease.id)
            raise
        try:
            await life.start(docker, lease.name)
        except DockerError as error:
            if error.status is None:
                raise
            raise SandboxError(error.message, code="start-failed") from error
        return await life.running(docker, lease.name)

    async def _entry_point(self, connected: Connected, image: str) -> Sequence[str]:
        if not self.params.command:
            return ()
        found = await connected.images.inspect(image) or {}
        return (found.get("Config") or {}).get("Entrypoint") or ()

    async def _watch(
        self, docker: Docker, nursery: trio.Nursery, plan: SandboxPlan, state: life.ContainerState
    ) -> None:
        """Start what goes on beside the work."""
        if hosts := relayed_hosts(self.params, plan):
            opened = await trio.to_thread.run_sync(
                relay.listen, hosts, state.pid, state.id, limiter=docker.threads
            )
            nursery.start_soon(opened.serve)
        limit_mb = resources_of(self.params, plan).storage_mb
        if limit_mb is not None and not self._can_limit_storage:
            nursery.start_soon(storage.bound, docker, state.name, limit_mb)

    def _place(self, docker: Docker, plan: SandboxPlan, state: life.ContainerState) -> Place:
        config = state.details["Config"]
        address = docker.address
        options = () if address.source == "the default" else ("-H", address.host)
        return Place(
            name=state.name,
            workdir=config.get("WorkingDir") or "/",
            user=config.get("User") or "",
            env={**self.params.env_variables, **plan.env},
            enter=("docker", *options),
        )

    async def remove(self, lease: Lease) -> None:
        """Remove the container of a lease, wherever its engine is; see `Environment.remove`.

        Raises:
            SandboxError: It is still there, the engine cannot be asked, or what has its name is not this lease's (code
                `bad-lease`).
        """
        async with self._engine_of(lease).use() as connected:
            docker = connected.docker
            until = trio.current_time() + self._settle_seconds(lease)
            while not await self._removed(docker, lease):
                if trio.current_time() >= until:
                    break
                await trio.sleep(_SETTLE_PAUSE)
        self._unanswered.discard(lease.id)

    async def _removed(self, docker: Docker, lease: Lease) -> bool:
        """Remove the container; whether there was one."""
        state = await life.inspect(docker, lease.name)
        if state is None:
            return False
        labels = state.details["Config"].get("Labels") or {}
        if labels.get(LEASE_LABEL) != lease.id:
            raise SandboxError(
                f"the container {lease.name} is not the one that was made for this lease",
                code="bad-lease",
                retryable=False,
            )
        await life.remove(docker, state.id)
        return True

    def _settle_seconds(self, lease: Lease) -> float:
        """How long it is to be believed that a container which is not there may still come."""
        if lease.id in self._unanswered:
            return SETTLE_SECONDS
        if lease.owner.pid == os.getpid():
            return 0.0
        # The engine goes on with what a killed process has asked it for.
        begun = datetime.fromisoformat(lease.created_at)
        return SETTLE_SECONDS - (datetime.now(UTC) - begun).total_seconds()

    def _engine_of(self, lease: Lease) -> Engine:
        host = lease.details.get(HOST_DETAIL)
        if host is None or host == self._host:
            return self._engine  # with its certificates, where it has some
        return Engine(host)
