"""The OpenAI protocols: requests out of conversations, replies out of answers."""

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.components.messages import Message, Tool, ToolCall
from agentcompass.components.models.openai_chat import OpenAIChat
from agentcompass.components.models.openai_completions import OpenAICompletions
from agentcompass.components.models.openai_stream import ChoiceStream
from agentcompass.components.models.unrolled import chat_events
from agentcompass.errors import ModelError
from agentcompass.records import Usage
from agentcompass.testing import chat, completion, stream

CHAT, TEXT = OpenAIChat(), OpenAICompletions()
USAGE = Usage(calls=1)


def reply(choice, codec=CHAT):
    return codec.reply({"id": "i", "model": "m", "choices": [choice]}, USAGE)


def said(**message):
    return reply({"message": message, "finish_reason": "stop"})


def test_every_kind_of_message_has_its_wire_form():
    messages = [
        Message(role="system", content="be brief"),
        Message(role="user", content=({"type": "text", "text": "look"}, {"type": "image_url"})),
        Message(
            role="assistant",
            tool_calls=(ToolCall(id="1", name="bash", arguments='{"a"'),),
            reasoning="hm",
        ),
        Message(role="tool", content="out", tool_call_id="1"),
        Message(role="assistant", content="done"),
    ]
    tool = Tool(name="bash", description="runs", parameters={"type": "object"})
    assert CHAT.chat_body(messages, [tool]) == {
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "1",
                        "type": "function",
                        "function": {"name": "bash", "arguments": '{"a"'},
                    }
                ],
            },
            {"role": "tool", "content": "out", "tool_call_id": "1"},
            {"role": "assistant", "content": "done"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "bash",
                    "description": "runs",
                    "parameters": {"type": "object"},
                },
            }
        ],
    }


def test_without_tools_none_are_sent():
    assert "tools" not in CHAT.chat_body([Message(role="user", content="x")], [])


def test_a_prompt_has_its_wire_form():
    assert TEXT.completion_body("def f", ["\ndef"]) == {"prompt": "def f", "stop": ["\ndef"]}
    assert TEXT.completion_body("def f", []) == {"prompt": "def f"}


def test_markers_of_a_prefix_and_other_parts_go_as_they_are():
    parts = (
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "y", "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
    )
    body = CHAT.chat_body([Message(role="user", content=parts)], [])
    assert body["messages"][0]["content"] == list(parts)


@pytest.mark.parametrize("codec", [CHAT, TEXT], ids=lambda codec: codec.name)
def test_a_streamed_request_asks_for_usage_unless_the_user_says_otherwise(codec):
    asked = {"stream_options": {"include_usage": True}}
    assert codec.with_defaults({"stream": True}) == {"stream": True, **asked}
    own = {"stream": True, "stream_options": None}
    assert codec.with_defaults(own) == own
    assert codec.with_defaults({"stream": False}) == {"stream": False}


@pytest.mark.parametrize("codec", [CHAT, TEXT], ids=lambda codec: codec.name)
def test_the_key_is_a_bearer_token(codec):
    assert codec.headers("k", "host") == {"Authorization": "Bearer k"}
    assert codec.headers(None, "host") == {}


@pytest.mark.parametrize("codec", [CHAT, TEXT], ids=lambda codec: codec.name)
def test_a_call_that_the_protocol_does_not_have_is_refused(codec):
    with pytest.raises(ModelError) as caught:
        codec.completion_body("x", []) if codec is CHAT else codec.chat_body([], [])
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool_calls"),
        ("function_call", "tool_calls"),
        ("content_filter", "content_filter"),
        ("abort", "other"),
        (None, "other"),
        ([], "other"),
    ],
)
def test_stop_reasons(reason, meaning):
    assert reply({"message": {"content": "x"}, "finish_reason": reason}).stop_reason == meaning


