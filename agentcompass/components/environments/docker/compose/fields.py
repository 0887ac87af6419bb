"""The fields of a service that are more than a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final, get_args

from agentcompass.components.base import ImageBuild, MiB, Resources
from agentcompass.components.environments.docker.compose.project import (
    Condition,
    HealthCheck,
    Restart,
)
from agentcompass.components.environments.docker.compose.values import Reading
from agentcompass.components.environments.docker.compose.variables import CLIENT_IMAGE, TASK_IMAGE
from agentcompass.containers.names import is_image_name
from agentcompass.spec.tree import Written, report_key

HARMLESS_CAPABILITIES: Final = (
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "IPC_LOCK", "KILL", "MKNOD", "NET_BIND_SERVICE",
    "NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT", "SYS_NICE", "SYS_PTRACE",
)  # fmt: skip
"""Those that an engine gives by itself, and few that reach nothing outside of the container."""
_BUILD_KEYS: Final = ("context", "dockerfile", "args", "target", "labels", "tags")
_BUILD_REFUSED: Final = {
    "additional_contexts": "the engine's own builder has one context",
    "dockerfile_inline": "write it to a file beside this one",
    "network": "builds have the engine's default network",
    "privileged": "builds have no privileges",
    "secrets": "the engine's own builder knows no secrets",
    "ssh": "the engine's own builder knows no keys",
}
_HEALTH_KEYS: Final = (
    "test", "interval", "timeout", "retries", "start_period", "start_interval", "disable",
)  # fmt: skip
_TESTS: Final = ("CMD", "CMD-SHELL", "NONE")
_CONDITION_KEYS: Final = ("condition", "restart", "required")
_NO_DEVICES: Final = {"devices": "GPUs are the parameter gpus, and other devices are not given"}
_HOST: Final = re.compile(r"([^:=\s]+)[:=]\s*\[?([0-9A-Fa-f:.]+)\]?")


def image(reading: Reading, node: Written) -> str | None:
    """Read the name of an image; None if it only names what is built."""
    name = reading.text(node)
    if name.startswith(TASK_IMAGE):
        return name if name in (TASK_IMAGE, CLIENT_IMAGE) else None
    if not is_image_name(name):
        reading.refuse(node, f"{name!r} is no name of an image, such as python:3.12-slim")
    return name


def build(reading: Reading, node: Written) -> ImageBuild | None:
    """Read how an image is built."""
    if not node.is_mapping:
        context = reading.below(node, reading.text(node))
        return None if context is None else ImageBuild(context=context)
    reading.known(node, _BUILD_KEYS, _BUILD_REFUSED)
    given = {key: item for key, item in node.items() if item.data is not None}
    place = given.get("context")
    context = reading.directory if place is None else reading.below(place, reading.text(place))
    dockerfile = "Dockerfile"
    if "dockerfile" in given:
        dockerfile = reading.text(given["dockerfile"])
        if ".." in PurePosixPath(dockerfile).parts or dockerfile.startswith("/"):
            reading.refuse(given["dockerfile"], "must be a path in the build's context")
    if context is None:
        return None
    return ImageBuild(
        context=context,
        dockerfile=dockerfile,
        args=reading.pairs(given["args"]) if "args" in given else {},
        target=reading.some(given.get("target"), reading.text),
    )


def depends_on(reading: Reading, node: Written) -> Mapping[str, Condition]:
    """Read what a service waits for."""
    if not node.is_mapping:
        return dict.fromkeys(reading.texts(node), "service_started")
    found: dict[str, Condition] = {}
    for name, item in node.items():
        reading.known(item, _CONDITION_KEYS, {})
        condition = item.get("condition")
        if condition is None:
            found[name] = "service_started"
        else:
            found[name] = reading.one_of(condition, get_args(Condition))
    return found


def health(reading: Reading, node: Written) -> HealthCheck:
    """Read how it is found out whether a service is well."""
    reading.known(node, _HEALTH_KEYS, {})
    given = {key: item for key, item in node.items() if item.data is not None}
    if "disable" in given and reading.flag(given["disable"]):
        return HealthCheck(test=("NONE",))
    test: tuple[str, ...] = ()
    if "test" in given:
        test = reading.texts(given["test"])
        if not isinstance(given["test"].data, tuple):
            test = ("CMD-SHELL", *test)
        elif test[:1] not in [(word,) for word in _TESTS]:
            reading.refuse(given["test"], f"must begin with one of {', '.join(_TESTS)}")
    return HealthCheck(
        test=test,
        interval_seconds=reading.some(given.get("interval"), reading.duration),
        timeout_seconds=reading.some(given.get("timeout"), reading.duration),
        start_period_seconds=reading.some(given.get("start_period"), reading.duration),
        retries=reading.some(given.get("retries"), reading.whole),
    )


def restart(reading: Reading, node: Written) -> tuple[Restart, int]:
    """Read when a service is started again, and how often at most: `on-failure:3`."""
    text = "no" if node.data is False else reading.text(node)
    word, _, number = text.partition(":")
    chosen = next((each for each in get_args(Restart) if each == word), None)
    if chosen is None or (number and not (number.isdecimal() and word == "on-failure")):
        reading.refuse(node, f"must be one of {', '.join(get_args(Restart))}, not {text!r}")
        return "no", 0
    return chosen, int(number or 0)


def extra_hosts(reading: Reading, node: Written) -> tuple[str, ...]:
    """Read further names with their addresses."""
    if node.is_mapping:
        texts = [f"{name}:{reading.text(item)}" for name, item in node.items()]
    else:
        texts = list(reading.texts(node))
    found = []
    for text in texts:
        host = _HOST.fullmatch(text)
        if host is None:
            reading.refuse(node, f"{text!r} is not NAME:ADDRESS; the machine itself is not given")
        else:
            found.append(f"{host[1]}:{host[2]}")
    return tuple(found)


def cap_add(reading: Reading, node: Written) -> tuple[str, ...]:
    """Read the privileges that a service wants."""
    names = tuple(map(capability, reading.texts(node)))
    for name in names:
        if name not in HARMLESS_CAPABILITIES:
            harmless = ", ".join(HARMLESS_CAPABILITIES)
            reading.refuse(node, f"{name} could reach the machine; harmless are {harmless}")
    return names


def capability(name: str) -> str:
    """Return a capability's name as engines list it."""
    return name.upper().removeprefix("CAP_")


