"""The sandbox of a first-generation task: its Dockerfile alone, where its Compose file says no more than the template.

Nearly all of these files are the published template around a Dockerfile, which needs no network of its own and no
engine that understands Compose.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agentcompass.components.base import ImageBuild, SandboxPlan
from agentcompass.components.benchmarks.harbor.definition import TESTS_DIR
from agentcompass.spec.problems import Problems
from agentcompass.spec.tree import Written
from agentcompass.spec.yaml import load_file

FILE: Final = "docker-compose.yaml"
SERVICE: Final = "client"
LOG_FOLDERS: Final = ("/logs", "/agent-logs")
"""Directories that the published harness mounts."""
_VARIABLES: Final = {
    "T_BENCH_TEST_DIR": TESTS_DIR,
    "T_BENCH_CONTAINER_LOGS_PATH": LOG_FOLDERS[0],
    "T_BENCH_CONTAINER_AGENT_LOGS_PATH": LOG_FOLDERS[1],
}
"""What the published harness sets, as far as a container sees it."""
_OWN_IMAGE: Final = "${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}"
_LOG_MOUNT: Final = re.compile(r"\$\{T_BENCH_TASK(_AGENT)?_LOGS_PATH\}:.*")
_WAITING: Final = ("sh -c sleep infinity", "sleep infinity")
_TEMPLATE: Final = frozenset(
    {"build", "image", "container_name", "command", "environment", "volumes"}
)
_VARIABLE: Final = re.compile(r"\$\{([A-Z_]+)\}")


def plan_of(directory: Path, problems: Problems) -> SandboxPlan | None:
    """Return the sandbox of a task. Blocking.

    Returns:
        It, with the Compose file where that says more than the template; None after a problem was added.
    """
    path, where = directory / FILE, f"{directory.name}/{FILE}"
    service: Mapping[str, Any] = {}
    if path.is_file():
        node = load_file(path, "task", problems, name=where)
        if node is None:
            return None
        document = _plain(node)
        found = _of_template(document)
        if found is None:
            return SandboxPlan(compose=path, env={"TEST_DIR": TESTS_DIR})
        service = found
    env = {"TEST_DIR": TESTS_DIR, **_environment(service.get("environment"))}
    build = service.get("build", ".")
    build = {"context": build} if isinstance(build, str) else build
    context = directory / str(build.get("context", "."))
    dockerfile = str(build.get("dockerfile", "Dockerfile"))
    is_inside = context.resolve().is_relative_to(directory.resolve())
    if not is_inside or not (context / dockerfile).is_file():
        problems.add(where, f"services.{SERVICE}.build", f"there is no {dockerfile} in its context")
        return None
    args = _environment(build.get("args"))
    return SandboxPlan(build=ImageBuild(context=context, dockerfile=dockerfile, args=args), env=env)


def _of_template(document: Any) -> Mapping[str, Any] | None:
    """The only service of a Compose file that says no more than the template; None for any other file."""
    services = document.get("services") if set(document) <= {"services", "version"} else None
    service = services.get(SERVICE) if isinstance(services, dict) and len(services) == 1 else None
    if not isinstance(service, dict) or not set(service) <= _TEMPLATE:
        return None
    command = service.get("command", _WAITING[0])
    line = " ".join(map(str, command)) if isinstance(command, list) else str(command)
    mounts = service.get("volumes") or []
    is_plain = (
        service.get("image", _OWN_IMAGE) == _OWN_IMAGE
        and isinstance(service.get("build", "."), str | dict)
        and line.replace('"', "") in _WAITING
        and isinstance(mounts, list)
        and all(_LOG_MOUNT.fullmatch(str(mount)) for mount in mounts)
    )
    return service if is_plain else None


def _environment(value: Any) -> dict[str, str]:
    """Variables of a mapping, or of a list of `NAME=value`."""
    if isinstance(value, dict):
        pairs = [(str(name), "" if item is None else str(item)) for name, item in value.items()]
    else:
        parts = [str(item).partition("=") for item in value or ()]
        pairs = [(name, text) for name, _, text in parts]
    return {
        name: _VARIABLE.sub(lambda found: _VARIABLES.get(found[1], ""), text)
        for name, text in pairs
    }


def _plain(node: Written) -> Any:
    """A tree without its origins; scalars as they were typed."""
    if isinstance(node.data, dict):
        return {key: _plain(item) for key, item in node.items()}
    if isinstance(node.data, tuple):
        return [_plain(item) for item in node.data]
    return node.data if node.text is None else node.text
