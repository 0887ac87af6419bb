"""The `openai-responses` protocol: requests out of conversations, replies out of answers, answers out of streams."""

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.components.messages import Message, ToolCall
from agentcompass.components.models.openai_responses import OpenAIResponses
from agentcompass.components.models.openai_responses_stream import ResponsesStream
from agentcompass.components.models.unrolled import response_events
from agentcompass.errors import ModelError
from agentcompass.records import Usage
from agentcompass.testing import dialects
from agentcompass.testing.dialects import (
    output_call,
    output_message,
    output_reasoning,
    output_refusal,
    output_text,
)
from support.conversation import PNG, TOOLS, answered, foreign_reply, told
from support.odd_json import odd_json, only_malformed

CODEC = OpenAIResponses()
USAGE = Usage(calls=1)
CALLS = (output_call("bash", '{"command": "ls"}'), output_call("bash", "{", index=1))


def reply(*output, **fields):
    return CODEC.reply(dialects.response(output, **fields), USAGE)


def sent(*messages):
    return CODEC.chat_body(messages, ())["input"]


# --- requests


def test_a_whole_conversation_has_its_wire_form():
    marker = {"prompt_cache_breakpoint": {"mode": "explicit"}}
    image = {"type": "input_image", "image_url": PNG, "detail": "auto"}
    assert CODEC.chat_body([*told(marker), *answered(foreign_reply())], TOOLS) == {
        "input": [
            {"type": "message", "role": "system", "content": "Be brief."},
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is this?"},
                    image,
                    {"type": "input_image", "image_url": "https://host/a.png", "detail": "low"},
                    {"type": "input_text", "text": "Look closely.", **marker},
                ],
            },
            {"type": "message", "role": "assistant", "content": "Let me see."},
            {
                "type": "function_call",
                "call_id": "a",
                "name": "bash",
                "arguments": '{"command": "ls"}',
            },
            {
                "type": "function_call",
                "call_id": "b",
                "name": "bash",
                "arguments": '{"command": "cat a.png"}',
            },
            {"type": "function_call_output", "call_id": "a", "output": "exit code 0"},
            {
                "type": "function_call_output",
                "call_id": "b",
                "output": [{"type": "input_text", "text": "a picture"}, image],
            },
            {"type": "message", "role": "user", "content": "Go on."},
        ],
        "tools": [
            {
                "type": "function",
                "name": "bash",
                "description": "Run a command.",
                "parameters": TOOLS[0].parameters,
                "strict": False,
            }
        ],
    }


def test_without_tools_none_are_sent():
    assert set(CODEC.chat_body([Message(role="user", content="x")], ())) == {"input"}


def test_parts_of_other_kinds_go_as_they_are_and_images_may_be_named_shortly():
    file = {"type": "input_file", "file_id": "f"}
    short = {"type": "image_url", "image_url": PNG}
    assert sent(Message(role="user", content=(file, short)))[0]["content"] == [
        file,
        {"type": "input_image", "image_url": PNG, "detail": "auto"},
    ]


def test_an_empty_reply_is_no_item_and_a_call_without_arguments_has_an_empty_object():
    assert sent(Message(role="assistant")) == []
    call = ToolCall(id="1", name="f", arguments="")
    assert sent(Message(role="assistant", tool_calls=(call,)))[0]["arguments"] == "{}"


@pytest.mark.parametrize(
    ("params", "include"),
    [
        ({}, None),
        ({"reasoning": None}, None),
        ({"reasoning": {"effort": "low"}}, ["reasoning.encrypted_content"]),
        ({"reasoning": {}, "include": []}, []),
    ],
)
def test_encrypted_reasoning_is_asked_for_where_reasoning_is_set(params, include):
    assert CODEC.with_defaults(params).get("include") == include


def test_the_key_is_a_bearer_token():
    assert CODEC.headers("k", "host") == {"Authorization": "Bearer k"}
    assert CODEC.headers(None, "host") == {}


def test_a_text_cannot_be_continued():
    with pytest.raises(ModelError, match="openai-completions"):
        CODEC.completion_body("x", [])


# --- replies


NOTE = output_text("I look.", phase="commentary")