def security_opt(reading: Reading, node: Written) -> None:
    """Check that nothing is asked for that would take a wall away; what labels say has no meaning here."""
    for option in reading.texts(node):
        if not option.startswith(("label", "no-new-privileges")):
            reading.refuse(node, f"{option!r} is refused: walls are the parameter security_opt")


def ulimits(reading: Reading, node: Written) -> Mapping[str, tuple[int, int]]:
    """Read limits of each process, soft and hard."""
    found: dict[str, tuple[int, int]] = {}
    for name, item in node.items():
        if not item.is_mapping:
            found[name] = (reading.whole(item), reading.whole(item))
            continue
        reading.known(item, ("soft", "hard"), {})
        ends = [reading.some(item.get(end), reading.whole) for end in ("soft", "hard")]
        soft, hard = ends
        if soft is None or hard is None:
            reading.refuse(item, "needs soft and hard")
        else:
            found[name] = (soft, hard)
    return found


def resources(reading: Reading, service: Written) -> Resources:
    """Read the limits of a service, as `deploy` or its own keys have them; 0 is none."""
    limits: dict[str, Written] = {
        key: item
        for key, name in (("cpus", "cpus"), ("memory", "mem_limit"), ("pids", "pids_limit"))
        if (item := service.get(name)) is not None
    }
    if (deploy := service.get("deploy")) is not None:
        reading.known(deploy, ("resources", "replicas"), {})
        _one_replica(reading, deploy)
        limits |= _limits_of(reading, deploy)
    memory = reading.some(limits.get("memory"), reading.size)
    return Resources(
        cpus=reading.some(limits.get("cpus"), reading.number) or None,
        memory_mb=max(1, memory // MiB) if memory else None,
        pids=reading.some(limits.get("pids"), reading.whole) or None,
    )


def _one_replica(reading: Reading, deploy: Written) -> None:
    replicas = deploy.get("replicas")
    if replicas is not None and reading.whole(replicas) != 1:
        report_key(reading.problems, replicas, "a service is one container")


def _limits_of(reading: Reading, deploy: Written) -> dict[str, Written]:
    asked = deploy.get("resources")
    if asked is None:
        return {}
    reading.known(asked, ("limits", "reservations"), {})
    if (reserved := asked.get("reservations")) is not None:
        reading.known(reserved, ("cpus", "memory", "pids"), _NO_DEVICES)
    limits = asked.get("limits")
    if limits is None:
        return {}
    reading.known(limits, ("cpus", "memory", "pids"), {})
    return dict(limits.items())
