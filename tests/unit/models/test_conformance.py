"""The protocols that hold conversations, by the client and over HTTP: the same of each, streamed and in one piece."""

import json
import threading

import attrs
import pytest
import trio

from agentcompass.components.messages import Message, Tool
from agentcompass.components.models.anthropic import DEFAULT_MAX_TOKENS
from agentcompass.records import Usage
from agentcompass.testing import (
    FakeEndpoint,
    anthropic_error,
    chat,
    dialects,
    echo,
    echo_key,
    error,
    events,
    json_answer,
    message,
    response,
    streamed,
    typed_events,
)
from agentcompass.testing.dialects import thinking_block
from support.opened import KEY, QUICK, Opened

BASH = Tool(name="bash", description="runs", parameters={"type": "object"})
CALLS = [("bash", {"command": "ls"}), ("bash", {"command": "id"})]
TEXT_CALLS = [(name, json.dumps(arguments)) for name, arguments in CALLS]


@attrs.frozen(kw_only=True)
class Dialect:
    """What is particular to a protocol."""

    name: str
    target: str
    said_in: str
    """The field of the request that has the conversation."""
    hello: object
    calls: object
    thinks: object
    refuses: object
    cut: object
    cached: object
    """100 tokens of input, 60 of them cached, 20 written to the cache; 30 of output, 10 of them reasoning."""
    broken_stream: object
    """An error in the middle, as an endpoint that is overloaded sends it."""
    limited_stream: object
    failure: object
    """From a status and words to an error in the protocol's form."""

    def opened(self, endpoint, **options):
        return Opened(endpoint, protocols=(self.name,), **options)


def begun(answer, *, keep):
    """The first events of a stream."""
    whole = streamed(answer)
    return whole.but(chunks=whole.chunks[:keep])


def then(reaction, *payloads):
    return reaction.but(chunks=[*reaction.chunks, *typed_events(payloads).chunks])


CHAT = Dialect(
    name="openai-chat",
    target="/v1/chat/completions",
    said_in="messages",
    hello=chat("hello"),
    calls=chat(None, tool_calls=TEXT_CALLS),
    thinks=chat(None, tool_calls=TEXT_CALLS, reasoning="hm"),
    refuses=json_answer(
        dialects.choices(
            "chat.completion",
            {
                "message": {"role": "assistant", "content": None, "refusal": "No."},
                "finish_reason": "stop",
            },
            dialects.USAGE,
        )
    ),
    cut=chat("hel", finish_reason="length"),
    cached=chat(
        "x",
        usage={
            "prompt_tokens": 100,
            "completion_tokens": 30,
            "total_tokens": 130,
            "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 20},
            "completion_tokens_details": {"reasoning_tokens": 10},
        },
    ),
    broken_stream=events(
        [dialects.chunk({"content": "he"}), {"error": {"message": "x", "type": "server_error"}}]
    ),
    limited_stream=events([{"error": {"message": "x", "code": "rate_limit_exceeded"}}]),
    failure=lambda status, words="x", **more: error(status, words, **more),
)

RESPONSES = Dialect(
    name="openai-responses",
    target="/v1/responses",
    said_in="input",
    hello=response("hello"),
    calls=response("", tool_calls=TEXT_CALLS),
    thinks=response("", tool_calls=TEXT_CALLS, reasoning="hm"),
    refuses=json_answer(dialects.response([dialects.output_refusal("No.")])),
    cut=response("hel", status="incomplete", reason="max_output_tokens"),
    cached=response(
        "x",
        usage={
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 20},
            "output_tokens": 30,
            "output_tokens_details": {"reasoning_tokens": 10},
            "total_tokens": 130,
        },
    ),
    broken_stream=then(
        begun(response("hello"), keep=4),
        {
            "type": "response.failed",
            "response": dialects.response(
                (), status="failed", error={"code": "server_error", "message": "x"}, usage=None
            ),
        },
    ),
    limited_stream=then(
        begun(response("hello"), keep=1),
        {"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded"}},
    ),
    failure=lambda status, words="x", **more: error(status, words, **more),
)

