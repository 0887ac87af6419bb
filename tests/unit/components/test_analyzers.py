"""What the built-in analyzers notice, on good input and on hostile input."""

from __future__ import annotations

import random
import re
import string
import time
from pathlib import Path

import pytest

from agentcompass.components import registry
from agentcompass.components.analysis import (
    MAX_LABELS,
    OTHER,
    Counts,
    Figures,
    Finding,
    FinishedAttempt,
    Noted,
)
from agentcompass.components.analyzers.error_taxonomy import signature
from agentcompass.components.analyzers.reading import Call
from agentcompass.components.analyzers.repeated_tool_calls import longest_repeat
from agentcompass.components.analyzers.repetition import WINDOW, find_loop
from agentcompass.records import Usage
from agentcompass.spec.docs import field_docs
from support.plugins import importable
from support.storage import graded, infra

BUILTINS = sorted(registry.BUILTINS["analyzer"])
PROSE = " ".join(random.Random(1).choice(string.ascii_letters) * 3 + str(n) for n in range(4000))


def finished(record, *steps):
    return FinishedAttempt(record=record, directory=None, steps=lambda: iter(steps))


def analyzer(name, **params):
    cls = registry.load("analyzer", name)
    return cls(cls.Params(**params))


def noticed(name, record, *steps, **params):
    return {f.label: f for f in analyzer(name, **params).analyze(finished(record, *steps))}


def reply(content="", **fields):
    return {"type": "reply", "content": content, "stop_reason": "stop", **fields}


def call(name, arguments="{}"):
    return reply(tool_calls=[{"id": "1", "name": name, "arguments": arguments}])


def noted(label, value=None, task="t", detail=""):
    finding = Finding(label=label, value=value, detail=detail)
    return Noted(task_id=task, attempt=1, execution=1, finding=finding)


# --- all of them

HOSTILE_STEPS = [
    {},
    {"type": None, "role": [], "content": {}},
    {"type": ["reply"], "tool_calls": "no list"},
    {"type": "reply", "content": [None, 3, {"text": 4}, {"text": "part"}], "reasoning": 7},
    {"type": "reply", "tool_calls": [None, {}, {"function": None}, {"name": 3, "arguments": {"a": []}}]},
    {"type": "reply", "seconds": "long", "stop_reason": ["length"], "truncated": "yes"},
    {"type": "reply", "seconds": True},
    {"type": "tool", "seconds": 10**400, "truncated": 1},
    {"type": "tool", "seconds": -5},
    {"type": "command", "command": None},
    {"type": "left-out", "bytes": 40_000_000},
    {"type": "reply", "content": "\ud800" * 5000, "reasoning": "\x00" * 5000},
]  # fmt: skip


@pytest.mark.parametrize("name", BUILTINS)
def test_hostile_steps_and_details_make_no_built_in_raise(name):
    record = graded(
        value=0.0,
        answer="\ud800\x00",
        details={"result": "\ud800" * 100, "error": None, "exit_code": 10**4000, "truncated": []},
    )
    for found in analyzer(name).analyze(finished(record, *HOSTILE_STEPS)):
        assert isinstance(found, Finding)


@pytest.mark.parametrize("name", BUILTINS)
def test_a_plain_success_is_nothing_to_look_at(name):
    record = graded(answer="42", wall_seconds=1.0, usage=Usage(calls=1, output_tokens=3))
    summary = analyzer(name).summarizer()
    for found in analyzer(name).analyze(finished(record, reply("42", seconds=0.5))):
        summary.add(noted(found.label, found.value))
    assert [row for row in summary.rows() if row.count] == []


@pytest.mark.parametrize("name", BUILTINS)
def test_ten_thousand_steps_are_looked_at_in_a_moment(name):
    steps = [reply(f"step {n}: {PROSE[n : n + 300]}", seconds=0.1) for n in range(10_000)]
    started = time.process_time()
    list(analyzer(name).analyze(finished(graded(answer=PROSE), *steps)))
    assert time.process_time() - started < 5


@pytest.mark.parametrize("name", BUILTINS)
def test_every_parameter_is_described(name):
    params = registry.load("analyzer", name).Params
    assert all(field_docs(params).values())
    assert "enabled" in field_docs(params)


# --- error_taxonomy


def test_an_infra_failure_is_grouped_by_phase_and_code():
    found = noticed("error_taxonomy", infra(code="rate-limited", message="429 from somewhere"))
    assert found["infra: run: rate-limited"].detail == "429 from somewhere"


