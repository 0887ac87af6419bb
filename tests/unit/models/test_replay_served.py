"""A recording that answers programs which call the model by themselves, over the gateway."""

import json

import httpx
import pytest

from agentcompass import ConfigurationError
from agentcompass.components.models.recording import Recorder
from agentcompass.errors import ModelError
from agentcompass.secrets import Scrubber
from agentcompass.testing import (
    FakeEndpoint,
    anthropic_error,
    chat,
    completion,
    message,
    response,
    streamed,
)
from support.gateways import replaying, serving

ANSWERS = {
    "openai-chat": chat("hello", tool_calls=[("bash", "{}")], reasoning="hm"),
    "openai-completions": completion("hello"),
    "openai-responses": response("hello", tool_calls=[("bash", "{}")], reasoning="hm"),
    "anthropic": message("hello", tool_calls=[("bash", {"a": [1]})], thinking="hm"),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "exchanges.jsonl"


async def recorded(path, behaviour, protocol, *bodies):
    """Let a program ask an endpoint, and keep what is said; returns what it got."""
    with FakeEndpoint(behaviour) as endpoint:
        async with serving(endpoint, protocol, recorder=Recorder(path, Scrubber())) as served:
            return [(await served.ask(**body)).content for body in bodies], served.model.usage


async def refused(path, protocol, varying=(), **body):
    """Ask for what was not recorded; returns the error that ends the attempt."""
    with pytest.raises(ModelError) as caught:
        async with replaying(path, protocol, varying) as served:
            got = await served.ask(**body)
            assert got.status_code == 502
    assert caught.value.code == "not-recorded"
    return caught.value.message


def user(text):
    return [{"role": "user", "content": text}]


@pytest.mark.parametrize("protocol", ANSWERS)
async def test_a_program_gets_the_recorded_answer_and_its_usage_counts(path, protocol):
    _, usage = await recorded(path, ANSWERS[protocol], protocol, {})
    async with replaying(path, protocol) as served:
        got = await served.ask()
        assert served.model.usage == usage
    assert got.json() == ANSWERS[protocol].json
    (call,) = served.calls
    assert (call.error, call.reply.message.text) == (None, "hello")


@pytest.mark.parametrize("protocol", ANSWERS)
async def test_a_program_that_asks_for_a_stream_gets_what_the_endpoint_streamed(path, protocol):
    asked = {"stream": True, "stream_options": {"include_usage": True}}
    answer = streamed(ANSWERS[protocol])
    (first,), usage = await recorded(path, answer, protocol, asked)
    async with replaying(path, protocol) as served:
        got = await served.ask(**asked)
        assert served.model.usage == usage
    assert got.headers["content-type"] == "text/event-stream"
    assert said(got.content) == said(first)


def said(stream):
    """The events of a stream; what an endpoint says beside them is not kept."""
    lines = stream.decode().splitlines()
    events = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
    kept = [json.loads(event) for event in events]
    return [{name: event[name] for name in event if name != "created"} for event in kept]


async def test_an_error_reaches_the_program_as_the_endpoint_said_it(path):
    too_long = anthropic_error(400, "prompt is too long: 9 tokens", type="invalid_request_error")
    (first,), _ = await recorded(path, too_long, "anthropic", {})
    async with replaying(path, "anthropic") as served:
        got = await served.ask()
    assert (got.status_code, got.content) == (400, first)


async def test_the_same_asked_again_gets_the_next_answer(path):
    answers = [message("one"), message("two")]
    await recorded(path, answers, "anthropic", {}, {})
    async with replaying(path, "anthropic") as served:
        said = [(await served.ask()).json()["content"][0]["text"] for _ in range(3)]
    assert said == ["one", "two", "two"]


@pytest.mark.parametrize(
    ("protocol", "labels"),
    [
        ("anthropic", {"metadata": {"user_id": "{}"}}),
        ("openai-chat", {"user": "{}", "prompt_cache_key": "{}", "metadata": {"x": "{}"}}),
        ("openai-responses", {"prompt_cache_key": "{}", "client_metadata": {"turn": "{}"}}),
        ("openai-responses", {"input": [{"type": "message", "id": "{}", "content": "hi"}]}),
    ],
)
async def test_labels_that_the_model_never_sees_are_not_compared(path, protocol, labels):
    first, second = (json.loads(json.dumps(labels).replace("{}", each)) for each in "ab")
    await recorded(path, ANSWERS[protocol], protocol, first)
    async with replaying(path, protocol) as served:
        assert (await served.ask(**second)).status_code == 200


@pytest.mark.parametrize(
    ("protocol", "first", "second", "words"),
    [
        ("anthropic", {"system": "be kind"}, {"system": "be brief"}, "system: 'be "),
        ("anthropic", {"messages": user("1")}, {"messages": user("2")}, "messages[0].content: '1'"),
        ("openai-chat", {"temperature": 0}, {"temperature": 1}, "temperature: 0 -> 1"),
        (
            "openai-responses",
            {"input": [{"type": "item_reference", "id": "a"}]},
            {"input": [{"type": "item_reference", "id": "b"}]},
            "input[0].id: 'a' -> 'b'",
        ),
    ],
)
async def test_another_question_is_refused_with_what_differs_and_ends_the_attempt(
    path, protocol, first, second, words
):
    await recorded(path, ANSWERS[protocol], protocol, first)
    assert words in await refused(path, protocol, **second)


async def test_texts_that_are_known_to_vary_are_overlooked_and_nothing_beside_them(path):
    varying = [r"(?<=Today is )\d+-\d+-\d+"]
    system = [{"type": "text", "text": "Today is 2026-01-02. Be kind."}]
    await recorded(path, ANSWERS["anthropic"], "anthropic", {"system": system})
    system[0]["text"] = "Today is 2027-11-12. Be kind."
    async with replaying(path, "anthropic", varying) as served:
        assert (await served.ask(system=system)).status_code == 200
    assert "Today is" in await refused(path, "anthropic", system=system)
    system[0]["text"] = "Today is 2027-11-12. Be brief."
    told = await refused(path, "anthropic", varying, system=system)
    assert "(varies). Be kind.' -> " in told
    assert "2027" not in told


async def test_a_stream_that_broke_off_is_not_recorded_and_what_was_asked_instead_is_the_answer(
    path,
):
    broken = streamed(message("x" * 2000)).but(send_bytes=900, then="reset")
    with FakeEndpoint([broken, message("whole")]) as endpoint:
        async with serving(endpoint, "anthropic", recorder=Recorder(path, Scrubber())) as served:
            with pytest.raises(httpx.RemoteProtocolError):
                await served.ask(stream=True)
            assert (await served.ask()).status_code == 200  # without a stream
    async with replaying(path, "anthropic") as served:
        got = await served.ask(stream=True)
        assert "whole" not in got.text  # in pieces
        assert [call.reply.message.text for call in served.calls] == ["whole"]


async def test_what_counts_tokens_is_told_that_nobody_does(path):
    await recorded(path, ANSWERS["anthropic"], "anthropic", {})
    async with replaying(path, "anthropic") as served:
        got = await served.ask(path="/v1/messages/count_tokens")
        assert (await served.ask()).status_code == 200
    assert got.status_code == 404


async def test_what_is_no_regular_expression_is_refused_before_a_call(path):
    await recorded(path, ANSWERS["anthropic"], "anthropic", {})
    with pytest.raises(ConfigurationError, match="is no regular expression"):
        async with replaying(path, "anthropic", ["("]):
            pass
