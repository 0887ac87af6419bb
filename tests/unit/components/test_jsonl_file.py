from __future__ import annotations

import hashlib
import json

import pytest

from agentcompass.components.benchmarks import jsonl_file
from agentcompass.metrics.board import UNCATEGORIZED
from agentcompass.spec.problems import Problems


def read(path, *, default_scorer=None, is_wanted=lambda _task: True, limit=None):
    problems = Problems()
    contents = jsonl_file.read(
        path, default_scorer=default_scorer, is_wanted=is_wanted, limit=limit, problems=problems
    )
    return contents, [str(problem).replace(str(path), "FILE") for problem in problems]


def write(tmp_path, *lines):
    path = tmp_path / "tasks.jsonl"
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(text), encoding="utf-8")
    return path


def row(**fields):
    return {"id": "a", "prompt": "p", "answer": "x", **fields}


def problems_of(tmp_path, *lines, **options):
    return read(write(tmp_path, *lines), **options)[1]


def test_a_whole_line_becomes_a_task(tmp_path):
    line = row(category="c", metadata={"level": 3}, solution="X")
    contents, problems = read(write(tmp_path, line, "", row(id=7)))
    assert problems == []
    first, second = contents.tasks
    assert (first.id, first.category, first.metadata) == ("a", "c", {"level": 3})
    assert (first.data.prompt, first.data.answers, first.data.solution) == ("p", ("x",), "X")
    assert (second.id, second.category, second.metadata) == ("7", None, {})
    assert contents.ids == ("a", "7")
    assert contents.categories == ("c",)


def test_messages_stand_in_for_a_prompt(tmp_path):
    parts = [{"type": "text", "text": "hi"}]
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": parts}]
    contents, problems = read(write(tmp_path, {"id": "a", "messages": messages, "answer": 1}))
    assert problems == []
    system, user = contents.tasks[0].data.messages
    assert (system.role, system.content, user.content) == (
        "system",
        "s",
        ({"type": "text", "text": "hi"},),
    )


@pytest.mark.parametrize(
    ("fields", "default", "scorer"),
    [
        ({}, None, "exact"),
        ({"answer": 4}, None, "numeric"),
        ({"answer": [4, 5.5]}, None, "numeric"),
        ({"answer": [4, "five"]}, None, "exact"),
        ({"command": "true"}, None, "command"),
        ({}, "contains", "contains"),
        ({"scorer": "exact"}, "contains", "exact"),
        ({"answer": 4, "scorer": None, "solution": None}, None, "numeric"),
    ],
)
def test_the_scorer_is_the_lines_else_the_default_else_what_fits(tmp_path, fields, default, scorer):
    contents, problems = read(write(tmp_path, row(**fields)), default_scorer=default)
    assert problems == []
    assert contents.tasks[0].data.scorer == scorer


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("{", "FILE:1: is no JSON: Expecting property name", id="not json"),
        pytest.param("[]", "FILE:1: must be a JSON object, not a list", id="list"),
        pytest.param("3", "FILE:1: must be a JSON object, not a number", id="number"),
        pytest.param("null", "FILE:1: must be a JSON object, not null", id="null"),
        pytest.param('{"a": NaN}', "FILE:1: is no JSON: NaN is no JSON number", id="nan"),
        pytest.param(
            '{"id": 1, "id": 2}', "FILE:1: is no JSON: the key 'id' is there twice", id="key"
        ),
        pytest.param("[" * 100_000, "FILE:1: is no JSON: ", id="deep"),
        pytest.param('{"id": ' + "9" * 5000 + "}", "FILE:1: is no JSON: Exceeds", id="huge number"),
        pytest.param(row(id=None), "FILE:1: id: is missing", id="no id"),
        pytest.param(row(id=True), "FILE:1: id: must be a text, not a boolean", id="id is bool"),
        pytest.param(row(id=""), "FILE:1: id: must have 1 to 200 characters", id="empty id"),
        pytest.param(row(id="x" * 201), "FILE:1: id: must have 1 to 200", id="long id"),
        pytest.param(row(id="../../x"), "'../../x' looks like a path", id="path"),
        pytest.param(row(id="a\\..\\x"), "looks like a path that leads outside", id="backslashes"),
        pytest.param(row(id="/etc/x"), "looks like a path that leads outside", id="absolute"),
        pytest.param(row(id="a\nb"), "'a\\nb' has characters that cannot be printed", id="newline"),
        pytest.param(row(id="\x1b[2J"), "characters that cannot be printed", id="escape"),
        pytest.param(row(id="\u202ex"), "characters that cannot be printed", id="right to left"),
        pytest.param(row(id="\ud800"), "characters that cannot be printed", id="surrogate"),
        pytest.param(row(answer=None), "answer: is missing: the scorer `exact`", id="no answer"),
        pytest.param(row(answer=[]), "answer: is an empty list", id="no answers"),
        pytest.param(row(answer=True), "answer: must be a text, a number, or", id="bool answer"),
        pytest.param(row(answer=[None]), "or a list of these, not None", id="null in answers"),
        pytest.param('{"id":"a","prompt":"p","answer":1e999}', "finite number", id="infinite"),
        pytest.param(
            row(prompt=None), "prompt: give either `prompt` or `messages`", id="no prompt"
        ),
        pytest.param(row(messages=[]), "give either `prompt` or `messages`", id="both"),
        pytest.param(row(prompt=["p"]), "prompt: must be a text, not a list", id="prompt list"),
        pytest.param(row(metadata=[1]), "metadata: must be an object, not a list", id="metadata"),
        pytest.param(
            row(anwser="x"), "anwser: there is no such field (did you mean 'answer'?)", id="typo"
        ),
        pytest.param(
            row(scorer="exat"), "there is no scorer 'exat' (did you mean 'exact'?)", id="scorer"
        ),
        pytest.param(row(scorer="numeric"), "answer: 'x' has no number", id="text for number"),
        pytest.param(row(scorer="contains", answer=" "), "every text contains it", id="blank"),
        pytest.param(
            row(scorer="regex", answer="("), "answer: '(' is no regular expression", id="regex"
        ),
        pytest.param(row(scorer="command"), "command: is missing", id="no command"),
        pytest.param(row(command=" "), "command: is missing", id="blank command"),
    ],
)
def test_a_wrong_line_is_told_with_line_and_field(tmp_path, line, expected):
    assert expected in "\n".join(problems_of(tmp_path, line))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], "messages: the last message must be the user's"),
        ([{"role": "assistant", "content": "x"}], "messages: the last message must be the user's"),
        (["x"], "messages[0]: must be an object with `role` and `content`"),
        ([{"role": "user"}], "messages[0]: must be an object with `role` and `content`"),
        ([{"role": "tool", "content": "x"}], "messages[0].role: must be one of system"),
        ([{"role": ["user"], "content": "x"}], "messages[0].role: must be one of system"),
        ([{"role": "user", "content": 3}], "messages[0].content: must be a text or a list"),
        ([{"role": "user", "content": []}], "messages[0].content: must be a text or a list"),
        ([{"role": "user", "content": [{}]}], "messages[0].content: must be a text or a list"),
    ],
)
def test_a_wrong_message_is_told_with_its_place(tmp_path, messages, expected):
    problems = problems_of(tmp_path, {"id": "a", "messages": messages, "answer": "x"})
    assert expected in "\n".join(problems)


