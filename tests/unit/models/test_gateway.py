"""The gateway: what a program gets that calls the model by itself, and what it cannot get."""

import functools
import threading

import httpx
import pytest
import trio

from agentcompass.components.base import GATEWAY_CONNECTIONS
from agentcompass.components.models.calls import Ending
from agentcompass.components.models.gateway import service
from agentcompass.errors import ModelError, PreflightError
from agentcompass.testing import (
    FakeEndpoint,
    anthropic_error,
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
    response,
    stream,
    streamed,
    text,
    typed_events,
)
from support.gateways import OPERATIONS, Door, serving
from support.opened import KEY, RETRIES, Opened

ANSWERS = {
    "openai-chat": chat("hello", tool_calls=[("bash", "{}")]),
    "openai-completions": completion("hello"),
    "openai-responses": response("hello", tool_calls=[("bash", "{}")]),
    "anthropic": message("hello", tool_calls=[("bash", {})], thinking="hm"),
}


# --- what goes through


@pytest.mark.parametrize("protocol", ANSWERS)
async def test_an_answer_comes_through_as_the_endpoint_gave_it(protocol):
    answer = ANSWERS[protocol]
    with FakeEndpoint(answer) as endpoint:
        async with serving(endpoint, protocol) as served:
            got = await served.ask()
            assert (got.status_code, got.content) == (200, answer.body)
            assert got.headers["content-type"] == "application/json"
            assert (served.model.usage.input_tokens, served.model.usage.output_tokens) == (12, 3)
            assert (served.model.asked, served.model.replies) == (1, 1)
    (call,) = served.calls
    assert (call.reply.message.text, call.reply.usage.total_tokens) == ("hello", 15)


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses", "anthropic"])
async def test_a_stream_comes_through_as_the_endpoint_gave_it(protocol):
    answer = streamed(ANSWERS[protocol])
    with FakeEndpoint(answer) as endpoint:
        async with serving(endpoint, protocol) as served:
            got = await served.ask(stream=True, stream_options={"include_usage": True})
            assert (got.status_code, got.content) == (200, b"".join(answer.chunks))
            assert got.headers["content-type"] == "text/event-stream"
            assert (served.model.usage.input_tokens, served.model.usage.output_tokens) == (12, 3)
            assert served.model.usage.unmetered_calls == 0
    (call,) = served.calls
    assert [one.name for one in call.reply.message.tool_calls] == ["bash"]


async def test_a_piece_of_a_stream_is_there_before_the_next_is_sent():
    whole = streamed(message("hello"))
    begun = sum(map(len, whole.wire()[:4]))
    with FakeEndpoint(whole.but(send_bytes=begun, then="stall")) as endpoint:
        async with serving(endpoint, "anthropic") as served, served.streaming() as answer:
            got = b""
            while whole.chunks[2] not in got:  # all that the endpoint has sent so far
                got += await answer.receive_some()


async def test_the_endpoint_is_asked_with_the_run_s_key_model_and_parameters():
    with FakeEndpoint(echo) as endpoint:
        async with serving(endpoint, params={"temperature": 0, "max_tokens": 7}) as served:
            await served.ask(model="another", temperature=1, top_p=0.5)
    (seen,) = endpoint.requests
    assert seen.target == "/v1/chat/completions"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.json == {
        "model": "org/model",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0,
        "max_tokens": 7,
        "top_p": 0.5,
    }


async def test_whether_an_answer_is_streamed_is_the_program_s_to_say():
    with FakeEndpoint(echo) as endpoint:
        async with serving(endpoint, params={"stream": True}) as served:
            assert (await served.ask()).json()["choices"][0]["message"]["content"] == "hi"
    assert "stream" not in endpoint.requests[0].json


