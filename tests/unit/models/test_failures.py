"""Statuses and error objects as errors with stable codes."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.components.models.failures import MAX_WORDS, ErrorObject, Wording, from_answer
from agentcompass.secrets import Scrubber

KEY = "sk-live-0123456789"


@pytest.fixture
def wording():
    scrubber = Scrubber()
    scrubber.register(KEY)
    return Wording(scrubber)


def classify(wording, status, payload):
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return from_answer(status, ErrorObject.read_body(body), wording=wording)


def openai(message="", code=None, type=None):  # noqa: A002
    return {"error": {"message": message, "code": code, "type": type, "param": None}}


def anthropic(message="", type="invalid_request_error"):  # noqa: A002
    return {"type": "error", "error": {"type": type, "message": message}, "request_id": "r"}


STALE = "Invalid `signature` in `thinking` block. The block is bound to a different conversation."
MODIFIED = (
    "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."
)

CASES = [
    (400, openai("bad temperature"), "bad-request", False),
    (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "bad-request", False),
    (413, openai("request entity too large"), "bad-request", False),
    (400, openai("This model's maximum context length is 4096 tokens."), "context-exceeded", False),
    (400, openai("x", code="context_length_exceeded"), "context-exceeded", False),
    (500, openai("x", type="exceed_context_size_error"), "context-exceeded", False),
    (
        400,
        {
            "object": "error",
            "message": "The decoder prompt (length 9) is longer than the maximum model length of 4",
            "code": 400,
        },
        "context-exceeded",
        False,
    ),
    (
        422,
        {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096"},
        "context-exceeded",
        False,
    ),
    (
        400,
        [
            {
                "error": {
                    "code": 400,
                    "message": "The input token count (9) exceeds the maximum number of tokens allowed (4).",
                    "status": "INVALID_ARGUMENT",
                }
            }
        ],
        "context-exceeded",
        False,
    ),
    (
        404,
        openai("The model `x` does not exist.", code="model_not_found"),
        "model-not-found",
        False,
    ),
    (
        404,
        {
            "object": "error",
            "message": "The model `x` does not exist.",
            "type": "NotFoundError",
            "code": 404,
        },
        "model-not-found",
        False,
    ),
    (
        404,
        {"error": {"message": 'model "x" not found, try pulling it first'}},
        "model-not-found",
        False,
    ),
    (404, {"detail": "Not Found"}, "endpoint-not-found", False),
    (405, b"", "endpoint-not-found", False),
    (401, openai("no"), "unauthorized", False),
    (403, b"<html>forbidden</html>", "unauthorized", False),
    (402, openai("Insufficient Balance"), "quota-exceeded", False),
    (
        429,
        openai("You exceeded your current quota", code="insufficient_quota"),
        "quota-exceeded",
        False,
    ),
    (429, openai("x", type="insufficient_quota"), "quota-exceeded", False),
    (429, openai("slow down", code="rate_limit_exceeded"), "rate-limited", True),
    (429, b"", "rate-limited", True),
    (408, b"", "server-error", True),
    (409, b"", "server-error", True),
    (425, b"", "server-error", True),
    (500, openai("rate limit 429 reached"), "server-error", True),
    (502, b"<html>bad gateway</html>", "server-error", True),
    (503, b"", "overloaded", True),
    (504, b"", "server-error", True),
    (529, openai("overloaded", type="overloaded_error"), "overloaded", True),
    (501, b"", "bad-request", False),
    (307, b"", "redirected", False),
    (400, openai("request 429 of batch failed"), "bad-request", False),
    (None, openai("upstream broke"), "server-error", True),
    (400, anthropic("max_tokens: required"), "bad-request", False),
    (400, anthropic("prompt is too long: 9 tokens > 4 maximum"), "context-exceeded", False),
    (
        400,
        anthropic("input length and `max_tokens` exceed context limit: 9 + 4 > 10"),
        "context-exceeded",
        False,
    ),
    (400, anthropic(f"messages.1.content.0: {STALE}"), "reasoning-refused", False),
    (400, anthropic(f"messages.1.content.0: {MODIFIED}"), "reasoning-refused", False),
    (400, anthropic("thinking: is not supported"), "bad-request", False),
    (401, anthropic("invalid x-api-key", "authentication_error"), "unauthorized", False),
    (402, anthropic("no credit", "billing_error"), "quota-exceeded", False),
    (429, anthropic("no credit", "billing_error"), "quota-exceeded", False),
    (403, anthropic("no", "permission_error"), "unauthorized", False),
    (404, anthropic("model: claude-x", "not_found_error"), "model-not-found", False),
    (404, anthropic("Not Found", "not_found_error"), "endpoint-not-found", False),
    (413, anthropic("too large", "request_too_large"), "bad-request", False),
    (429, anthropic("slow down", "rate_limit_error"), "rate-limited", True),
    (500, anthropic("oops", "api_error"), "server-error", True),
    (504, anthropic("late", "timeout_error"), "server-error", True),
    (529, anthropic("Overloaded", "overloaded_error"), "overloaded", True),
]

IN_STREAMS = [
    (anthropic("Overloaded", "overloaded_error"), "overloaded", True),
    (anthropic("slow down", "rate_limit_error"), "rate-limited", True),
    (anthropic("bad"), "bad-request", False),
    (anthropic("prompt is too long"), "context-exceeded", False),
    (anthropic("no", "authentication_error"), "unauthorized", False),
    (openai("slow down", code="rate_limit_exceeded", type="tokens"), "rate-limited", True),
    (
        openai("x", code="context_length_exceeded", type="invalid_request_error"),
        "context-exceeded",
        False,
    ),
    (openai("x", code="insufficient_quota"), "quota-exceeded", False),
    ({"type": "error", "code": "rate_limit_exceeded", "message": "x"}, "rate-limited", True),
    ({"type": "error", "code": None, "message": "x"}, "server-error", True),
    ({"error": {"code": "server_error", "message": "x"}}, "server-error", True),
    ({"error": {"code": "invalid_prompt", "message": "x"}}, "bad-request", False),
    ({"error": {"code": "new_code", "message": "x"}}, "server-error", True),
]


@pytest.mark.parametrize(("payload", "code", "retryable"), IN_STREAMS, ids=range(len(IN_STREAMS)))
def test_errors_that_come_with_a_success_are_known_by_their_words(
    wording, payload, code, retryable
):
    read = ErrorObject.read(payload)
    error = from_answer(read.status, read, wording=wording)
    assert (error.code, error.retryable) == (code, retryable)


@pytest.mark.parametrize(("status", "payload", "code", "retryable"), CASES, ids=range(len(CASES)))
def test_well_known_errors(wording, status, payload, code, retryable):
    error = classify(wording, status, payload)
    assert (error.code, error.retryable) == (code, retryable)


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (openai("in the usual form"), "in the usual form"),
        ({"message": "flat"}, "flat"),
        ({"error": "a text"}, "a text"),
        ({"detail": "of a framework"}, "of a framework"),
        ({"type": "error", "error": {"type": "x", "message": "typed"}}, "typed"),
        ([{"error": {"message": "in a list"}}], "in a list"),
        (b"<h1>no\nJSON</h1>", "<h1>no JSON</h1>"),
        (b"", "no explanation"),
        (b"\xff\xfe\x00", "no explanation"),
    ],
    ids=range(9),
)
def test_the_endpoints_words_are_found_in_every_form(wording, payload, words):
    message = classify(wording, 400, payload).message
    if payload == b"\xff\xfe\x00":
        assert message.isprintable()
    else:
        assert message == f"the endpoint answered 400: {words}"


def test_a_status_inside_the_body_is_found():
    assert ErrorObject.read({"error": {"message": "x", "code": 502}}).status == 502
    assert ErrorObject.read({"error": {"message": "x", "code": 7}}).status is None
    assert ErrorObject.read({"error": {"message": "x", "code": True}}).status is None


def test_words_hold_no_secret_however_it_is_written(wording):
    hidden = KEY[:9] + "\x00" + KEY[9:]
    for text in (KEY, hidden, KEY[:9] + "\u200b" + KEY[9:], json.dumps({"key": KEY})):
        cleaned = wording.clean(f"wrong key {text}!")
        assert KEY not in cleaned
        assert "[secret]" in cleaned


def test_a_secret_at_the_limit_is_not_cut_but_removed(wording):
    cleaned = wording.clean("x" * (MAX_WORDS - 10) + KEY)
    assert KEY[:8] not in cleaned


def test_words_cannot_steer_a_terminal(wording):
    text = "a\x1b[31mred\x1b[0m\x1b]0;title\x07\x9b2Jb\r\nc\u202ed\x08"
    cleaned = wording.clean(text)
    assert cleaned.isprintable()
    assert cleaned == "aredb cd"


def test_words_are_bounded(wording):
    assert len(wording.clean("word " * 100_000)) == MAX_WORDS


@given(status=st.none() | st.integers(300, 599), body=st.binary(max_size=60))
def test_no_body_is_fatal(status, body):
    error = from_answer(status, ErrorObject.read_body(body), wording=Wording(Scrubber()))
    assert error.code
    assert not {unicodedata.category(character) for character in error.message} & {"Cc", "Cf", "Cs"}