@pytest.mark.parametrize(
    ("details", "label"),
    [
        ({"result": "failed: AssertionError at 0x7f12 line 12"}, "evaluator: result: failed: AssertionError at # line #"),
        ({"exit_code": 1, "stdout": "x"}, "evaluator: exit_code: 1"),
        ({"timed_out": True, "exit_code": 124}, "evaluator: timed_out: yes"),
        ({"timed_out": False, "exit_code": 2}, "evaluator: exit_code: 2"),
        ({"error": "", "reason": "wrong\nsecond line"}, "evaluator: reason: wrong"),
    ],
)  # fmt: skip
def test_what_the_evaluator_says_about_a_failed_attempt_is_grouped(details, label):
    assert list(noticed("error_taxonomy", graded(value=0.0, details=details))) == [label]


def test_nothing_is_said_about_success_or_where_the_evaluator_is_silent():
    assert noticed("error_taxonomy", graded(details={"result": "passed"})) == {}
    assert noticed("error_taxonomy", graded(value=0.0, details={"stdout": "x"})) == {}


def test_a_signature_is_short_whatever_the_message():
    assert len(signature("a" * 100_000)) <= 60
    assert signature("   \n") == ""


# --- truncation


def test_an_answer_that_reached_the_token_limit_is_told():
    found = noticed("truncation", graded(stopped_by="max_tokens"), reply("x", stop_reason="length"))
    assert list(found) == ["answer-cut", "reply-cut"]


def test_outputs_that_were_cut_are_counted():
    cut = {"type": "tool", "truncated": True}
    found = noticed("truncation", graded(), cut, cut, {"type": "tool", "truncated": False})
    assert found["output-cut"].value == 2


# --- empty_output


def test_an_empty_answer_and_empty_replies_are_told_apart():
    usage = Usage(calls=1, input_tokens=5)
    found = noticed("empty_output", graded(answer=" \n", usage=usage), reply(" "), call("ls"))
    assert {label: f.value for label, f in found.items()} == {
        "empty-answer": None, "no-output-tokens": None, "empty-reply": 1,
    }  # fmt: skip


def test_no_answer_at_all_is_not_an_empty_one():
    assert noticed("empty_output", graded(answer=None)) == {}


# --- repeated_tool_calls


def test_the_same_call_three_times_in_a_row_is_told():
    found = noticed(
        "repeated_tool_calls", graded(), call("ls"), *[call("cat", "a")] * 3, call("ls")
    )
    assert found["same-call"].value == 3
    assert "cat a" in found["same-call"].detail


def test_twice_or_with_other_arguments_is_not():
    steps = [call("ls"), call("ls"), call("cat", "a"), call("cat", "b"), call("cat", "c")]
    assert noticed("repeated_tool_calls", graded(), *steps) == {}


def test_commands_in_steps_of_their_own_count_too():
    steps = [{"type": "command", "command": "make"}] * 4
    assert noticed("repeated_tool_calls", graded(), *steps)["same-call"].value == 4


@pytest.mark.parametrize(
    ("names", "length", "times"),
    [
        ("aaaa", 1, 4),
        ("xababab", 2, 3),
        ("abcabcabcz", 3, 3),
        ("abab", 2, 2),
        ("abacbcaaaa", 1, 4),
        ("abcd" * 5, 4, 5),
    ],
)
def test_the_longest_cycle_is_found(names, length, times):
    found = longest_repeat(Call(name, "") for name in names)
    assert (found.length, found.times) == (length, times)


@pytest.mark.parametrize("names", ["", "a", "abc", "abcdeabcde"])
def test_no_cycle_is_no_cycle(names):
    assert longest_repeat(Call(name, "") for name in names) is None


# --- repetition


@pytest.mark.parametrize(
    ("text", "unit_length"),
    [
        ("I will now check. " * 100, 18),
        (PROSE[:1500] + "no " * 1500, 3),
        ("ab" * 5000 + "a", 2),
        ("漢字です。" * 200, 5),
    ],
)
def test_text_that_ends_in_a_loop_is_found(text, unit_length):
    assert len(find_loop(text).unit) == unit_length


@pytest.mark.parametrize(
    "text",
    [
        "",
        "short short short short",
        PROSE,
        "-" * 5000,
        "\n" * 5000,
        PROSE[:3900] + "the end " * 20,
        "\n".join(f"| {n} | value {n * n} |" for n in range(500)),
    ],
    ids=["empty", "short", "prose", "ruler", "blank", "a short refrain", "table"],
)
def test_ordinary_text_is_none(text):
    assert find_loop(text) is None


