"""What answers say about the limits of an endpoint."""

import pytest

from agentcompass.net.limit_headers import about_limits, pause_seconds

NOW = 1_796_040_000.0  # 2026-11-30T12:00:00Z


def openai(**fields):
    return {f"x-ratelimit-{name.replace('_', '-')}": value for name, value in fields.items()}


def anthropic(**fields):
    return {
        f"anthropic-ratelimit-{name.replace('_', '-')}": value for name, value in fields.items()
    }


CASES = {
    "something is left": (openai(limit_requests="60", remaining_requests="1", reset_requests="59s"), 0),
    "one request of sixty a minute": (
        openai(limit_requests="60", remaining_requests="0", reset_requests="1m0s"), 1,
    ),
    "as OpenAI refills 5000 a minute": (
        openai(limit_requests="5000", remaining_requests="0", reset_requests="59.988s"), 0.012,
    ),
    "tokens of one call": (
        openai(limit_tokens="30000", remaining_tokens="0", reset_tokens="1m0s"), 4,
    ),
    "the longer of both": (
        openai(
            limit_requests="60", remaining_requests="0", reset_requests="60s",
            limit_tokens="30000", remaining_tokens="0", reset_tokens="60s",
        ), 4,
    ),
    "without a limit until all is there again": (
        openai(remaining_requests="0", reset_requests="6m0s"), 360,
    ),
    "milliseconds": (openai(remaining_requests="0", reset_requests="20ms"), 0.02),
    "hours": (openai(remaining_requests="0", reset_requests="1h2m3.5s"), 3723.5),
    "days": (openai(remaining_requests="0", reset_requests="1d"), 86400),
    "plain seconds": (openai(remaining_requests="0", reset_requests="7"), 7),
    "no time": (openai(remaining_requests="0"), 0),
    "a time that is none": (openai(remaining_requests="0", reset_requests="soon"), 0),
    "a negative time": (openai(remaining_requests="0", reset_requests="-5"), 0),
    "an endless time": (openai(remaining_requests="0", reset_requests="inf"), 0),
    "a number that is none": (openai(remaining_requests="", reset_requests="60s"), 0),
    "less than nothing": (openai(remaining_requests="-1", reset_requests="9s"), 9),
    "Anthropic's requests": (
        anthropic(requests_limit="50", requests_remaining="0", requests_reset="2026-11-30T12:01:00Z"), 1.2,
    ),
    "Anthropic's input tokens": (
        anthropic(
            input_tokens_limit="20000", input_tokens_remaining="0", input_tokens_reset="2026-11-30T12:01:00Z",
        ), 6,
    ),
    "Anthropic's tokens, with a zone": (
        anthropic(tokens_remaining="0", tokens_reset="2026-11-30T14:00:30+02:00"), 30,
    ),
    "a time without a zone": (anthropic(tokens_remaining="0", tokens_reset="2026-11-30T12:00:30"), 30),
    "a time that is past": (anthropic(tokens_remaining="0", tokens_reset="2026-11-30T11:00:00Z"), 0),
    "a date that does not exist": (anthropic(tokens_remaining="0", tokens_reset="2026-02-30T12:00:00Z"), 0),
    "nothing": ({}, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_pause_is_as_long_as_nothing_is_left_for_one_call(name):
    headers, seconds = CASES[name]
    assert pause_seconds(headers, now=NOW, tokens=2000) == pytest.approx(seconds, rel=1e-3)


def test_a_call_of_unknown_size_needs_one_token():
    headers = openai(limit_tokens="600", remaining_tokens="0", reset_tokens="60s")
    assert pause_seconds(headers, now=NOW, tokens=0) == pytest.approx(0.1)


def test_only_headers_about_limits_are_taken():
    headers = [
        (b"Content-Type", b"application/json"),
        (b"X-RateLimit-Remaining-Requests", b"0"),
        (b"anthropic-ratelimit-tokens-reset", b"2026-11-30T12:00:30Z"),
    ]
    assert about_limits(headers) == {
        "x-ratelimit-remaining-requests": "0",
        "anthropic-ratelimit-tokens-reset": "2026-11-30T12:00:30Z",
    }
    assert about_limits(headers[:1]) == {}
