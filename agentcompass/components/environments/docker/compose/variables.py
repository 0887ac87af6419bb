"""`${NAME}` in Compose files, and the variables that tasks count on. Pure.

Values come from the task, from the `.env` beside the file and from the list below; never from the environment of this
process, which holds what is nobody's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from agentcompass.components.base import SandboxPlan

TASK_IMAGE: Final = "agentcompass.invalid/task"
"""Stands for the image of the task, whatever that is; also begins the names that builds have beside it."""
CLIENT_IMAGE: Final = f"{TASK_IMAGE}:client"
"""The same in files of Terminal-Bench, where it also tells which service is the sandbox."""
LOGS: Final = "/agentcompass/logs"
"""Stands for the directory of a machine that runs `docker compose` where logs are put: here they stay with the sandbox."""
PROJECT: Final = "sandbox"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATOR: Final = re.compile(r":?[-?+]")
_LINE: Final = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*)")
_QUOTED: Final = re.compile(r"""'([^']*)'|"((?:\\.|[^\\"])*)\"""")
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}


def standard(plan: SandboxPlan, directory: Path) -> Mapping[str, str]:
    """Return what every file may use: the variables of Harbor, and those of Terminal-Bench before it.

    Source: the documentation of both (harborframework.com, tbench.ai).
    """
    cpus, memory_mb = plan.resources.cpus, plan.resources.memory_mb
    return {
        "COMPOSE_PROJECT_NAME": PROJECT,
        "MAIN_IMAGE_NAME": TASK_IMAGE,
        "PREBUILT_IMAGE_NAME": TASK_IMAGE,
        "CONTEXT_DIR": str(directory),
        "HOST_VERIFIER_LOGS_PATH": f"{LOGS}/verifier",
        "HOST_AGENT_LOGS_PATH": f"{LOGS}/agent",
        "HOST_ARTIFACTS_PATH": f"{LOGS}/artifacts",
        "ENV_VERIFIER_LOGS_PATH": "/logs/verifier",
        "ENV_AGENT_LOGS_PATH": "/logs/agent",
        "ENV_ARTIFACTS_PATH": "/logs/artifacts",
        "TEST_DIR": "/tests",
        "CPUS": f"{cpus or 0:g}",
        "MEMORY": f"{memory_mb or 0}M",
        "T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME": CLIENT_IMAGE,
        "T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME": "client",
        "T_BENCH_TASK_DOCKER_NAME_PREFIX": TASK_IMAGE,
        "T_BENCH_TEST_DIR": "/tests",
        "T_BENCH_TASK_LOGS_PATH": f"{LOGS}/task",
        "T_BENCH_CONTAINER_LOGS_PATH": "/logs",
        "T_BENCH_TASK_AGENT_LOGS_PATH": f"{LOGS}/agent",
        "T_BENCH_CONTAINER_AGENT_LOGS_PATH": "/agent-logs",
    }


def interpolated(
    text: str, variables: Mapping[str, str], tell_unset: Callable[[str], None] = lambda _name: None
) -> str:
    """Return a text with its variables replaced.

    Args:
        text: What is written.
        variables: By name.
        tell_unset: Told the name of one that has no value, and stands for nothing, as in Compose.

    Raises:
        ValueError: One must have a value and has none, or what begins with a dollar sign is no variable.
    """
    pieces, at = [], 0
    while (dollar := text.find("$", at)) >= 0:
        pieces.append(text[at:dollar])
        following = text[dollar + 1 : dollar + 2]
        if following == "$":
            pieces.append("$")
            at = dollar + 2
        elif following == "{":
            at = _closing(text, dollar)
            pieces.append(_expression(text[dollar + 2 : at - 1], variables, tell_unset))
        elif name := _NAME.match(text, dollar + 1):
            pieces.append(_value(name[0], variables, tell_unset))
            at = name.end()
        else:
            raise ValueError(
                f"{text[dollar : dollar + 10]!r} is no variable; `$$` is a dollar sign"
            )
    return "".join((*pieces, text[at:]))


def _closing(text: str, start: int) -> int:
    """Where the expression is over that begins at `start`."""
    depth = 0
    for at in range(start, len(text)):
        if text.startswith("${", at):
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if not depth:
                return at + 1
    raise ValueError(f"{text[start : start + 40]!r} has no closing brace")


def _expression(words: str, variables: Mapping[str, str], tell_unset: Callable[[str], None]) -> str:
    name = _NAME.match(words)
    if name is None:
        raise ValueError(f"'${{{words}}}' is no variable; `$$` is a dollar sign")
    rest = words[name.end() :]
    if not rest:
        return _value(name[0], variables, tell_unset)
    operator = _OPERATOR.match(rest)
    if operator is None:
        raise ValueError(f"'${{{words}}}' is no variable; `$$` is a dollar sign")
    value, other = variables.get(name[0]), rest[operator.end() :]
    has_value = bool(value) if operator[0].startswith(":") else value is not None
    if operator[0].endswith("+"):
        return interpolated(other, variables, tell_unset) if has_value else ""
    if has_value:
        return str(value)
    if operator[0].endswith("?"):
        raise ValueError(f"the variable {name[0]} has no value: {interpolated(other, variables)}")
    return interpolated(other, variables, tell_unset)


def _value(name: str, variables: Mapping[str, str], tell_unset: Callable[[str], None]) -> str:
    if name not in variables:
        tell_unset(name)
    return variables.get(name, "")


def dotenv(
    text: str,
    variables: Mapping[str, str],
    problem: Callable[[int, str], None],
    tell_unset: Callable[[str], None] = lambda _name: None,
) -> dict[str, str]:
    """Return what a file of `NAME=value` lines says, in its order; a name without a value says nothing.

    Args:
        text: Of the file.
        variables: Which its values may use, beside those above them.
        problem: Told the number of a line that cannot be used, and why.
        tell_unset: As of `interpolated`.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        said = _LINE.fullmatch(line)
        if said is None:
            if line.strip() and not line.lstrip().startswith("#") and "=" in line:
                problem(number, "is not NAME=value")
            continue
        try:
            found[said[1]] = _unquoted(said[2].strip(), {**variables, **found}, tell_unset)
        except ValueError as error:
            problem(number, str(error))
    return found


def _unquoted(value: str, variables: Mapping[str, str], tell_unset: Callable[[str], None]) -> str:
    if not value.startswith(("'", '"')):
        plain = re.split(r"\s#", value, maxsplit=1)[0].rstrip()
        return interpolated(plain, variables, tell_unset)
    quoted = _QUOTED.match(value)
    if quoted is None:
        raise ValueError("has a quote that is not closed")
    if quoted[1] is not None:
        return quoted[1]
    plain = quoted[2].replace("\\$", "$$")
    plain = re.sub(r"\\(.)", lambda escaped: _ESCAPES.get(escaped[1], escaped[1]), plain)
    return interpolated(plain, variables, tell_unset)
