"""What of the engine's machine a sandbox may be given, and what would give it the whole machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, final

from agentcompass.containers.address import find_engine
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.containers.wire import Ask, path_of
from agentcompass.data import frozen

ENGINE_SOCKETS: Final = (
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/run/docker/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/containerd/containerd.sock",
)
"""Whoever has one of them in a container has this machine."""
USER_SOCKETS: Final = ("docker.sock", "podman/podman.sock")
"""Of engines without root, in the directory of each user below `USER_DIRECTORY`."""
USER_DIRECTORY: Final = Path("/run/user")
_PROC: Final = Path("/proc")
_VOLUME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]+")


@final
@frozen(kw_only=True)
class Mount:
    """Something of the engine's machine in a container."""

    source: str
    """Absolute path, or the name of a volume."""
    target: str
    is_read_only: bool

    @property
    def is_volume(self) -> bool:
        """Whether the source is a volume."""
        return not self.source.startswith("/")


def mount_of(text: str) -> Mount:
    """Read a mount.

    Raises:
        ValueError: It is none.
    """
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not source or "\0" in text or not target.startswith("/") or mode not in ("", "ro", "rw"):
        raise ValueError(f"mount {text!r} is not SOURCE:TARGET or SOURCE:TARGET:ro")
    if not _VOLUME.fullmatch(source) or source in (".", ".."):
        try:
            source = str(Path(source).expanduser().resolve())
        except (OSError, RuntimeError) as error:
            raise ValueError(
                f"mount {text!r} leads nowhere that can be looked at: {error}"
            ) from error
    return Mount(source=source, target=target, is_read_only=mode == "ro")


def mount_problems(texts: Sequence[str], host: str | None) -> Iterator[str]:
    """Give what is wrong with mounts before any engine is asked: those that are none, or hand over an engine.

    Args:
        texts: The mounts.
        host: Address of the engine; None: as the docker command finds it.
    """
    for text in texts:
        try:
            mount = mount_of(text)
        except ValueError as error:
            yield str(error)
            continue
        source = Path(mount.source)
        if mount.is_volume:
            continue
        if source.is_relative_to(_PROC):
            yield f"mount {text!r} would give the sandbox /proc, and with it this whole machine"
        for socket in _sockets(source, host):
            if socket.is_relative_to(source) or socket.resolve().is_relative_to(source):
                yield f"mount {text!r} would give the sandbox {socket}, and with it this whole machine"
                break


async def volume_problems(texts: Sequence[str], docker: Docker) -> list[str]:
    """Return the named volumes that the engine does not have: it would make them, empty, and keep them.

    Raises:
        DockerError: The engine does not answer.
    """
    names = sorted({mount.source for mount in map(mount_of, texts) if mount.is_volume})
    problems = []
    for name in names:
        ask = Ask("GET", path_of("volumes", name), f"look for the volume {name}")
        if await docker.call(ask, accept={404}) is None:
            problems.append(
                f"there is no volume {name!r}: make it with `docker volume create {name}`, "
                f"or write ./{name} for a directory"
            )
    return problems


def data_problems(texts: Sequence[str], root: str) -> Iterator[str]:
    """Give the mounts that would hand over the engine's own data, which is that of all containers.

    Args:
        texts: The mounts.
        root: Where the engine keeps it, as it says itself; empty: it does not say.
    """
    for text in texts if root else ():
        mount, data = mount_of(text), Path(root)
        source = Path(mount.source)
        if not mount.is_volume and any(
            path.is_relative_to(source) or source.is_relative_to(path)
            for path in (data, data.resolve())
        ):
            yield f"the mount {text!r} would give the sandbox the engine's own data in {root}"


def _sockets(source: Path, host: str | None) -> Iterator[Path]:
    """Give the sockets that a source might hold: those that are usual, and that of the engine in use."""
    yield from map(Path, ENGINE_SOCKETS)
    yield Path.home() / ".docker" / "run" / "docker.sock"
    # Of whichever user the source is; of all, if it is the directory of all.
    user = (
        source.parts[len(USER_DIRECTORY.parts) :][:1]
        if source.is_relative_to(USER_DIRECTORY)
        else ()
    )
    for name in USER_SOCKETS:
        yield Path(USER_DIRECTORY, *user, name)
    try:
        address = find_engine(host, environ=os.environ, home=Path.home())
    except DockerError:
        return  # whoever asks this engine is told
    if address.socket_path is not None:
        yield Path(address.socket_path)
