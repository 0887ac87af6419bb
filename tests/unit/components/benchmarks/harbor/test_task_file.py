"""task.toml is read strictly, and every field of the format is known."""

from __future__ import annotations

import pytest

from agentcompass.components.benchmarks.harbor import task_file
from agentcompass.components.benchmarks.harbor.task_file import megabytes
from agentcompass.spec.problems import Problems

PUBLISHED = """
schema_version = "1.1"
artifacts = []

[task]
name = "terminal-bench/some-task"
description = "Something."
keywords = ["coding"]
[[task.authors]]
name = "A Person"
email = "person@example.com"

[metadata]
author_name = "A Person"
difficulty = "easy"
category = "software-engineering"
tags = ["coding"]
expert_time_estimate_min = 5.0
made_on = 2026-01-31

[verifier]
timeout_sec = 900.0

[agent]
timeout_sec = 900.0

[environment]
build_timeout_sec = 600.0
docker_image = "example/some-task:20260403"
cpus = 1
memory_mb = 2048
storage_mb = 10240
gpus = 0
allow_internet = true
mcp_servers = []

[verifier.env]
[environment.env]
[solution.env]
"""
EVERYTHING = """
version = "1.0"
source = "somewhere"

[metadata]

[verifier]
timeout_sec = 60
user = 1000
network_mode = "public"
environment_mode = "shared"
env = { KEY = "${KEY:-none}" }

[agent]
timeout_sec = 120
user = "agent"
network_mode = "public"

[solution]
env = { A = "b" }

[environment]
docker_image = "x"
os = "linux"
cpus = 0.5
memory = "1G"
storage = "10G"
gpus = 1
gpu_types = ["H100"]
network_mode = "public"
workdir = "/srv"
skills_dir = "/skills"
[environment.env]
PORT = "80"
[environment.healthcheck]
command = "true"
interval_sec = 1
timeout_sec = 2
start_period_sec = 3
start_interval_sec = 0.5
retries = 4
[[environment.mcp_servers]]
name = "m"
transport = "streamable-http"
url = "http://m:8000"
"""


def read(folder, text):
    path = folder / "task.toml"
    path.write_text(text)
    problems, unknown = Problems(), set()
    said = task_file.read(path, "a/task.toml", problems, unknown)
    return said, [str(problem) for problem in problems], unknown


@pytest.mark.parametrize("text", [PUBLISHED, EVERYTHING, ""], ids=["published", "all", "empty"])
def test_a_file_of_the_format_is_read_without_a_problem(tmp_path, text):
    said, problems, unknown = read(tmp_path, text)
    assert problems == []
    assert unknown == set()
    assert said is not None


def test_values_arrive_with_their_types(tmp_path):
    said, _, _ = read(tmp_path, PUBLISHED)
    assert said.environment.docker_image == "example/some-task:20260403"
    assert said.environment.memory_mb == 2048
    assert said.agent.timeout_sec == 900.0
    assert said.metadata["made_on"] == "2026-01-31"
    assert said.task.authors[0].email == "person@example.com"


def test_everything_that_is_wrong_is_said_at_once_with_its_key(tmp_path):
    _, problems, _ = read(
        tmp_path,
        """
        [agent]
        timeout_sec = "900"
        [verifier]
        timeout_sec = 0
        env = { N = 5 }
        [environment]
        cpus = true
        memory_mb = 1.5
        network_mode = "none"
        """,
    )
    assert problems == [
        "a/task.toml: verifier.timeout_sec: must be above 0, not 0",
        "a/task.toml: verifier.env.N: must be a string, not an integer: 5",
        "a/task.toml: agent.timeout_sec: must be a number, not a string: '900'",
        "a/task.toml: environment.cpus: must be a number, not a boolean: true",
        "a/task.toml: environment.memory_mb: must be an integer, not a number: 1.5",
        "a/task.toml: environment.network_mode: must be one of public, no-network, allowlist, not 'none'",
    ]


def test_unknown_fields_are_told_and_do_no_harm(tmp_path):
    said, problems, unknown = read(
        tmp_path,
        """
        colour = "red"
        [agent]
        timeout_sec = 5
        mood = "good"
        [[environment.mcp_servers]]
        name = "m"
        url = "u"
        shape = 1
        """,
    )
    assert problems == []
    assert unknown == {"colour", "agent.mood", "environment.mcp_servers[].shape"}
    assert said.agent.timeout_sec == 5


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"[agent", "is not valid TOML: "),
        (b"a = 1\na = 2", "is not valid TOML: "),
        (b"\xff = 1", "is not UTF-8 (byte 1)"),
        (b"agent = 5", "must be a mapping, not an integer"),
        (b"x = " + b"[" * 3000, "is not valid TOML: "),
    ],
    ids=["broken", "twice", "bytes", "kind", "deep"],
)
def test_what_is_no_task_file_is_a_problem_with_a_name(tmp_path, content, sentence):
    path = tmp_path / "task.toml"
    path.write_bytes(content)
    problems = Problems()
    assert task_file.read(path, "a/task.toml", problems, set()) is None
    (problem,) = problems
    assert problem.where == "a/task.toml"
    assert sentence in problem.sentence


def test_a_missing_file_is_a_problem(tmp_path):
    problems = Problems()
    assert task_file.read(tmp_path / "task.toml", "a/task.toml", problems, set()) is None
    assert [str(one) for one in problems] == ["a/task.toml: there is no such file"]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2G", 2048),
        ("512M", 512),
        ("1.5g", 1536),
        ("4GB", 4096),
        (" 8 GiB ", 8192),
        ("100K", 1),
        ("2048", None),
        ("0G", None),
        ("-1G", None),
        ("big", None),
        ("1T", None),
    ],
)
def test_sizes_are_read_as_documented(text, size):
    assert megabytes(text) == size