@pytest.mark.parametrize(
    ("message", "text", "reasoning"),
    [
        ({"content": "x"}, "x", None),
        ({"content": None}, "", None),
        ({}, "", None),
        ({"content": "x", "reasoning_content": "hm"}, "x", "hm"),
        ({"content": "x", "reasoning": "hm"}, "x", "hm"),
        ({"content": "x", "reasoning_content": None, "reasoning": "hm"}, "x", "hm"),
        ({"content": "x", "reasoning": {"summary": "hm"}}, "x", None),
        ({"content": None, "refusal": "I will not"}, "I will not", None),
        ({"content": "half \ud83d"}, "half \ud83d", None),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab", None),
        (
            {"content": [{"type": "thinking", "thinking": [{"text": "hm"}]}, {"text": "b"}]},
            "b",
            "hm",
        ),
    ],
    ids=range(11),
)
def test_content_and_reasoning_in_every_form(message, text, reasoning):
    message = said(**message).message
    assert (message.text, message.reasoning) == (text, reasoning)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            {"id": "a", "function": {"name": "f", "arguments": "{}"}},
            ToolCall(id="a", name="f", arguments="{}"),
        ),
        (
            {"function": {"name": "f", "arguments": "{not json"}},
            ToolCall(id="call_0", name="f", arguments="{not json"),
        ),
        ({"id": "", "function": {"name": "f"}}, ToolCall(id="call_0", name="f", arguments="")),
        (
            {"id": 7, "function": {"name": "f", "arguments": {"a": 1}}},
            ToolCall(id="7", name="f", arguments='{"a": 1}'),
        ),
    ],
    ids=["usual", "no id", "no arguments", "object"],
)
def test_tool_calls_in_every_form(call, expected):
    assert said(content=None, tool_calls=[call]).message.tool_calls == (expected,)


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": {}},
        {"choices": ["x"]},
        {"choices": [{}]},
        {"choices": [{"message": "x"}]},
        {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": {"content": ["x"]}}]},
        {"choices": [{"message": {"content": [{"text": 5}]}}]},
        {"choices": [{"message": {"tool_calls": "x"}}]},
        {"choices": [{"message": {"tool_calls": ["x"]}}]},
        {"choices": [{"message": {"tool_calls": [{"function": {"name": ""}}]}}]},
        {"choices": [{"message": {"tool_calls": [{"function": {"name": 5}}]}}]},
    ],
    ids=range(14),
)
def test_an_answer_that_is_none_is_malformed(payload):
    for codec in (CHAT, TEXT):
        with pytest.raises(ModelError) as caught:
            codec.reply(payload, USAGE)
        assert caught.value.code == "malformed-response"
        assert caught.value.retryable


def test_a_completion_is_read():
    read = TEXT.reply(completion("    return 1", finish_reason="length").json, USAGE)
    assert (read.message.text, read.stop_reason) == ("    return 1", "length")
    assert (read.model, read.response_id) == ("served-model", "response-1")


@pytest.mark.parametrize(
    ("message", "reason", "text", "meaning"),
    [
        ({"content": None, "refusal": "No."}, "stop", "No.", "refusal"),
        ({"content": "", "refusal": "No."}, "stop", "No.", "refusal"),
        ({"content": "begun", "refusal": "No."}, "length", "begun", "length"),
        ({"content": "x", "refusal": None}, "stop", "x", "stop"),
    ],
    ids=["usual", "empty content", "cut", "none"],
)
def test_a_refusal_is_told_and_is_the_answer(message, reason, text, meaning):
    read = reply({"message": message, "finish_reason": reason})
    assert (read.message.text, read.stop_reason) == (text, meaning)


# --- reasoning from turn to turn


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
SIGNED = {**CALL, "index": 0, "extra_content": {"google": {"thought_signature": "s"}}}
DETAILS = [{"type": "reasoning.text", "text": "hm", "signature": "s", "index": 0}]


def sent_back(**message):
    return CHAT.chat_body([said(**message).message], [])["messages"][0]


