"""The model client against a real server."""

import json
import random
import threading
import time

import attrs
import pytest
import trio

from agentcompass.components.messages import Message, Tool
from agentcompass.components.models import exchange
from agentcompass.components.models.calls import MAX_MALFORMED
from agentcompass.errors import ConfigurationError, ModelError
from agentcompass.net.endpoints import Endpoints
from agentcompass.records import Usage
from agentcompass.secrets import Secret
from agentcompass.testing import (
    FakeEndpoint,
    chat,
    completion,
    echo,
    echo_key,
    error,
    events,
    json_answer,
    message,
    no_answer,
    rate_limited,
    redirect,
    response,
    stream,
    streamed,
    text,
)
from agentcompass.testing.behaviours import BIG_SIZE
from support.opened import KEY, QUICK, RETRIES, Opened

HI = [Message(role="user", content="hi")]
LAST_CHUNK = b"0\r\n\r\n"
"""Of a body in chunks."""


# --- requests and replies


async def test_a_call_sends_what_was_said_and_returns_what_came_back():
    tool = Tool(name="bash", description="runs", parameters={"type": "object"})
    with FakeEndpoint(chat("ok", tool_calls=[("bash", "{}")], reasoning="hm")) as endpoint:
        async with Opened(endpoint) as opened:
            reply = await opened.say(tools=[tool])
            assert (opened.model.id, opened.model.protocol) == ("org/model", "openai-chat")
    seen = endpoint.requests[0]
    assert seen.target == "/v1/chat/completions"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["content-type"] == "application/json"
    assert seen.json["model"] == "org/model"
    assert seen.json["messages"] == [{"role": "user", "content": "hi"}]
    assert seen.json["tools"][0]["function"]["name"] == "bash"
    assert (reply.message.text, reply.message.reasoning, reply.stop_reason) == (
        "ok",
        "hm",
        "tool_calls",
    )
    assert (reply.message.tool_calls[0].name, reply.model) == ("bash", "served-model")


async def test_parameters_go_on_the_wire_and_those_of_the_call_win():
    params = {"temperature": 0, "top_p": 0.5, "extra_body": {"a": [1]}, "model": "other"}
    with FakeEndpoint(echo) as endpoint:
        async with Opened(endpoint, params=params) as opened:
            await opened.say(params={"temperature": 1, "max_tokens": 5})
    body = endpoint.requests[0].json
    del body["messages"]
    assert body == {
        "temperature": 1,
        "top_p": 0.5,
        "extra_body": {"a": [1]},
        "max_tokens": 5,
        "model": "org/model",
    }


async def test_a_base_model_continues_a_text():
    with FakeEndpoint(completion("x + 1", finish_reason="length")) as endpoint:
        async with Opened(endpoint, protocols=("openai-completions", "openai-chat")) as opened:
            reply = await opened.model.complete("def f(x): return ", stop=["\n"])
            assert opened.model.protocol == "openai-completions"
            assert opened.model.usage.total_tokens == 15
    assert endpoint.requests[0].target == "/v1/completions"
    assert endpoint.requests[0].json == {
        "model": "org/model",
        "prompt": "def f(x): return ",
        "stop": ["\n"],
    }
    assert (reply.message.text, reply.stop_reason) == ("x + 1", "length")


async def test_the_wrong_kind_of_call_is_an_error_and_sends_nothing():
    with FakeEndpoint(echo) as endpoint:
        async with Opened(endpoint) as opened:
            with pytest.raises(ModelError, match="openai-completions"):
                await opened.model.complete("x")
    assert not endpoint.requests


async def test_a_streamed_answer_is_one_reply_with_usage():
    with FakeEndpoint(echo) as endpoint:
        async with Opened(endpoint, params={"stream": True}) as opened:
            for _ in range(3):
                assert (await opened.say("hé\U0001f600")).message.text == "hé\U0001f600"
            usage = opened.model.usage
        assert endpoint.n_connections == 1
    assert endpoint.requests[0].json["stream_options"] == {"include_usage": True}
    assert (usage.calls, usage.unmetered_calls, usage.total_tokens) == (3, 0, 45)


async def test_stream_options_of_the_user_stay_as_they_are():
    with FakeEndpoint(echo) as endpoint:
        async with Opened(endpoint, params={"stream": True, "stream_options": None}) as opened:
            await opened.say()
    assert endpoint.requests[0].json["stream_options"] is None


