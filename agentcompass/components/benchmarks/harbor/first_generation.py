"""A task directory of Terminal-Bench's first generation: `task.yaml`, a Dockerfile, `run-tests.sh`, `tests/`, a solution.

Source: https://www.tbench.ai/docs/task-overview, and the package terminal-bench 0.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from agentcompass.components.benchmarks.harbor.client import LOG_FOLDERS, plan_of
from agentcompass.components.benchmarks.harbor.definition import (
    TESTS_DIR,
    Definition,
    Solution,
    Tests,
    Upload,
)
from agentcompass.components.benchmarks.harbor.task_file import known_only
from agentcompass.data import frozen
from agentcompass.records import JSON
from agentcompass.regular import read_regular
from agentcompass.spec.codec import as_json, structure
from agentcompass.spec.problems import Problems
from agentcompass.spec.ranges import PositiveFloat
from agentcompass.spec.tree import Origin, from_python
from agentcompass.spec.yaml import load_file

FILE: Final = "task.yaml"
"""A directory with this file is a task."""
ORACLE_DIR: Final = "/oracle"
PYTEST: Final = "pytest"


@frozen(kw_only=True)
class Description:
    """One way to tell a task; the oldest tasks have several."""

    key: str = "base"
    description: str


@frozen(kw_only=True)
class TaskYaml:
    """A whole `task.yaml`."""

    instruction: str | None = None
    descriptions: tuple[Description, ...] = ()
    author_name: str | None = None
    author_email: str | None = None
    difficulty: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    parser_name: str = PYTEST
    max_agent_timeout_sec: PositiveFloat = 360.0
    max_test_timeout_sec: PositiveFloat = 60.0
    run_tests_in_same_shell: bool = False
    disable_asciinema: bool = False
    estimated_duration_sec: float | None = None
    expert_time_estimate_min: float | None = None
    junior_time_estimate_min: float | None = None

    @property
    def told(self) -> str | None:
        """What the agent is told; None if the file does not say."""
        if self.instruction is not None:
            return self.instruction
        return next((one.description for one in self.descriptions if one.key == "base"), None)


@frozen(kw_only=True)
class TypedCommand:
    """An item of `solution.yaml`: something that is typed into a shell."""

    command: str
    min_timeout_sec: float = 0.0
    max_timeout_sec: float = 180.0
    block: bool = False
    append_enter: bool = True


@final
class FirstGenerationFormat:
    """Reads task directories; see `task_directory.HarborFormat`."""

    file = FILE

    def __init__(
        self, variables: Mapping[str, str], problems: Problems, remarks: dict[str, list[str]]
    ) -> None:
        del variables  # this format has none
        self._problems, self._remarks = problems, remarks

    def read(self, directory: Path) -> Definition | None:
        """Read one. Blocking.

        Returns:
            What it says; None after a problem was added.
        """
        before = len(self._problems)
        where = f"{directory.name}/{FILE}"
        said = self._file(directory, where)
        plan = plan_of(directory, self._problems)
        solution = self._solution(directory)
        if not (directory / "run-tests.sh").is_file():
            self._problems.add(f"{directory.name}/run-tests.sh", "", "there is no such file")
        if said is None or plan is None or len(self._problems) > before:
            return None
        return Definition(
            id=directory.name,
            instruction=said.told or "",
            category=said.category,
            difficulty=said.difficulty,
            metadata=_metadata(said),
            plan=plan,
            agent_timeout_seconds=said.max_agent_timeout_sec,
            tests=_tests(directory, said),
            solution=solution,
            folders=LOG_FOLDERS,
        )

    def _file(self, directory: Path, where: str) -> TaskYaml | None:
        node = load_file(directory / FILE, "task", self._problems, name=where)
        if node is None:
            return None
        unknown: set[str] = set()
        said = structure(known_only(node, TaskYaml, unknown), TaskYaml, self._problems)
        if said is None:
            return None
        if not (said.told or "").strip():
            self._problems.add(where, "instruction", "is missing: an agent must be told something")
        if said.parser_name != PYTEST:
            sentence = f"results of the parser {said.parser_name!r} cannot be read, only pytest's"
            self._problems.add(where, "parser_name", sentence)
        remarks = [f"unknown field {path}" for path in sorted(unknown)]
        if said.run_tests_in_same_shell:
            remarks.append(
                "run_tests_in_same_shell has no effect: tests run in a shell of their own"
            )
        for remark in remarks:
            self._remarks.setdefault(remark, []).append(directory.name)
        return said

    def _solution(self, directory: Path) -> Solution | None:
        script, typed = directory / "solution.sh", directory / "solution.yaml"
        if script.is_file():
            target = f"{ORACLE_DIR}/solution.sh"
            return Solution(
                command=("bash", target), uploads=(Upload(source=script, target=target),)
            )
        if not typed.is_file():
            return None
        commands = self._commands(typed, f"{directory.name}/{typed.name}")
        keys = (one.command + ("\n" if one.append_enter else "") for one in commands)
        return Solution(command=("bash",), stdin="".join(keys))

    def _commands(self, path: Path, where: str) -> list[TypedCommand]:
        try:
            items = YAML(typ="safe", pure=True).load(read_regular(path).decode())
        except (OSError, UnicodeDecodeError, YAMLError) as error:
            self._problems.add(where, "", f"cannot be read: {str(error).splitlines()[0]}")
            return []
        if not isinstance(items, list):
            self._problems.add(where, "", "must be a list of commands")
            return []
        made = []
        for number, item in enumerate(items):
            origin = Origin(layer="task", where=where, path=f"[{number}]")
            node = from_python(item, origin, self._problems)
            made.append(structure(node, TypedCommand, self._problems))
        return [one for one in made if one is not None]


def _tests(directory: Path, said: TaskYaml) -> Tests:
    folder = directory / "tests"
    return Tests(
        folder=folder if folder.is_dir() else None,
        script=Upload(source=directory / "run-tests.sh", target=f"{TESTS_DIR}/run-tests.sh"),
        scoring="pytest",
        timeout_seconds=said.max_test_timeout_sec,
    )


def _metadata(said: TaskYaml) -> Mapping[str, JSON]:
    names = (
        *("author_name", "author_email", "difficulty", "category", "tags"),
        *("expert_time_estimate_min", "junior_time_estimate_min"),
    )
    found = {name: as_json(getattr(said, name)) for name in names}
    return {name: value for name, value in found.items() if value not in (None, [])}