async def test_of_a_program_s_headers_only_those_go_on_that_say_how_it_speaks():
    sent = {
        "anthropic-beta": "a,b",
        "anthropic-version": "2030-01-01",
        "user-agent": "its own",
        "x-stainless-lang": "js",
        "x-claude-code-session-id": "s",
        "openai-organization": "somebody else's",
        "cookie": "a=b",
        "x-forwarded-for": "1.2.3.4",
        "x-litellm-tags": "free",
        "accept-encoding": "gzip",
    }
    with FakeEndpoint(message()) as endpoint:
        async with serving(endpoint, "anthropic") as served:
            await served.ask(path="/v1/messages?beta=true&key=x", headers=sent)
    (seen,) = endpoint.requests
    assert seen.target == "/v1/messages?beta=true"
    kept = {name: seen.headers.get(name) for name in sent}
    assert kept == {
        **dict.fromkeys(sent),
        **{name: sent[name] for name in list(sent)[:5]},
        "accept-encoding": "identity",
    }
    assert seen.headers["x-api-key"] == KEY


async def test_of_the_endpoint_s_headers_none_goes_on_that_tells_of_the_account():
    told = {"request-id": "r", "anthropic-organization-id": "o", "set-cookie": "c=d"}
    with FakeEndpoint(message().but(headers={"content-type": "application/json", **told})) as end:
        async with serving(end, "anthropic") as served:
            got = await served.ask()
    assert set(got.headers) == {"content-type", "request-id", "content-length"}


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_the_base_url_may_be_written_with_and_without_the_version(prefix):
    with FakeEndpoint(chat()) as endpoint:
        async with serving(endpoint) as served:
            assert (await served.ask(path=f"{prefix}/chat/completions")).status_code == 200


# --- usage in streams


async def test_usage_that_a_program_did_not_ask_for_is_counted_and_not_shown():
    with FakeEndpoint(stream("hel", "lo")) as endpoint:
        async with serving(endpoint) as served:
            got = await served.ask(stream=True)
            assert served.model.usage.total_tokens == 15
    assert endpoint.requests[0].json["stream_options"] == {"include_usage": True}
    assert b'"prompt_tokens"' not in got.content
    assert got.content.endswith(b"data: [DONE]\n\n")
    assert got.content.count(b"data: {") == 4


async def test_usage_that_a_program_asked_for_is_shown():
    with FakeEndpoint(stream("hel", "lo")) as endpoint:
        async with serving(endpoint) as served:
            got = await served.ask(stream=True, stream_options={"include_usage": True})
    assert got.content.count(b'"prompt_tokens"') == 1


# --- who may ask


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer nonsense"},
        {"x-api-key": "nonsense"},
        {"authorization": "Basic {key}"},
        {"authorization": "{key}"},
        {"x-api-key": f"{KEY}"},
        {"x-api-key": "\xfc\xfc"},
    ],
    ids=["none", "bearer", "x-api-key", "basic", "bare", "the real one", "no ascii"],
)
@pytest.mark.parametrize("target", ["POST /v1/messages", "HEAD /", "GET /v1/models", "GET /x"])
async def test_nobody_gets_anything_without_the_key(headers, target):
    method, path = target.split()
    with FakeEndpoint(message()) as endpoint:
        async with serving(endpoint, "anthropic") as served:
            own = {name: value.format(key=served.gateway.key) for name, value in headers.items()}
            served.http.headers.clear()
            got = await served.http.request(
                method, path, headers=[(n, v.encode("latin-1")) for n, v in own.items()]
            )
    assert got.status_code == 401
    assert method == "HEAD" or got.json()["error"]["type"] == "authentication_error"
    assert endpoint.requests == ()


async def test_each_attempt_has_a_key_of_its_own():
    with FakeEndpoint(chat()) as endpoint:
        async with serving(endpoint) as one, serving(endpoint) as other:
            assert (await one.ask()).status_code == 200
            one.http.headers["authorization"] = f"Bearer {other.gateway.key}"
            assert (await one.ask()).status_code == 401


@pytest.mark.parametrize("name", ["x-api-key", "authorization"])
async def test_both_ways_to_send_a_key_work(name):
    with FakeEndpoint(chat()) as endpoint:
        async with serving(endpoint) as served:
            served.http.headers.clear()
            key = served.gateway.key
            value = key if name == "x-api-key" else f"bearer {key}"
            assert (await served.ask(headers={name: value})).status_code == 200


