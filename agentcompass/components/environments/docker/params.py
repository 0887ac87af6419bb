"""What a user may set of the environment `docker`, and what is wrong with it before any engine is asked."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, final

import attrs

from agentcompass.components.environments.docker.known import (
    capability_problem,
    option_problem,
    platform_problem,
    user_problem,
)
from agentcompass.components.environments.docker.mounts import mount_problems
from agentcompass.containers.names import is_image_name
from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError
from agentcompass.spec.ranges import NonNegativeInt, PositiveFloat, PositiveInt

DEFAULT_PORTS: Final = (80, 443)
"""Of an allowed host that names none."""
MAX_ALLOWED_HOSTS: Final = 64
_UNSAFE_OPTIONS: Final = ("apparmor=unconfined", "systempaths=unconfined")
_SECCOMP_PROFILES: Final = ("builtin", "default")
"""Of the engine; one that is given in full may allow everything."""
_NETWORK: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_HOST_NAME: Final = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*"
)


@frozen(kw_only=True)
class DockerParams:
    """Parameters of `docker`."""

    image: str | None = None
    """Image for tasks that name none of their own."""
    build: str | None = None
    """In place of `image`: a directory with a Dockerfile, built once for each content."""
    pull: Literal["missing", "always", "never"] = "missing"
    """When images are pulled; `always` means once in a run."""
    task_images: Literal["published", "built"] = "published"
    """Of tasks that have an image and a Dockerfile: `published` builds only what cannot be pulled, `built` all."""
    platform: str | None = None
    """Platform of images, such as `linux/amd64`; null: the engine's."""
    user: str | None = None
    """User of commands for tasks that name none, a name or uid, perhaps with `:group`; null: the image's."""
    workdir: str | None = None
    """Absolute directory for tasks that name none; null: the image's."""
    command: tuple[str, ...] = ()
    """Main process, after the image's entry point, such as a service that tasks need; none: one that only waits."""
    mounts: tuple[str, ...] = ()
    """Directories of the engine's machine or named volumes, as `SOURCE:TARGET` or `SOURCE:TARGET:ro`."""
    env_variables: Mapping[str, str] = attrs.field(factory=dict)
    """Environment variables of every command; they are not in the container's configuration, where others could read them."""
    network: str = "default"
    """`default` (a bridge with a way out), `none`, or the name of a network of the engine. A task may ask for `none` by itself."""
    allowed_hosts: tuple[str, ...] = ()
    """The only hosts that can be reached, by TCP, as `HOST`, `HOST:PORT` or `NAME=HOST:PORT`; none: `network` decides."""
    cpus: PositiveFloat | None = None
    """Processors; null: what the task asks for, else no limit. Likewise the other limits."""
    memory_mb: PositiveInt | None = None
    """Memory in MiB, swap included."""
    pids: PositiveInt | None = None
    """Processes and threads; by default 4096."""
    storage_mb: PositiveInt | None = None
    """What a container may write, in MiB; where the engine's storage cannot limit it, a container that goes beyond is ended."""
    gpus: NonNegativeInt | None = None
    """How many GPUs."""
    init: bool = True
    """Whether a small first process reaps orphans."""
    cap_drop: tuple[str, ...] = ("MKNOD", "NET_RAW")
    """Capabilities taken away from those that the engine gives."""
    security_opt: tuple[str, ...] = ("no-new-privileges",)
    """The engine's security options; without `no-new-privileges`, sudo works."""
    host: str | None = None
    """Address of the engine, as in DOCKER_HOST; null: as the docker command finds it."""


@final
@frozen(kw_only=True)
class AllowedHost:
    """A host that sandboxes may reach."""

    name: str
    """As programs in the sandbox call it."""
    host: str
    """What is connected to."""
    ports: tuple[int, ...]


def check(params: DockerParams) -> None:
    """Check what can be checked without an engine.

    Raises:
        ConfigurationError: Something is wrong; the message has a line for each.
    """
    if problems := list(_problems(params)):
        raise ConfigurationError("\n".join(f"docker: {problem}" for problem in problems))


def _problems(params: DockerParams) -> Iterator[str]:
    if params.image and params.build:
        yield "image and build are both given; sandboxes start from one image"
    if params.workdir is not None and not params.workdir.startswith("/"):
        yield f"workdir {params.workdir!r} is not absolute"
    if params.command and not params.init:
        yield "a command needs init: without it nothing in the container could end it after its time"
    if params.image is not None and not is_image_name(params.image):
        yield f"image {params.image!r} is no name of an image, such as python:3.12-slim"
    yield from filter(None, map(capability_problem, params.cap_drop))
    if params.platform is not None and (problem := platform_problem(params.platform)):
        yield problem
    if params.user is not None and (problem := user_problem(params.user)):
        yield problem
    for option in params.security_opt:
        yield from _option_problems(option)
    for name, value in params.env_variables.items():
        if not name or "=" in name or "\0" in name + value:
            yield f"env_variables has {name!r}: a name may not be empty nor have =, and nothing may have a zero byte"
    yield from _network_problems(params)
    yield from mount_problems(params.mounts, params.host)


def _option_problems(option: str) -> Iterator[str]:
    # The engine takes a colon only where there is no equals sign.
    name, _, value = option.partition("=" if "=" in option else ":")
    is_foreign = name == "seccomp" and value not in _SECCOMP_PROFILES
    if is_foreign or f"{name}={value}" in _UNSAFE_OPTIONS:
        yield f"security_opt {option[:60]!r} would take away a wall that sandboxes need"
    elif problem := option_problem(option, name):
        yield problem


def _network_problems(params: DockerParams) -> Iterator[str]:
    if params.allowed_hosts and params.network != "default":
        yield f"allowed_hosts and the network {params.network!r} exclude each other"
    if params.network == "host" or params.network.startswith("container:"):
        yield f"the network {params.network!r} would not be the sandbox's own"
    elif not _NETWORK.fullmatch(params.network):
        yield f"network {params.network!r} is no name of a network"
    if len(params.allowed_hosts) > MAX_ALLOWED_HOSTS:
        yield f"more than {MAX_ALLOWED_HOSTS} allowed_hosts"
    if unreadable := list(_unreadable(allowed_host_of, params.allowed_hosts)):
        yield from unreadable
        return
    hosts = map(allowed_host_of, params.allowed_hosts)
    places = [(host.name, port) for host in hosts for port in host.ports]
    for name, port in sorted({place for place in places if places.count(place) > 1}):
        yield f"allowed_hosts has port {port} of {name} twice"


def _unreadable(function: Callable[[str], object], texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        try:
            function(text)
        except ValueError as error:
            yield str(error)


def allowed_host_of(text: str) -> AllowedHost:
    """Read an allowed host.

    Raises:
        ValueError: It is none.
    """
    alias, is_named, place = text.rpartition("=")
    host, _, port = place.partition(":")
    if "*" in text:
        raise ValueError(f"allowed host {text!r}: there are no patterns; name each host")
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(f"allowed host {text!r} is not HOST, HOST:PORT or NAME=HOST:PORT")
    name = alias if is_named else host
    if not _HOST_NAME.fullmatch(host) or not _HOST_NAME.fullmatch(name):
        raise ValueError(f"allowed host {text!r} is not HOST, HOST:PORT or NAME=HOST:PORT")
    if _is_address(name) or name.lower() == "localhost":
        raise ValueError(f"allowed host {text!r} needs a name for the sandbox: NAME={place}")
    return AllowedHost(name=name.lower(), host=host, ports=(int(port),) if port else DEFAULT_PORTS)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
