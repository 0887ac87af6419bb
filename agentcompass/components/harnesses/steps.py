"""The steps of a trajectory that harnesses have in common: docs/trajectories.md says what each field means. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from agentcompass.components.base import AgentOutcome
from agentcompass.components.messages import Message, Reply, StopReason, ToolCall
from agentcompass.data import frozen
from agentcompass.errors import ModelError
from agentcompass.records import JSON, StoppedBy, Usage

STOPPED_BY: Final[Mapping[StopReason, StoppedBy]] = {
    "length": "max_tokens",
    "refusal": "refusal",
    "content_filter": "content_filter",
}
"""What a reply that was cut off means for the outcome that rests on it."""


@frozen(kw_only=True)
class ToolResult:
    """What came of a tool call."""

    text: str
    """What the model is told."""
    exit_code: int | None = None
    """Of the command; None if none was run."""
    timed_out: bool = False
    truncated: bool = False
    """The middle of the output was left out."""
    error: str | None = None
    """Why nothing was done: `unknown-tool` or `bad-arguments`."""
    submitted: str | None = None
    """The final answer, if that is what the call was about."""


def message_step(message: Message) -> dict[str, JSON]:
    """What the model is told by the task, or by the harness on its own account."""
    return {"type": "message", "role": message.role, "content": message.content}


def reply_step(reply: Reply, seconds: float, *, turn: int | None = None) -> dict[str, JSON]:
    """What the model said. `turn` and `tool_calls` are there for harnesses that have turns."""
    said: dict[str, JSON] = {
        "type": "reply",
        "content": reply.message.content,
        "reasoning": reply.message.reasoning,
        "stop_reason": reply.stop_reason,
        "usage": attrs.asdict(reply.usage),
        "seconds": round(seconds, 3),
        "model": reply.model,
        "response_id": reply.response_id,
    }
    if turn is None:
        return said
    calls = [attrs.asdict(call) for call in reply.message.tool_calls]
    return {**said, "turn": turn, "tool_calls": calls}


def tool_step(call: ToolCall, result: ToolResult, seconds: float, *, turn: int) -> dict[str, JSON]:
    """What came of a tool call."""
    return {
        "type": "tool",
        "turn": turn,
        "tool_call_id": call.id,
        "name": call.name,
        "output": result.text,
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
        "truncated": result.truncated,
        "error": result.error,
        "seconds": round(seconds, 3),
    }


def error_step(error: ModelError) -> dict[str, JSON]:
    """A call that gave no reply, and that the harness goes on after."""
    return {"type": "error", "code": error.code, "message": error.message}


def final_step(outcome: AgentOutcome, *, turns: int, usage: Usage) -> dict[str, JSON]:
    """How it ended: the last step."""
    return {
        "type": "final",
        "answer": outcome.answer,
        "stopped_by": outcome.stopped_by,
        "turns": turns,
        "usage": attrs.asdict(usage),
    }