@pytest.mark.parametrize(
    "own",
    [
        {"reasoning_content": "hm"},
        {"reasoning_content": ""},
        {"reasoning": "hm"},
        {"reasoning": "hm", "reasoning_details": DETAILS},
        {"extra_content": {"google": {"thought_signature": "s"}}},
        {},
    ],
    ids=["deepseek", "deepseek, empty", "vllm", "openrouter", "gemini", "none"],
)
def test_with_calls_an_endpoint_is_sent_its_own_reasoning_by_its_own_names(own):
    plain = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert sent_back(content=None, tool_calls=[CALL], **own) == {**plain, **own}


def test_the_signature_of_a_call_goes_back_with_the_call():
    message = said(content=None, tool_calls=[SIGNED, {**CALL, "id": "2"}]).message
    first, second = CHAT.chat_body([message], [])["messages"][0]["tool_calls"]
    assert first["extra_content"] == SIGNED["extra_content"]
    assert "index" not in first
    assert "extra_content" not in second
    other_order = attrs.evolve(message, tool_calls=message.tool_calls[::-1])
    swapped = CHAT.chat_body([other_order], [])["messages"][0]["tool_calls"]
    assert swapped == [second, first]


def test_without_calls_and_to_other_protocols_reasoning_is_not_sent():
    assert sent_back(content="x", reasoning_content="hm") == {"role": "assistant", "content": "x"}
    message = said(content=None, reasoning_content="hm", tool_calls=[CALL]).message
    foreign = attrs.evolve(message, verbatim=attrs.evolve(message.verbatim, protocol="anthropic"))
    assert "reasoning_content" not in CHAT.chat_body([foreign], [])["messages"][0]


# --- streams


def assemble(*payloads):
    answer = ChoiceStream()
    for payload in payloads:
        answer.add(payload)
    return answer


def delta(finish_reason=None, **fields):
    return {
        "id": "i",
        "model": "m",
        "choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}],
    }


def call_delta(index=None, id=None, name=None, arguments=None):  # noqa: A002
    part = {"function": {"name": name, "arguments": arguments}, "id": id}
    return delta(tool_calls=[part if index is None else {**part, "index": index}])


def streamed_calls(*deltas):
    whole = assemble(*deltas, delta("tool_calls")).whole()
    return [
        (call.id, call.name, call.arguments) for call in CHAT.reply(whole, USAGE).message.tool_calls
    ]


def test_a_stream_reads_as_the_whole_answer_does():
    events = [chunk.split(b" ", 1)[1] for chunk in stream("he", "llo").chunks[:-1]]
    answer = assemble(*map(json.loads, events))
    assert answer.is_finished
    assert CHAT.reply(answer.whole(), USAGE) == CHAT.reply(chat("hello").json, USAGE)
    assert answer.usage == chat("hello").json["usage"]


def test_streamed_reasoning_is_kept_apart():
    answer = assemble(
        delta(reasoning_content="h"), delta(reasoning_content="m"), delta(content="x")
    )
    message = CHAT.reply(answer.whole(), USAGE).message
    assert (message.text, message.reasoning) == ("x", "hm")


def test_tool_calls_are_put_together_by_index():
    assert streamed_calls(
        call_delta(0, "a", "f", ""),
        call_delta(1, "b", "g", '{"x'),
        call_delta(0, None, None, '{"y"'),
        call_delta(1, None, None, '":1}'),
        call_delta(0, None, None, ":2}"),
    ) == [("a", "f", '{"y":2}'), ("b", "g", '{"x":1}')]


def test_tool_calls_without_or_with_equal_indices_are_told_apart_by_id():
    for index in (None, 0):
        assert streamed_calls(
            call_delta(index, "a", "f", "{}"),
            call_delta(index, "b", "g", "["),
            call_delta(index, None, None, "]"),
        ) == [("a", "f", "{}"), ("b", "g", "[]")]