async def test_a_stream_that_was_not_asked_for_is_read_and_one_that_did_not_come_is_no_loss():
    with FakeEndpoint([stream("a"), chat("b")]) as endpoint:
        async with Opened(endpoint) as opened:
            assert (await opened.say()).message.text == "a"
            assert (await opened.say(params={"stream": True})).message.text == "b"


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_lone_surrogates_pass_in_both_directions(streamed):
    with FakeEndpoint(echo) as endpoint:
        async with Opened(endpoint, params={"stream": streamed}) as opened:
            assert (await opened.say("half \ud83d of it")).message.text == "half \ud83d of it"


async def test_two_megabytes_pass_in_both_directions():
    with FakeEndpoint(echo) as endpoint:
        async with Opened(endpoint) as opened:
            assert len((await opened.say("x" * BIG_SIZE)).message.text) == BIG_SIZE


async def test_what_cannot_be_written_as_json_is_told_without_a_request():
    with FakeEndpoint(echo) as endpoint:
        async with Opened(endpoint, params={"temperature": float("nan")}) as opened:
            failed = await opened.fail()
    assert (failed.code, failed.retryable) == ("bad-request", False)
    assert not endpoint.requests


# --- addresses


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("", "/v1/chat/completions"),
        ("/", "/v1/chat/completions"),
        ("/v1", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("/deep/path/v1", "/deep/path/v1/chat/completions"),
        ("/prefix", "/prefix/v1/chat/completions"),
        ("/prefix/", "/prefix/v1/chat/completions"),
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("/v1?api-version=2", "/v1/chat/completions?api-version=2"),
    ],
)
async def test_every_form_of_the_base_url_finds_the_endpoint(written, target):
    def only_there(seen):
        return chat("x") if seen.target == target else error(404, "Not Found")

    with FakeEndpoint(only_there) as endpoint:
        async with Opened(endpoint.url + written) as opened:
            for _ in range(3):
                await opened.say()
            assert opened.model.replies == opened.model.usage.calls == 3
        assert not opened.retries
        assert [seen.target for seen in endpoint.requests[-3:]] == [target] * 3
        assert len(endpoint.requests) <= 4


async def test_no_form_being_there_names_the_url():
    with FakeEndpoint(text("nothing here", status=404)) as endpoint:
        async with Opened(endpoint.url + "/what") as opened:
            failed = await opened.fail()
        assert len(endpoint.requests) == 2
    assert (failed.code, failed.retryable) == ("endpoint-not-found", False)
    assert f"{endpoint.url}/what/chat/completions" in failed.message


async def test_a_user_in_the_url_is_sent_as_basic_auth_and_shown_nowhere():
    with FakeEndpoint(error(400, "bad header: Basic bWU6cGFzc3dvcmQtMQ== password-1")) as endpoint:
        url = endpoint.base_url.replace("//", "//me:password-1@")
        async with Opened(url) as opened:
            failed = await opened.fail()
    assert endpoint.requests[0].headers["authorization"] == "Basic bWU6cGFzc3dvcmQtMQ=="
    assert "password-1" not in str(failed)
    assert "bWU6" not in str(failed)


async def test_a_user_in_the_url_is_not_shown_when_nobody_listens():
    with FakeEndpoint() as endpoint:
        url = endpoint.base_url.replace("//", "//me:password-1@")
    async with Opened(url, max_retries=0) as opened:
        failed = await opened.fail()
    assert failed.code == "connection-failed"
    assert endpoint.url in str(failed)
    assert "password-1" not in str(failed)


@pytest.mark.parametrize(
    "base_url", [None, "", "127.0.0.1:8000/v1", "ftp://x", "http://u:pass/word@h:1/"]
)
def test_an_unusable_url_is_a_configuration_error(base_url):
    with pytest.raises(ConfigurationError, match="base_url") as caught:
        Opened(base_url)
    assert "word" not in str(caught.value).replace("password", "")


@pytest.mark.parametrize("key", [KEY + "\n", "two words", "quote\u2019s", "\x00"])
def test_a_key_that_cannot_be_sent_is_a_configuration_error_that_does_not_show_it(key):
    with pytest.raises(ConfigurationError, match="api_key") as caught:
        Opened("http://host", api_key=Secret(key))
    assert key.strip() not in str(caught.value) or key == "\x00"


@pytest.mark.parametrize("key", [None, Secret("")])
async def test_without_a_key_no_header_is_sent(key):
    with FakeEndpoint(echo) as endpoint:
        async with Opened(endpoint, api_key=key) as opened:
            await opened.say()
    assert "authorization" not in endpoint.requests[0].headers


def test_no_protocol_in_common_is_a_configuration_error():
    with pytest.raises(ConfigurationError, match="protocol"):
        Opened("http://host", protocols=("anthropic",), api_protocol=("openai-chat",))


