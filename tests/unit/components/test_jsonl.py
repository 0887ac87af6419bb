from __future__ import annotations

import json
import os

import pytest
import trio

from agentcompass.components.base import AgentOutcome, SandboxPlan, Where
from agentcompass.components.benchmarks.jsonl import JsonLines
from agentcompass.errors import ConfigurationError, EvaluatorError, InfraError
from support.components import context, make, open_session


@pytest.fixture
def write(tmp_path):
    def write(*rows):
        path = tmp_path / "tasks.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


def row(**fields):
    return {"id": "a", "prompt": "p", "answer": "x", **fields}


async def loaded(path, **params):
    benchmark = make(JsonLines, path=str(path), **params)
    tasks = list(await benchmark.load_tasks(context(path.parent)))
    return benchmark, tasks


async def score(path, answer, **params):
    benchmark, (task,) = await loaded(path, **params)
    return await benchmark.evaluate(task, AgentOutcome(answer=answer), None)


# --- loading


async def test_a_file_is_named_even_where_the_working_directory_is_gone(
    write, tmp_path, monkeypatch
):
    path = write({"id": "a", "prompt": "p"})
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    with pytest.raises(ConfigurationError, match=f"{path}:1: answer"):
        await loaded(path)


async def test_a_command_is_not_run_outside_of_a_sandbox(write):
    with pytest.raises(EvaluatorError, match="was given no sandbox") as caught:
        await score(write(row(scorer="command", command="true")), "x")
    assert not caught.value.retryable


async def test_selection_keeps_the_files_order(write):
    path = write(*(row(id=name, category=name) for name in "abcd"))
    for params, ids in (
        ({}, "abcd"),
        ({"limit": 2}, "ab"),
        ({"sample_ids": ["d", "b"]}, "bd"),
        ({"sample_ids": ["d", "b"], "limit": 1}, "b"),
        ({"categories": ["c", "a"]}, "ac"),
        ({"categories": ["c", "a"], "sample_ids": ["a", "b"]}, "a"),
    ):
        _, tasks = await loaded(path, **params)
        assert "".join(task.id for task in tasks) == ids


@pytest.mark.parametrize(
    ("params", "words"),
    [
        (
            {"sample_ids": ["task-12"]},
            r"sample_ids: nothing is called 'task-12' \(did you mean 'task-[12]'",
        ),
        ({"sample_ids": []}, "sample_ids: must have at least one entry"),
        ({"categories": ["mth"]}, r"categories: nothing is called 'mth' \(did you mean 'math'"),
        ({"limit": 0}, "limit: must be at least 1, not 0"),
        ({"limit": -1}, "limit: must be at least 1, not -1"),
        ({"scorer": "fuzzy"}, "scorer: must be one of exact, numeric, regex, contains, command"),
        ({"absolute_tolerance": -1}, "absolute_tolerance: must be at least 0"),
        ({"command_timeout_seconds": 0}, "command_timeout_seconds: must be above 0"),
        ({"prompt_template": "Q:"}, r"prompt_template: must have \{prompt\} in it"),
        ({"answer_pattern": "("}, "answer_pattern: is no regular expression"),
    ],
)
async def test_a_wrong_parameter_is_told(write, params, words):
    path = write(row(id="task-1", category="math"), row(id="task-2"))
    with pytest.raises(ConfigurationError, match=words):
        await loaded(path, **params)


async def test_the_path_is_required(tmp_path):
    with pytest.raises(ConfigurationError, match="path"):
        make(JsonLines)


async def test_a_pipe_or_folder_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ConfigurationError, match="is no regular file"), trio.fail_after(5):
            await loaded(path)


async def test_problems_of_file_and_parameters_come_together_as_data(write):
    with pytest.raises(ConfigurationError) as caught:
        await loaded(write(row(id=None), row(answer=None)), prompt_template="Q")
    assert [problem.path for problem in caught.value.problems] == [
        "prompt_template",
        "id",
        "answer",
    ]


async def test_the_dataset_version_is_the_content_not_the_place(write, tmp_path):
    path = write(row())
    first, _ = await loaded(path)
    other = tmp_path / "other.jsonl"
    other.write_bytes(path.read_bytes())
    second, _ = await loaded(other)
    path.write_text(path.read_text() + "\n")
    third, _ = await loaded(path)
    assert first.dataset_version() == second.dataset_version() != third.dataset_version()


# --- what the agent is told


async def test_the_prompt_goes_into_the_template_and_braces_stay(write):
    benchmark, (task,) = await loaded(
        write(row(prompt="{x} {0}")), prompt_template="Q: {prompt} {y}", system_prompt="S"
    )
    told = await benchmark.prepare(task, None)
    assert [(m.role, m.content) for m in told.messages] == [
        ("system", "S"),
        ("user", "Q: {x} {0} {y}"),
    ]


async def test_a_lines_own_system_message_wins(write):
    messages = [{"role": "system", "content": "own"}, {"role": "user", "content": "u"}]
    line = {"id": "a", "messages": messages, "answer": 1}
    benchmark, (task,) = await loaded(write(line), system_prompt="S")
    told = await benchmark.prepare(task, None)
    assert [m.content for m in told.messages] == ["own", "u"]


# --- scoring