async def test_a_key_that_an_endpoint_repeats_does_not_reach_the_program():
    refused = pytest.raises(ModelError, match="Incorrect API key")
    with FakeEndpoint(echo_key) as endpoint, refused as caught:
        async with serving(endpoint) as served:
            with trio.CancelScope(shield=True):
                got = await served.ask()
            await trio.sleep_forever()  # until the block is cancelled
    assert (got.status_code, "Incorrect API key" in got.text) == (401, True)
    assert KEY not in got.text + str(caught.value)


# --- what else can be asked


async def test_head_says_that_something_is_there():
    with FakeEndpoint(chat()) as endpoint:
        async with serving(endpoint) as served:
            got = await served.http.head("/")
    assert (got.status_code, got.content, endpoint.requests) == (200, b"", ())


@pytest.mark.parametrize("protocol", ["openai-chat", "anthropic"])
async def test_there_is_one_model(protocol):
    with FakeEndpoint(chat()) as endpoint:
        async with serving(endpoint, protocol) as served:
            listed = (await served.http.get("/v1/models")).json()
            found = await served.http.get("/v1/models/org/model")
            missing = await served.http.get("/v1/models/other")
    assert [one["id"] for one in listed["data"]] == ["org/model"] == [found.json()["id"]]
    assert (missing.status_code, endpoint.requests) == (404, ())


async def test_tokens_are_counted_by_the_endpoint_and_no_model_call():
    with FakeEndpoint(json_answer({"input_tokens": 77})) as endpoint:
        async with serving(endpoint, "anthropic") as served:
            got = await served.ask(path="/v1/messages/count_tokens?beta=true")
            assert got.json() == {"input_tokens": 77}
            assert (served.model.asked, served.model.replies, served.model.usage.calls) == (0, 0, 0)
    assert endpoint.requests[0].target == "/v1/messages/count_tokens?beta=true"
    assert endpoint.requests[0].json["model"] == "org/model"
    assert served.calls == []


async def test_an_endpoint_that_cannot_count_tokens_ends_nothing():
    behaviour = lambda seen: error(404, "no") if "count" in seen.target else message()  # noqa: E731
    with FakeEndpoint(behaviour) as endpoint:
        async with serving(endpoint, "anthropic") as served:
            got = await served.ask(path="/v1/messages/count_tokens")
            assert (got.status_code, got.json()["type"]) == (404, "error")
            assert (await served.ask()).status_code == 200


@pytest.mark.parametrize("protocol", OPERATIONS)
async def test_a_call_of_another_protocol_is_refused_with_the_name_of_the_right_one(protocol):
    other = "anthropic" if protocol != "anthropic" else "openai-chat"
    with FakeEndpoint(chat()) as endpoint:
        async with serving(endpoint, protocol) as served:
            got = await served.ask(path=OPERATIONS[other])
    assert got.status_code == 404
    assert f"protocol {protocol} here" in got.json()["error"]["message"]
    assert endpoint.requests == ()


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", "/v1/embeddings", b"{}", {}, 404),
        ("PUT", "/v1/chat/completions", b"{}", {}, 405),
        ("POST", "/v1/chat/completions", b"{", {}, 400),
        ("POST", "/v1/chat/completions", b"[]", {}, 400),
        ("POST", "/v1/chat/completions", b'{"temperature": NaN}', {}, 400),
        ("POST", "/v1/chat/completions", b"x", {"content-encoding": "zstd"}, 415),
    ],
)
async def test_what_cannot_be_answered_is_refused_in_the_protocol_s_form(
    method, path, body, headers, status
):
    with FakeEndpoint(chat()) as endpoint:
        async with serving(endpoint) as served:
            got = await served.http.request(method, path, content=body, headers=headers)
    assert got.status_code == status
    assert set(got.json()["error"]) == {"message", "type", "param", "code"}
    assert endpoint.requests == ()


# --- when the endpoint fails