async def test_a_proxy_of_the_environment_is_used(monkeypatch):
    for name in ("NO_PROXY", "no_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with FakeEndpoint(echo) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        async with Opened("http://far.invalid/v1") as opened:
            assert (await opened.say()).message.text == "hi"
    assert proxy.requests[0].target == "http://far.invalid/v1/chat/completions"


# --- retries


TEMPORARY = {
    "rate-limited": (rate_limited(), "rate-limited"),
    "rate-limited without header": (rate_limited(None), "rate-limited"),
    "408": (error(408), "server-error"),
    "409": (error(409), "server-error"),
    "425": (error(425), "server-error"),
    "500": (error(500), "server-error"),
    "502": (text("<html>", status=502), "server-error"),
    "503": (error(503), "overloaded"),
    "504": (error(504), "server-error"),
    "529": (error(529), "overloaded"),
    "no answer": (no_answer("close"), "connection-failed"),
    "reset": (no_answer("reset"), "connection-failed"),
    "broken body": (chat("x" * 500).but(send_bytes=300, then="reset"), "connection-failed"),
    "short body": (chat("x" * 500).but(send_bytes=300, then="close"), "connection-failed"),
    "broken stream": (stream(*"abcdef").but(send_bytes=600, then="reset"), "connection-failed"),
    "stream without end": (stream("a", done=False, finish_reason=None), "malformed-response"),
    "stream without a reason to end": (stream("a", finish_reason=None), "malformed-response"),
    "stream of nothing": (events([]), "malformed-response"),
    "stream of usage alone": (events([{"choices": [], "usage": {}}]), "malformed-response"),
    "broken event": (events([]).but(chunks=[b"data: {\n\n"]), "malformed-response"),
    "no json": (text("{'not': json"), "malformed-response"),
    "empty": (text(""), "malformed-response"),
    "no choices": (json_answer({"choices": []}), "malformed-response"),
    "no object": (json_answer([1]), "malformed-response"),
    "wrong type": (json_answer({"choices": [{"message": {"content": 5}}]}), "malformed-response"),
    "error with 200": (json_answer({"error": {"message": "x", "code": 502}}), "server-error"),
    "error beside a choice": (
        json_answer({**chat("").json, "error": {"message": "x", "code": 502}}),
        "server-error",
    ),
    "error in a choice": (
        json_answer({"choices": [{"error": {"message": "x", "code": 502}}]}),
        "server-error",
    ),
    "error in a streamed choice": (
        events([{"choices": [{"finish_reason": "error", "error": {"message": "x", "code": 502}}]}]),
        "server-error",
    ),
    "error in stream": (events([{"error": {"message": "x", "code": 429}}]), "rate-limited"),
}


@pytest.mark.parametrize("name", TEMPORARY)
async def test_what_may_pass_is_tried_again_and_told(name):
    reaction, code = TEMPORARY[name]
    with FakeEndpoint([reaction, chat("at last")]) as endpoint:
        async with Opened(endpoint) as opened:
            assert (await opened.say()).message.text == "at last"
    assert [(retry.code, retry.try_number) for retry in opened.retries] == [(code, 1)]
    assert 0 <= opened.retries[0].wait_seconds <= 0.001
    assert opened.retries[0].message
    assert len(endpoint.requests) == 2
    assert endpoint.requests[0].body == endpoint.requests[1].body


@pytest.mark.parametrize("name", TEMPORARY)
async def test_retries_end(name):
    reaction, code = TEMPORARY[name]
    with FakeEndpoint(reaction) as endpoint:
        async with Opened(endpoint) as opened:
            failed = await opened.fail()
    tries = MAX_MALFORMED if code == "malformed-response" else 1 + RETRIES
    assert (failed.code, failed.retryable) == (code, True)
    assert f"after {tries} tries" in failed.message
    assert len(endpoint.requests) == tries
    assert [retry.try_number for retry in opened.retries] == list(range(1, tries))


async def test_max_retries_zero_means_one_request():
    with FakeEndpoint(error(500, "once")) as endpoint:
        async with Opened(endpoint, max_retries=0) as opened:
            failed = await opened.fail()
    assert failed.message == "the endpoint answered 500: once"
    assert len(endpoint.requests) == 1


PERMANENT = {
    "bad request": (error(400, "bad temperature"), "bad-request"),
    "unprocessable": (error(422, "x"), "bad-request"),
    "unauthorized": (error(401, "x"), "unauthorized"),
    "forbidden": (error(403, "x"), "unauthorized"),
    "model": (error(404, "no model", code="model_not_found"), "model-not-found"),
    "context": (error(400, "x", code="context_length_exceeded"), "context-exceeded"),
    "context in a stream": (
        events([{"error": {"message": "x", "code": "context_length_exceeded"}}]),
        "context-exceeded",
    ),
    "quota": (error(429, "x", code="insufficient_quota"), "quota-exceeded"),
    "redirect": (redirect("http://elsewhere.invalid/v1?key=1"), "redirected"),
}


@pytest.mark.parametrize("name", PERMANENT)
async def test_what_cannot_pass_is_not_tried_again(name):
    reaction, code = PERMANENT[name]
    with FakeEndpoint(reaction) as endpoint:
        async with Opened(endpoint) as opened:
            failed = await opened.fail()
            usage = opened.model.usage
    assert (failed.code, failed.retryable) == (code, False)
    assert len(endpoint.requests) == 1
    assert not opened.retries
    assert usage == Usage() or "stream" in name


async def test_the_status_tells_even_when_the_words_break_off():
    broken = error(401, "x" * 500).but(send_bytes=300, then="reset")
    with FakeEndpoint(broken) as endpoint:
        async with Opened(endpoint) as opened:
            assert (await opened.fail()).code == "unauthorized"
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    "reaction", [chat("x" * 100_000), stream("x" * 100_000)], ids=["whole", "streamed"]
)
async def test_an_answer_above_the_limit_is_no_answer(monkeypatch, reaction):
    monkeypatch.setattr(exchange, "MAX_BODY_BYTES", 50_000)
    with FakeEndpoint(reaction) as endpoint:
        async with Opened(endpoint) as opened:
            failed = await opened.fail()
    assert failed.code == "malformed-response"
    assert "50000 bytes" in failed.message


