"""All that was made for a lease, found by its label and removed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final

from agentcompass.components.environments.docker.config import LEASE_LABEL
from agentcompass.containers import life, resources
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.containers.together import together
from agentcompass.data import frozen
from agentcompass.errors import SandboxError
from agentcompass.records import Lease

AT_ONCE: Final = 4
"""Removals for one sandbox at once."""


@frozen(kw_only=True)
class Removed:
    """What was there."""

    has_sandbox: bool
    """The sandbox's own container, which is made last."""
    has_others: bool
    """Something beside it."""


async def remove_all(docker: Docker, lease: Lease) -> Removed:
    """Remove the containers, networks and volumes of a lease, and return when they are gone.

    Raises:
        DockerError: Something is still there.
        SandboxError: What has the sandbox's name is not this lease's (code `bad-lease`); nothing was removed.
    """
    own = await life.inspect(docker, lease.name)
    if own is not None and (own.details["Config"].get("Labels") or {}).get(LEASE_LABEL) != lease.id:
        raise SandboxError(
            f"the container {lease.name} is not the one that was made for this lease",
            code="bad-lease",
            retryable=False,
        )
    label = f"{LEASE_LABEL}={lease.id}"
    containers = await life.listed(docker, label)
    # Also one that is on its way out, which lists leave out.
    ids = {found.id for found in containers} | ({own.id} if own is not None else set())
    await _each(partial(life.remove, docker, one) for one in ids)
    networks = await resources.listed_networks(docker, label)
    volumes = await resources.listed_volumes(docker, label)
    await _each(
        (
            *(partial(resources.remove_network, docker, one.name) for one in networks),
            *(partial(resources.remove_volume, docker, one.name) for one in volumes),
        )
    )
    others = len(ids) - int(own is not None) + len(networks) + len(volumes)
    return Removed(has_sandbox=own is not None, has_others=others > 0)


async def _each(removals: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Do all of them, whichever fail; then raise the first failure."""
    failures: list[DockerError] = []

    async def attempt(remove: Callable[[], Awaitable[None]]) -> None:
        try:
            await remove()
        except DockerError as error:
            failures.append(error)

    await together(*(partial(attempt, remove) for remove in removals), at_once=AT_ONCE)
    if failures:
        raise failures[0]
