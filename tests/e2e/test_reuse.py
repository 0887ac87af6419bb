"""Earlier results are taken over when nothing that can change an answer is different, and refused by name otherwise."""

import json

import pytest

from agentcompass.testing import FakeEndpoint, chat
from support.commandline import Program

PLUGIN = """
from agentcompass.components.harnesses.openai_chat import OpenAIChat

class Chat(OpenAIChat):
    id = "chat"
    version = "{version}"
"""


def write_tasks(folder, answer="4"):
    task = {"id": "a", "prompt": "2 + 2?", "answer": answer, "scorer": "numeric"}
    (folder / "tasks.jsonl").write_text(json.dumps(task) + "\n")


@pytest.fixture
def program(tmp_path):
    write_tasks(tmp_path)
    (tmp_path / "plugin.py").write_text(PLUGIN.format(version="1"))
    return Program(tmp_path)


@pytest.fixture
def endpoint():
    with FakeEndpoint(chat("It is 4")) as endpoint:
        yield endpoint


def run(program, endpoint, *options, model="m", model_params=None, harness="plugin:Chat", **params):
    environ = program.environment()
    path = f"{environ['PYTHONPATH']}:{program.folder}"
    return program(
        "run", "jsonl", harness, model, "--benchmark-params", json.dumps({"path": "tasks.jsonl"} | params),
        "--model-base-url", endpoint.base_url, "--model-params", json.dumps(model_params or {"temperature": 0}),
        "--run-name", "mine", "--format", "json", *options, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1",
    )  # fmt: skip


def change_data(program):
    write_tasks(program.folder, answer="5")


def change_component(program):
    (program.folder / "plugin.py").write_text(PLUGIN.format(version="2"))


CHANGES = {
    "temperature": ({"model_params": {"temperature": 1}}, None, ("temperature", "0", "1")),
    "another parameter": ({"model_params": {"temperature": 0, "top_p": 0.9}}, None, ("top_p",)),
    "the prompt": ({"prompt_template": "Think. {prompt}"}, None, ("prompt_template", "Think")),
    "the data": ({}, change_data, ("dataset",)),
    "a component's version": ({}, change_component, ("version", "1", "2")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_can_change_an_answer_refuses_reuse_and_is_named(program, endpoint, change):
    fields, edit, words = CHANGES[change]
    assert run(program, endpoint, "--run-id", "first").returncode == 0
    if edit is not None:
        edit(program)
    asked = len(endpoint.requests)
    done = run(program, endpoint, "--reuse=first", **fields)
    assert done.returncode == 2, done.stderr
    for word in words:
        assert word in done.stderr
    assert len(endpoint.requests) == asked
    done = run(program, endpoint, "--reuse", **fields)
    assert done.returncode in (0, 1), "without an id it finds nothing to reuse and says so"
    assert "no earlier run" in done.stderr
    assert len(endpoint.requests) == asked + 1


def test_another_model_or_harness_has_runs_of_its_own(program, endpoint):
    assert run(program, endpoint, "--run-id", "first").returncode == 0
    for fields in ({"model": "other"}, {"harness": "openai_chat"}):
        done = run(program, endpoint, "--reuse=first", **fields)
        assert done.returncode == 2
        assert "first" in done.stderr


OTHER_SETTINGS = {
    "concurrency": ("--task-concurrency", "3"),
    "limits": ("--provider-limit", "host_process=2"),
    "the time limit": ("--timeout-seconds", "100"),
    "progress": ("--progress", "plain"),
    "a connection limit": None,
}


@pytest.mark.parametrize("setting", OTHER_SETTINGS)
def test_what_changes_no_answer_is_no_obstacle(program, endpoint, setting):
    assert run(program, endpoint, "--run-id", "first").returncode == 0
    options, fields = OTHER_SETTINGS[setting] or (), {}
    if setting == "a connection limit":
        fields = {"model_params": {"temperature": 0, "max_connections": 7, "max_retries": 1}}
    done = run(program, endpoint, "--reuse=first", *options, **fields)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["reused"] == 1
    assert len(endpoint.requests) == 1
