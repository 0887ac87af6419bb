"""Trajectories as ATIF documents, held against the published rules (`support.atif`)."""

from __future__ import annotations

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.records import ExecutionRecord, Failure, Usage
from agentcompass.store import jsonl
from agentcompass.store.export.atif import About, document
from support.atif import faults

ABOUT = About(
    run_id="run-1",
    agent="tool_loop",
    agent_version="1.0",
    model="m",
    benchmark="b",
    agent_params={},
)
USAGE = Usage(
    calls=1, input_tokens=30, cached_tokens=10, output_tokens=5, reasoning_tokens=2, cost_usd=0.25
)
RECORD = ExecutionRecord(
    task_id="t", attempt=1, execution=1, verdict="graded", metrics={"pass": 1.0},
    started_at="2030-01-02T03:04:05.000+00:00", usage=USAGE + USAGE, answer="42",
)  # fmt: skip


def message(content="Do it.", role="user", at=0.1):
    return {"type": "message", "role": role, "content": content, "at_seconds": at}


def reply(content="x", calls=(), usage=USAGE, turn=1, **more):
    listed = [{"id": name, "name": "bash", "arguments": arguments} for name, arguments in calls]
    return {
        "type": "reply", "content": content, "reasoning": "hm", "stop_reason": "stop",
        "usage": attrs.asdict(usage), "seconds": 1.5, "model": "m-1", "response_id": "r", "turn": turn,
        "tool_calls": listed, "at_seconds": 1.25, **more,
    }  # fmt: skip


def tool(call="a", output="ok", **more):
    return {
        "type": "tool", "turn": 1, "tool_call_id": call, "name": "bash", "output": output,
        "exit_code": 0, "timed_out": False, "truncated": False, "error": None, "seconds": 0.5, **more,
    }  # fmt: skip


def made(*steps, record=RECORD):
    found = document(record, steps, ABOUT, images="images/attempt-1")
    assert faults(found.value) == []
    jsonl.dumps(found.value)  # strict JSON
    return found.value


def test_a_turn_is_a_step_with_its_calls_results_and_metrics():
    calls = [("a", '{"command": "ls"}'), ("b", "{}")]
    value = made(
        message("S", "system"),
        message(),
        reply(calls=calls),
        tool("a"),
        tool("b", "no", exit_code=3),
    )
    system, user, agent = value["steps"]
    assert (system["source"], user["source"], user["message"]) == ("system", "user", "Do it.")
    assert user["timestamp"] == "2030-01-02T03:04:05.100+00:00"
    assert agent["tool_calls"][0] == {
        "tool_call_id": "a", "function_name": "bash", "arguments": {"command": "ls"},
    }  # fmt: skip
    assert agent["observation"]["results"] == [
        {"source_call_id": "a", "content": "ok", "extra": {"exit_code": 0, "seconds": 0.5}},
        {"source_call_id": "b", "content": "no", "extra": {"exit_code": 3, "seconds": 0.5}},
    ]
    assert agent["metrics"] == {
        "prompt_tokens": 30, "completion_tokens": 5, "cached_tokens": 10, "cost_usd": 0.25,
        "extra": {"reasoning_tokens": 2},
    }  # fmt: skip
    assert (agent["reasoning_content"], agent["model_name"], agent["llm_call_count"]) == (
        "hm",
        "m-1",
        1,
    )


def test_a_document_says_whose_it_is_and_how_it_ended():
    value = made(message(), reply(), reply(turn=2))
    assert (value["session_id"], value["trajectory_id"]) == ("run-1", "run-1/t/1/1")
    assert (value["agent"]["name"], value["agent"]["model_name"]) == ("tool_loop", "m")
    totals = value["final_metrics"]
    assert (totals["total_prompt_tokens"], totals["total_cost_usd"], totals["total_steps"]) == (
        60,
        0.5,
        3,
    )
    assert totals["extra"]["execution_usage"]["calls"] == 2
    assert (value["extra"]["verdict"], value["extra"]["metrics"]) == ("graded", {"pass": 1.0})
    assert value["extra"]["answer"] == "42"


