"""Networks and volumes: made under a name chosen beforehand, listed by label, removed for certain."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, final

from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.containers.settle import made
from agentcompass.containers.wire import Ask, path_of
from agentcompass.data import frozen

_GONE: Final = 404


@final
@frozen(kw_only=True)
class Resource:
    """A network or a volume in a list."""

    name: str
    labels: Mapping[str, str]


async def create_network(docker: Docker, name: str, config: Mapping[str, Any]) -> None:
    """Make a network. When the task is cancelled, there is none afterwards.

    Args:
        docker: The engine.
        name: Written down by the caller beforehand.
        config: More of the body of the engine's call: `Driver`, `Internal`, `Labels`, `Options`, `IPAM`, ...

    Raises:
        DockerError: It was not made: `conflict` (the name is taken), `no-address-pool` (the engine has some thirty
            address ranges for all of its networks); or perhaps it was, see `settle.made`.
    """
    body = {**config, "Name": name, "CheckDuplicate": True}
    ask = Ask("POST", "/networks/create", f"create the network {name}", body=body)
    await made(
        partial(docker.call, ask),
        partial(remove_network, docker, name),
        seconds=docker.undo_seconds,
    )


async def remove_network(docker: Docker, name: str) -> None:
    """Remove a network; none there is fine.

    Raises:
        DockerError: It is still there, for instance since containers are connected to it (code `forbidden`).
    """
    ask = Ask("DELETE", path_of("networks", name), f"remove the network {name}")
    await docker.call(ask, accept={_GONE})


async def connect_network(
    docker: Docker, name: str, container: str, *, aliases: tuple[str, ...] = ()
) -> None:
    """Connect a container to a network, under further names in that network."""
    ask = Ask(
        "POST",
        path_of("networks", name, "connect"),
        f"connect the container {container} to the network {name}",
        body={"Container": container, "EndpointConfig": {"Aliases": list(aliases)}},
    )
    await docker.call(ask)


async def disconnect_network(docker: Docker, name: str, container: str) -> None:
    """Disconnect a container from a network; either may be gone."""
    ask = Ask(
        "POST",
        path_of("networks", name, "disconnect"),
        f"disconnect the container {container} from the network {name}",
        body={"Container": container, "Force": True},
    )
    await docker.call(ask, accept={_GONE})


async def listed_networks(docker: Docker, *labels: str) -> list[Resource]:
    """Return the networks that carry all of the labels, each `name` or `name=value`."""
    query = {"filters": {"label": list(labels)}}
    answer = await docker.call(Ask("GET", "/networks", "list networks", query=query))
    return _resources(answer)


async def create_volume(docker: Docker, name: str, labels: Mapping[str, str]) -> None:
    """Make a volume. When the task is cancelled, there is none afterwards.

    Raises:
        DockerError: It was not made: `conflict` (the name is taken); or perhaps it was, see `settle.made`.
    """
    body = {"Name": name, "Labels": dict(labels)}
    # The engine itself would give the one that is there, and an undoing would take away what is another's.
    look = Ask("GET", path_of("volumes", name), f"look for the volume {name}")
    if await docker.call(look, accept={_GONE}):
        raise DockerError(f"there is a volume {name} already", code="conflict")
    ask = Ask("POST", "/volumes/create", f"create the volume {name}", body=body)
    await made(
        partial(docker.call, ask), partial(remove_volume, docker, name), seconds=docker.undo_seconds
    )


async def remove_volume(docker: Docker, name: str, *, seconds: float | None = None) -> None:
    """Remove a volume and what is in it; none there is fine.

    Raises:
        DockerError: It is still there, for instance since a container uses it (code `conflict`).
    """
    ask = Ask(
        "DELETE",
        path_of("volumes", name),
        f"remove the volume {name}",
        query={"force": True},
        seconds=seconds,
    )
    await docker.call(ask, accept={_GONE})


async def listed_volumes(docker: Docker, *labels: str) -> list[Resource]:
    """Return the volumes that carry all of the labels, each `name` or `name=value`."""
    query = {"filters": {"label": list(labels)}}
    answer = await docker.call(Ask("GET", "/volumes", "list volumes", query=query))
    return _resources(answer.get("Volumes") or [])


def _resources(items: list[Mapping[str, Any]]) -> list[Resource]:
    return [Resource(name=item["Name"], labels=item.get("Labels") or {}) for item in items]