async def test_nobody_listening_is_tried_again_and_then_told():
    with FakeEndpoint() as endpoint:
        pass
    async with Opened(endpoint) as opened:
        failed = await opened.fail()
        assert (opened.model.replies, opened.model.usage) == (0, Usage())
    assert (failed.code, failed.retryable) == ("connection-failed", True)
    assert [retry.code for retry in opened.retries] == ["connection-failed"] * RETRIES


async def test_a_key_is_not_sent_to_where_a_redirect_points():
    with FakeEndpoint(echo) as other, FakeEndpoint(redirect(other.base_url)) as endpoint:
        async with Opened(endpoint) as opened:
            assert other.url in (await opened.fail()).message
        assert not other.requests


async def test_a_key_in_an_endpoints_words_is_not_repeated():
    with FakeEndpoint(echo_key) as endpoint:
        async with Opened(endpoint) as opened:
            failed = await opened.fail()
    assert "[secret]" in failed.message
    assert KEY not in str(failed)


async def test_a_key_in_an_answer_that_is_no_json_is_not_repeated():
    with FakeEndpoint(text(f"proxy error, headers: Bearer {KEY}")) as endpoint:
        async with Opened(endpoint) as opened:
            failed = await opened.fail()
    assert "proxy error" in failed.message
    assert KEY not in str(failed) + str(opened.retries)


async def test_the_endpoints_words_are_bounded_and_cannot_steer_a_terminal():
    with FakeEndpoint(error(400, "\x1b[2J" + "long " * 10_000)) as endpoint:
        async with Opened(endpoint) as opened:
            failed = await opened.fail()
    assert failed.message.isprintable()
    assert len(failed.message) < 2100


# --- time


async def test_a_wait_that_is_asked_for_is_kept():
    with FakeEndpoint([rate_limited("0.3"), chat("x")]) as endpoint:
        async with Opened(endpoint) as opened:
            started = trio.current_time()
            await opened.say()
            assert trio.current_time() - started >= 0.3
    assert opened.retries[0].wait_seconds == 0.3


@pytest.mark.parametrize("status", [429, 503])
async def test_a_wait_that_does_not_fit_fails_now_and_says_what_was_asked(status):
    with FakeEndpoint(error(status, "later", headers={"retry-after": "300"})) as endpoint:
        async with Opened(endpoint) as opened:
            failed = await opened.fail()
    assert failed.retryable
    assert "the endpoint asked for a wait of 300 s" in failed.message
    assert "30 s are left of timeout_seconds" in failed.message
    assert len(endpoint.requests) == 1