def test_a_failure_is_told():
    failure = Failure(phase="run", code="stalled", message="no answer")
    record = attrs.evolve(RECORD, verdict="infra", metrics=None, failure=failure)
    assert made(message(), record=record)["extra"]["failure"]["code"] == "stalled"


def test_what_is_not_known_is_not_zero():
    value = made(message(), reply(usage=Usage(calls=1, unmetered_calls=1, cost_usd=None)), reply())
    assert "metrics" not in value["steps"][1]
    assert "total_prompt_tokens" not in value["final_metrics"]
    value = made(message(), reply(usage=attrs.evolve(USAGE, cost_usd=None)))
    assert "total_cost_usd" not in value["final_metrics"]


@pytest.mark.parametrize(
    "arguments", ["not json", "[1]", '{"a": NaN}', "{" * 2000, None, 7, "1e999"]
)
def test_arguments_that_are_no_object_are_kept_as_they_were(arguments):
    value = made(message(), reply(calls=[("a", arguments)]))
    (call,) = value["steps"][1]["tool_calls"]
    assert call["arguments"] == {}
    assert arguments is None or call["extra"]["unparsed_arguments"] == str(arguments)


def test_calls_with_the_same_id_are_told_apart():
    value = made(message(), reply(calls=[("a", "{}"), ("a", "{}"), ("", "{}")]), tool("a"))
    ids = [call["tool_call_id"] for call in value["steps"][1]["tool_calls"]]
    assert ids == ["a", "a#2", "call-3"]


def test_a_result_without_its_call_is_kept():
    value = made(tool("a"), message(), reply(), tool("other"))
    assert value["steps"][0]["observation"]["results"][0]["content"] == "ok"
    assert "source_call_id" not in value["steps"][2]["observation"]["results"][0]


def test_images_stand_in_files_beside_the_document():
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        {"type": "image_url", "image_url": {"url": "https://host/a.webp?x=1"}},
        {"type": "image_url", "image_url": {"url": "data:image/tiff;base64,AAAA"}},
        {"type": "audio"},
    ]
    found = document(RECORD, [message(parts)], ABOUT, images="images/attempt-1")
    assert faults(found.value) == []
    said = found.value["steps"][0]["message"]
    assert [part["type"] for part in said] == ["text", "image", "image", "text", "text"]
    assert said[1]["source"] == {"media_type": "image/png", "path": "images/attempt-1-1.png"}
    assert said[2]["source"] == {"media_type": "image/webp", "path": "https://host/a.webp?x=1"}
    assert found.images == {"images/attempt-1-1.png": b"\x89PNG\r\n\x1a\n"}


def test_a_handover_is_a_boundary_with_its_writers_embedded():
    def summary(part, **more):
        return {
            **reply(part),
            "type": "summary",
            "number": 1,
            "part": part,
            "messages": 4,
            "prompt": "P",
            **more,
        }

    told = [{"role": "user", "content": "task"}, {"role": "assistant", "content": "Why?"}]
    value = made(
        message(), reply(), summary("summary"), summary("questions", messages=1), summary("answers"),
        {"type": "handoff", "number": 1, "reason": "proactive", "messages": told}, reply(turn=2),
    )  # fmt: skip
    boundary = value["steps"][2]
    assert boundary["source"] == "system"
    assert boundary["extra"]["context_management"] == {"type": "compaction", "boundary": "replace"}
    (result,) = boundary["observation"]["results"]
    assert result["content"] == "[user]\ntask\n\n[assistant]\nWhy?"
    subagents = value["subagent_trajectories"]
    assert [one["trajectory_id"] for one in subagents] == [
        reference["trajectory_id"] for reference in result["subagent_trajectory_ref"]
    ]
    assert [one["steps"][1]["message"] for one in subagents] == ["summary", "questions", "answers"]
    assert "3 messages before" in subagents[0]["notes"]
    assert "notes" not in subagents[1]
    assert value["final_metrics"]["total_prompt_tokens"] == 60


