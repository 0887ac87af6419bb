"""What a Compose file says, as data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

import attrs

from agentcompass.components.base import ImageBuild, ImageSource, Resources, SandboxPlan
from agentcompass.components.environments.docker.compose.variables import CLIENT_IMAGE, TASK_IMAGE
from agentcompass.data import frozen

Condition: TypeAlias = Literal[
    "service_started", "service_healthy", "service_completed_successfully"
]
Restart: TypeAlias = Literal["no", "always", "on-failure", "unless-stopped"]


@frozen(kw_only=True)
class HealthCheck:
    """How an engine finds out whether a service is well; None leaves it to the image, or the engine."""

    test: tuple[str, ...] = ()
    """Begins with `CMD`, `CMD-SHELL` or `NONE`; empty: the image's."""
    interval_seconds: float | None = None
    timeout_seconds: float | None = None
    start_period_seconds: float | None = None
    retries: int | None = None


@frozen(kw_only=True)
class Mount:
    """What a service finds at a path: a named volume, something of the task's directory, or a volume of its own."""

    target: str
    """Absolute."""
    is_read_only: bool = False
    volume: str | None = None
    """Its name in the file."""
    path: Path | None = None
    """Resolved, below the task's directory; a directory may be missing, and is empty then."""


@frozen(kw_only=True)
class Service:
    """One container. None and emptiness leave it to the image, or the engine."""

    name: str
    image: str | None = None
    build: ImageBuild | None = None
    platform: str | None = None
    entrypoint: tuple[str, ...] | None = None
    """Empty: none, whatever the image says."""
    command: tuple[str, ...] | None = None
    env: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    user: str | None = None
    working_dir: str | None = None
    hostname: str | None = None
    depends_on: Mapping[str, Condition] = attrs.field(factory=dict)
    health: HealthCheck | None = None
    restart: Restart = "no"
    max_restarts: int = 0
    """With `on-failure`; 0: no limit."""
    mounts: tuple[Mount, ...] = ()
    tmpfs: Mapping[str, str] = attrs.field(factory=dict)
    """By path, options."""
    networks: Mapping[str, tuple[str, ...]] | None = None
    """By name, the names of the service in it; empty: it has none at all; None: as sandboxes without services have it."""
    dns: tuple[str, ...] = ()
    dns_search: tuple[str, ...] = ()
    extra_hosts: tuple[str, ...] = ()
    """`NAME:ADDRESS`."""
    cap_add: tuple[str, ...] = ()
    cap_drop: tuple[str, ...] = ()
    ulimits: Mapping[str, tuple[int, int]] = attrs.field(factory=dict)
    """By name, soft and hard."""
    shm_bytes: int | None = None
    resources: Resources = attrs.field(factory=Resources)
    init: bool | None = None
    is_read_only: bool = False
    tty: bool = False
    stdin_open: bool = False


@frozen(kw_only=True)
class Project:
    """A whole file."""

    file: Path
    main: Service
    """The sandbox itself."""
    sides: tuple[Service, ...] = ()
    """The services beside it."""
    networks: Mapping[str, bool] = attrs.field(factory=dict)
    """Those that services are in, each with whether it has no way out."""
    volumes: tuple[str, ...] = ()
    """Those that services mount."""
    notes: tuple[str, ...] = ()
    """What is left out, for people."""

    @property
    def services(self) -> tuple[Service, ...]:
        """The sides, and the sandbox last."""
        return (*self.sides, self.main)

    def source_of(self, service: Service, plan: SandboxPlan) -> ImageSource:
        """Return where the image of a service comes from: as the file says, else as the task does."""
        image, build = service.image, service.build
        if image in (TASK_IMAGE, CLIENT_IMAGE) or (service is self.main and image is None):
            image, build = plan.image, build or plan.build
        if build is not None and plan.build is not None:
            build = attrs.evolve(build, timeout_seconds=plan.build.timeout_seconds)
        return ImageSource(image=image, build=build, platform=service.platform)
