"""A provider of sandboxes, and what a task asks of them."""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import attrs

from agentcompass.components.base.component import Component, P
from agentcompass.components.base.session import Session
from agentcompass.data import frozen
from agentcompass.errors import PreflightError
from agentcompass.records import Lease


@frozen(kw_only=True)
class Resources:
    """What a sandbox may use; None leaves it to the environment's default."""

    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    pids: int | None = None
    gpus: int | None = None


def _pairs(args: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(dict(args).items()))


@frozen(kw_only=True)
class ImageBuild:
    """What an image is built from."""

    context: Path
    """Directory of this machine; its `.dockerignore` counts."""
    dockerfile: str = "Dockerfile"
    """Relative to `context`."""
    args: tuple[tuple[str, str], ...] = attrs.field(default=(), converter=_pairs)
    """Names and values, in order; may be given as a mapping."""
    target: str | None = None
    """The stage; None: the last."""
    timeout_seconds: float | None = None
    """None: no limit."""

    @property
    def name(self) -> str:
        """What people call it: no two builds have one name, whatever time they may take."""
        path = str(self.context / self.dockerfile)
        more = [f"{key}={value}" for key, value in self.args]
        more += [f"target {self.target}"] if self.target is not None else []
        return f"{path} ({', '.join(more)})" if more else path


@frozen(kw_only=True)
class ImageSource:
    """Where an image comes from that containers start from: by its name, from a build, or whichever can be had."""

    image: str | None = None
    build: ImageBuild | None = None
    """Where an image is named too, this is done when that cannot be had."""
    platform: str | None = None
    """Such as `linux/amd64`; None: the environment's own choice."""

    @property
    def name(self) -> str:
        """What people call it."""
        if self.image is not None:
            return self.image
        return self.build.name if self.build is not None else "(none)"


@frozen(kw_only=True)
class SandboxPlan:
    """What a task needs of its sandbox; recipes may adjust it before the sandbox is opened."""

    image: str | None = None
    """Where `build` is given too, that is what is done when this image cannot be had."""
    build: ImageBuild | None = None
    """How to make the image."""
    compose: Path | None = None
    """A Compose file with containers beside the sandbox's own, which is its service `main`."""
    workdir: str | None = None
    """Where commands run by default; None: the environment's own choice."""
    env: Mapping[str, str] = attrs.field(factory=dict)
    resources: Resources = attrs.field(factory=Resources)
    user: str | None = None
    """Who commands run as by default; None: the environment's own choice."""
    network: bool = True
    shared: Mapping[str, Path] = attrs.field(factory=dict)
    """Directories of this machine by their path in the sandbox, where they cannot be written. An environment that cannot do
    so without a copy leaves them out; whoever needs one uploads it then."""
    artifacts: tuple[str, ...] = ()
    """Paths (relative to the work directory) that go from the agent's sandbox to a fresh one for evaluation."""


@frozen(kw_only=True)
class Capabilities:
    """What an environment can do; checked before anything costs."""

    images: bool = False
    """It can start from a named image, build one, and start the containers of a Compose file."""
    network_control: bool = False
    resource_limits: bool = False
    users: bool = False
    is_security_boundary: bool = False
    """Untrusted code cannot reach the host."""


class Environment(Component[P]):
    """A provider of sandboxes."""

    capabilities: Capabilities = Capabilities()
    """Given on the class, or set by the constructor where a parameter decides."""
    descriptors: int = 4
    """Open files and sockets of this process that an open sandbox takes while a command runs in it; likewise."""
    close_timeout_seconds: float = 0.0
    """How long a sandbox may take to close, as the run is told; 0: no limit. What is undone after a cancellation under
    a shield of the environment's own is to take no longer. Set by the engine."""

    async def preflight(self) -> None:
        """Check that sandboxes can be made, before anything costs.

        Raises:
            PreflightError: Something is missing; the message says what to do.
        """

    async def check_listening(self) -> None:
        """Check that programs in its sandboxes can be accepted (`Session.listen`), after `preflight`.

        Raises:
            PreflightError: They cannot; here always.
        """
        raise PreflightError(
            f"programs in sandboxes of {self.id!r} cannot be given a way to the model",
            hint="Choose another environment, such as docker or host_process.",
        )

    def images_of(self, plan: SandboxPlan) -> Collection[ImageSource]:
        """Return the images that the sandboxes of a plan start from. Called in a worker thread; brings none.

        Raises:
            SandboxError: The plan names none, or cannot be read.
        """
        return ()

    async def check_images(
        self, sources: Collection[ImageSource]
    ) -> Mapping[ImageSource, int | None]:
        """Return the size of each image in bytes; None where `fetch` will have to bring it. Asked after `preflight`.

        Args:
            sources: What `images_of` gave for the plans of a request.

        Raises:
            PreflightError: There are some that cannot be had; it names each.
        """
        return dict.fromkeys(sources)

    async def fetch_image(self, source: ImageSource, tell: Callable[[str], None]) -> None:
        """Bring one image, unless it is there; as `fetch` does for all of a plan.

        Raises:
            SandboxError: It cannot be had.
        """

    async def fetch(self, plan: SandboxPlan, tell: Callable[[str], None]) -> None:
        """Bring what sandboxes of this plan need and share, such as an image, unless it is there.

        Called before every `open`, outside of the time that a task has for opening. Calls for the same thing share
        the work; one that is cancelled leaves it to the others, or ends it.

        Args:
            plan: Of the sandbox that is to be opened next.
            tell: Takes a line for people about what is being done, now and then.

        Raises:
            SandboxError: It cannot be had.
        """

    def lease_details(self) -> Mapping[str, str]:
        """What `remove` will need in order to find a sandbox again, beside the lease's name."""
        return {}

    @abc.abstractmethod
    def open(self, plan: SandboxPlan, lease: Lease) -> AbstractAsyncContextManager[Session]:
        """Make the sandbox named `lease.name` and close it on exit; usually an `@asynccontextmanager`.

        The engine has written the lease before and shields nothing: an implementation whose provider goes on
        creating after a cancelled request awaits the answer under its own shield. Leaving the context stops every
        process and removes everything, unless `lease.keep`.

        Raises:
            SandboxError: It could not be made.
        """

    @abc.abstractmethod
    async def remove(self, lease: Lease) -> None:
        """Remove what a lease names, wherever it stands, and return only when it is confirmed gone.

        Idempotent. Used after a failed close, by the reaper and by `agentcompass env close`.
        """
