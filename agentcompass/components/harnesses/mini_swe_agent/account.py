"""What has happened in an attempt so far, told step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

from agentcompass.components.base import Emit
from agentcompass.components.harnesses import steps
from agentcompass.components.harnesses.mini_swe_agent.conversation import told
from agentcompass.components.messages import Reply, StopReason, ToolCall
from agentcompass.records import Usage


@final
class Account:
    """Counts replies and tells steps.

    Args:
        emit: Takes the steps.
        on_unknown_price: Told of each reply without a price: it does not count for the cost limit.

    Attributes:
        turns: Replies so far.
        usage: Of them.
        stop_reason: Of the last one.
    """

    def __init__(self, emit: Emit, on_unknown_price: Callable[[], None]) -> None:
        self.turns = 0
        self.usage = Usage()
        self.stop_reason: StopReason = "stop"
        self._emit, self._on_unknown_price = emit, on_unknown_price

    async def message(self, message: Mapping[str, Any]) -> None:
        """The model is told something that is not about a command."""
        await self._emit(steps.message_step(told(message)))

    async def reply(self, reply: Reply, seconds: float) -> None:
        """The model has answered."""
        self.turns += 1
        self.usage += reply.usage
        self.stop_reason = reply.stop_reason
        if reply.usage.cost_usd is None:
            self._on_unknown_price()
        await self._emit(steps.reply_step(reply, seconds, turn=self.turns))

    async def result(self, call_id: str, result: steps.ToolResult, seconds: float) -> None:
        """A command is done."""
        made = ToolCall(id=call_id, name="bash", arguments="")
        await self._emit(steps.tool_step(made, result, seconds, turn=self.turns))
