"""The `anthropic` protocol: requests out of conversations, replies out of answers, answers out of streams."""

import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.components.messages import Message, ToolCall
from agentcompass.components.models.anthropic import DEFAULT_MAX_TOKENS, VERSION, Anthropic
from agentcompass.components.models.anthropic_stream import AnthropicStream
from agentcompass.components.models.unrolled import message_events
from agentcompass.errors import ModelError
from agentcompass.records import Usage
from agentcompass.testing import dialects
from agentcompass.testing.dialects import redacted_block, text_block, thinking_block, tool_block
from support.conversation import PNG, TOOLS, answered, foreign_reply, told
from support.odd_json import odd_json, only_malformed

CODEC = Anthropic()
USAGE = Usage(calls=1)
CALLS = (tool_block("bash", {"command": "ls"}), tool_block("bash", {"command": "id"}, index=1))


def reply(*content, **fields):
    return CODEC.reply(dialects.message(content, **fields), USAGE)


def sent(*messages):
    return CODEC.chat_body(messages, ())["messages"]


def user(content):
    return Message(role="user", content=content)


# --- requests


def test_a_whole_conversation_has_its_wire_form():
    marker = {"cache_control": {"type": "ephemeral"}}
    image = {"type": "base64", "media_type": "image/png", "data": PNG.partition(",")[2]}
    assert CODEC.chat_body([*told(marker), *answered(foreign_reply())], TOOLS) == {
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image", "source": image},
                    {"type": "image", "source": {"type": "url", "url": "https://host/a.png"}},
                    {"type": "text", "text": "Look closely.", **marker},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "Let me see."},
                    {"type": "tool_use", "id": "a", "name": "bash", "input": {"command": "ls"}},
                    {
                        "type": "tool_use",
                        "id": "b",
                        "name": "bash",
                        "input": {"command": "cat a.png"},
                    },
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": "exit code 0"},
                    {
                        "type": "tool_result",
                        "tool_use_id": "b",
                        "content": [
                            {"type": "text", "text": "a picture"},
                            {"type": "image", "source": image},
                        ],
                    },
                    {"type": "text", "text": "Go on."},
                ],
            },
        ],
        "tools": [
            {
                "name": "bash",
                "description": "Run a command.",
                "input_schema": TOOLS[0].parameters,
            }
        ],
    }


def test_without_system_messages_and_tools_neither_is_sent():
    assert set(CODEC.chat_body([user("x")], ())) == {"messages"}


def test_system_messages_stand_before_the_conversation_wherever_they_are():
    body = CODEC.chat_body(
        [
            Message(role="system", content="a"),
            user("x"),
            Message(role="system", content=({"type": "text", "text": "b", "cache_control": {}},)),
            user("y"),
        ],
        (),
    )
    assert body["system"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b", "cache_control": {}},
    ]
    texts = [block["text"] for block in body["messages"][0]["content"]]
    assert (len(body["messages"]), texts) == (1, ["x", "y"])


def test_blank_texts_are_left_out_and_messages_of_nothing_else_with_them():
    messages = sent(
        user("x"),
        Message(role="assistant", content=" \n"),
        user(({"type": "text", "text": ""}, {"type": "text", "text": "y"})),
        Message(role="tool", tool_call_id="1", content=""),
    )
    assert messages == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "x"},
                {"type": "text", "text": "y"},
                {"type": "tool_result", "tool_use_id": "1"},
            ],
        }
    ]


def test_parts_of_other_kinds_go_as_they_are():
    document = {"type": "document", "source": {"type": "text", "data": "x"}}
    assert sent(user((document,)))[0]["content"] == [document]


@pytest.mark.parametrize(
    "image_url", [None, {"url": 5}, "data:image/png,abc", "data:;base64,abc", {}]
)
def test_an_image_that_cannot_be_sent_is_told(image_url):
    with pytest.raises(ModelError, match="image") as caught:
        sent(user(({"type": "image_url", "image_url": image_url},)))
    assert (caught.value.code, caught.value.retryable) == ("bad-request", False)


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (" ", {}),
        ("[1]", {"not_an_object": "[1]"}),
        ('{"a', {"not_an_object": '{"a'}),
        ("[" * 100_000, {"not_an_object": "[" * 100_000}),
    ],
    ids=["object", "empty", "blank", "list", "broken", "deep"],
)
def test_arguments_are_sent_as_an_object_whatever_they_are(arguments, given):
    call = ToolCall(id="1", name="f", arguments=arguments)
    (message,) = sent(Message(role="assistant", tool_calls=(call,)))
    assert message["content"][0]["input"] == given


