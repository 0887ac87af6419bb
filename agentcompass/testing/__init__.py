"""Fakes that fail as real ones do, to test components and programs with: a model endpoint, faults for it, and sandboxes.

    with FakeEndpoint([rate_limited(retry_after="0"), chat("42")]) as endpoint:
        run_evaluation(..., model_base_url=endpoint.base_url)
    assert endpoint.requests[1].json["messages"][0]["content"] == "6 * 7?"

The endpoint speaks `openai-chat`, `openai-completions`, `openai-responses` and `anthropic` on a real socket; `Storm` mixes
faults into what it answers, reproducibly; `FaultySandboxes` is an environment whose sandboxes break as you say.
"""

from __future__ import annotations

from agentcompass.testing.reactions import (
    Behaviour,
    Reaction,
    Seen,
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
    redirect,
    response,
    stream,
    streamed,
    text,
    typed_events,
)
from agentcompass.testing.server import (
    FakeEndpoint,
)
from agentcompass.testing.storm import (
    Storm,
)

__all__ = [
    "Behaviour",
    "FakeEndpoint",
    "Reaction",
    "Seen",
    "Storm",
    "anthropic_error",
    "chat",
    "completion",
    "echo",
    "echo_key",
    "error",
    "events",
    "json_answer",
    "message",
    "no_answer",
    "rate_limited",
    "redirect",
    "response",
    "stream",
    "streamed",
    "text",
    "typed_events",
]
