"""What a task directory says, whatever its format: what the agent is told, its sandbox, how it is judged. Data only."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import attrs

from agentcompass.components.base import SandboxPlan
from agentcompass.components.benchmarks.harbor.task_file import Healthcheck
from agentcompass.data import frozen
from agentcompass.records import JSON

TESTS_DIR: Final = "/tests"
LOGS_DIR: Final = "/logs/verifier"
AGENT_LOGS_DIR: Final = "/logs/agent"
ARTIFACTS_DIR: Final = "/logs/artifacts"

Scoring: TypeAlias = Literal["reward", "pytest"]
"""Where the score comes from: a file that the tests write, or what pytest says of them."""

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@frozen(kw_only=True)
class Upload:
    """A file or directory of this machine, and where it goes in the sandbox."""

    source: Path
    target: str


@frozen(kw_only=True)
class Tests:
    """How it is judged what an agent left."""

    folder: Path | None
    """What goes to `TESTS_DIR`; None: nothing but the script."""
    script: Upload
    """Run with bash, in the task's work directory."""
    scoring: Scoring
    timeout_seconds: float
    env: Mapping[str, str] = attrs.field(factory=dict)
    user: str | None = None
    """None: whoever commands run as."""


@frozen(kw_only=True)
class Solution:
    """The reference solution."""

    command: tuple[str, ...]
    uploads: tuple[Upload, ...] = ()
    stdin: str = ""
    env: Mapping[str, str] = attrs.field(factory=dict)
    """As written: what it names with `${NAME}` is looked up when it is applied."""


@frozen(kw_only=True)
class Definition:
    """A task directory, read and checked."""

    id: str
    """The directory's name."""
    instruction: str
    category: str | None
    difficulty: str | None
    metadata: Mapping[str, JSON]
    plan: SandboxPlan
    agent_timeout_seconds: float | None
    tests: Tests
    solution: Solution | None
    healthcheck: Healthcheck | None = None
    files: Path | None = None
    """A directory whose content goes into the work directory before the agent begins."""
    folders: tuple[str, ...] = ()
    """Directories that are made before the agent begins."""


def resolved(
    table: Mapping[str, str], variables: Mapping[str, str], miss: Callable[[str, str], Any]
) -> dict[str, str]:
    """Return a table of environment variables with `${NAME}` and `${NAME:-default}` replaced.

    Args:
        table: As a task has it.
        variables: What names stand for.
        miss: Told the key and the name of what stands for nothing and has no default.
    """

    def replaced(key: str, value: str) -> str:
        def one(found: re.Match[str]) -> str:
            name, default = found.groups()
            if name in variables:
                return variables[name]
            if default is None:
                miss(key, name)
            return default or ""

        return _VARIABLE.sub(one, value)

    return {key: replaced(key, value) for key, value in table.items()}