def test_a_handover_that_was_not_finished_is_told():
    failed = {"type": "summary", "number": 1, "part": "summary", "messages": 4, "prompt": "P", "error": "context-exceeded", "message": "too long"}  # fmt: skip
    value = made(message(), reply(), failed)
    (last,) = value["steps"][2]["observation"]["results"]
    assert len(last["subagent_trajectory_ref"]) == 1
    assert "too long" in value["subagent_trajectories"][0]["steps"][1]["message"]


def test_what_was_left_out_of_the_conversation_is_a_step_of_the_system():
    value = made(message(), {"type": "elided", "outputs": 3}, {"type": "error", "code": "context-exceeded", "message": "m"})  # fmt: skip
    assert value["steps"][1]["extra"]["context_management"]["type"] == "pruning"
    assert value["steps"][2]["extra"]["error"] == "context-exceeded"


def test_steps_of_unknown_types_are_kept_whole_and_gaps_are_said():
    value = made(
        {"type": "screenshot", "file": "a.png"}, {"type": "lost-steps", "steps": 3, "reason": "disk"},
        {"type": "left-out", "bytes": 9}, {"no": "type"},
    )  # fmt: skip
    assert value["steps"][0]["extra"]["step"] == {"type": "screenshot", "file": "a.png"}
    assert value["notes"] == "4 steps of this trajectory are lost."


def test_an_example_that_the_task_gives_is_no_turn_of_the_agent():
    value = made(message("2+2?"), message("4", "assistant"), message("3+3?"), reply())
    assert value["steps"][1]["is_copied_context"] is True


def test_a_prompt_to_continue_is_a_message_of_the_user():
    value = made({"type": "prompt", "content": "def f", "stop": ["\n"]}, reply())
    assert value["steps"][0]["extra"] == {"stop": ["\n"]}


SCALARS = [
    None,
    True,
    False,
    0,
    -1,
    7,
    1.5,
    1e300,
    "",
    "a",
    "user",
    "text",
    "image_url",
    "\ud800",
    "漢",
]
NESTED = [
    {}, [], {"a": [1]}, [{"type": "text", "text": "x"}], [{"type": "image_url", "image_url": {"url": "data:,"}}],
    [{"id": "a", "arguments": {"b": 1}}, 3], {"input_tokens": 1, "cost_usd": "free"}, [{"role": 1, "content": [2]}],
]  # fmt: skip
VALUES = st.sampled_from([*SCALARS, *NESTED])
TYPES = [
    "message",
    "prompt",
    "reply",
    "tool",
    "summary",
    "handoff",
    "elided",
    "error",
    "final",
    "x",
]
FIELDS = [
    "role", "content", "tool_calls", "usage", "at_seconds", "model", "reasoning", "output", "tool_call_id", "messages",
    "prompt", "part", "number", "stop", "steps", "turn", "error",
]  # fmt: skip
STEPS = st.builds(
    lambda kind, fields: {"type": kind, **fields},
    st.sampled_from(TYPES),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6),
)


@given(st.lists(STEPS, max_size=6))
def test_whatever_steps_say_the_document_keeps_the_rules(steps):
    made(message(), *steps)


def test_the_checker_finds_what_breaks_the_rules():
    value = json.loads(json.dumps(made(message(), reply(calls=[("a", "{}")]), tool("a"))))
    value["steps"][0]["metrics"] = {}
    value["steps"][1]["step_id"] = 9
    value["steps"][1]["observation"]["results"][0]["source_call_id"] = "z"
    del value["agent"]["version"]
    value["extra_field"] = 1
    assert len(faults(value)) == 5