@pytest.mark.parametrize(
    ("output", "text", "reasoning"),
    [
        ([output_text("a"), output_text("b", index=1)], "ab", None),
        ([], "", None),
        ([output_reasoning("hm"), output_text("a")], "a", "hm"),
        ([output_reasoning(shown="hmm"), output_text("a")], "a", "hmm"),
        ([output_reasoning("short", shown="long"), output_text("a")], "a", "long"),
        ([output_reasoning(), output_text("a")], "a", None),
        ([NOTE, output_text("42", phase="final_answer")], "42", "I look."),
        ([NOTE, *CALLS], "", "I look."),
        ([NOTE], "I look.", None),
        ([output_refusal("No.")], "No.", None),
        ([{"type": "message", "content": "plain"}], "plain", None),
        ([{"type": "web_search_call"}, output_text("a")], "a", None),
    ],
    ids=[
        *("texts", "nothing", "summary", "shown", "both", "encrypted", "note", "note and calls"),
        *("only a note", "refusal", "content as text", "other items"),
    ],
)
def test_items_are_read(output, text, reasoning):
    message = reply(*output).message
    assert (message.text, message.reasoning) == (text, reasoning)


def test_calls_are_named_by_the_id_that_their_results_name():
    read = reply(*CALLS)
    assert read.stop_reason == "tool_calls"
    assert read.message.tool_calls == (
        ToolCall(id="call-0", name="bash", arguments='{"command": "ls"}'),
        ToolCall(id="call-1", name="bash", arguments="{"),
    )


def test_a_call_without_an_id_gets_one():
    message = reply({"type": "function_call", "name": "f", "arguments": None}).message
    assert message.tool_calls == (ToolCall(id="call_0", name="f", arguments=""),)
    assert sent(message)[0]["call_id"] == "call_0"


@pytest.mark.parametrize(
    ("fields", "meaning"),
    [
        ({}, "stop"),
        ({"status": None}, "stop"),
        ({"status": "incomplete", "reason": "max_output_tokens"}, "length"),
        ({"status": "incomplete", "reason": "content_filter"}, "content_filter"),
        ({"status": "incomplete", "reason": "steered"}, "other"),
        ({"status": "incomplete"}, "other"),
    ],
)
def test_stop_reasons(fields, meaning):
    assert reply(output_text("x"), **fields).stop_reason == meaning


def test_a_refusal_is_told():
    assert reply(output_refusal("No.")).stop_reason == "refusal"


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"output": None},
        {"output": "x"},
        {"output": ["x"]},
        {"output": [], "status": "in_progress"},
        {"output": [], "status": "queued"},
        {"output": [{"type": "message", "content": 5}]},
        {"output": [{"type": "message", "content": [{"text": 5}]}]},
        {"output": [{"type": "reasoning", "summary": "x"}]},
        {"output": [{"type": "function_call", "call_id": "1"}]},
    ],
    ids=range(10),
)
def test_an_answer_that_is_none_is_malformed(payload):
    with pytest.raises(ModelError) as caught:
        CODEC.reply(payload, USAGE)
    assert (caught.value.code, caught.value.retryable) == ("malformed-response", True)


@pytest.mark.parametrize(
    ("payload", "is_failure"),
    [
        ({"status": "failed", "error": {"code": "server_error"}, "output": []}, True),
        ({"status": "failed", "error": None}, True),
        ({"error": {"message": "x"}}, True),
        ({"status": "completed", "error": None, "output": []}, False),
    ],
)
def test_an_error_that_looks_like_an_answer_is_known(payload, is_failure):
    assert (CODEC.failure(payload) is not None) == is_failure


# --- reasoning from turn to turn


THOUGHT = (
    output_reasoning("h", encrypted="opaque-1"),
    output_text("I look.", phase="commentary"),
    CALLS[0],
    {**output_reasoning(encrypted="opaque-2"), "id": "rs-1"},
    CALLS[1],
)


def test_a_reply_is_sent_back_word_for_word():
    assert sent(reply(*THOUGHT).message) == list(THOUGHT)


def test_reasoning_that_was_cut_off_is_not_sent_back():
    cut = reply(output_reasoning("h"), status="incomplete", reason="max_output_tokens")
    assert (cut.stop_reason, sent(cut.message)) == ("length", [])


def test_nulls_which_the_endpoint_refuses_are_not_sent_back():
    reasoning = {**output_reasoning(encrypted=None), "status": None}
    item, _ = sent(reply(reasoning, output_text("a")).message)
    assert item == {"id": "rs-0", "type": "reasoning", "summary": []}


