"""Behaviours by name, for the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentcompass.testing.reactions import (
    Behaviour,
    anthropic_error,
    chat,
    echo,
    echo_key,
    error,
    json_answer,
    message,
    no_answer,
    rate_limited,
    response,
    stream,
    text,
)

BIG_SIZE: Final = 2_000_000
"""Characters of the `huge` answer."""

BEHAVIOURS: Final[Mapping[str, Behaviour]] = {
    "echo": echo,
    "echo-key": echo_key,
    "hello": chat("hello"),
    "no-usage": chat("hello", usage=None),
    "tool-call": chat(None, tool_calls=[("bash", '{"command": "echo hi"}')]),
    "stream": stream("hel", "lo"),
    "response": response("hello"),
    "response-tool-call": response("", tool_calls=[("bash", '{"command": "echo hi"}')]),
    "message": message("hello"),
    "message-tool-call": message("", tool_calls=[("bash", {"command": "echo hi"})]),
    "overloaded": anthropic_error(529, "Overloaded", type="overloaded_error"),
    "rate-limited": rate_limited(),
    "rate-limited-once": [rate_limited(), chat("hello")],
    "server-error": error(500, "internal error"),
    "server-error-once": [error(500, "internal error"), chat("hello")],
    "quota": error(429, "You exceeded your current quota", code="insufficient_quota"),
    "context": error(400, "too long", code="context_length_exceeded"),
    "unauthorized": error(401, "no such key", code="invalid_api_key"),
    "model-not-found": error(404, "The model `x` does not exist.", code="model_not_found"),
    "reset": no_answer("reset"),
    "closed": no_answer("close"),
    "silent": no_answer("stall"),
    "stall": chat("hello").but(send_bytes=150, then="stall"),
    "slow": chat("hello").but(delay_seconds=1.0),
    "closing": chat("hello").but(then="close"),
    "invalid-json": text("{'not': json"),
    "html": text("<html>bad gateway</html>", status=502),
    "no-choices": json_answer({"id": "x", "choices": []}),
    "huge": chat("x" * BIG_SIZE),
    "surrogate": chat("broken \ud83d emoji"),
}
