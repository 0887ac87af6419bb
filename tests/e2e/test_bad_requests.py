"""A launch in which some requests cannot begin: the others complete, and each error is told apart."""

import contextlib
import json
import time

import pytest

from support.commandline import Program

PLUGINS = """
import pathlib

import trio

from agentcompass import Benchmark, Environment, Evaluation, Metric, PreflightError, Task, TaskInput, Message


class Unbuildable(Benchmark):
    id = "unbuildable"
    metrics = (Metric(name="pass", primary=True),)

    def __init__(self, params):
        raise ValueError("weights.csv has no column 'score'")

    async def load_tasks(self, ctx):
        return []

    async def prepare(self, task, session):
        return TaskInput(messages=(Message(role="user", content="x"),))

    async def evaluate(self, task, outcome, session):
        return Evaluation(metrics={"pass": 1.0})


class Hanging(Unbuildable):
    id = "hanging"

    def __init__(self, params):
        self.params = params

    async def load_tasks(self, ctx):
        while not pathlib.Path("an-hour-is-over").exists():
            await trio.sleep(0.05)
        raise TimeoutError("the data server did not answer for an hour")


class Impossible(Environment):
    id = "impossible"

    async def preflight(self):
        raise PreflightError("no daemon answers at /run/impossible.sock", hint="Start it.")

    def open(self, plan, lease):
        raise NotImplementedError

    async def remove(self, lease):
        pass
"""

LAUNCH = """
defaults: {benchmark: {id: jsonl, path: tasks.jsonl}, harness: {id: oracle}, model: {id: none}}
requests:
- {name: good1}
- {name: hanging, benchmark: {id: "bad_parts:Hanging"}}
- {name: good2}
- {name: unbuildable, benchmark: {id: "bad_parts:Unbuildable"}}
- {name: impossible, environment: {id: "bad_parts:Impossible"}}
- {name: good3}
"""
GOOD = ("good1", "good2", "good3")


@pytest.fixture
def program(tmp_path):
    (tmp_path / "bad_parts.py").write_text(PLUGINS)
    (tmp_path / "all.yaml").write_text(LAUNCH)
    task = {"id": "a", "prompt": "x", "command": "true", "solution": "y"}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    return Program(tmp_path)


@contextlib.contextmanager
def launched(program):
    path = f"{program.environment()['PYTHONPATH']}:{program.folder}"
    arguments = ("launch", "all.yaml", "--progress", "none", "--format", "json")
    with program.start(*arguments, environ={"PYTHONPATH": path}) as child:
        try:
            yield child
        finally:
            child.kill()


def statuses(program):
    """What others can read of a launch that is under way."""
    written = list((program.folder / "results").glob("*/orchestration.json"))
    if not written:
        return {}
    requests = json.loads(written[0].read_text())["requests"]
    return {name: entry["status"] for name, entry in requests.items()}


def await_statuses(program, child, wanted):
    until = time.monotonic() + 90
    while {name: statuses(program).get(name) for name in wanted} != wanted:
        assert child.poll() is None, child.stderr.read()
        assert time.monotonic() < until, statuses(program)
        time.sleep(0.05)


def test_the_good_ones_complete_while_one_hangs_and_three_errors_are_told_apart(program):
    with launched(program) as child:
        ended = dict.fromkeys(GOOD, "completed") | {"unbuildable": "failed", "impossible": "failed"}
        await_statuses(program, child, ended)
        assert statuses(program)["hanging"] == "preparing"
        (program.folder / "an-hour-is-over").touch()
        stdout, stderr = child.communicate(timeout=60)
    assert child.returncode == 1, stderr
    result = json.loads(stdout)
    assert result["status"] == "partial_failure"
    errors = {name: request["error"] for name, request in result["requests"].items()}
    assert {name for name, error in errors.items() if error is None} == set(GOOD)
    for name, words in (
        ("unbuildable", "could not be set up: ValueError: weights.csv has no column 'score'"),
        ("hanging", "could not load its tasks: TimeoutError: the data server did not answer"),
        ("impossible", "no daemon answers at /run/impossible.sock"),
    ):
        assert words in errors[name]
        assert not (program.folder / "results" / name).exists()
    lines = [line for line in stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == len(set(lines)) == 3, stderr


def test_one_that_hangs_in_a_thread_is_left_behind_when_the_run_is_ended(program):
    """Nothing can end the thread of a plain `load_tasks` that sleeps, and nobody waits for it."""
    plain = PLUGINS.replace("async def load_tasks", "def load_tasks").replace("await trio", "time")
    (program.folder / "bad_parts.py").write_text(f"import time\n{plain}")
    with launched(program) as child:
        await_statuses(program, child, dict.fromkeys(GOOD, "completed"))
        child.terminate()
        stdout, stderr = child.communicate(timeout=60)
    assert child.returncode == 143, stderr
    result = json.loads(stdout)
    assert result["status"] == "cancelled"
    found = {name: request["status"] for name, request in result["requests"].items()}
    assert found["hanging"] == "cancelled"
    assert {found[name] for name in GOOD} == {"completed"}