ANTHROPIC = Dialect(
    name="anthropic",
    target="/v1/messages",
    said_in="messages",
    hello=message("hello"),
    calls=message("", tool_calls=CALLS),
    thinks=message("", tool_calls=CALLS, thinking="hm"),
    refuses=message("No.", stop_reason="refusal"),
    cut=message("hel", stop_reason="max_tokens"),
    cached=message(
        "x",
        usage={
            "input_tokens": 20,
            "cache_read_input_tokens": 60,
            "cache_creation_input_tokens": 20,
            "output_tokens": 30,
            "output_tokens_details": {"thinking_tokens": 10},
        },
    ),
    broken_stream=then(
        begun(message("hello"), keep=4),
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
    ),
    limited_stream=then(
        begun(message("hello"), keep=1),
        {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}},
    ),
    failure=lambda status, words="x", **more: anthropic_error(status, words, **more),
)

DIALECTS = pytest.mark.parametrize(
    "dialect", [CHAT, RESPONSES, ANTHROPIC], ids=lambda dialect: dialect.name
)
FORMS = pytest.mark.parametrize("form", [lambda whole: whole, streamed], ids=["whole", "streamed"])


async def ask(dialect, *reactions, messages=None, **options):
    """One call, its reply, and what came of it."""
    with FakeEndpoint(list(reactions)) as endpoint:
        async with dialect.opened(endpoint, **options) as opened:
            told = messages or [Message(role="user", content="hi")]
            reply = await opened.model.chat(told, tools=[BASH])
            return reply, opened, endpoint.requests


# --- requests


@DIALECTS
async def test_a_request_goes_to_its_place_with_its_headers(dialect):
    _, _, (seen,) = await ask(dialect, dialect.hello)
    assert (seen.method, seen.target) == ("POST", dialect.target)
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert ("x-api-key" in seen.headers) == (dialect is ANTHROPIC)
    assert ("anthropic-version" in seen.headers) == (dialect is ANTHROPIC)
    assert seen.headers["content-type"] == "application/json"


@DIALECTS
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
async def test_a_request_says_what_was_said_and_the_users_parameters_and_no_more(
    dialect, is_streamed
):
    own = {"temperature": 0, "extra": {"a": [1]}, **({"stream": True} if is_streamed else {})}
    _, _, (seen,) = await ask(dialect, dialect.hello, params=own)
    asked = seen.json
    assert asked.pop("model") == "org/model"
    assert asked.pop("tools")
    (said,) = asked.pop(dialect.said_in)
    assert said["role"] == "user"
    assert said["content"] in ("hi", [{"type": "text", "text": "hi"}])
    if dialect is ANTHROPIC:
        assert asked.pop("max_tokens") == DEFAULT_MAX_TOKENS
    if dialect is CHAT and is_streamed:
        assert asked.pop("stream_options") == {"include_usage": True}
    assert asked == own


@DIALECTS
@pytest.mark.parametrize("base", ["", "/", "/v1", "/v1/", "/deep/v1", "/prefix", "WHOLE"])
async def test_every_form_of_the_base_url_finds_the_endpoint(dialect, base):
    written = dialect.target if base == "WHOLE" else base
    place = "" if base == "WHOLE" else base.removesuffix("/").removesuffix("/v1")

    def only_there(seen):
        found = seen.target == place + dialect.target
        return dialect.hello if found else dialect.failure(404, "Not Found")

    with FakeEndpoint(only_there) as endpoint:
        async with dialect.opened(endpoint.url + written) as opened:
            for _ in range(3):
                await opened.say()
        assert not opened.retries
        assert len(endpoint.requests) <= 4


@DIALECTS
async def test_what_goes_out_comes_back(dialect):
    words = "h\u00e9 \U0001f600 half \ud83d"
    for params in ({}, {"stream": True}):
        with FakeEndpoint(echo) as endpoint:
            async with dialect.opened(endpoint, params=params) as opened:
                assert (await opened.say(words)).message.text == words


# --- replies


