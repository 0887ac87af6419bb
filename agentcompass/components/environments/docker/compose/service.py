"""One service of a Compose file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

from agentcompass.components.environments.docker.compose import fields
from agentcompass.components.environments.docker.compose.mounts import mounts_of, tmpfs_of
from agentcompass.components.environments.docker.compose.project import Service
from agentcompass.components.environments.docker.compose.values import Reading
from agentcompass.spec.tree import Written

T = TypeVar("T")

DEFAULT_NETWORK: Final = "default"
_USED: Final = (
    "image", "build", "platform", "entrypoint", "command", "environment", "env_file", "user", "working_dir",
    "hostname", "container_name", "depends_on", "healthcheck", "restart", "volumes", "tmpfs", "networks",
    "network_mode", "dns", "dns_search", "extra_hosts", "cap_add", "cap_drop", "security_opt", "ulimits", "shm_size",
    "deploy", "cpus", "mem_limit", "pids_limit", "init", "read_only", "tty", "stdin_open", "ports", "profiles",
    "privileged", "pid", "ipc",
)  # fmt: skip
_LEFT_ALONE: Final = (
    "annotations", "attach", "expose", "labels", "logging", "pull_policy", "stop_grace_period", "stop_signal",
)  # fmt: skip
"""What changes nothing for a task: all ports are open between services, and containers are killed in the end."""
_REFUSED: Final = {
    "cgroup": "the machine's control groups are not given",
    "cgroup_parent": "the machine's control groups are not given",
    "configs": "configs are not read: mount a file of the task's directory",
    "devices": "devices of the machine are not given; GPUs are the parameter gpus",
    "extends": "services that extend others are not read",
    "external_links": "services reach each other by their names only",
    "gpus": "GPUs are the parameter gpus",
    "links": "services reach each other by their names: use depends_on",
    "runtime": "the engine's own runtime is used",
    "secrets": "secrets are not read: mount a file of the task's directory",
    "sysctls": "the kernel's settings are not changed",
    "userns_mode": "the machine's users are not given",
    "uts": "the machine's name is not given",
    "volumes_from": "name the volume in both services",
}
_FOREIGN: Final = ("host", "container:", "service:", "ns:")
_NETWORK_REFUSED: Final = dict.fromkeys(
    ("ipv4_address", "ipv6_address", "link_local_ips", "mac_address"),
    "addresses are the engine's choice: several sandboxes have this network at once",
)


def service_of(reading: Reading, name: str, node: Written) -> Service:
    """Return a service; what is wrong with it is a problem of the file.

    Args:
        reading: The file.
        name: Of the service.
        node: What it says.
    """
    reading.known(node, (*_USED, *_LEFT_ALONE), _REFUSED)
    _check_walls(reading, node)
    if node.get("ports") is not None:
        reading.notes.append("ports of services are not published: other services reach them all")

    def get(key: str, read: Callable[[Reading, Written], T]) -> T | None:
        return reading.some(node.get(key), partial(read, reading))

    restart, max_restarts = get("restart", fields.restart) or ("no", 0)
    mounts, in_memory = get("volumes", mounts_of) or ([], {})
    return Service(
        name=name,
        image=get("image", fields.image),
        build=get("build", fields.build),
        platform=get("platform", Reading.text),
        entrypoint=get("entrypoint", Reading.words),
        command=get("command", Reading.words),
        env={**_from_files(reading, node), **(get("environment", Reading.pairs) or {})},
        user=get("user", Reading.text),
        working_dir=get("working_dir", Reading.text),
        hostname=get("hostname", Reading.text),
        depends_on=get("depends_on", fields.depends_on) or {},
        health=get("healthcheck", fields.health),
        restart=restart,
        max_restarts=max_restarts,
        mounts=tuple(mounts),
        tmpfs={**in_memory, **(get("tmpfs", tmpfs_of) or {})},
        networks=_networks(reading, name, node),
        dns=get("dns", Reading.texts) or (),
        dns_search=get("dns_search", Reading.texts) or (),
        extra_hosts=get("extra_hosts", fields.extra_hosts) or (),
        cap_add=get("cap_add", fields.cap_add) or (),
        cap_drop=tuple(map(fields.capability, get("cap_drop", Reading.texts) or ())),
        ulimits=get("ulimits", fields.ulimits) or {},
        shm_bytes=get("shm_size", Reading.size),
        resources=fields.resources(reading, node),
        init=get("init", Reading.flag),
        is_read_only=bool(get("read_only", Reading.flag)),
        tty=bool(get("tty", Reading.flag)),
        stdin_open=bool(get("stdin_open", Reading.flag)),
    )


def _check_walls(reading: Reading, node: Written) -> None:
    """Refuse what would give a service the machine."""
    privileged = node.get("privileged")
    if privileged is not None and reading.flag(privileged):
        reading.refuse(privileged, "a privileged service would have the whole machine")
    for key in ("pid", "ipc"):
        item = node.get(key)
        if item is not None and reading.text(item).startswith(_FOREIGN):
            reading.refuse(item, "a service has processes and memory of its own only")
    reading.some(node.get("security_opt"), partial(fields.security_opt, reading))


def _from_files(reading: Reading, node: Written) -> Mapping[str, str]:
    files = node.get("env_file")
    if files is None or files.data is None:
        return {}
    found: dict[str, str] = {}
    for item in files.data if isinstance(files.data, tuple) else (files,):
        path, is_required = item, True
        if item.is_mapping:
            reading.known(item, ("path", "required", "format"), {})
            path = item.get("path") or item
            is_required = reading.some(item.get("required"), reading.flag) is not False
        found |= reading.variables_of(path, reading.text(path), is_required=is_required)
    return found


def _networks(reading: Reading, name: str, node: Written) -> Mapping[str, tuple[str, ...]]:
    """The networks that a service is in, each with its names there."""
    own = reading.some(node.get("container_name"), reading.text)
    names = tuple(dict.fromkeys((name, own))) if own else (name,)
    mode = node.get("network_mode")
    if mode is not None:
        text = reading.text(mode)
        if text == "none":
            return {}
        if text not in ("bridge", "default"):
            reading.refuse(mode, f"{text!r} would not be the service's own network")
    asked = node.get("networks")
    if asked is None or asked.data is None:
        return {DEFAULT_NETWORK: names}
    if not asked.is_mapping:
        return dict.fromkeys(reading.texts(asked), names)
    found = {}
    for network, item in asked.items():
        reading.known(item, ("aliases", "priority", "gw_priority"), _NETWORK_REFUSED)
        aliases = reading.some(item.get("aliases"), reading.texts) or ()
        found[network] = tuple(dict.fromkeys((*names, *aliases)))
    return found
