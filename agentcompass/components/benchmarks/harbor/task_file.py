"""`task.toml`, read strictly: every field of the Harbor format with its type; what is not of it is named, not obeyed.

Source: https://harborframework.com/docs/task-format (schema 1.0 to 1.4).
"""

from __future__ import annotations

import datetime
import re
import tomllib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import attrs

from agentcompass.data import frozen
from agentcompass.records import JSON
from agentcompass.regular import read_regular
from agentcompass.spec.codec import fields_of, structure
from agentcompass.spec.problems import Problems
from agentcompass.spec.ranges import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from agentcompass.spec.tree import Origin, Written, from_python

NetworkMode: TypeAlias = Literal["public", "no-network", "allowlist"]

_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG])I?B?", re.IGNORECASE)
_MEGABYTES: Final = {"K": 1 / 1024, "M": 1.0, "G": 1024.0}


@frozen(kw_only=True)
class Author:
    """Who made a task."""

    name: str
    email: str | None = None


@frozen(kw_only=True)
class Package:
    """`[task]`: how the task is called where it was published."""

    name: str
    description: str = ""
    authors: tuple[Author, ...] = ()
    keywords: tuple[str, ...] = ()


@frozen(kw_only=True)
class VerifierSection:
    """`[verifier]`."""

    timeout_sec: PositiveFloat = 600.0
    env: Mapping[str, str] = attrs.field(factory=dict)
    user: str | int | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: tuple[str, ...] = ()
    environment_mode: Literal["shared", "separate"] | None = None
    environment: JSON = None
    collect: JSON = None


@frozen(kw_only=True)
class AgentSection:
    """`[agent]`."""

    timeout_sec: PositiveFloat | None = None
    user: str | int | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: tuple[str, ...] = ()


@frozen(kw_only=True)
class SolutionSection:
    """`[solution]`."""

    env: Mapping[str, str] = attrs.field(factory=dict)


@frozen(kw_only=True)
class Healthcheck:
    """`[environment.healthcheck]`: what has to succeed before an agent begins. As a Dockerfile's HEALTHCHECK."""

    command: str
    """For a shell."""
    interval_sec: NonNegativeFloat = 5.0
    timeout_sec: PositiveFloat = 30.0
    start_period_sec: NonNegativeFloat = 0.0
    """In which failures do not count."""
    start_interval_sec: NonNegativeFloat = 5.0
    retries: PositiveInt = 3
    """Failures in a row that are too many."""


@frozen(kw_only=True)
class McpServer:
    """`[[environment.mcp_servers]]`."""

    name: str
    transport: str = "sse"
    url: str | None = None
    command: str | None = None
    args: tuple[str, ...] = ()


@frozen(kw_only=True)
class EnvironmentSection:
    """`[environment]`."""

    build_timeout_sec: PositiveFloat = 600.0
    docker_image: str | None = None
    os: Literal["linux", "windows"] = "linux"
    cpus: PositiveFloat | None = None
    memory_mb: PositiveInt | None = None
    memory: str | None = None
    """The older spelling: `2G`, `512M`."""
    storage_mb: PositiveInt | None = None
    storage: str | None = None
    gpus: NonNegativeInt | None = None
    gpu_types: tuple[str, ...] | None = None
    tpu: JSON = None
    allow_internet: bool | None = None
    network_mode: NetworkMode | None = None
    allowed_hosts: tuple[str, ...] = ()
    env: Mapping[str, str] = attrs.field(factory=dict)
    mcp_servers: tuple[McpServer, ...] = ()
    skills_dir: str | None = None
    healthcheck: Healthcheck | None = None
    workdir: str | None = None


@frozen(kw_only=True)
class TaskFile:
    """A whole `task.toml`."""

    schema_version: str | None = None
    version: str | None = None
    """The older name of the same."""
    task: Package | None = None
    metadata: Mapping[str, JSON] = attrs.field(factory=dict)
    verifier: VerifierSection = attrs.field(factory=VerifierSection)
    agent: AgentSection = attrs.field(factory=AgentSection)
    environment: EnvironmentSection = attrs.field(factory=EnvironmentSection)
    solution: SolutionSection = attrs.field(factory=SolutionSection)
    source: str | None = None
    steps: JSON = None
    multi_step_reward_strategy: JSON = None
    artifacts: JSON = None


def read(path: Path, name: str, problems: Problems, unknown: set[str]) -> TaskFile | None:
    """Read a file. Blocking.

    Args:
        path: Of the file.
        name: Of the file, in messages.
        problems: Gets what is wrong, with the file's name and the key.
        unknown: Gets the keys that the format does not have.

    Returns:
        What it says; None after a problem was added.
    """
    try:
        table = tomllib.loads(read_regular(path).decode())
    except FileNotFoundError:
        problems.add(name, "", "there is no such file")
    except OSError as error:
        problems.add(name, "", f"cannot be read: {error.strerror or error}")
    except UnicodeDecodeError as error:
        problems.add(name, "", f"is not UTF-8 (byte {error.start + 1})")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        problems.add(name, "", f"is not valid TOML: {error}")
    else:
        node = from_python(_plain(table), Origin(layer="task", where=name), problems)
        return structure(known_only(node, TaskFile, unknown), TaskFile, problems)
    return None


def _plain(value: Any) -> Any:
    """TOML has dates, which only metadata may use: as text."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    is_date = isinstance(value, datetime.date | datetime.time)
    return value.isoformat() if is_date else value


def known_only(node: Written, kind: Any, unknown: set[str]) -> Written:
    """Return a tree without the keys that an attrs class, and the classes of its fields, do not have.

    Args:
        node: As written.
        kind: The class; or a type of a field, which may have one in it.
        unknown: Gets the paths of those keys, list items as `[]`.
    """
    cls = next((one for one in (kind, *typing.get_args(kind)) if attrs.has(one)), None)
    if cls is None:
        return node
    if isinstance(node.data, tuple):
        return attrs.evolve(node, data=tuple(known_only(item, cls, unknown) for item in node.data))
    if not isinstance(node.data, dict):
        return node
    fields = fields_of(cls)
    kept = {}
    for key, item in node.items():
        if key in fields:
            kept[key] = known_only(item, fields[key], unknown)
        else:
            unknown.add(re.sub(r"\[\d+\]", "[]", item.origin.path))
    return attrs.evolve(node, data=kept)


def megabytes(text: str) -> int | None:
    """Return a size such as `2G`, `512M` or `1.5 GB` in MiB, at least 1; None if it is none."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    return (
        max(1, round(float(found[1]) * _MEGABYTES[found[2].upper()])) if float(found[1]) else None
    )