@DIALECTS
@FORMS
async def test_a_reply_has_text_names_and_usage(dialect, form):
    reply, opened, _ = await ask(dialect, form(dialect.hello))
    assert (reply.message.text, reply.message.tool_calls, reply.message.reasoning) == (
        "hello",
        (),
        None,
    )
    assert (reply.stop_reason, reply.model, reply.response_id) == (
        "stop",
        "served-model",
        "response-1",
    )
    expected = Usage(calls=1, input_tokens=12, output_tokens=3, cost_usd=pytest.approx(42e-6))
    assert reply.usage == opened.model.usage == expected


@DIALECTS
@FORMS
async def test_parallel_calls_are_read_in_their_order(dialect, form):
    reply, _, _ = await ask(dialect, form(dialect.calls))
    assert reply.stop_reason == "tool_calls"
    assert [
        (call.id, call.name, json.loads(call.arguments)) for call in reply.message.tool_calls
    ] == [
        ("call-0", "bash", {"command": "ls"}),
        ("call-1", "bash", {"command": "id"}),
    ]


@DIALECTS
@FORMS
async def test_reasoning_is_told_apart_and_goes_on_from_turn_to_turn(dialect, form):
    with FakeEndpoint([form(dialect.thinks), dialect.hello]) as endpoint:
        async with dialect.opened(endpoint) as opened:
            told = [Message(role="user", content="hi")]
            reply = await opened.model.chat(told, tools=[BASH])
            results = [
                Message(role="tool", content="ok", tool_call_id=call.id)
                for call in reply.message.tool_calls
            ]
            await opened.model.chat([*told, reply.message, *results], tools=[BASH])
    assert (reply.message.reasoning, reply.message.text) == ("hm", "")
    said = endpoint.requests[1].json[dialect.said_in]
    if dialect is CHAT:
        assert said[1]["reasoning_content"] == "hm"
        assert [item["role"] for item in said] == ["user", "assistant", "tool", "tool"]
    elif dialect is RESPONSES:
        assert said[1:4] == json.loads(dialect.thinks.body)["output"]
        assert said[1]["encrypted_content"] == "opaque"
        assert [item["call_id"] for item in said[4:]] == ["call-0", "call-1"]
    else:
        assert said[1]["content"] == json.loads(dialect.thinks.body)["content"]
        assert said[1]["content"][0] == thinking_block("hm")
        assert [item["tool_use_id"] for item in said[2]["content"]] == ["call-0", "call-1"]


@DIALECTS
@FORMS
async def test_a_refusal_is_told(dialect, form):
    reply, _, _ = await ask(dialect, form(dialect.refuses))
    assert (reply.message.text, reply.stop_reason) == ("No.", "refusal")


@DIALECTS
@FORMS
async def test_a_reply_that_was_cut_off_is_told(dialect, form):
    reply, _, _ = await ask(dialect, form(dialect.cut))
    assert (reply.message.text, reply.stop_reason) == ("hel", "length")


# --- metering


@DIALECTS
@FORMS
async def test_kinds_of_tokens_are_counted_and_priced_apart(dialect, form):
    rates = {"input": 1, "cached_input": 10, "cache_write": 100, "output": 1000, "reasoning": 1e4}
    reply, opened, _ = await ask(dialect, form(dialect.cached), prices={"org/*": rates})
    usage = opened.model.usage
    assert (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens) == (100, 60, 20)
    assert (usage.output_tokens, usage.reasoning_tokens, usage.total_tokens) == (30, 10, 130)
    assert usage.cost_usd == pytest.approx((20 + 600 + 2000 + 20_000 + 100_000) / 1e6)
    assert reply.usage == usage


@DIALECTS
async def test_a_list_price_is_not_for_imitators_of_its_maker(dialect):
    _, opened, _ = await ask(dialect, dialect.hello, prices={}, id="claude-opus-5")
    assert opened.model.usage.cost_usd is None


@DIALECTS
async def test_an_answer_that_cannot_be_used_is_counted_before_it_is_read(dialect):
    paid = {**dialect.hello.json, "choices": None, "output": None, "content": None}
    _, opened, seen = await ask(dialect, json_answer(paid), dialect.hello)
    assert [retry.code for retry in opened.retries] == ["malformed-response"]
    assert (opened.model.usage.calls, opened.model.usage.total_tokens) == (2, 30)
    assert len(seen) == 2