async def test_failures_are_tried_again_as_long_as_nothing_has_been_handed_on():
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}
    reactions = [
        rate_limited(),
        no_answer("reset"),
        typed_events([overloaded]),
        streamed(message("hello")),
    ]
    with FakeEndpoint(reactions) as endpoint:
        async with serving(endpoint, "anthropic") as served:
            got = await served.ask(stream=True)
            assert (got.status_code, got.content) == (200, b"".join(reactions[-1].chunks))
            assert {retry.code for retry in served.retries} == {"rate-limited", "overloaded"}
    assert len(endpoint.requests) == 4
    assert len(served.calls) == 1


async def test_a_stream_that_breaks_off_is_cut_and_not_tried_again():
    whole = streamed(message("hello"))
    begun = sum(map(len, whole.wire()[:4]))
    with FakeEndpoint(whole.but(send_bytes=begun, then="reset")) as endpoint:
        async with serving(endpoint, "anthropic") as served:
            with pytest.raises(Exception, match="incomplete chunked read"):
                await served.ask(stream=True)
            assert served.model.usage.unmetered_calls == 1
            assert served.calls[0].error.code == "connection-failed"
            assert (served.model.asked, served.model.replies) == (1, 0)
    assert len(endpoint.requests) == 1


async def test_an_error_in_the_middle_of_a_stream_is_the_program_s_to_understand():
    whole = streamed(message("hello"))
    failed = (
        b'event: error\ndata: {"type": "error", "error": {"type": "api_error", "message": "x"}}\n\n'
    )
    broken = whole.but(chunks=[*whole.chunks[:3], failed])
    with FakeEndpoint(broken) as endpoint:
        async with serving(endpoint, "anthropic") as served:
            got = await served.ask(stream=True)
            assert got.content == b"".join(broken.chunks)
            assert served.calls[0].error.code == "server-error"
    assert len(endpoint.requests) == 1


async def test_what_only_the_program_can_read_goes_on():
    odd = events([{"choices": [{"delta": {"content": "hel"}}]}, {"choices": "what?"}])
    with FakeEndpoint(odd) as endpoint:
        async with serving(endpoint) as served:
            got = await served.ask(stream=True)
            assert got.content == b"".join(odd.chunks)
    (call,) = served.calls
    assert (call.reply, call.error) == (None, None) or call.error.code == "malformed-response"


@pytest.mark.parametrize(
    ("protocol", "reaction"),
    [
        (
            "anthropic",
            anthropic_error(400, "prompt is too long: 9 > 8", type="invalid_request_error"),
        ),
        ("openai-responses", error(400, "too long", code="context_length_exceeded")),
        ("openai-chat", error(400, "no such parameter", code="unknown_parameter")),
    ],
)
async def test_errors_that_a_program_may_deal_with_reach_it_as_they_are(protocol, reaction):
    with FakeEndpoint([reaction, ANSWERS[protocol]]) as endpoint:
        async with serving(endpoint, protocol) as served:
            got = await served.ask()
            assert (got.status_code, got.json()) == (400, reaction.json)
            assert got.headers["x-should-retry"] == "false"
            assert (await served.ask()).status_code == 200
    assert [call.error is None for call in served.calls] == [False, True]


