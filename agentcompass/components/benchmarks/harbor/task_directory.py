"""A task directory in the Harbor format: `task.toml`, `instruction.md`, `environment/`, `tests/`, `solution/`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, final

from agentcompass.components.base import ImageBuild, Resources, SandboxPlan
from agentcompass.components.benchmarks.harbor.definition import (
    AGENT_LOGS_DIR,
    ARTIFACTS_DIR,
    LOGS_DIR,
    TESTS_DIR,
    Definition,
    Solution,
    Tests,
    Upload,
    resolved,
)
from agentcompass.components.benchmarks.harbor.task_file import (
    EnvironmentSection,
    TaskFile,
    megabytes,
    read,
)
from agentcompass.records import JSON
from agentcompass.regular import read_regular
from agentcompass.spec.problems import Problems

FILE: Final = "task.toml"
"""A directory with this file is a task."""
SOLUTION_DIR: Final = "/solution"
ROOT: Final = "root"
_COMPOSE: Final = ("docker-compose.yaml", "docker-compose.yml")


@final
class HarborFormat:
    """Reads task directories.

    Args:
        variables: What `${NAME}` stands for in the tables of environment variables.
        problems: Gets what is wrong with any of them.
        remarks: Gets what is true of some of them and has no effect here, with the tasks it is true of.
    """

    file = FILE

    def __init__(
        self, variables: Mapping[str, str], problems: Problems, remarks: dict[str, list[str]]
    ) -> None:
        self._variables, self._problems, self._remarks = variables, problems, remarks

    def read(self, directory: Path) -> Definition | None:
        """Read one. Blocking.

        Returns:
            What it says; None after a problem was added.
        """
        before = len(self._problems)
        where = f"{directory.name}/{FILE}"
        unknown: set[str] = set()
        said = read(directory / FILE, where, self._problems, unknown)
        instruction = self._text(directory, "instruction.md")
        if not (directory / "tests" / "test.sh").is_file():
            self._problems.add(f"{directory.name}/tests/test.sh", "", "there is no such file")
        if said is None:
            return None
        for path, sentence in _unsupported(said):
            self._problems.add(where, path, sentence)
        for remark in (*(f"unknown field {path}" for path in sorted(unknown)), *_idle(said)):
            self._remarks.setdefault(remark, []).append(directory.name)
        plan = self._plan(directory, where, said)
        tests = self._tests(directory, where, said)
        if len(self._problems) > before:
            return None
        environment = directory / "environment"
        has_own = plan.build is not None or plan.compose is not None
        return Definition(
            id=directory.name,
            instruction=instruction,
            category=_text_of(said.metadata, "category"),
            difficulty=_text_of(said.metadata, "difficulty"),
            metadata=said.metadata,
            plan=plan,
            agent_timeout_seconds=said.agent.timeout_sec,
            tests=tests,
            solution=_solution(directory, said),
            healthcheck=said.environment.healthcheck,
            files=environment if environment.is_dir() and not has_own else None,
            folders=(LOGS_DIR, AGENT_LOGS_DIR, ARTIFACTS_DIR),
        )

    def _text(self, directory: Path, name: str) -> str:
        where = f"{directory.name}/{name}"
        try:
            text = read_regular(directory / name).decode()
        except FileNotFoundError:
            self._problems.add(where, "", "there is no such file")
        except OSError as error:
            self._problems.add(where, "", f"cannot be read: {error.strerror or error}")
        except UnicodeDecodeError as error:
            self._problems.add(where, "", f"is not UTF-8 (byte {error.start + 1})")
        else:
            if not text.strip():
                self._problems.add(where, "", "is empty: an agent must be told something")
            return text
        return ""

    def _plan(self, directory: Path, where: str, said: TaskFile) -> SandboxPlan:
        asked, folder = said.environment, directory / "environment"
        has_dockerfile = (folder / "Dockerfile").is_file()
        compose = next((folder / name for name in _COMPOSE if (folder / name).is_file()), None)
        if not (asked.docker_image or has_dockerfile or compose):
            self._problems.add(
                where,
                "environment",
                "the task has no docker_image, no environment/Dockerfile and no environment/docker-compose.yaml",
            )
        if asked.workdir is not None and not asked.workdir.startswith("/"):
            self._problems.add(where, "environment.workdir", "must be an absolute path")
        build = ImageBuild(context=folder, timeout_seconds=asked.build_timeout_sec)
        return SandboxPlan(
            image=asked.docker_image,
            build=build if has_dockerfile else None,
            compose=compose,
            workdir=asked.workdir,
            env=self._env(where, "environment.env", asked.env),
            resources=self._resources(where, asked),
            user=None if said.agent.user is None else str(said.agent.user),
            network=_mode(asked) != "no-network",
        )

    def _resources(self, where: str, asked: EnvironmentSection) -> Resources:
        sizes: dict[str, int | None] = {}
        for name in ("memory", "storage"):
            number, text = getattr(asked, f"{name}_mb"), getattr(asked, name)
            sizes[name] = number if text is None else megabytes(text)
            if text is not None and sizes[name] is None:
                self._problems.add(
                    where, f"environment.{name}", f"{text!r} is no size such as 2G or 512M"
                )
            elif text is not None and number is not None:
                self._problems.add(
                    where, f"environment.{name}", f"is also given as {name}_mb: leave out one"
                )
        return Resources(
            cpus=asked.cpus,
            memory_mb=sizes["memory"],
            storage_mb=sizes["storage"],
            gpus=asked.gpus or None,
        )

    def _tests(self, directory: Path, where: str, said: TaskFile) -> Tests:
        asked = said.verifier
        user = asked.user
        if user is None and said.agent.user is not None:
            user = ROOT  # the agent's own user is nobody to judge it
        return Tests(
            folder=directory / "tests",
            script=Upload(source=directory / "tests" / "test.sh", target=f"{TESTS_DIR}/test.sh"),
            scoring="reward",
            timeout_seconds=asked.timeout_sec,
            env=self._env(where, "verifier.env", asked.env),
            user=None if user is None else str(user),
        )

    def _env(self, where: str, path: str, table: Mapping[str, str]) -> dict[str, str]:
        def miss(key: str, name: str) -> None:
            sentence = f"needs the variable {name}: give it with the parameter `variables`"
            self._problems.add(where, f"{path}.{key}", sentence)

        return resolved(table, self._variables, miss)


def _solution(directory: Path, said: TaskFile) -> Solution | None:
    folder = directory / "solution"
    if not (folder / "solve.sh").is_file():
        return None
    return Solution(
        command=("bash", f"{SOLUTION_DIR}/solve.sh"),
        uploads=(Upload(source=folder, target=SOLUTION_DIR),),
        env=said.solution.env,
    )


def _mode(asked: EnvironmentSection) -> str:
    """The network that a task begins with."""
    if asked.network_mode is not None:
        return asked.network_mode
    if asked.allowed_hosts:
        return "allowlist"
    return "no-network" if asked.allow_internet is False else "public"


def _unsupported(said: TaskFile) -> Iterator[tuple[str, str]]:
    """What a task needs that is not offered here, with its path: doing without would be another task."""
    asked, verifier = said.environment, said.verifier
    if said.steps:
        yield "steps", "tasks of several steps are not supported"
    if verifier.environment_mode == "separate" or verifier.environment is not None:
        yield "verifier.environment", "a separate environment for the verifier is not supported"
    if verifier.collect:
        yield "verifier.collect", "collecting before the verification is not supported"
    if asked.os != "linux":
        yield "environment.os", f"{asked.os} is not supported"
    if asked.tpu is not None:
        yield "environment.tpu", "TPUs are not supported"
    mode = _mode(asked)
    if mode == "allowlist":
        yield "environment.network_mode", "a list of allowed hosts is not supported"
    for section, other in (("agent", said.agent), ("verifier", verifier)):
        if (other.network_mode or mode) != mode or other.allowed_hosts:
            yield (
                f"{section}.network_mode",
                "a network other than that of [environment] is not supported",
            )


def _idle(said: TaskFile) -> Iterator[str]:
    """What a task says that changes nothing here."""
    if said.environment.gpus and said.environment.gpu_types:
        yield "environment.gpu_types has no effect: any GPU is taken"
    if said.environment.mcp_servers:
        yield "environment.mcp_servers has no effect: no harness here connects to them"
    if said.environment.skills_dir:
        yield "environment.skills_dir has no effect: no harness here has skills"
    if said.artifacts:
        yield "artifacts has no effect: only /logs/verifier is kept"


def _text_of(metadata: Mapping[str, JSON], key: str) -> str | None:
    value = metadata.get(key)
    return value if isinstance(value, str) and value.strip() else None
