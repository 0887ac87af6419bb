"""From a service to the body of the engine's create call. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from agentcompass.components.environments.docker.compose.project import HealthCheck, Service
from agentcompass.components.environments.docker.config import LABEL, labels_of, limits, walls
from agentcompass.components.environments.docker.params import DockerParams
from agentcompass.data import frozen
from agentcompass.records import Lease

SERVICE_LABEL: Final = f"{LABEL}.service"
NO_HOST_ADDRESS: Final = "com.docker.network.bridge.inhibit_ipv4"
"""Option of a network: the engine's machine has no address in it, so that nothing there can be reached."""
NO_RESOLVER: Final = "127.0.0.1"
"""Where services without a way out look up names that are none of theirs: in the container itself, where nobody answers."""
_GIVES_UP: Final = ("timeout:2", "attempts:1")
"""Else a program waits ten seconds for a name that nobody knows."""
_SHELLS: Final = ("sh", "bash", "ash", "dash")


@frozen(kw_only=True)
class Group:
    """What the bodies of one sandbox's containers have in common."""

    params: DockerParams
    lease: Lease
    networks: Mapping[str, bool]
    """Those of the file, each with whether it has no way out."""

    def name_of(self, what: str) -> str:
        """Return the engine's name for a service's container, a network or a volume."""
        return f"{self.lease.name}-{what}"

    def closes(self, service: Service) -> bool:
        """Whether a service is in networks without a way out only."""
        return all(self.networks[name] for name in service.networks or ())


def network_body(group: Group, name: str, *, hides_host: bool) -> dict[str, Any]:
    """Return the body of the create call of a network.

    Args:
        group: Whose.
        name: In the file.
        hides_host: Whether the engine knows `NO_HOST_ADDRESS`.
    """
    is_internal = group.networks[name]
    return {
        "Driver": "bridge",
        "Internal": is_internal,
        "Labels": dict(labels_of(group.lease)),
        "Options": {NO_HOST_ADDRESS: "true"} if is_internal and hides_host else {},
    }


def side_body(
    group: Group, service: Service, image: str, mounts: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the body for a service beside the sandbox.

    Args:
        group: Whose.
        service: The service.
        image: That the engine has.
        mounts: As the engine takes them.
    """
    program: dict[str, Any] = {}
    if service.entrypoint is not None:
        program["Entrypoint"] = list(service.entrypoint) or [""]
        program["Cmd"] = list(service.command or ())
    elif service.command is not None:
        program["Cmd"] = list(service.command)
    body = {
        **program,
        "Image": image,
        "Env": environment_of(service),
        "Labels": dict(labels_of(group.lease)),
        "StopSignal": "SIGKILL",
        **({"User": service.user} if service.user else {}),
        **({"WorkingDir": service.working_dir} if service.working_dir else {}),
        "Tty": service.tty,
        "OpenStdin": service.stdin_open,
        "HostConfig": {
            **walls(group.params),
            **limits(service.resources),
            "Init": bool(service.init),
            "Mounts": [],
            "RestartPolicy": {"Name": service.restart, "MaximumRetryCount": service.max_restarts},
        },
    }
    return with_service(group, body, service, mounts)


def with_service(
    group: Group, body: Mapping[str, Any], service: Service, mounts: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return a body with what every service may have, the sandbox's own too.

    Args:
        group: Whose.
        body: With a `HostConfig`.
        service: The service.
        mounts: As the engine takes them, beside those that are there.
    """
    host = dict(body["HostConfig"])
    host["Mounts"] = [*host["Mounts"], *mounts]
    host["ExtraHosts"] = [*host.get("ExtraHosts", ()), *service.extra_hosts]
    dropped = group.params.cap_drop
    host["CapDrop"] = [*dropped, *(name for name in service.cap_drop if name not in dropped)]
    host["CapAdd"] = [name for name in service.cap_add if name not in dropped]
    host["Tmpfs"] = dict(service.tmpfs)
    host["Ulimits"] = [
        {"Name": name, "Soft": soft, "Hard": hard} for name, (soft, hard) in service.ulimits.items()
    ]
    host["ReadonlyRootfs"] = service.is_read_only
    if service.shm_bytes:
        host["ShmSize"] = service.shm_bytes
    host |= {"Dns": list(service.dns), "DnsSearch": list(service.dns_search)}
    if not service.dns and service.networks and group.closes(service):
        host |= {"Dns": [NO_RESOLVER], "DnsOptions": list(_GIVES_UP)}
    joined: dict[str, Any] = {}
    if service.networks is not None:
        host["NetworkMode"] = "none"
        # Older engines take one network here; the others are joined before the start.
        for name, names in list(service.networks.items())[:1]:
            host["NetworkMode"] = group.name_of(name)
            joined[group.name_of(name)] = {"Aliases": list(names)}
    return {
        **body,
        "Labels": {**body["Labels"], SERVICE_LABEL: service.name},
        **({"Hostname": service.hostname} if service.hostname else {}),
        **({"Healthcheck": _health(service.health)} if service.health else {}),
        "HostConfig": host,
        "NetworkingConfig": {"EndpointsConfig": joined},
    }


def environment_of(service: Service) -> list[str]:
    """Return a service's variables as the engine takes them."""
    return [f"{name}={value}" for name, value in service.env.items()]


def program_of(service: Service) -> tuple[Sequence[str] | None, Sequence[str]]:
    """Return what is to run in the sandbox beside its commands: an entry point, None for the image's, and a program.

    Nothing for what only waits, as `sleep infinity` does: a sandbox waits by itself.
    """
    command = service.command or ()
    if _only_waits([*(service.entrypoint or ()), *command]):
        return (), ()
    if service.entrypoint is None:
        return (None, command) if command else ((), ())
    return service.entrypoint, command


def _only_waits(words: Sequence[str]) -> bool:
    if len(words) == 3 and PurePosixPath(words[0]).name in _SHELLS and words[1] in ("-c", "-lc"):
        try:
            words = shlex.split(words[2])
        except ValueError:
            return False
    if words[:1] == ["exec"]:
        words = words[1:]
    name = PurePosixPath(words[0]).name if words else ""
    if name in _SHELLS:
        return len(words) == 1
    return name == "sleep" or list(words) == ["tail", "-f", "/dev/null"]


def _health(health: HealthCheck) -> dict[str, Any]:
    told = {
        "Interval": health.interval_seconds,
        "Timeout": health.timeout_seconds,
        "StartPeriod": health.start_period_seconds,
    }
    return {
        "Test": list(health.test),
        "Retries": health.retries or 0,
        **{name: round(seconds * 1e9) for name, seconds in told.items() if seconds is not None},
    }