def test_all_problems_of_a_file_are_told_together(tmp_path):
    problems = problems_of(
        tmp_path, row(id="same"), "{", row(id="same"), row(id="b", promt="x", answer=None)
    )
    assert [problem.split(" (")[0] for problem in problems] == [
        "FILE:2: is no JSON: Expecting property name enclosed in double quotes",
        "FILE:3: id: 'same' is also the id of line 1",
        "FILE:4: promt: there is no such field",
        "FILE:4: answer: is missing: the scorer `exact` compares with it",
    ]


def test_a_number_and_its_text_are_one_id(tmp_path):
    assert "'7' is also the id of line 1" in problems_of(tmp_path, row(id=7), row(id="7"))[0]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"", "FILE: has no tasks", id="empty"),
        pytest.param(b"\n \n", "FILE: has no tasks", id="blank"),
        pytest.param(b"\xef\xbb\xbf{}", "FILE:1: begins with a byte order mark", id="bom"),
        pytest.param("{}\n{}".encode("utf-16"), "FILE:1: is UTF-16", id="utf-16"),
        pytest.param(b'{"id": "\xe4"}', "FILE:1: is not UTF-8 (byte 9 of the line)", id="latin-1"),
    ],
)
def test_a_file_of_another_kind_is_told_as_such(tmp_path, data, expected):
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(data)
    assert expected in read(path)[1][0]


def test_a_utf16_file_is_one_problem_not_one_a_line(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_bytes(("{}\n" * 100).encode("utf-16"))
    assert len(read(path)[1]) == 1


def test_a_category_that_stands_for_none_is_refused(tmp_path):
    (problem,) = problems_of(tmp_path, row(category=UNCATEGORIZED))
    assert "category" in problem
    assert "stands for tasks without one: leave it out" in problem


def test_a_file_without_end_of_faults_is_given_up(tmp_path):
    assert len(problems_of(tmp_path, *["x"] * 5000)) == jsonl_file.MAX_PROBLEMS


def test_a_missing_file_is_told(tmp_path):
    assert "cannot be read: No such file or directory" in read(tmp_path / "none.jsonl")[1][0]


def test_a_windows_file_and_odd_separators_in_texts_are_read(tmp_path):
    path = tmp_path / "tasks.jsonl"
    line = json.dumps(row(prompt="a\u2028b\x85c"), ensure_ascii=False)
    path.write_bytes(f"{line}\r\n".encode())
    contents, problems = read(path)
    assert problems == []
    assert contents.tasks[0].data.prompt == "a\u2028b\x85c"


def test_only_wanted_tasks_are_kept_and_the_hash_is_that_of_the_whole_file(tmp_path):
    path = write(tmp_path, *(row(id=i) for i in range(10)))
    contents, _ = read(path, is_wanted=lambda task: int(task.id) % 2 == 1, limit=2)
    assert [task.id for task in contents.tasks] == ["1", "3"]
    assert len(contents.ids) == 10
    assert contents.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_line_of_40_mb_is_read(tmp_path):
    contents, problems = read(write(tmp_path, row(prompt="x" * 40_000_000)))
    assert problems == []
    assert len(contents.tasks[0].data.prompt) == 40_000_000