def test_a_streamed_answer_of_every_kind_reads_as_the_whole_one_does():
    for tool_calls in ([], [SIGNED, {**CALL, "id": "2"}]):
        whole = chat("hello", reasoning="hm").json
        message = whole["choices"][0]["message"]
        message |= {"reasoning_details": DETAILS, "extra_content": {"x": 1}, "refusal": "No."}
        message |= {"tool_calls": tool_calls} if tool_calls else {}
        answer = assemble(*chat_events(whole))
        assert CHAT.reply(answer.whole(), USAGE) == CHAT.reply(whole, USAGE)


def test_pieces_of_reasoning_details_are_put_together():
    def piece(kind, index, **fields):
        return delta(reasoning_details=[{"type": f"reasoning.{kind}", "index": index, **fields}])

    answer = assemble(
        piece("text", 0, text="h", signature=None),
        piece("text", 0, text="m", signature="s"),
        piece("encrypted", 1, data="a"),
        piece("encrypted", 2, data="b"),
        piece("summary", 3, summary="x"),
        piece("summary", 3, summary=None),
        piece("text", 4, text="y"),
        delta(reasoning_details="nonsense"),
        delta(reasoning_details=["nonsense"]),
    )
    details = answer.whole()["choices"][0]["message"]["reasoning_details"]
    assert [{k: v for k, v in each.items() if k not in {"type", "index"}} for each in details] == [
        {"signature": "s", "text": "hm"},
        {"data": "a"},
        {"data": "b"},
        {"summary": "x"},
        {"text": "y"},
    ]


def test_a_name_that_is_repeated_is_not_doubled():
    assert streamed_calls(call_delta(0, "a", "f", "{"), call_delta(0, "a", "f", "}")) == [
        ("a", "f", "{}")
    ]


def test_only_the_first_choice_counts():
    second = {"choices": [{"index": 1, "delta": {"content": "no"}}]}
    assert (
        assemble(delta(content="yes"), second).whole()["choices"][0]["message"]["content"] == "yes"
    )


def test_the_first_choice_counts_wherever_it_is_listed():
    choices = [{"index": index, "message": {"content": f"{index}"}} for index in (1, 0)]
    assert CHAT.reply({"choices": choices}, USAGE).message.text == "0"


def test_streamed_completions_are_texts():
    pieces = [
        {"choices": [{"index": 0, "text": text, "finish_reason": None}]} for text in ("a", "b")
    ]
    assert TEXT.reply(assemble(*pieces).whole(), USAGE).message.text == "ab"


def test_the_last_word_about_usage_counts():
    answer = assemble(
        {**delta(content="x"), "usage": {"prompt_tokens": 5, "completion_tokens": 1}},
        {**delta(), "usage": None},
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 9}},
    )
    assert answer.usage == {"prompt_tokens": 5, "completion_tokens": 9}


@pytest.mark.parametrize(
    "event",
    [
        5,
        [],
        {"choices": 5},
        {"choices": ["x"]},
        {"choices": [{"delta": "x"}]},
        {"choices": [{"delta": {"content": 5}}]},
        {"choices": [{"delta": {"tool_calls": 5}}]},
        {"choices": [{"delta": {"tool_calls": [5]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": 5}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": {}}}]}}]},
    ],
    ids=range(10),
)
def test_an_event_that_is_none_is_malformed(event):
    with pytest.raises(ModelError) as caught:
        assemble(event)
    assert caught.value.code == "malformed-response"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "delta",
                    "content",
                    "tool_calls",
                    "function",
                    "name",
                    "arguments",
                    "index",
                    "id",
                    "text",
                    "error",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(JSON_VALUES)
def test_no_answer_raises_anything_but_a_model_error(value):
    for codec in (CHAT, TEXT):
        for read in (
            lambda c=codec: c.reply({"choices": [value]}, USAGE),
            lambda c=codec: c.reply(assemble({"choices": [value]}).whole(), USAGE),
            lambda c=codec: c.reply({"choices": [{"message": value, "text": value}]}, USAGE),
            lambda: assemble(value),
        ):
            try:
                read()
            except ModelError as error:
                assert error.code == "malformed-response"  # noqa: PT017