async def test_all_callers_of_an_endpoint_are_held_after_a_429_and_those_without_time_told():
    with FakeEndpoint(rate_limited("1000")) as endpoint:
        async with Opened(endpoint) as opened:
            await opened.fail()
            other = opened.client.lend(opened.retries.append)
            with pytest.raises(ModelError) as caught:
                await other.chat(HI)
    assert caught.value.code == "rate-limited"
    assert "1000 s" in caught.value.message
    assert len(endpoint.requests) == 1


async def test_the_time_of_a_call_bounds_a_silent_endpoint():
    with FakeEndpoint(no_answer("stall")) as endpoint:
        async with Opened(endpoint, timeout_seconds=0.2) as opened:
            failed = await opened.fail()
            assert opened.model.replies == 0
            assert opened.model.usage.unmetered_calls == 1
        await trio.to_thread.run_sync(endpoint.wait_for_open_connections, 0)
    assert (failed.code, failed.retryable) == ("timed-out", True)
    assert "0.2 s" in failed.message
    assert not opened.retries


async def test_the_time_of_a_call_spans_its_tries():
    with FakeEndpoint(error(500).but(delay_seconds=0.08)) as endpoint:
        async with Opened(endpoint, timeout_seconds=0.3, max_retries=1000) as opened:
            with trio.fail_after(5):
                await opened.fail()
    assert len(endpoint.requests) <= 4


async def test_waits_between_tries_are_the_calls_own_time():
    with FakeEndpoint(error(503, headers={"retry-after": "0.1"})) as endpoint:
        async with Opened(endpoint, timeout_seconds=0.35, max_retries=1000) as opened:
            with trio.fail_after(5):
                await opened.fail()
    assert len(endpoint.requests) <= 4


async def test_a_call_without_a_time_limit_may_take_long():
    with FakeEndpoint(chat("x").but(delay_seconds=0.2)) as endpoint:
        async with Opened(endpoint, timeout_seconds=0) as opened:
            assert (await opened.say()).message.text == "x"


async def test_waiting_for_others_is_not_the_calls_own_time():
    with FakeEndpoint(chat("x").but(delay_seconds=0.15)) as endpoint:
        async with Opened(endpoint, timeout_seconds=0.4, max_connections=1) as opened:
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(opened.say)
            assert opened.model.replies == 5
        assert endpoint.peak_in_flight == 1


@pytest.mark.parametrize(
    "reaction",
    [chat("x" * 500).but(send_bytes=300), stream(*"abcdef").but(send_bytes=600)],
    ids=["whole", "streamed"],
)
async def test_an_answer_that_stops_in_the_middle_is_tried_again(reaction):
    timing = attrs.evolve(QUICK, idle_seconds=0.1)
    with FakeEndpoint([reaction.but(then="stall"), chat("y")]) as endpoint:
        async with Opened(endpoint, timing=timing) as opened:
            assert (await opened.say()).message.text == "y"
    assert [retry.code for retry in opened.retries] == ["stalled"]


@pytest.mark.parametrize(
    ("protocol", "answer"),
    [("openai-chat", chat("y")), ("openai-responses", response("y")), ("anthropic", message("y"))],
)
async def test_what_comes_after_the_end_of_a_stream_is_not_waited_for(protocol, answer):
    whole = streamed(answer)
    for chunks in (whole.chunks, [*whole.chunks[:-1], whole.chunks[-1] + b"data: {no JSON\n\n"]):
        answer = whole.but(chunks=chunks)
        most = sum(map(len, answer.wire())) - len(LAST_CHUNK)
        with FakeEndpoint(answer.but(send_bytes=most, then="stall")) as endpoint:
            async with Opened(endpoint, protocols=(protocol,), max_retries=0) as opened:
                with trio.fail_after(10):
                    assert (await opened.say()).message.text == "y"


# --- limits


async def test_exactly_max_connections_calls_run_at_once():
    gate = threading.Event()
    with FakeEndpoint(chat("x").but(gate=gate)) as endpoint:
        async with Opened(endpoint, max_connections=5) as opened, trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(opened.say)
            await trio.to_thread.run_sync(endpoint.wait_for_requests, 5)
            gate.set()
        assert endpoint.peak_in_flight == endpoint.n_connections == 5
        assert len(endpoint.requests) == 20


async def test_a_call_that_waits_for_its_next_try_holds_no_place():
    def fail_one(seen):
        return error(503, headers={"retry-after": "5"}) if b"unlucky" in seen.body else chat("x")

    with FakeEndpoint(fail_one) as endpoint:
        async with Opened(endpoint, max_connections=1) as opened, trio.open_nursery() as nursery:
            nursery.start_soon(opened.say, "unlucky")
            await trio.to_thread.run_sync(endpoint.wait_for_requests, 1)
            with trio.fail_after(3):
                await opened.say("lucky")
            nursery.cancel_scope.cancel()


