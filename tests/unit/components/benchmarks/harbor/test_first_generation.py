"""A task directory of the first generation becomes a sandbox, an instruction, tests and a solution."""

from __future__ import annotations

import pytest

from agentcompass.components.benchmarks.harbor.first_generation import FirstGenerationFormat
from agentcompass.spec.problems import Problems
from support.terminal_bench import tasks_folder

YAML = """\
instruction: |-
  Do it.
author_email: unknown
difficulty: easy
category: coding
tags:
  - a
parser_name: pytest
max_agent_timeout_sec: 100.0
max_test_timeout_sec: 50.0
run_tests_in_same_shell: false
"""
COMPOSE = """\
services:
  client:
    build:
      dockerfile: Dockerfile
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: [ "sh", "-c", "sleep infinity" ]
    environment:
      - TEST_DIR=${T_BENCH_TEST_DIR}
      - COLOUR=red
    volumes:
      - ${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}
"""
FILES = {
    "task.yaml": YAML,
    "docker-compose.yaml": COMPOSE,
    "Dockerfile": "FROM x\n",
    "run-tests.sh": "pytest\n",
    "tests/test_outputs.py": "",
    "solution.sh": "true\n",
}


def read(folder, **changes):
    """Read a task; a change names a file by its name's first part, None leaves it out."""
    for path, whole in FILES.items():
        text = changes.get(path.split(".")[0].replace("-", "_"), whole)
        if text is not None:
            target = folder / "a" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    problems, remarks = Problems(), {}
    definition = FirstGenerationFormat({}, problems, remarks).read(folder / "a")
    return definition, [str(problem) for problem in problems], remarks


def test_a_task_of_the_template_is_its_dockerfile(tmp_path):
    definition, problems, _ = read(tmp_path)
    assert problems == []
    assert definition.plan.compose is None
    assert definition.plan.build.context == tmp_path / "a"
    assert definition.plan.env == {"TEST_DIR": "/tests", "COLOUR": "red"}
    assert definition.instruction == "Do it."
    assert (definition.category, definition.difficulty) == ("coding", "easy")
    assert (definition.agent_timeout_seconds, definition.tests.timeout_seconds) == (100, 50)
    assert definition.tests.scoring == "pytest"
    assert definition.solution.command == ("bash", "/oracle/solution.sh")


def test_a_context_of_its_own_is_used(tmp_path):
    (tmp_path / "a" / "client").mkdir(parents=True)
    (tmp_path / "a" / "client" / "Dockerfile").write_text("FROM y\n")
    compose = COMPOSE.replace("    build:\n", "    build:\n      context: client\n")
    definition, _, _ = read(tmp_path, docker_compose=compose)
    assert definition.plan.build.context == tmp_path / "a" / "client"


@pytest.mark.parametrize(
    "more",
    [
        "    tmpfs:\n      - /root:size=100M\n",
        "    platform: linux/amd64\n",
        "  other:\n    image: x\n",
        "networks:\n  n: {}\n",
    ],
)
def test_a_compose_file_that_says_more_is_used_itself(tmp_path, more):
    definition, _, _ = read(tmp_path, docker_compose=COMPOSE + more)
    assert definition.plan.compose == tmp_path / "a" / "docker-compose.yaml"
    assert definition.plan.build is None


@pytest.mark.parametrize("context", ["..", "nowhere"])
def test_a_context_without_a_dockerfile_in_the_task_is_refused(tmp_path, context):
    compose = COMPOSE.replace("    build:\n", f"    build:\n      context: {context}\n")
    definition, problems, _ = read(tmp_path, docker_compose=compose)
    assert definition is None
    assert problems == [
        "a/docker-compose.yaml: services.client.build: there is no Dockerfile in its context"
    ]


def test_of_several_descriptions_the_base_one_is_told(tmp_path):
    several = (
        "descriptions:\n  - key: hard\n    description: H\n  - key: base\n    description: B\n"
    )
    text = YAML.replace("instruction: |-\n  Do it.\n", several)
    assert read(tmp_path, task=text)[0].instruction == "B"


def test_typed_solutions_are_a_script_for_a_shell(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "solution.yaml").write_text(
        "- command: cd /x\n  min_timeout_sec: 0.1\n- command: echo a\n  append_enter: false\n- command: b\n"
    )
    definition, _, _ = read(tmp_path, solution=None)
    assert definition.solution.command == ("bash",)
    assert definition.solution.stdin == "cd /x\necho ab\n"


def test_all_that_is_wrong_is_said_at_once(tmp_path):
    text = YAML.replace("pytest", "swebench").replace("100.0", "long").replace("false", "no")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "solution.yaml").write_text("- comand: x\n")
    definition, problems, _ = read(tmp_path, task=text, run_tests=None, solution=None)
    assert definition is None
    assert problems == [
        "a/task.yaml:9:24: max_agent_timeout_sec: must be a number, not a string: 'long'",
        "a/task.yaml:11:26: run_tests_in_same_shell: must be true or false, not a string: 'no' (write true or false)",
        "a/solution.yaml: [0].command: is required",
        "a/solution.yaml: [0].comand: unknown key (did you mean 'command'?)",
        "a/run-tests.sh: there is no such file",
    ]


def test_another_parser_is_refused(tmp_path):
    _, problems, _ = read(tmp_path, task=YAML.replace("pytest", "swebench"))
    assert problems == [
        "a/task.yaml: parser_name: results of the parser 'swebench' cannot be read, only pytest's"
    ]


def test_unknown_fields_and_the_agents_shell_are_remarked(tmp_path):
    text = YAML.replace("shell: false", "shell: true") + "colour: red\n"
    _, problems, remarks = read(tmp_path, task=text)
    assert problems == []
    assert remarks == {
        "unknown field colour": ["a"],
        "run_tests_in_same_shell has no effect: tests run in a shell of their own": ["a"],
    }


def test_every_published_task_can_be_read():
    problems, remarks = Problems(), {}
    form = FirstGenerationFormat({}, problems, remarks)
    directories = sorted(path.parent for path in tasks_folder().glob("*/task.yaml"))
    definitions = [form.read(directory) for directory in directories]
    assert list(problems) == []
    assert len(definitions) == 83
    assert sum(one.plan.compose is not None for one in definitions) == 7
    assert all(one.solution is not None and one.category for one in definitions)
