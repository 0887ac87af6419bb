"""A task directory in the Harbor format becomes a sandbox, an instruction, tests and a solution."""

from __future__ import annotations

import pytest

from agentcompass.components.benchmarks.harbor.task_directory import HarborFormat
from agentcompass.spec.problems import Problems
from support.harbor import harbor_task

DOCKERFILE = {"environment/Dockerfile": "FROM x\n"}


def read(folder, variables=None, **parts):
    directory = harbor_task(folder, "a", **parts)
    problems, remarks = Problems(), {}
    definition = HarborFormat(variables or {}, problems, remarks).read(directory)
    return definition, [str(problem) for problem in problems], remarks


def test_the_published_image_is_named_and_the_dockerfile_stands_by(tmp_path):
    toml = '[environment]\ndocker_image = "x:1"\nbuild_timeout_sec = 90\n'
    definition, _, _ = read(tmp_path, toml=toml, files=DOCKERFILE)
    assert definition.plan.image == "x:1"
    assert definition.plan.build.context == tmp_path / "a" / "environment"
    assert definition.plan.build.timeout_seconds == 90
    assert definition.plan.compose is None
    assert definition.plan.workdir is None


def test_a_compose_file_is_used(tmp_path):
    definition, _, _ = read(tmp_path, toml="", files={"environment/docker-compose.yaml": "x"})
    assert definition.plan.compose == tmp_path / "a" / "environment" / "docker-compose.yaml"


def test_resources_network_users_and_times_are_the_tasks(tmp_path):
    toml = """
    [agent]
    timeout_sec = 100
    user = "worker"
    [verifier]
    timeout_sec = 50
    [environment]
    docker_image = "x"
    cpus = 2
    memory = "4G"
    storage_mb = 1000
    gpus = 1
    allow_internet = false
    workdir = "/srv"
    """
    definition, _, _ = read(tmp_path, toml=toml)
    plan = definition.plan
    used = plan.resources
    assert (used.cpus, used.memory_mb, used.storage_mb, used.gpus) == (2, 4096, 1000, 1)
    assert (plan.network, plan.user, plan.workdir) == (False, "worker", "/srv")
    assert (definition.agent_timeout_seconds, definition.tests.timeout_seconds) == (100, 50)
    assert definition.tests.user == "root"


def test_what_a_task_does_not_say_is_the_environments_choice(tmp_path):
    definition, _, _ = read(tmp_path)
    used = definition.plan.resources
    assert (used.cpus, used.memory_mb, used.storage_mb, used.gpus) == (None, None, None, None)
    assert definition.plan.network
    assert (definition.agent_timeout_seconds, definition.tests.timeout_seconds) == (None, 600)
    assert definition.tests.user is None


def test_files_beside_no_dockerfile_go_into_the_work_directory(tmp_path):
    seed = {"environment/seed.txt": "x"}
    definition, _, _ = read(tmp_path, files=seed)
    assert definition.files == tmp_path / "a" / "environment"
    definition, _, _ = read(tmp_path, files=DOCKERFILE)
    assert definition.files is None


def test_a_task_without_a_solution_has_none(tmp_path):
    definition, _, _ = read(tmp_path, solve=None)
    assert definition.solution is None


def test_variables_are_those_that_the_user_gives(tmp_path):
    toml = """
    [environment]
    docker_image = "x"
    env = { URL = "http://${HOST}:${PORT:-80}/" }
    [verifier]
    env = { KEY = "${JUDGE_KEY}" }
    """
    definition, problems, _ = read(tmp_path, toml=toml)
    assert definition is None
    assert problems == [
        "a/task.toml: environment.env.URL: needs the variable HOST: give it with the parameter `variables`",
        "a/task.toml: verifier.env.KEY: needs the variable JUDGE_KEY: give it with the parameter `variables`",
    ]
    definition, _, _ = read(tmp_path, {"HOST": "h", "JUDGE_KEY": "k"}, toml=toml)
    assert definition.plan.env == {"URL": "http://h:80/"}
    assert definition.tests.env == {"KEY": "k"}


@pytest.mark.parametrize(
    ("toml", "path"),
    [
        ("[[steps]]\nname = 'one'", "steps"),
        ("[verifier]\nenvironment_mode = 'separate'", "verifier.environment"),
        ("[verifier.environment]\ncpus = 1", "verifier.environment"),
        ("[[verifier.collect]]\ncommand = 'x'", "verifier.collect"),
        ("[environment]\nos = 'windows'", "environment.os"),
        ("[environment]\nallowed_hosts = ['pypi.org']", "environment.network_mode"),
        ("[environment.tpu]\ntype = 'v6e'", "environment.tpu"),
        ("[agent]\nnetwork_mode = 'no-network'", "agent.network_mode"),
        ("[verifier]\nallowed_hosts = ['x']", "verifier.network_mode"),
    ],
)
def test_what_would_be_another_task_without_it_is_refused(tmp_path, toml, path):
    definition, problems, _ = read(tmp_path, toml=toml, files=DOCKERFILE)
    assert definition is None
    assert len(problems) == 1
    assert problems[0].startswith(f"a/task.toml: {path}: ")
    assert problems[0].endswith("not supported")


def test_what_has_no_effect_is_remarked(tmp_path):
    toml = (
        'artifacts = [\'/x\']\ncolour = 1\n[environment]\ndocker_image = "x"\nskills_dir = "/s"\n'
    )
    _, problems, remarks = read(tmp_path, toml=toml)
    assert problems == []
    assert remarks == {
        "unknown field colour": ["a"],
        "environment.skills_dir has no effect: no harness here has skills": ["a"],
        "artifacts has no effect: only /logs/verifier is kept": ["a"],
    }


def test_all_that_is_missing_is_said_at_once(tmp_path):
    definition, problems, _ = read(tmp_path, toml="", test=None, instruction=None, solve=None)
    assert definition is None
    assert problems == [
        "a/instruction.md: there is no such file",
        "a/tests/test.sh: there is no such file",
        "a/task.toml: environment: the task has no docker_image, no environment/Dockerfile and no environment/docker-compose.yaml",
    ]


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ('memory = "lots"', "environment.memory: 'lots' is no size such as 2G or 512M"),
        (
            'memory = "1G"\nmemory_mb = 5',
            "environment.memory: is also given as memory_mb: leave out one",
        ),
        ('workdir = "app"', "environment.workdir: must be an absolute path"),
    ],
)
def test_values_that_make_no_sense_are_refused(tmp_path, toml, sentence):
    _, problems, _ = read(tmp_path, toml=f"[environment]\n{toml}\n", files=DOCKERFILE)
    assert problems == [f"a/task.toml: {sentence}"]


def test_an_empty_instruction_is_refused(tmp_path):
    _, problems, _ = read(tmp_path, instruction=" \n")
    assert problems == ["a/instruction.md: is empty: an agent must be told something"]