async def test_cancelled_calls_leave_all_places_free():
    with FakeEndpoint([no_answer("stall")] * 4 + [chat("x")]) as endpoint:
        async with Opened(endpoint, max_connections=4) as opened:
            async with trio.open_nursery() as nursery:
                for _ in range(10):
                    nursery.start_soon(opened.say)
                await trio.to_thread.run_sync(endpoint.wait_for_requests, 4)
                nursery.cancel_scope.cancel()
            async with trio.open_nursery() as nursery:
                for _ in range(4):
                    nursery.start_soon(opened.say)


# --- metering


async def test_usage_and_cost_are_summed_over_calls():
    with FakeEndpoint(chat("x")) as endpoint:
        async with Opened(endpoint) as opened:
            reply = await opened.say()
            await opened.say()
            usage = opened.model.usage
            assert opened.client.lend(opened.retries.append).usage == Usage()
    assert reply.usage == Usage(
        calls=1, input_tokens=12, output_tokens=3, cost_usd=pytest.approx(42e-6)
    )
    assert usage == Usage(calls=2, input_tokens=24, output_tokens=6, cost_usd=pytest.approx(84e-6))


async def test_a_model_without_a_price_has_no_known_cost():
    with FakeEndpoint(chat("x")) as endpoint:
        async with Opened(endpoint, prices={}) as opened:
            assert opened.model.usage.cost_usd == 0.0
            await opened.say()
            assert opened.model.usage.cost_usd is None


@pytest.mark.parametrize(
    "reaction", [chat("x", usage=None), stream("x", usage=None)], ids=["whole", "streamed"]
)
async def test_an_answer_without_usage_is_unmetered(reaction):
    with FakeEndpoint(reaction) as endpoint:
        async with Opened(endpoint) as opened:
            await opened.say()
            assert opened.model.usage == Usage(calls=1, unmetered_calls=1, cost_usd=None)


async def test_an_answer_that_is_paid_for_but_useless_counts():
    paid = {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3}}
    with FakeEndpoint([json_answer(paid), chat("x")]) as endpoint:
        async with Opened(endpoint) as opened:
            reply = await opened.say()
            assert reply.usage.calls == 1
            assert (opened.model.usage.calls, opened.model.usage.total_tokens) == (2, 30)
            assert opened.model.replies == 1


async def test_an_answer_that_breaks_counts_as_far_as_it_told():
    usage = {"prompt_tokens": 12, "completion_tokens": 3}
    begun = events([{"choices": [{"delta": {"content": "x"}}], "usage": usage}], done=False)
    with FakeEndpoint([begun, text("{"), chat("x")]) as endpoint:
        async with Opened(endpoint) as opened:
            await opened.say()
            used = opened.model.usage
    assert (used.calls, used.unmetered_calls, used.total_tokens) == (3, 1, 30)


async def test_errors_are_not_answers():
    with FakeEndpoint([error(500), rate_limited(), chat("x")]) as endpoint:
        async with Opened(endpoint) as opened:
            await opened.say()
            assert opened.model.replies == opened.model.usage.calls == 1


async def test_a_call_given_up_while_the_endpoint_works_is_unmetered():
    with FakeEndpoint(no_answer("stall")) as endpoint:
        async with Opened(endpoint) as opened:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(opened.say)
                await trio.to_thread.run_sync(endpoint.wait_for_requests, 1)
                nursery.cancel_scope.cancel()
            assert opened.model.usage == Usage(calls=1, unmetered_calls=1, cost_usd=None)
            assert opened.model.replies == 0


# --- revoking


async def test_a_revoked_model_refuses_without_a_request():
    with FakeEndpoint(echo) as endpoint:
        async with Opened(endpoint) as opened:
            await opened.say()
            opened.model.revoke()
            opened.model.revoke()
            failed = await opened.fail()
            assert opened.model.replies == 1
            assert (await opened.client.lend(opened.retries.append).chat(HI)).message.text == "hi"
    assert (failed.code, failed.retryable) == ("model-revoked", False)
    assert len(endpoint.requests) == 2