@DIALECTS
async def test_an_answer_without_usage_is_unmetered(dialect):
    bare = {key: value for key, value in dialect.hello.json.items() if key != "usage"}
    for form in (json_answer(bare), streamed(json_answer(bare))):
        _, opened, _ = await ask(dialect, form)
        assert opened.model.usage == Usage(calls=1, unmetered_calls=1, cost_usd=None)


# --- failures


def as_type(dialect, kind):
    """The word for a kind of error, where the protocol needs one."""
    return {"type": kind} if dialect is ANTHROPIC else {}


@DIALECTS
@pytest.mark.parametrize(
    ("status", "kind", "words", "code"),
    [
        (400, "invalid_request_error", "bad temperature", "bad-request"),
        (400, "invalid_request_error", "prompt is too long: 9 > 4", "context-exceeded"),
        (401, "authentication_error", "no", "unauthorized"),
        (402, "billing_error", "no credit", "quota-exceeded"),
        (403, "permission_error", "no", "unauthorized"),
        (404, "not_found_error", "model `x` not found", "model-not-found"),
        (413, "request_too_large", "too large", "bad-request"),
    ],
    ids=["400", "context", "401", "402", "403", "404", "413"],
)
async def test_what_cannot_pass_is_told_at_once(dialect, status, kind, words, code):
    with FakeEndpoint(dialect.failure(status, words, **as_type(dialect, kind))) as endpoint:
        async with dialect.opened(endpoint) as opened:
            failed = await opened.fail()
    assert (failed.code, failed.retryable) == (code, False)
    assert words in failed.message
    assert len(endpoint.requests) == 1


@DIALECTS
@pytest.mark.parametrize(
    ("status", "code"),
    [(429, "rate-limited"), (500, "server-error"), (503, "overloaded"), (529, "overloaded")],
)
async def test_what_may_pass_is_tried_again(dialect, status, code):
    kind = {429: "rate_limit_error", 529: "overloaded_error"}.get(status, "api_error")
    failure = dialect.failure(status, headers={"retry-after": "0"}, **as_type(dialect, kind))
    reply, opened, _ = await ask(dialect, failure, dialect.hello)
    assert reply.message.text == "hello"
    assert [retry.code for retry in opened.retries] == [code]
    assert opened.model.usage.calls == 1


@DIALECTS
async def test_a_wait_that_is_asked_for_is_kept(dialect):
    failure = dialect.failure(429, headers={"retry-after": "0.2"})
    _, opened, _ = await ask(dialect, failure, dialect.hello)
    assert [retry.wait_seconds for retry in opened.retries] == [0.2]


@DIALECTS
async def test_an_error_in_the_middle_of_a_stream_is_tried_again(dialect):
    reply, opened, _ = await ask(dialect, dialect.broken_stream, dialect.hello)
    assert reply.message.text == "hello"
    assert [retry.code for retry in opened.retries] in (["server-error"], ["overloaded"])


@DIALECTS
async def test_a_limit_that_is_told_in_a_stream_holds_all_callers(dialect):
    gate = threading.Event()
    with FakeEndpoint([dialect.limited_stream, dialect.hello.but(gate=gate)]) as endpoint:
        async with dialect.opened(endpoint, max_connections=8, max_retries=0) as opened:
            assert (await opened.fail()).code == "rate-limited"
            async with trio.open_nursery() as nursery:
                for _ in range(8):
                    nursery.start_soon(opened.say)
                await trio.to_thread.run_sync(endpoint.wait_for_requests, 2)
                await trio.sleep(0.1)  # for those that must not come
                gate.set()
        assert endpoint.peak_in_flight < 8