def test_what_a_harness_has_changed_is_sent_changed_and_reasoning_stays():
    message = reply(*THOUGHT[:1], output_text("a"), *THOUGHT[2:]).message
    first, second = message.tool_calls
    changed = attrs.evolve(
        message, content="A", tool_calls=(first, attrs.evolve(second, arguments="{}"))
    )
    assert sent(changed) == [
        THOUGHT[0],
        {"type": "message", "role": "assistant", "content": "A"},
        THOUGHT[2],
        THOUGHT[3],
        {"type": "function_call", "call_id": "call-1", "name": "bash", "arguments": "{}"},
    ]


def test_reasoning_of_another_protocol_is_not_sent():
    message = reply(*THOUGHT).message
    foreign = attrs.evolve(message.verbatim, protocol="anthropic")
    kinds = [item["type"] for item in sent(attrs.evolve(message, verbatim=foreign))]
    assert kinds == ["function_call", "function_call"]


# --- streams


def assemble(*payloads):
    answer = ResponsesStream()
    for payload in payloads:
        answer.add(json.loads(json.dumps(payload)))
    return answer


@pytest.mark.parametrize(
    "output",
    [[output_text("hello")], THOUGHT, [], [output_refusal("No.")]],
    ids=["text", "everything", "nothing", "refusal"],
)
@pytest.mark.parametrize("status", ["completed", "incomplete"])
def test_a_stream_reads_as_the_whole_answer_does(output, status):
    whole = dialects.response(output, status=status, reason="max_output_tokens")
    answer = assemble(*response_events(whole))
    assert answer.is_finished
    assert answer.usage == whole["usage"]
    assert CODEC.reply(answer.whole(), USAGE) == CODEC.reply(whole, USAGE)


def done(item, **fields):
    return {"type": "response.output_item.done", "item": item, **fields}


def completed(*output):
    return {"type": "response.completed", "response": dialects.response(output)}


def test_items_that_came_one_by_one_are_enough():
    first, second = output_text("a"), output_text("b", index=1)
    streams = [
        (done(second, output_index=1), done(first, output_index=0), completed()),
        (done(first), done(second), completed()),
        (completed(first, second),),
        (done(first, output_index=0), completed(first, second)),
    ]
    for events in streams:
        assert CODEC.reply(assemble(*events).whole(), USAGE).message.text == "ab"


def test_encrypted_content_is_that_of_the_item_when_it_is_done():
    early = output_reasoning(encrypted="not yet")
    answer = assemble(done(output_reasoning(encrypted="whole"), output_index=0), completed(early))
    assert answer.whole()["output"][0]["encrypted_content"] == "whole"


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"type": "error", "code": "x"}, {"type": "error", "code": "x"}),
        ({"type": "error", "error": {"code": "x"}}, {"type": "error", "error": {"code": "x"}}),
        (
            {"type": "response.failed", "response": {"error": {"code": "x"}}},
            {"error": {"code": "x"}},
        ),
        (
            {"type": "response.failed", "response": {}},
            {"error": {"message": "the response failed"}},
        ),
    ],
    ids=["flat", "nested", "failed", "failed without a word"],
)
def test_an_error_in_the_stream_is_kept(event, error):
    assert assemble(event).error == error


def test_a_failed_response_may_have_used_tokens():
    usage = {"input_tokens": 5, "output_tokens": 0}
    failed = {"type": "response.failed", "response": {"usage": usage, "error": {"code": "x"}}}
    assert assemble(failed).usage == usage


@pytest.mark.parametrize(
    "event",
    [5, [], {"type": "response.completed"}, {"type": "response.failed", "response": "x"}],
    ids=range(4),
)
def test_an_event_that_is_none_is_malformed(event):
    with pytest.raises(ModelError) as caught:
        assemble(event)
    assert caught.value.code == "malformed-response"


NAMES = [
    *("type", "response", "output", "item", "output_index", "content", "summary", "text"),
    *("call_id", "name", "arguments", "phase", "status", "incomplete_details", "error", "usage"),
]
WORDS = [
    *("response.completed", "response.failed", "response.output_item.done", "message"),
    *("function_call", "reasoning", "refusal", "commentary", "incomplete", "error"),
]


@given(st.lists(odd_json(NAMES, WORDS), max_size=4))
def test_no_answer_raises_anything_but_a_model_error(values):
    only_malformed(
        lambda: CODEC.reply({"output": values}, USAGE),
        lambda: CODEC.reply(assemble(*values).whole(), USAGE),
        lambda: [CODEC.reply(value, USAGE) for value in values if isinstance(value, dict)],
    )


def test_a_message_with_one_odd_part_is_read_as_far_as_it_goes():
    item = output_message({"type": "output_audio"})
    assert reply(item, output_text("a")).message.text == "a"