def test_a_request_has_max_tokens_and_the_users_win():
    assert CODEC.with_defaults({"x": 1}) == {"max_tokens": DEFAULT_MAX_TOKENS, "x": 1}
    assert CODEC.with_defaults({"max_tokens": 5})["max_tokens"] == 5


def test_the_key_goes_in_its_own_header_and_to_imitators_as_a_bearer_token_too():
    version = {"anthropic-version": VERSION}
    assert CODEC.headers("k", "api.anthropic.com") == {**version, "x-api-key": "k"}
    assert CODEC.headers("k", "127.0.0.1") == {
        **version,
        "x-api-key": "k",
        "Authorization": "Bearer k",
    }
    assert CODEC.headers(None, "127.0.0.1") == version


def test_a_text_cannot_be_continued():
    with pytest.raises(ModelError, match="openai-completions"):
        CODEC.completion_body("x", [])


# --- replies


@pytest.mark.parametrize(
    ("content", "text", "reasoning", "calls"),
    [
        ((text_block("a"), text_block("b")), "ab", None, []),
        ((), "", None, []),
        ((thinking_block("hm"), text_block("a")), "a", "hm", []),
        ((thinking_block("h"), redacted_block(), thinking_block("m")), "", "h\n\nm", []),
        ((thinking_block(""), text_block("a")), "a", None, []),
        ((text_block("a"), *CALLS), "a", None, ['{"command": "ls"}', '{"command": "id"}']),
        ((tool_block("f", {"a": "\u00e9"}),), "", None, ['{"a": "\u00e9"}']),
        (({"type": "server_tool_use", "id": "s", "name": "web"}, text_block("a")), "a", None, []),
    ],
    ids=["texts", "nothing", "thinking", "redacted", "hidden", "calls", "accents", "other blocks"],
)
def test_blocks_are_read(content, text, reasoning, calls):
    message = reply(*content).message
    assert (message.text, message.reasoning) == (text, reasoning)
    assert [call.arguments for call in message.tool_calls] == calls


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "refusal"),
        ("pause_turn", "other"),
        (None, "other"),
        ({}, "other"),
    ],
)
def test_stop_reasons(reason, meaning):
    assert reply(text_block("x"), stop_reason=reason).stop_reason == meaning


@pytest.mark.parametrize(
    ("content", "details", "text"),
    [
        ((), {"type": "refusal", "explanation": "No."}, "No."),
        ((), {"type": "refusal", "explanation": None}, ""),
        ((), "no", ""),
        ((text_block("begun"),), {"type": "refusal", "explanation": "No."}, "begun"),
    ],
    ids=["explained", "not explained", "odd", "partial"],
)
def test_a_refusal_is_told_with_its_explanation(content, details, text):
    refused = reply(*content, stop_reason="refusal", stop_details=details)
    assert (refused.stop_reason, refused.message.text) == ("refusal", text)


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"content": None},
        {"content": "x"},
        {"content": ["x"]},
        {"content": [{"type": "text", "text": 5}]},
        {"content": [{"type": "thinking", "thinking": {}}]},
        {"content": [{"type": "tool_use", "id": "1", "input": {}}]},
        {"content": [{"type": "tool_use", "id": "1", "name": "", "input": {}}]},
    ],
    ids=range(8),
)
def test_an_answer_that_is_none_is_malformed(payload):
    with pytest.raises(ModelError) as caught:
        CODEC.reply(payload, USAGE)
    assert (caught.value.code, caught.value.retryable) == ("malformed-response", True)


def test_a_call_without_an_id_gets_one_that_its_result_can_name():
    message = reply({"type": "tool_use", "id": "", "name": "f", "input": None}).message
    assert message.tool_calls == (ToolCall(id="call_0", name="f", arguments=""),)
    assert sent(message)[0]["content"] == [
        {"type": "tool_use", "id": "call_0", "name": "f", "input": {}}
    ]