@pytest.mark.parametrize(
    ("fields", "params", "answer", "value"),
    [
        ({}, {}, " x ", 1.0),
        ({}, {}, "X", 0.0),
        ({}, {"ignore_case": True}, "X", 1.0),
        ({}, {}, "", 0.0),
        ({}, {}, None, 0.0),
        ({"answer": ""}, {}, "", 1.0),
        ({"answer": ""}, {}, None, 0.0),
        ({"answer": ["a", "b"]}, {}, "b", 1.0),
        ({"answer": 1234.5}, {}, "That makes $1,234.50.", 1.0),
        ({"answer": 3}, {"scorer": "exact"}, "3", 1.0),
        ({"answer": "1,000"}, {"scorer": "numeric"}, "1000", 1.0),
        ({"answer": 3.14}, {"absolute_tolerance": 0.01}, "3.1415", 1.0),
        ({}, {"scorer": "contains"}, "axb", 1.0),
        ({"answer": ["^y", "x$"]}, {"scorer": "regex"}, "ax", 1.0),
        ({"answer": "^x"}, {"scorer": "regex"}, "ax", 0.0),
        ({"answer": "X"}, {"scorer": "regex", "ignore_case": True}, "ax", 1.0),
        ({}, {"answer_pattern": r"Answer: (\w+)"}, "Answer: y\nAnswer: x\nbye", 1.0),
        ({}, {"answer_pattern": r"Answer: (\w+)"}, "x", 0.0),
        ({"answer": 4}, {"answer_pattern": r"A: .*"}, "A: 4\n5", 1.0),
        ({"answer": "^x$"}, {"answer_pattern": r"A: (.*)", "scorer": "regex"}, "A: x", 1.0),
        ({"answer": "^x$"}, {"answer_pattern": r"A: (.*)", "scorer": "regex"}, "x", 0.0),
    ],
)
async def test_an_answer_is_compared_as_the_scorer_says(write, fields, params, answer, value):
    evaluation = await score(write(row(**fields)), answer, **params)
    assert evaluation.metrics == {"correct": value}


async def test_the_details_show_what_was_compared(write):
    evaluation = await score(write(row()), "Answer: y", answer_pattern=r"Answer: (\w+)")
    assert evaluation.details == {"scorer": "exact", "expected": "x", "extracted": "y"}


# --- the scorer `command`


@pytest.mark.parametrize(
    ("command", "value"),
    [
        ("true", 1.0),
        ("false", 0.0),
        ("exit 3", 0.0),
        ("kill -9 $$", 0.0),
        ('grep -qx hello "$ANSWER_FILE"', 1.0),
        ("grep -qx hello .agentcompass/answer.txt", 1.0),
        ("grep -qx other .agentcompass/answer.txt", 0.0),
        ("sleep 60", 0.0),
        ("yes | head -c 5000000; exit 0", 1.0),
    ],
)
async def test_the_exit_code_of_the_command_is_the_verdict(write, tmp_path, command, value):
    benchmark, (task,) = await loaded(
        write({"id": "a", "prompt": "p", "command": command}), command_timeout_seconds=1
    )
    assert benchmark.needs_evaluation_sandbox(task)
    async with open_session(tmp_path / "sandboxes") as session:
        evaluation = await benchmark.evaluate(task, AgentOutcome(answer="hello\n"), session)
    assert evaluation.metrics == {"correct": value}
    assert evaluation.details["timed_out"] is (command == "sleep 60")
    json.dumps(evaluation.details, allow_nan=False)


async def test_a_command_that_cannot_be_run_is_no_verdict(write, tmp_path):
    benchmark, (task,) = await loaded(write({"id": "a", "prompt": "p", "command": "no-such-cmd"}))
    async with open_session(tmp_path / "sandboxes") as session:
        with pytest.raises(EvaluatorError, match="no-such-cmd") as caught:
            await benchmark.evaluate(task, AgentOutcome(), session)
    assert caught.value.code == "command-not-found"


async def test_without_answer_the_file_is_empty(write, tmp_path):
    benchmark, (task,) = await loaded(
        write(
            {
                "id": "a",
                "prompt": "p",
                "command": 'test -f "$ANSWER_FILE" && ! test -s "$ANSWER_FILE"',
            }
        )
    )
    async with open_session(tmp_path / "sandboxes") as session:
        evaluation = await benchmark.evaluate(task, AgentOutcome(), session)
    assert evaluation.metrics == {"correct": 1.0}


@pytest.mark.parametrize(("place", "agent_needs_it"), [("fresh", False), ("reuse", True)])
async def test_sandboxes_are_asked_for_by_tasks_with_a_command_only(write, place, agent_needs_it):
    benchmark, (plain, checked) = await loaded(
        write(row(), row(id="b", command="true")), evaluate_in=place, artifacts=["out"]
    )
    assert benchmark.evaluates_in is Where(place)
    assert not benchmark.needs_evaluation_sandbox(plain)
    assert not benchmark.needs_agent_sandbox(plain)
    assert benchmark.needs_evaluation_sandbox(checked)
    assert benchmark.needs_agent_sandbox(checked) is agent_needs_it
    assert benchmark.plan(checked, SandboxPlan(artifacts=("a",))).artifacts == ("a", "out")


# --- the reference solution


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"solution": "s"}, "s"),
        ({"answer": ["first", "second"]}, "first"),
        ({"answer": 0.1}, "0.1"),
        ({"answer": ".*", "scorer": "regex", "solution": "s"}, "s"),
    ],
)
async def test_the_reference_scores_full_marks(write, fields, answer):
    benchmark, (task,) = await loaded(write(row(**fields)))
    outcome = await benchmark.solve(task, None)
    assert outcome.answer == answer
    if "solution" not in fields or fields.get("scorer") == "regex":
        evaluation = await benchmark.evaluate(task, outcome, None)
        assert evaluation.metrics == {"correct": 1.0}


@pytest.mark.parametrize(
    "line", [row(scorer="regex"), {"id": "a", "prompt": "p", "command": "true"}]
)
async def test_a_pattern_or_command_alone_is_no_reference(write, line):
    benchmark, (task,) = await loaded(write(line))
    with pytest.raises(InfraError) as caught:
        await benchmark.solve(task, None)
    assert caught.value.code == "no-reference-solution"