@pytest.mark.parametrize(
    ("reaction", "code", "status", "tries"),
    [
        (error(500, "it broke"), "server-error", 500, RETRIES + 1),
        (error(401, "who?"), "unauthorized", 401, 1),
        (error(404, "The model `x` does not exist."), "model-not-found", 404, 1),
        (text("<html>", status=404), "endpoint-not-found", 404, 1),
        (no_answer("close"), "connection-failed", 502, RETRIES + 1),
        (text("no json"), "malformed-response", 502, 3),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
async def test_a_failure_that_every_call_would_meet_ends_the_block(reaction, code, status, tries):
    with FakeEndpoint(reaction) as endpoint, pytest.raises(ModelError) as caught:
        async with serving(endpoint) as served:
            with trio.CancelScope(shield=True):
                got = await served.ask()
            await trio.sleep_forever()  # until the block is cancelled
    assert caught.value.code == code
    assert (got.status_code, got.headers["x-should-retry"]) == (status, "false")
    assert got.json()["error"]["message"]
    assert len(endpoint.requests) == tries


async def test_an_error_that_is_no_error_of_the_protocol_gets_its_form():
    with FakeEndpoint(error(422, "not so", code="odd")) as endpoint:
        async with serving(endpoint, "anthropic") as served:
            got = await served.ask()
    assert got.status_code == 422
    told = got.json()
    assert (told["type"], told["error"]["type"]) == ("error", "invalid_request_error")
    assert "not so" in told["error"]["message"]


# --- the end


async def test_the_key_dies_at_the_deadline_and_what_is_not_answered_is_refused():
    gate = threading.Event()
    with FakeEndpoint(lambda _seen: chat().but(gate=gate)) as endpoint:
        with trio.CancelScope() as attempt:
            async with serving(endpoint) as served:
                attempt.deadline = trio.current_time()
                try:
                    await trio.sleep_forever()
                finally:
                    # as a program that is being ended, and asks once more
                    with trio.CancelScope(shield=True):
                        statuses = [(await served.ask()).status_code for _ in range(2)]
        gate.set()
    assert statuses == [401, 401]
    assert endpoint.requests == ()


async def test_a_call_in_flight_at_the_deadline_is_refused_and_given_up():
    gate, statuses = threading.Event(), []
    with FakeEndpoint(lambda _seen: chat().but(gate=gate)) as endpoint:

        async def program(served):
            with trio.CancelScope(shield=True):
                statuses.extend([(await served.ask()).status_code for _ in range(2)])

        with trio.CancelScope() as attempt:
            async with serving(endpoint) as served, trio.open_nursery() as nursery:
                nursery.start_soon(program, served)
                await trio.to_thread.run_sync(endpoint.wait_for_requests, 1)
                attempt.deadline = trio.current_time()
        gate.set()
        await trio.to_thread.run_sync(lambda: endpoint.wait_for_open_connections(0))
    assert statuses == [401, 401]
    assert served.model.usage.unmetered_calls == 1  # the endpoint was at work


async def test_a_stream_in_flight_is_cut_when_the_model_is_revoked():
    whole = streamed(message("hello"))
    begun = sum(map(len, whole.wire()[:4]))
    with FakeEndpoint(whole.but(send_bytes=begun, then="stall")) as endpoint:
        async with serving(endpoint, "anthropic") as served:
            async with served.streaming() as answer:
                got = b""
                while whole.chunks[2] not in got:
                    got += await answer.receive_some()
                served.model.revoke()
                assert await answer.receive_some() == b""
            assert (await served.ask()).status_code == 401


async def test_nothing_listens_after_the_block():
    with FakeEndpoint(chat()) as endpoint:
        async with serving(endpoint) as served:
            pass
        with pytest.raises(OSError, match="failed"):
            await served.connect()


async def test_leaving_the_block_closes_what_is_open():
    gate = threading.Event()
    with FakeEndpoint(lambda _seen: chat().but(gate=gate)) as endpoint:
        async with trio.open_nursery() as nursery:
            ended = []

            async def program(served):
                try:
                    await served.ask()
                except Exception as error:
                    ended.append(error)
                else:
                    ended.append(None)

            async with serving(endpoint) as served:
                nursery.start_soon(program, served)
                await trio.to_thread.run_sync(endpoint.wait_for_requests, 1)
        gate.set()
    assert len(ended) == 1


async def test_a_program_that_goes_away_ends_its_call():
    gate = threading.Event()
    with FakeEndpoint(lambda _seen: streamed(message()).but(gate=gate)) as endpoint:
        async with serving(endpoint, "anthropic") as served:
            async with served.streaming() as answer:
                await trio.to_thread.run_sync(endpoint.wait_for_requests, 1)
                answer.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1" + 7 * b"\0")
            with trio.fail_after(10):
                while served.gateway.in_flight:
                    await trio.sleep(0.01)
            assert served.model.usage.unmetered_calls == 1
        gate.set()


async def test_an_error_of_the_block_comes_out_as_itself():
    with FakeEndpoint(chat()) as endpoint, pytest.raises(ZeroDivisionError):
        async with serving(endpoint):
            raise ZeroDivisionError


# --- how much


async def test_calls_beyond_the_limit_end_the_block():
    with FakeEndpoint(chat()) as endpoint:
        async with serving(endpoint, max_calls=2) as served:
            assert [(await served.ask()).status_code for _ in range(2)] == [200, 200]
            assert not served.gateway.is_exhausted
            with trio.CancelScope(shield=True):
                assert (await served.ask()).status_code == 403
            await trio.sleep_forever()  # until the block is cancelled
    assert served.gateway.is_exhausted
    assert len(endpoint.requests) == 2


async def test_calls_at_once_do_not_get_beyond_the_limit():
    with FakeEndpoint(chat()) as endpoint:
        async with serving(endpoint, max_calls=1) as served:
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:
                    for _ in range(4):  # bodies that take a moment to be read
                        ask = functools.partial(served.ask, padding="x" * (service.MiB // 2))
                        nursery.start_soon(ask)
            await trio.sleep_forever()
    assert served.gateway.is_exhausted
    assert len(endpoint.requests) <= 1


async def test_calls_in_flight_are_answered_though_one_more_is_refused_meanwhile():
    gate = threading.Event()
    with FakeEndpoint(chat().but(gate=gate)) as endpoint:
        async with serving(endpoint, max_calls=2) as served:
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:
                    for _ in range(2):
                        nursery.start_soon(served.ask)
                    await trio.to_thread.run_sync(endpoint.wait_for_requests, 2)
                    assert (await served.ask()).status_code == 403
                    gate.set()
            await trio.sleep_forever()
    assert served.gateway.is_exhausted
    assert [call.error for call in served.calls] == [None, None]


async def test_calls_that_failed_are_not_among_them():
    with FakeEndpoint([error(400, "no"), chat()]) as endpoint:
        async with serving(endpoint, max_calls=1) as served:
            assert [(await served.ask()).status_code for _ in range(2)] == [400, 200]


async def test_what_an_attempt_may_spend_holds_for_its_programs():
    class Spent:
        def check(self):
            raise ModelError("spent", code="budget-spent", retryable=False)

        def charge(self, usage):
            pass

    with FakeEndpoint(chat()) as endpoint, pytest.raises(ModelError, match="spent"):
        async with serving(endpoint) as served:
            served.model._meter._account = Spent()
            with trio.CancelScope(shield=True):
                assert (await served.ask()).status_code == 403
            await trio.sleep_forever()
    assert endpoint.requests == ()


async def test_more_connections_than_places_all_get_their_turn():
    with FakeEndpoint(chat()) as endpoint:
        async with serving(endpoint) as served:
            idle = [await served.connect() for _ in range(40)]
            assert (await served.ask()).status_code == 200
            for each in idle:
                await each.aclose()


async def test_a_connection_that_becomes_idle_gives_up_its_place_to_one_that_waits():
    gate = threading.Event()
    with FakeEndpoint(chat().but(gate=gate)) as endpoint:
        async with serving(endpoint) as served:
            answered = []

            async def ask():
                answered.append((await served.ask()).status_code)

            async with trio.open_nursery() as nursery:
                for _ in range(GATEWAY_CONNECTIONS + 2):
                    nursery.start_soon(ask)
                await trio.to_thread.run_sync(endpoint.wait_for_requests, GATEWAY_CONNECTIONS)
                gate.set()
    assert answered == [200] * (GATEWAY_CONNECTIONS + 2)


async def test_no_request_is_lost_while_connections_come_faster_than_places():
    with FakeEndpoint(chat()) as endpoint:
        async with serving(endpoint) as served:
            answered = []

            async def ask():
                got = await served.ask(headers={"connection": "close"})
                answered.append(got.status_code)

            async with trio.open_nursery() as nursery:
                for _ in range(4 * GATEWAY_CONNECTIONS):
                    nursery.start_soon(ask)
    assert answered == [200] * (4 * GATEWAY_CONNECTIONS)


@pytest.mark.parametrize("value", [b"\xe9", b"caf\xc3\xa9"])
async def test_a_header_beyond_ascii_does_not_go_on_and_harms_nothing(value):
    with FakeEndpoint(chat()) as endpoint:
        async with serving(endpoint) as served:
            got = await served.ask(headers={b"user-agent": value})
            assert got.status_code == 200
    assert value not in endpoint.requests[0].headers.get("user-agent", "").encode("latin-1")


async def test_a_sandbox_cannot_fill_the_memory_of_this_process(monkeypatch):
    monkeypatch.setattr(service, "MAX_HELD_BYTES", 1000)
    gate = threading.Event()
    with FakeEndpoint(lambda _seen: chat().but(gate=gate)) as endpoint:
        async with serving(endpoint) as served, trio.open_nursery() as nursery:
            nursery.start_soon(functools.partial(served.ask, padding="x" * 600))
            await trio.to_thread.run_sync(endpoint.wait_for_requests, 1)
            refused = await served.ask(padding="x" * 600)
            assert (refused.status_code, refused.json()["error"]["type"]) == (503, "api_error")
            gate.set()
        async with serving(endpoint) as served:
            assert (await served.ask(padding="x" * 600)).status_code == 200


async def test_what_is_told_of_a_call_is_told_to_its_end():
    told = []

    async def slowly(call):
        await trio.sleep(0.2)
        told.append(call)

    with FakeEndpoint(chat()) as endpoint:
        async with Opened(endpoint) as opened, trio.open_nursery() as nursery:
            async with opened.model.serve(Door(), on_call=slowly) as gateway:
                headers = {"x-api-key": gateway.key}
                async with httpx.AsyncClient(base_url=gateway.url, headers=headers) as client:
                    ask = functools.partial(client.post, "/chat/completions", json={})
                    async with trio.open_nursery() as asking:
                        asking.start_soon(ask)
                        await trio.to_thread.run_sync(endpoint.wait_for_requests, 1)
                        with trio.fail_after(10):
                            while not opened.model.replies:
                                await trio.sleep(0.001)
                        asking.cancel_scope.cancel()
            nursery.cancel_scope.cancel()
    assert len(told) == 1


async def test_calls_are_kept_like_all_others():
    kept = []

    async def keep(ending):
        kept.append(ending)

    with FakeEndpoint([streamed(message("hello")), anthropic_error(400, "no")]) as endpoint:
        async with serving(endpoint, "anthropic") as served:
            served.model._caller.record = keep
            await served.ask(stream=True)
            await served.ask()
    assert [type(one) for one in kept] == [Ending, Ending]
    assert kept[0].payload["content"][0]["text"] == "hello"
    assert (kept[1].payload, kept[1].error.code) == (None, "bad-request")


# --- beforehand


@pytest.mark.parametrize("protocol", OPERATIONS)
async def test_an_endpoint_without_the_protocol_s_path_is_found_out_without_a_call(protocol):
    with FakeEndpoint(text("<html>", status=404)) as endpoint:
        async with Opened(endpoint, protocols=(protocol,)) as opened:
            with pytest.raises(PreflightError, match=f"does not speak {protocol}"):
                await opened.client.check_serving()
    assert all(seen.json == {} for seen in endpoint.requests)


@pytest.mark.parametrize(
    "reaction",
    [
        error(400, "no messages"),
        error(401, "who?"),
        error(500, "no"),
        no_answer("reset"),
        message(),
    ],
    ids=["refused", "no key", "broken", "reset", "answered"],
)
async def test_what_else_an_endpoint_says_beforehand_counts_for_nothing(reaction):
    with FakeEndpoint(reaction) as endpoint:
        async with Opened(endpoint, protocols=("anthropic",)) as opened:
            await opened.client.check_serving()
            assert (opened.model.asked, opened.model.usage.calls) == (0, 0)