@pytest.mark.parametrize(
    ("payload", "is_failure"),
    [
        ({"type": "error", "error": {"type": "api_error"}}, True),
        ({"error": {"message": "x"}}, True),
        ({"type": "message", "error": None}, False),
    ],
)
def test_an_error_that_looks_like_an_answer_is_known(payload, is_failure):
    assert (CODEC.failure(payload) is not None) == is_failure


# --- thinking from turn to turn


THOUGHT = (
    thinking_block("h", "signed-1"),
    text_block("a"),
    redacted_block(),
    CALLS[0],
    thinking_block("m", "signed-2"),
    CALLS[1],
)


def test_a_reply_is_sent_back_word_for_word():
    assert sent(reply(*THOUGHT).message) == [{"role": "assistant", "content": list(THOUGHT)}]


def test_what_a_harness_has_changed_is_sent_changed_and_thinking_stays():
    message = reply(*THOUGHT).message
    first, second = message.tool_calls
    changed = attrs.evolve(
        message, content="A", tool_calls=(attrs.evolve(first, arguments='{"x": 1}'), second)
    )
    assert sent(changed)[0]["content"] == [
        THOUGHT[0],
        {"type": "text", "text": "A"},
        THOUGHT[2],
        {"type": "tool_use", "id": "call-0", "name": "bash", "input": {"x": 1}},
        THOUGHT[4],
        THOUGHT[5],
    ]


def test_thinking_that_was_cut_off_is_not_sent_back():
    cut = (thinking_block("h", ""), redacted_block())
    assert sent(user("x"), reply(*cut, stop_reason="max_tokens").message, user("y")) == [
        {"role": "user", "content": [{"type": "text", "text": words} for words in "xy"]}
    ]
    assert sent(reply(text_block("a"), *cut).message)[0]["content"] == [text_block("a")]
    assert sent(reply(thinking_block("h"), text_block("\n")).message) == []


def test_calls_that_a_harness_took_away_or_added_are_gone_or_there():
    message = reply(*THOUGHT[2:]).message
    added = ToolCall(id="own", name="f", arguments="{}")
    changed = attrs.evolve(message, content="A", tool_calls=(message.tool_calls[1], added))
    assert sent(changed)[0]["content"] == [
        THOUGHT[2],
        {"type": "text", "text": "A"},
        THOUGHT[4],
        THOUGHT[5],
        {"type": "tool_use", "id": "own", "name": "f", "input": {}},
    ]


def test_thinking_of_another_protocol_is_not_sent():
    message = reply(*THOUGHT).message
    foreign = attrs.evolve(message.verbatim, protocol="openai-responses")
    content = sent(attrs.evolve(message, verbatim=foreign))[0]["content"]
    assert [block["type"] for block in content] == ["text", "tool_use", "tool_use"]


# --- streams


def assemble(*payloads):
    answer = AnthropicStream()
    for payload in payloads:
        answer.add(json.loads(json.dumps(payload)))
    return answer


@pytest.mark.parametrize(
    "content",
    [(text_block("hello"),), THOUGHT, (), (tool_block("f", {}),)],
    ids=["text", "everything", "nothing", "no arguments"],
)
def test_a_stream_reads_as_the_whole_answer_does(content):
    whole = dialects.message(content, stop_reason="tool_use")
    answer = assemble(*message_events(whole))
    assert answer.is_finished
    assert answer.usage == whole["usage"]
    assert CODEC.reply(answer.whole(), USAGE) == CODEC.reply(whole, USAGE)


def events(*blocks, end=({"type": "message_stop"},)):
    yield {"type": "message_start", "message": dialects.message((), usage={"input_tokens": 5})}
    yield from blocks
    yield from end


def block(begun, *deltas, index=0):
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}


def test_an_input_that_was_cut_off_stays_what_the_model_wrote():
    cut = {"type": "input_json_delta", "partial_json": '{"command": "ls'}
    message = CODEC.reply(
        assemble(*events(*block({**CALLS[0], "input": {}}, cut))).whole(), USAGE
    ).message
    assert message.tool_calls[0].arguments == '{"command": "ls'
    assert sent(message)[0]["content"][0]["input"] == {"not_an_object": '{"command": "ls'}


