"""What we send and read against the official client packages: their types, and their clients on the same endpoint."""

import json

import anthropic
import openai
import pytest
import trio
from anthropic.types import Message as AnthropicMessage
from anthropic.types import RawMessageStreamEvent
from anthropic.types.message_create_params import (
    MessageCreateParamsNonStreaming,
    MessageCreateParamsStreaming,
)
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)
from pydantic import TypeAdapter

from agentcompass.components.models.protocols import CODECS
from agentcompass.components.models.unrolled import message_events, response_events
from agentcompass.records import Usage
from agentcompass.testing import (
    FakeEndpoint,
    Reaction,
    anthropic_error,
    chat,
    dialects,
    echo_key,
    json_answer,
    message,
    rate_limited,
    response,
    streamed,
)
from support.conversation import TOOLS, answered, foreign_reply, told
from support.shapes import misfits

CHAT_LIKE = ("openai-chat", "openai-responses", "anthropic")
PARAMS = {
    "openai-chat": (CompletionCreateParamsNonStreaming, CompletionCreateParamsStreaming),
    "openai-responses": (ResponseCreateParamsNonStreaming, ResponseCreateParamsStreaming),
    "anthropic": (MessageCreateParamsNonStreaming, MessageCreateParamsStreaming),
}
MARKERS = {
    "openai-chat": {"prompt_cache_breakpoint": {"mode": "explicit"}},
    "openai-responses": {"prompt_cache_breakpoint": {"mode": "explicit"}},
    "anthropic": {"cache_control": {"type": "ephemeral", "ttl": "1h"}},
}
CALLS = [("bash", {"command": "ls"}), ("bash", {"command": "cat a.png"})]
TEXT_CALLS = [(name, json.dumps(arguments)) for name, arguments in CALLS]


def whole(protocol, *, calls=False) -> Reaction:
    """An answer of a protocol, as the fake endpoint sends it."""
    if protocol == "openai-chat":
        return chat("hello", tool_calls=TEXT_CALLS if calls else ())
    if protocol == "openai-responses":
        return response("hello", tool_calls=TEXT_CALLS if calls else (), reasoning="hm")
    return message("hello", tool_calls=CALLS if calls else (), thinking="hm")


def body(protocol, messages, **params):
    codec = CODECS[protocol]
    return codec.with_defaults({"model": "m", **params, **codec.chat_body(messages, TOOLS)})


def own_reply(protocol):
    """A reply with calls and reasoning as the protocol's endpoint made it."""
    return CODECS[protocol].reply(whole(protocol, calls=True).json, Usage()).message


@pytest.mark.parametrize("reply", [own_reply, lambda _: foreign_reply()], ids=["own", "foreign"])
@pytest.mark.parametrize("protocol", CHAT_LIKE)
def test_a_request_is_one_by_the_official_types(protocol, reply):
    messages = [*told(MARKERS[protocol]), *answered(reply(protocol))]
    if (
        protocol == "openai-chat"
    ):  # images in results of tools are beyond what this protocol defines
        messages = [*messages[:4], *messages[5:]]
    plain, streaming = PARAMS[protocol]
    assert misfits(body(protocol, messages), plain) == []
    assert misfits(body(protocol, messages, stream=True), streaming) == []


@pytest.mark.parametrize("protocol", CHAT_LIKE)
def test_the_check_itself_finds_what_is_wrong(protocol):
    plain, _ = PARAMS[protocol]
    asked = json.loads(json.dumps(body(protocol, told())))
    key = "input" if protocol == "openai-responses" else "messages"
    asked[key][-1]["content"][0]["txt"] = "?"
    asked["modle"] = "m"
    assert len(misfits(asked, plain)) == 2


def test_marks_of_a_prefix_stand_where_the_protocol_wants_them():
    marked = {**MARKERS["anthropic"], **MARKERS["openai-chat"]}
    texts = {name: json.dumps(body(name, told(marked))) for name in CHAT_LIKE}
    assert '"cache_control": {"type": "ephemeral", "ttl": "1h"}' in texts["anthropic"]
    assert "prompt_cache_breakpoint" not in texts["anthropic"]
    assert '"prompt_cache_breakpoint": {"mode": "explicit"}' in texts["openai-responses"]
    assert "cache_control" not in texts["openai-responses"]
    assert "cache_control" in texts["openai-chat"]
    assert "prompt_cache_breakpoint" in texts["openai-chat"]


ANSWERS = {
    "openai-chat": (ChatCompletion, ChatCompletionChunk),
    "openai-responses": (Response, ResponseStreamEvent),
    "anthropic": (AnthropicMessage, RawMessageStreamEvent),
}


def payloads(reaction):
    data = [chunk.split(b"data: ", 1)[1] for chunk in reaction.chunks]
    return [json.loads(text) for text in data if not text.startswith(b"[DONE]")]


