"""From a plan to the body of the engine's create call. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from agentcompass.components.base import MiB, Resources, SandboxPlan
from agentcompass.components.environments.docker.mounts import mount_of
from agentcompass.components.environments.docker.params import (
    AllowedHost,
    DockerParams,
    allowed_host_of,
)
from agentcompass.data import frozen
from agentcompass.records import Lease

LABEL: Final = "agentcompass"
"""Begins the name of every label."""
LEASE_LABEL: Final = f"{LABEL}.lease"
DEFAULT_PIDS: Final = 4096
MIN_LIFETIME: Final = 1
"""Seconds."""

# Also the main process is ended with the lifetime: what it started to wait for that is its own child.
_COMMAND_WITH_END: Final = '(sleep "$0"; kill -KILL -1) & exec "$@"'


@frozen(kw_only=True)
class Relayed:
    """An allowed host and where a sandbox finds it."""

    host: AllowedHost
    address: str
    """On the sandbox's own loopback device."""


def network_of(params: DockerParams, plan: SandboxPlan) -> str:
    """Return the engine's name for the network of a plan."""
    if not plan.network or params.allowed_hosts:
        return "none"
    return "bridge" if params.network == "default" else params.network


def relayed_hosts(params: DockerParams, plan: SandboxPlan) -> Sequence[Relayed]:
    """Return what a sandbox without a network of its own may reach, each name with an address for it."""
    if not plan.network:
        return ()
    by_name: dict[str, list[AllowedHost]] = {}
    for text in params.allowed_hosts:
        host = allowed_host_of(text)
        by_name.setdefault(host.name, []).append(host)
    return [
        Relayed(host=host, address=f"127.77.0.{number}")
        for number, hosts in enumerate(by_name.values(), start=1)
        for host in hosts
    ]


def resources_of(params: DockerParams, plan: SandboxPlan) -> Resources:
    """Return the limits of a sandbox: the user's, else the task's."""

    def chosen(name: str) -> Any:
        own = getattr(params, name)
        return getattr(plan.resources, name) if own is None else own

    return Resources(
        **{name: chosen(name) for name in ("cpus", "memory_mb", "storage_mb", "pids", "gpus")}
    )


def lifetime_of(lease: Lease, now: datetime) -> int:
    """Return how many seconds a container may live at most."""
    rest = datetime.fromisoformat(lease.expires_at).astimezone(UTC) - now
    return max(MIN_LIFETIME, math.ceil(rest.total_seconds()))


def labels_of(lease: Lease) -> Mapping[str, str]:
    """Return what everything that is made for a lease carries."""
    return {
        LEASE_LABEL: lease.id,
        f"{LABEL}.run": lease.run_id,
        f"{LABEL}.boot": lease.owner.boot_id,
        f"{LABEL}.pid": str(lease.owner.pid),
        f"{LABEL}.started": str(lease.owner.started),
        f"{LABEL}.expires": lease.expires_at,
    }


def container_config(
    params: DockerParams,
    plan: SandboxPlan,
    lease: Lease,
    image: str,
    *,
    lifetime: int,
    program: Sequence[str] = (),
    limits_storage: bool = False,
) -> dict[str, Any]:
    """Return the body of the create call. No variable is in it: those are given to each command.

    Args:
        params: The user's.
        plan: The task's.
        lease: Names the container.
        image: That the engine has.
        lifetime: Seconds until it ends by itself.
        program: The main process; empty: one that only waits.
        limits_storage: Whether the engine is to limit what the container writes.
    """
    resources = resources_of(params, plan)
    main = ["sleep"], [str(lifetime)]
    if program:
        main = ["sh", "-c", _COMMAND_WITH_END, str(lifetime)], list(program)
    workdir, user = plan.workdir or params.workdir, plan.user or params.user
    host = {
        **walls(params),
        **limits(resources, limits_storage=limits_storage),
        "NetworkMode": network_of(params, plan),
        "ExtraHosts": sorted(
            {f"{one.host.name}:{one.address}" for one in relayed_hosts(params, plan)}
        ),
        "Init": params.init,
        "Mounts": [*_mounts(params), *_shared(plan)],
        "RestartPolicy": {"Name": "no"},
    }
    return {
        "Image": image,
        "Entrypoint": main[0],
        "Cmd": main[1],
        "Labels": dict(labels_of(lease)),
        **({"User": user} if user else {}),
        **({"WorkingDir": workdir} if workdir else {}),
        "StopSignal": "SIGKILL",
        "HostConfig": host,
    }


def walls(params: DockerParams) -> dict[str, Any]:
    """Return what every container has around it, whatever a task asks for."""
    return {
        "CapDrop": list(params.cap_drop),
        "SecurityOpt": list(params.security_opt),
        "Privileged": False,
        "LogConfig": {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "1"}},
    }


def limits(resources: Resources, *, limits_storage: bool = False) -> dict[str, Any]:
    """Return the limits of a container, as the engine is told them.

    Args:
        resources: What it may use.
        limits_storage: Whether the engine is to limit what it writes.
    """
    told: dict[str, Any] = {"PidsLimit": resources.pids or DEFAULT_PIDS}
    if resources.cpus is not None:
        told["NanoCpus"] = round(resources.cpus * 1_000_000_000)
    if resources.memory_mb is not None:
        told["Memory"] = told["MemorySwap"] = resources.memory_mb * MiB
    if resources.gpus:
        told["DeviceRequests"] = [{"Count": resources.gpus, "Capabilities": [["gpu"]]}]
    if resources.storage_mb is not None and limits_storage:
        told["StorageOpt"] = {"size": f"{resources.storage_mb}m"}
    return told


def _shared(plan: SandboxPlan) -> list[dict[str, Any]]:
    return [
        {"Type": "bind", "Source": str(source), "Target": target, "ReadOnly": True}
        for target, source in plan.shared.items()
    ]


def _mounts(params: DockerParams) -> list[dict[str, Any]]:
    mounts = map(mount_of, params.mounts)
    return [
        {
            "Type": "volume" if mount.is_volume else "bind",
            "Source": mount.source,
            "Target": mount.target,
            "ReadOnly": mount.is_read_only,
        }
        for mount in mounts
    ]