@pytest.mark.parametrize("unit", ["a", "ab", "a" * 400 + "b", "\ud800x"])
def test_the_time_does_not_grow_with_the_text(unit):
    text = unit * (20_000_000 // len(unit))
    started = time.process_time()
    assert find_loop(text).chars <= WINDOW
    assert time.process_time() - started < 1


def test_one_finding_a_place_names_answer_reply_and_reasoning():
    loop = "so it goes, " * 60
    steps = [reply(loop, reasoning=loop)] * 3
    found = list(analyzer("repetition").analyze(finished(graded(answer=loop), *steps)))
    assert [f.label for f in found] == ["loop-in-answer", "loop-in-reply", "loop-in-reasoning"]


# --- latency and token_use


def test_latency_gives_attempt_phases_and_slowest_step():
    record = graded(wall_seconds=9.0, phase_seconds={"run": 7.0})
    found = noticed("latency", record, reply(seconds=2.0), reply(seconds=5.0))
    assert {label: f.value for label, f in found.items()} == {
        "attempt": 9.0, "phase run": 7.0, "slowest step": 5.0,
    }  # fmt: skip


def test_the_summary_names_attempts_that_are_far_out():
    summary = analyzer("latency", floor_seconds=1.0).summarizer()
    for n in range(100):
        summary.add(noted("attempt", 2.0 + n % 5 / 10, task=f"t{n}"))
    summary.add(noted("attempt", 60.0, task="slow"))
    (row,) = summary.rows()
    assert (row.count, row.examples) == (1, (("slow", 1),))
    assert "most 60.00 s" in row.detail


def test_nothing_below_the_floor_is_far_out():
    summary = Figures(str, floor=10.0)
    for n in range(100):
        summary.add(noted("attempt", 9.0 if n == 50 else 0.1))
    assert next(iter(summary.rows())).count == 0


def test_few_values_have_no_outliers():
    summary = Figures(str)
    for value in (1, 1, 1, 1000):
        summary.add(noted("x", value))
    assert next(iter(summary.rows())).count == 0


def test_a_finding_without_a_value_is_no_figure():
    summary = Figures(str)
    for value in (None, 3.0, None):
        summary.add(noted("x", value))
    summary.add(noted("y"))
    (row,) = summary.rows()
    assert (row.label, row.detail) == ("x", "median 3.0, most 3.0")


def test_tokens_that_are_not_known_are_not_counted_as_zero():
    assert noticed("token_use", graded()) == {}
    unknown = graded(usage=Usage(calls=2, unmetered_calls=1, input_tokens=5))
    assert list(noticed("token_use", unknown)) == ["calls"]


# --- summing up


def test_counts_are_by_label_with_the_first_cases():
    summary = Counts()
    for n in range(10):
        summary.add(noted("often", task=f"t{n}", detail=f"case {n}"))
    summary.add(noted("rare"))
    rows = list(summary.rows())
    assert [(row.label, row.count) for row in rows] == [("often", 10), ("rare", 1)]
    assert rows[0].detail == "case 0"
    assert rows[0].examples == (("t0", 1), ("t1", 1), ("t2", 1))


@pytest.mark.parametrize("make", [Counts, lambda: Figures(str)])
def test_a_flood_of_labels_takes_bounded_memory(make):
    summary = make()
    for n in range(5 * MAX_LABELS):
        summary.add(noted(f"label {n}", 1.0))
    rows = list(summary.rows())
    assert len(rows) == MAX_LABELS + 1
    assert OTHER in {row.label for row in rows}


# --- the documentation


def test_the_analyzer_of_the_documentation_works(tmp_path, monkeypatch):
    page = (Path(__file__).parents[3] / "docs" / "analysis.md").read_text()
    (source,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "my_analyzer.py").write_text(source)
    monkeypatch.setattr(registry, "_registered", {})
    with importable(tmp_path):
        cls = registry.load("analyzer", "my_analyzer:AsksBack")
        assert registry.load("analyzer", "asks_back") is cls
    attempt = finished(graded(), reply("What? "), reply("42"))
    assert list(cls(cls.Params()).analyze(attempt)) == [
        Finding(label="asks-back", detail="1 questions", value=1)
    ]
    assert list(cls(cls.Params(min_questions=2)).analyze(attempt)) == []


def test_the_documentation_lists_every_built_in():
    page = (Path(__file__).parents[3] / "docs" / "analysis.md").read_text()
    (notices,) = re.findall(r"^\| analyzer \| notices \|.*?\n\n", page, re.MULTILINE | re.DOTALL)
    assert re.findall(r"^\| `(\w+)` \|", notices, re.MULTILINE) == BUILTINS