@pytest.mark.parametrize("protocol", CHAT_LIKE)
def test_what_the_fake_endpoint_sends_is_an_answer_by_the_official_types(protocol):
    kind, event = ANSWERS[protocol]
    for answer in (whole(protocol), whole(protocol, calls=True)):
        TypeAdapter(kind).validate_python(answer.json)
        for payload in payloads(streamed(answer)):
            if payload.get("type") != "ping":  # documented, and no part of the types
                TypeAdapter(event).validate_python(payload)


@pytest.mark.parametrize(
    "output",
    [dialects.output_refusal("No."), dialects.output_reasoning(shown="hm", encrypted=None)],
    ids=["refusal", "shown reasoning"],
)
def test_the_other_items_of_responses_are_official_too(output):
    answer = dialects.response([output], status="incomplete", reason="max_output_tokens")
    TypeAdapter(Response).validate_python(answer)
    for payload in response_events(answer):
        TypeAdapter(ResponseStreamEvent).validate_python(payload)


def test_the_other_blocks_of_messages_are_official_too():
    details = {"type": "refusal", "category": "bio", "explanation": "No."}
    content = [dialects.redacted_block(), dialects.text_block("hel")]
    answer = dialects.message(content, stop_reason="refusal", stop_details=details)
    TypeAdapter(AnthropicMessage).validate_python(answer)
    for payload in message_events(answer):
        if payload["type"] != "ping":
            TypeAdapter(RawMessageStreamEvent).validate_python(payload)


# --- the official clients on the same endpoint


def their_chat(url):
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0) as client:
        asked = [{"role": "user", "content": "hi"}]
        return client.chat.completions.create(model="m", messages=asked).choices[0].message


def their_response(url, **options):
    with openai.OpenAI(base_url=url, api_key="k", max_retries=0) as client:
        made = client.responses.create(model="m", input="hi", **options)
        if not options:
            return made
        return next(event.response for event in made if event.type == "response.completed")


def their_message(url, **options):
    asked = {
        "model": "m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "hi"}],
    }
    with anthropic.Anthropic(base_url=url.removesuffix("/v1"), api_key="k", max_retries=0) as them:
        if not options:
            return them.messages.create(**asked)
        with them.messages.stream(**asked) as stream:
            return stream.get_final_message()


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
async def test_the_official_client_of_responses_reads_the_same(is_streamed):
    answer = whole("openai-responses", calls=True)
    options = {"stream": True} if is_streamed else {}
    with FakeEndpoint(streamed(answer) if is_streamed else answer) as endpoint:
        theirs = await trio.to_thread.run_sync(lambda: their_response(endpoint.base_url, **options))
    assert theirs.output_text == "hello"
    assert endpoint.requests[0].target == "/v1/responses"
    ours = own_reply("openai-responses")
    calls = [item for item in theirs.output if item.type == "function_call"]
    assert [(call.call_id, call.name, call.arguments) for call in calls] == [
        (call.id, call.name, call.arguments) for call in ours.tool_calls
    ]
    assert ours.text == theirs.output_text


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
async def test_the_official_client_of_messages_reads_the_same(is_streamed):
    answer = whole("anthropic", calls=True)
    options = {"stream": True} if is_streamed else {}
    with FakeEndpoint(streamed(answer) if is_streamed else answer) as endpoint:
        theirs = await trio.to_thread.run_sync(lambda: their_message(endpoint.base_url, **options))
    assert endpoint.requests[0].target == "/v1/messages"
    ours = own_reply("anthropic")
    # what they would send back is what we send back
    returned = [block.to_dict(exclude_unset=True) for block in theirs.content]
    assert CODECS["anthropic"].chat_body([ours], ())["messages"][0]["content"] == returned
    assert theirs.usage.output_tokens == 3


async def test_the_official_client_of_chats_reads_the_same():
    with FakeEndpoint(whole("openai-chat", calls=True)) as endpoint:
        theirs = await trio.to_thread.run_sync(their_chat, endpoint.base_url)
    ours = own_reply("openai-chat")
    assert theirs.content == ours.text
    assert [(call.id, call.function.arguments) for call in theirs.tool_calls] == [
        (call.id, call.arguments) for call in ours.tool_calls
    ]


@pytest.mark.parametrize(
    ("reaction", "error"),
    [
        (rate_limited(), anthropic.RateLimitError),
        (anthropic_error(529, type="overloaded_error"), anthropic.InternalServerError),
        (anthropic_error(404, "model: x", type="not_found_error"), anthropic.NotFoundError),
        (echo_key, anthropic.AuthenticationError),
        (json_answer({}, status=500), anthropic.InternalServerError),
    ],
    ids=["429", "529", "404", "401", "500"],
)
async def test_errors_are_errors_to_the_official_client_too(reaction, error):
    with FakeEndpoint(reaction) as endpoint, pytest.raises(error):
        await trio.to_thread.run_sync(their_message, endpoint.base_url)
