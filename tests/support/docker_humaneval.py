"""HumanEval in containers: the program, and a model of a scripted endpoint that solves each task with a shell."""

from __future__ import annotations

import contextlib
import functools
import json

import trio

from agentcompass.components.base import LoadContext
from agentcompass.components.benchmarks.humaneval import HumanEval, HumanEvalParams
from agentcompass.testing import FakeEndpoint, chat
from support.commandline import Program
from support.docker import engine_host, python_image


def arguments(harness, *options, count, at_once):
    params = {"image": python_image(), "host": engine_host(), "network": "none"}
    return (
        "run", "humaneval", harness, *options, "--env", "docker", "--env-params", json.dumps(params),
        "--benchmark-params", json.dumps({"limit": count}), "--task-concurrency", str(at_once),
        "--format", "json", "--progress", "none", "--results-dir", "results",
    )  # fmt: skip


def humaneval(folder, harness, *options, count, at_once):
    """Run it to its end and return the result and the records."""
    child = Program(folder).start(*arguments(harness, *options, count=count, at_once=at_once))
    said, errors = child.communicate(timeout=3600)
    assert child.returncode == 0, errors
    (journal,) = (folder / "results").glob("*/*/attempts.jsonl")
    return json.loads(said), [json.loads(line) for line in journal.read_text().splitlines()]


@contextlib.contextmanager
def solving_model(folder):
    """Give the options for a model that writes each task's solution to a file, tries it, and submits it."""

    @functools.cache
    def problems():
        async def load():
            benchmark = HumanEval(HumanEvalParams())
            return [task.data for task in await benchmark.load_tasks(LoadContext(data_dir=folder))]

        return trio.run(load)

    known = problems()

    def react(seen):
        messages = seen.json["messages"]
        problem = next(one for one in known if one.prompt in messages[1]["content"])
        program = problem.prompt + problem.canonical_solution
        if len(messages) == 2:
            command = f"cat > solution.py <<'END'\n{program}\nEND\npython3 solution.py && wc -l solution.py"
            return chat(None, tool_calls=[("bash", json.dumps({"command": command}))])
        assert messages[-1]["content"].startswith("exit code 0\n"), messages[-1]
        answer = f"```python\n{program}\n```"
        return chat(None, tool_calls=[("submit", json.dumps({"answer": answer}))])

    with FakeEndpoint(react) as endpoint:
        yield "m", "--model-base-url", endpoint.base_url, "--model-api-key", "k"
