"""The code of docs/extending.md, run against the real interfaces."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentcompass.components import registry
from agentcompass.components.base import AgentOutcome, SandboxPlan, TaskInput
from agentcompass.components.messages import Message, Reply
from agentcompass.components.registry import load, load_recipe_dirs
from agentcompass.errors import ConfigurationError
from agentcompass.records import Usage
from support.components import context, make
from support.plugins import importable

PAGE = Path(__file__).parents[3] / "docs" / "extending.md"


@pytest.fixture(autouse=True)
def own_registrations(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})


def code_with(name):
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (block,) = [block for block in blocks if name in block]
    return block


def test_the_benchmark_has_less_than_60_lines():
    assert len(code_with("class Sums(").splitlines()) < 60


async def test_the_benchmark_works_by_import_path_and_by_id(tmp_path):
    (tmp_path / "my_benchmark.py").write_text(code_with("class Sums("))
    with importable(tmp_path):
        cls = load("benchmark", "my_benchmark:Sums")
        assert load("benchmark", "sums") is cls
        benchmark = make(cls, digits=3, count=4)
    tasks = list(await benchmark.load_tasks(context(tmp_path)))
    assert [task.id for task in tasks] == ["sum-1", "sum-2", "sum-3", "sum-4"]
    for task in tasks:
        told = await benchmark.prepare(task, None)
        assert told.prompt.startswith("What is ")
        solved = await benchmark.evaluate(task, await benchmark.solve(task, None), None)
        untouched = await benchmark.evaluate(task, AgentOutcome(), None)
        assert (solved.metrics, untouched.metrics) == ({"correct": True}, {"correct": False})


def test_the_benchmarks_parameters_are_checked(tmp_path):
    (tmp_path / "my_benchmark.py").write_text(code_with("class Sums("))
    with importable(tmp_path):
        cls = load("benchmark", "my_benchmark:Sums")
    with pytest.raises(ConfigurationError, match="digits: must be at most 6, not 7"):
        make(cls, digits=7)


class Counting:
    """A model that answers with the number of the call, and remembers how many messages it was given."""

    id, protocol = "m", "openai-chat"

    def __init__(self):
        self.asked = []

    async def chat(self, messages, *, tools=(), params=None):
        self.asked.append(len(messages))
        message = Message(role="assistant", content=str(len(self.asked)))
        return Reply(message=message, stop_reason="stop", usage=Usage(calls=1))


async def test_the_harness_asks_twice(tmp_path):
    (tmp_path / "my_harness.py").write_text(code_with("class Twice("))
    with importable(tmp_path):
        harness = make(load("harness", "my_harness:Twice"))
    steps, model = [], Counting()

    async def emit(step):
        steps.append(step)

    told = TaskInput(messages=(Message(role="user", content="?"),))
    outcome = await harness.run(told, None, model, emit)
    assert outcome.answer == "2"
    assert model.asked == [1, 3]
    assert [step["content"] for step in steps] == ["1", "2"]


def test_the_recipe_adjusts_the_plan(tmp_path):
    (tmp_path / "mine.py").write_text(code_with("class MoreRoom("))
    recipe = make(load_recipe_dirs([tmp_path])["more_room"])
    plan = recipe.adjust(None, None, SandboxPlan())
    assert plan.resources.memory_mb == 4096
