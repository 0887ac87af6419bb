"""What containers find of the task's directory: mounted read-only where that is certain, else as copies.

Nothing that a container does changes the task's own files, which other sandboxes start from too. A directory that is
written to, or that an engine elsewhere has to be given, becomes a volume, filled before anything starts, which the
services that name it share; a file is copied into each container.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

import attrs

from agentcompass.components.environments.docker.compose.bodies import Group
from agentcompass.components.environments.docker.compose.project import Mount, Project, Service
from agentcompass.containers import archive
from agentcompass.containers.client import Docker
from agentcompass.data import frozen
from agentcompass.errors import SandboxError

_NO_SOURCE: Final = "bind source path does not exist"


def is_elsewhere(message: str) -> bool:
    """Whether an engine's words say that it does not see the task's directory."""
    return _NO_SOURCE in message


@final
@frozen(kw_only=True)
class Copy:
    """Something of the task's directory that is copied before the start."""

    source: Path
    service: str
    """Whose container it is copied through."""
    target: str


@final
@frozen(kw_only=True)
class Layout:
    """Where the files of one project go."""

    mounts: Mapping[str, Sequence[Mapping[str, Any]]]
    """By service, as the engine takes them."""
    volumes: tuple[str, ...]
    """Names of those that are to be made, without the sandbox's."""
    copies: tuple[Copy, ...]


def laid_out(project: Project, group: Group, *, can_mount: bool) -> Layout:
    """Return where everything goes. Blocking.

    Args:
        project: The services with their mounts.
        group: Names the volumes.
        can_mount: The engine sees the files of this machine.

    Raises:
        SandboxError: A file is not there, or a link leads out of the task's directory (code `bad-compose`).
    """
    every = [mount for service in project.services for mount in service.mounts]
    written = [mount.path for mount in every if mount.path and not mount.is_read_only]
    laying = _Laying(project, group, written, can_mount)
    return Layout(
        mounts={
            service.name: [made for mount in service.mounts for made in laying.lay(service, mount)]
            for service in project.services
        },
        volumes=(*project.volumes, *laying.volumes.values()),
        copies=tuple(laying.copies),
    )


async def copy_all(docker: Docker, copies: Sequence[Copy], names: Mapping[str, str]) -> None:
    """Copy, into containers that are not started.

    Args:
        docker: The engine.
        copies: What.
        names: Of containers, by service.

    Raises:
        DockerError: It cannot be done.
        SandboxError: A file cannot be read (code `bad-compose`).
    """
    for one in copies:  # one after another: a target may lie below another
        try:
            await archive.upload(docker, names[one.service], one.source, one.target)
        except OSError as error:
            raise SandboxError(
                f"{error.filename or one.source}, which the Compose file of the task mounts, cannot be read: "
                f"{error.strerror or error}",
                code="bad-compose",
                retryable=False,
            ) from error


@final
@attrs.define(eq=False)
class _Laying:
    project: Project
    group: Group
    written: Sequence[Path]
    can_mount: bool
    volumes: dict[Path, str] = attrs.field(factory=dict)
    copies: list[Copy] = attrs.field(factory=list)

    def lay(self, service: Service, mount: Mount) -> Iterator[Mapping[str, Any]]:
        """Give what the engine mounts, if anything, and remember what is copied."""
        common = {"Target": mount.target, "ReadOnly": mount.is_read_only}
        if mount.path is None:
            source = {"Source": self.group.name_of(mount.volume)} if mount.volume else {}
            yield {"Type": "volume", **common, **source}
        elif self.can_mount and mount.path.exists() and not self._is_written(mount.path):
            yield {"Type": "bind", **common, "Source": str(mount.path)}
        elif mount.path.is_file():
            self.copies.append(Copy(source=mount.path, service=service.name, target=mount.target))
        else:
            name = self._volume(service, mount, mount.path)
            # Not what the image has there: a directory that is mounted hides it.
            yield {
                "Type": "volume",
                "Target": mount.target,
                "Source": self.group.name_of(name),
                "VolumeOptions": {"NoCopy": True},
            }

    def _is_written(self, path: Path) -> bool:
        return any(
            path.is_relative_to(other) or other.is_relative_to(path) for other in self.written
        )

    def _volume(self, service: Service, mount: Mount, path: Path) -> str:
        name = self.volumes.get(path)
        if name is None:
            name = self.volumes[path] = f"files-{len(self.volumes) + 1}"
            if path.exists():
                self._check_links(path)
                self.copies.append(Copy(source=path, service=service.name, target=mount.target))
        return name

    def _check_links(self, path: Path) -> None:
        """Refuse a link out of the task's directory: a copy would hold what it leads to."""
        root = self.project.file.parent
        for directory, folders, files in os.walk(path):
            for entry in (*folders, *files):
                found = Path(directory, entry)
                if found.is_symlink() and not found.resolve().is_relative_to(root):
                    raise SandboxError(
                        f"the Compose file of the task mounts {found}, a link out of the task's directory",
                        code="bad-compose",
                        retryable=False,
                    )