async def test_revoking_ends_calls_in_flight_and_only_those_of_its_attempt():
    gate = threading.Event()
    with FakeEndpoint(chat("x").but(gate=gate)) as endpoint:
        async with Opened(endpoint) as opened:
            other, outcomes = opened.client.lend(opened.retries.append), []

            async def ask(model, name):
                try:
                    await model.chat(HI)
                    outcomes.append(name)
                except ModelError as failed:
                    outcomes.append(failed.code)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, opened.model, "mine")
                nursery.start_soon(ask, opened.model, "mine")
                nursery.start_soon(ask, other, "other")
                await trio.to_thread.run_sync(endpoint.wait_for_requests, 3)
                opened.model.revoke()
                while len(outcomes) < 2:
                    await trio.sleep(0.01)
                gate.set()
            assert outcomes == ["model-revoked", "model-revoked", "other"]


async def test_revoking_ends_a_wait_for_the_next_try():
    with FakeEndpoint(rate_limited("20")) as endpoint:
        async with Opened(endpoint) as opened:

            async def revoke_when_told():
                while not opened.retries:
                    await trio.sleep(0.005)
                opened.model.revoke()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(revoke_when_told)
                failed = await opened.fail()
    assert failed.code == "model-revoked"


async def test_revoking_a_cancelled_call_does_not_hide_the_cancellation():
    with FakeEndpoint(no_answer("stall")) as endpoint:
        async with Opened(endpoint) as opened:
            ended_by = []

            async def ask():
                try:
                    await opened.say()
                except BaseException as error:
                    ended_by.append(type(error))
                    raise

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await trio.to_thread.run_sync(endpoint.wait_for_requests, 1)
                nursery.cancel_scope.cancel()
                opened.model.revoke()
            assert ended_by == [trio.Cancelled]


# --- closing


async def test_closing_leaves_no_connection():
    with FakeEndpoint(echo) as endpoint:
        async with Opened(endpoint) as opened:
            await opened.say()
        await trio.to_thread.run_sync(endpoint.wait_for_open_connections, 0)


async def test_bad_days_in_random_order_lose_nothing():
    """Many calls over every temporary fault: each ends in a reply, and usage adds up."""
    chance = random.Random(7)
    faults = [reaction for reaction, _ in TEMPORARY.values()]

    def sometimes(_seen):
        return chance.choice(faults) if chance.random() < 0.3 else chat("ok")

    with FakeEndpoint(sometimes) as endpoint:
        async with Opened(endpoint, max_retries=50, max_connections=16) as opened:
            replies = []

            async def ask():
                for _ in range(10):
                    try:
                        replies.append((await opened.say()).message.text)
                    except ModelError as failed:
                        assert failed.code == "malformed-response"  # noqa: PT017
                        replies.append("ok")

            async with trio.open_nursery() as nursery:
                for _ in range(16):
                    nursery.start_soon(ask)
            assert replies == ["ok"] * 160
            assert opened.model.replies <= opened.model.usage.calls <= len(endpoint.requests)


def test_importing_the_package_does_not_load_the_http_library():
    import subprocess
    import sys

    code = (
        "import sys, agentcompass.components.models, agentcompass.components.models.protocols as p; "
        "print(json.dumps([n for n in ('httpx', 'httpcore') if n in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", "import json; " + code], capture_output=True, check=True, timeout=60
    )
    assert json.loads(done.stdout) == []


# --- limits that several have in common


def taken_while(seconds):
    """Behaviour: takes one request in so many seconds, and refuses the others at once."""
    last = [0.0]

    def behave(_seen):
        now = time.monotonic()
        if now - last[0] < seconds:
            return rate_limited(None)
        last[0] = now
        return chat("taken")

    return behave


async def test_refusals_while_others_are_taken_do_not_use_up_the_retries_of_a_call():
    with FakeEndpoint(taken_while(0.005)) as endpoint:
        async with Opened(endpoint, max_retries=4) as opened, trio.open_nursery() as nursery:
            for _ in range(32):
                nursery.start_soon(opened.say)
        assert opened.model.replies == 32
        assert len(endpoint.requests) > 64


async def test_without_retries_a_refusal_ends_the_call_also_in_a_crowd():
    gate = threading.Event()

    def one_of(seen):
        return chat("x").but(gate=gate) if seen.number == 0 else rate_limited("0")

    with FakeEndpoint(one_of) as endpoint:
        async with Opened(endpoint, max_retries=0) as opened, trio.open_nursery() as nursery:
            nursery.start_soon(opened.say)
            await trio.to_thread.run_sync(endpoint.wait_for_requests, 1)
            failed = await opened.fail()
            gate.set()
    assert failed.code == "rate-limited"
    assert len(endpoint.requests) == 2