@DIALECTS
@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_stream_that_breaks_off_is_tried_again_and_unmetered(dialect, how):
    broken = streamed(dialect.hello).but(send_bytes=700, then=how)
    reply, opened, _ = await ask(dialect, broken, dialect.hello)
    assert reply.message.text == "hello"
    assert [retry.code for retry in opened.retries] == ["connection-failed"]
    assert (opened.model.usage.calls, opened.model.usage.unmetered_calls) == (2, 1)
    assert opened.model.usage.cost_usd is None


@DIALECTS
@pytest.mark.parametrize("keep", [0, 1, 2, 3])
async def test_a_stream_that_ends_before_the_answer_does_is_no_answer(dialect, keep):
    reply, opened, _ = await ask(dialect, begun(dialect.hello, keep=keep), dialect.hello)
    assert reply.message.text == "hello"
    assert [retry.code for retry in opened.retries] == ["malformed-response"]
    assert opened.model.usage.unmetered_calls == 1


@DIALECTS
@FORMS
async def test_an_answer_that_falls_silent_is_tried_again(dialect, form):
    answer = form(dialect.hello)
    half = sum(map(len, answer.wire())) // 2
    silent = answer.but(send_bytes=half, then="stall")
    timing = attrs.evolve(QUICK, idle_seconds=0.2)
    with FakeEndpoint([silent, dialect.hello]) as endpoint:
        async with dialect.opened(endpoint, timing=timing) as opened:
            assert (await opened.say()).message.text == "hello"
    assert {retry.code for retry in opened.retries} == {"stalled"}


@DIALECTS
async def test_a_slow_stream_that_goes_on_is_no_silence(dialect):
    slow = streamed(dialect.hello).but(pause_seconds=0.02)
    reply, opened, _ = await ask(dialect, slow, timing=attrs.evolve(QUICK, idle_seconds=2.0))
    assert reply.message.text == "hello"
    assert not opened.retries


@DIALECTS
async def test_a_key_in_the_endpoints_words_is_not_repeated(dialect):
    with FakeEndpoint(echo_key) as endpoint:
        async with dialect.opened(endpoint) as opened:
            failed = await opened.fail()
    assert "[secret]" in failed.message
    assert KEY not in str(failed)


@DIALECTS
async def test_a_call_that_is_given_up_is_unmetered(dialect):
    gate = threading.Event()
    with FakeEndpoint(dialect.hello.but(gate=gate)) as endpoint:
        async with dialect.opened(endpoint) as opened:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(opened.say)
                await trio.to_thread.run_sync(endpoint.wait_for_requests, 1)
                nursery.cancel_scope.cancel()
            assert opened.model.usage == Usage(calls=1, unmetered_calls=1, cost_usd=None)


# --- reasoning that does not fit any more


REFUSED = anthropic_error(
    400,
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.",
    type="invalid_request_error",
)


def thinks_of(seen):
    return sum(
        block["type"] == "thinking" for each in seen.json["messages"] for block in each["content"]
    )


async def test_reasoning_that_the_endpoint_refuses_is_left_out_from_then_on():
    """A harness has shortened what was said before a thought: the thought is not valid any more, the rest is."""
    thinking = message("a", thinking="hm")
    with FakeEndpoint([thinking, REFUSED, thinking, thinking]) as endpoint:
        async with ANTHROPIC.opened(endpoint) as opened:
            told = [Message(role="user", content="a long story")]
            told.append((await opened.model.chat(told)).message)
            told = [Message(role="user", content="short"), *told[1:]]
            told.append(Message(role="user", content="go on"))
            told.append((await opened.model.chat(told)).message)
            told.append(Message(role="user", content="go on"))
            reply = await opened.model.chat(told)
            assert (opened.model.asked, opened.model.replies) == (3, 3)
    assert reply.message.text == "a"
    assert [thinks_of(seen) for seen in endpoint.requests] == [0, 1, 0, 1]
    assert not opened.retries


async def test_a_refusal_of_reasoning_that_was_not_sent_is_an_error():
    with FakeEndpoint(REFUSED) as endpoint:
        async with ANTHROPIC.opened(endpoint) as opened:
            failed = await opened.fail()
    assert (failed.code, failed.retryable) == ("reasoning-refused", False)
    assert len(endpoint.requests) == 1