def test_an_input_that_came_with_the_start_is_one():
    answer = assemble(*events(*block(CALLS[0])))
    assert answer.whole()["content"][0]["input"] == {"command": "ls"}
    answer = assemble(*events(*block(CALLS[0], {"type": "input_json_delta", "partial_json": ""})))
    assert answer.whole()["content"][0]["input"] == {"command": "ls"}


def test_text_that_came_with_the_start_is_not_lost():
    delta = {"type": "text_delta", "text": "lo"}
    answer = assemble(*events(*block(text_block("hel"), delta)))
    assert answer.whole()["content"][0]["text"] == "hello"


def test_citations_are_kept():
    delta = {"type": "citations_delta", "citation": {"cited_text": "x"}}
    answer = assemble(*events(*block(text_block(""), delta)))
    assert answer.whole()["content"][0]["citations"] == [{"cited_text": "x"}]


def test_blocks_are_in_order_and_unknown_events_passed_over():
    answer = assemble(
        *events(
            *block(text_block("b"), index=1),
            {"type": "new_kind"},
            *block(text_block("a"), {"type": "new_delta"}, index=0),
        )
    )
    assert [each["text"] for each in answer.whole()["content"]] == ["a", "b"]


def test_usage_is_unknown_until_the_output_is_told():
    start, delta = {"input_tokens": 25, "output_tokens": 1}, {"output_tokens": 15}
    begun = {"type": "message_start", "message": {"usage": start}}
    answer = assemble(begun)
    assert answer.usage is None
    answer.add({"type": "message_delta", "delta": {}, "usage": delta})
    assert answer.usage == {"input_tokens": 25, "output_tokens": 15}
    assert not answer.is_finished


def test_usage_that_came_whole_with_the_start_counts_at_the_end():
    answer = assemble({"type": "message_start", "message": {"usage": {"input_tokens": 25}}})
    answer.add({"type": "message_stop"})
    assert answer.usage == {"input_tokens": 25}


def test_usage_that_only_the_end_knows_counts():
    start = {"input_tokens": 0, "output_tokens": 0}
    answer = assemble({"type": "message_start", "message": {"usage": start}})
    end = {"stop_reason": "end_turn"}
    answer.add(
        {"type": "message_delta", "delta": end, "usage": {"input_tokens": 9, "output_tokens": 4}}
    )
    assert answer.usage == {"input_tokens": 9, "output_tokens": 4}
    assert answer.is_finished


@pytest.mark.parametrize(
    "payload", [{"type": "error", "error": {"type": "overloaded_error"}}, {"error": "x"}]
)
def test_an_error_in_the_stream_is_kept(payload):
    assert assemble(payload).error == payload


@pytest.mark.parametrize(
    "event",
    [
        5,
        [],
        {"type": "message_start"},
        {"type": "message_start", "message": "x"},
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_start", "content_block": {}},
        {"type": "content_block_start", "index": "0", "content_block": {}},
        {"type": "content_block_delta", "index": 0, "delta": {}},
        {"type": "message_delta"},
    ],
    ids=range(9),
)
def test_an_event_that_is_none_is_malformed(event):
    with pytest.raises(ModelError) as caught:
        assemble(event)
    assert caught.value.code == "malformed-response"


def test_a_delta_that_is_no_text_is_malformed():
    with pytest.raises(ModelError) as caught:
        assemble(*block(text_block(""), {"type": "text_delta", "text": 5}))
    assert caught.value.code == "malformed-response"


NAMES = [
    *("type", "message", "content", "content_block", "delta", "index", "text", "thinking", "id"),
    *("name", "input", "partial_json", "usage", "stop_reason", "stop_details", "error"),
]
WORDS = [
    *("message_start", "content_block_start", "content_block_delta", "message_delta", "text"),
    *("tool_use", "thinking", "text_delta", "input_json_delta", "citations_delta", "error"),
]


@given(st.lists(odd_json(NAMES, WORDS), max_size=4))
def test_no_answer_raises_anything_but_a_model_error(values):
    only_malformed(
        lambda: CODEC.reply({"content": values}, USAGE),
        lambda: CODEC.reply(assemble(*values).whole(), USAGE),
        lambda: [CODEC.reply(value, USAGE) for value in values if isinstance(value, dict)],
    )