async def test_clients_of_one_endpoint_and_key_pause_together():
    endpoints = Endpoints()
    with FakeEndpoint(rate_limited("1000")) as endpoint:
        async with Opened(endpoint, endpoints=endpoints) as harness:
            await harness.fail()
            async with Opened(endpoint, endpoints=endpoints, id="judge") as judge:
                failed = await judge.fail()
            async with Opened(endpoint, endpoints=endpoints, api_key=Secret("other-key")) as other:
                await other.fail()
    assert "asked all callers to wait for 1000 s" in failed.message
    assert len(endpoint.requests) == 2


async def test_an_overloaded_endpoint_pauses_no_one_else():
    def fail_one(seen):
        return error(529, headers={"retry-after": "1000"}) if b"unlucky" in seen.body else chat("x")

    with FakeEndpoint(fail_one) as endpoint:
        async with Opened(endpoint) as opened:
            failed = await opened.fail(words="unlucky")
            await opened.say("lucky")
    assert failed.code == "overloaded"


NOTHING_LEFT = {
    "openai": {
        "x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "1m0s",
    },
    "anthropic": {
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "2999-01-01T00:00:00Z",
    },
}  # fmt: skip


@pytest.mark.parametrize("dialect", NOTHING_LEFT)
async def test_an_answer_that_says_nothing_is_left_pauses_everybody_before_a_refusal(dialect):
    answer = json_answer(chat("x").json, headers=NOTHING_LEFT[dialect])
    with FakeEndpoint(answer) as endpoint:
        async with Opened(endpoint, timeout_seconds=0.5) as opened:
            await opened.say()
            failed = await opened.fail()
    assert failed.code == "rate-limited"
    assert len(endpoint.requests) == 1


class Clock:
    """An account that notes when the attempt's clock stands still."""

    def __init__(self):
        self.told = []

    def check(self):
        pass

    def charge(self, usage):
        pass

    def hold(self, is_held):
        self.told.append(is_held)


async def test_the_attempts_clock_stands_still_while_a_call_waits_for_its_place_or_another_try():
    clock = Clock()
    with FakeEndpoint([chat("x"), error(500), rate_limited("0.01"), chat("y")]) as endpoint:
        async with Opened(endpoint, rpm=6000) as opened:
            model = opened.client.lend(opened.retries.append, clock)
            await model.chat(HI)
            assert clock.told == []
            await model.chat(HI)
    assert clock.told[:2] == [True, False]
    assert clock.told == [True, False] * (len(clock.told) // 2)
    assert len(clock.told) >= 4


async def test_the_attempts_clock_runs_while_one_of_its_calls_is_at_work():
    clock, gate = Clock(), threading.Event()
    with FakeEndpoint(chat("x").but(gate=gate)) as endpoint:
        async with Opened(endpoint, max_connections=1) as opened, trio.open_nursery() as nursery:
            model = opened.client.lend(opened.retries.append, clock)
            nursery.start_soon(model.chat, HI)
            await trio.to_thread.run_sync(endpoint.wait_for_requests, 1)
            nursery.start_soon(model.chat, HI)
            await trio.testing.wait_all_tasks_blocked()
            assert clock.told == []
            gate.set()


async def test_a_cancelled_wait_lets_the_attempts_clock_go_on():
    clock = Clock()
    with FakeEndpoint(rate_limited("20")) as endpoint:
        async with Opened(endpoint) as opened:
            model = opened.client.lend(opened.retries.append, clock)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(model.chat, HI)
                while not opened.retries:
                    await trio.sleep(0.005)
                assert clock.told == [True]
                nursery.cancel_scope.cancel()
    assert clock.told == [True, False]


async def test_requests_per_minute_hold_calls_back():
    with FakeEndpoint(echo) as endpoint:
        async with Opened(endpoint, rpm=600) as opened, trio.open_nursery() as nursery:
            started = trio.current_time()
            for _ in range(6):
                nursery.start_soon(opened.say)
    assert trio.current_time() - started >= 0.35
    assert len(endpoint.requests) == 6


async def test_tokens_per_minute_count_what_calls_really_used():
    usage = {"prompt_tokens": 1000, "completion_tokens": 0}
    with FakeEndpoint(chat("x", usage=usage)) as endpoint:
        async with Opened(endpoint, tpm=600_000) as opened:
            started = trio.current_time()
            for _ in range(6):
                await opened.say()
            assert trio.current_time() - started >= 0.2


async def test_a_call_that_waits_for_a_rate_can_be_revoked():
    with FakeEndpoint(echo) as endpoint:
        async with Opened(endpoint, rpm=1) as opened:
            await opened.say()
            async with trio.open_nursery() as nursery:

                async def ask():
                    assert (await opened.fail()).code == "model-revoked"

                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                opened.model.revoke()
    assert len(endpoint.requests) == 1
