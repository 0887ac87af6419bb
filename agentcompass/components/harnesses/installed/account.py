"""The trajectory of an installed agent: what the model said, as the gateway heard it, and what came of its calls.

Both are told at once, on two ways, and are brought into the order in which they happened: what came of a tool call stands
after the reply that asked for it, and before the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

import attrs
import trio

from agentcompass.components.base import Emit, ServedCall
from agentcompass.components.harnesses import steps
from agentcompass.components.harnesses.steps import ToolResult
from agentcompass.components.messages import Message, ToolCall
from agentcompass.data import frozen
from agentcompass.records import JSON, Usage


@frozen(kw_only=True)
class Told:
    """What a program tells of a tool call that it has done."""

    result: ToolResult
    name: str
    """What it calls the tool; counts only where the call is not found."""
    is_of: Callable[[ToolCall], bool]
    """Whether it is of a call."""
    seconds: float | None = None
    """How long it took; None: since the reply that asked for it."""


@attrs.define(eq=False)
class _Open:
    """A call of which nothing has been told yet."""

    call: ToolCall
    turn: int
    since: float


@final
class Account:
    """Writes the steps of one attempt, and counts.

    Args:
        emit: Appends a step.
    """

    def __init__(self, emit: Emit) -> None:
        self.in_flight: Callable[[], int] = lambda: 0
        """How many model calls are being answered."""
        self.turns = 0
        self.usage = Usage()
        self.last: ServedCall | None = None
        """The model call that was over last."""
        self._emit = emit
        self._lock = trio.Lock()
        self._open: list[_Open] = []
        self._replies: list[ServedCall] = []
        """That wait for what came of earlier calls."""
        self._results: list[Told] = []
        """That wait for the reply which asked for them."""

    async def begin(self, messages: tuple[Message, ...]) -> None:
        """Write what the model is told by the task."""
        for message in messages:
            await self._emit(steps.message_step(message))

    async def take_call(self, call: ServedCall) -> None:
        """Write what the model said: at once, or when it is known what came of the calls before it."""
        async with self._lock:
            await self._release()
            self.last = call
            if call.error is not None:
                await self._emit(steps.error_step(call.error))
                return
            self._replies.append(call)
            if not self._open:
                await self._release()

    async def take_result(self, told: Told) -> None:
        """Write what came of a tool call; or keep it, while the reply that asked for it is on its way."""
        async with self._lock:
            await self._settle(told)
            if not self._open:
                await self._release()

    async def go_on(self) -> None:
        """The program is at work on the last reply: nothing more is to come of earlier ones."""
        async with self._lock:
            await self._release()

    async def note(self, step: Mapping[str, JSON]) -> None:
        """Write something else that the program tells."""
        async with self._lock:
            await self._emit(step)

    async def end(self) -> None:
        """Write what still waits."""
        async with self._lock:
            self.in_flight = lambda: 0
            await self._release()
            await self._settle_all()

    async def _release(self) -> None:
        while self._replies:
            call = self._replies.pop(0)
            self.turns += 1
            if call.reply is None:
                seconds = round(call.seconds, 3)
                step = {"type": "reply", "turn": self.turns, "content": "", "seconds": seconds}
                await self._emit(step)
                continue
            self.usage += call.reply.usage
            now = trio.current_time()
            asked = call.reply.message.tool_calls
            self._open += [_Open(one, self.turns, now) for one in asked]
            await self._emit(steps.reply_step(call.reply, call.seconds, turn=self.turns))
            await self._settle_all()

    async def _settle_all(self) -> None:
        waiting, self._results = self._results, []
        for told in waiting:
            await self._settle(told)

    async def _settle(self, told: Told) -> None:
        found = next((one for one in self._open if told.is_of(one.call)), None)
        if found is not None:
            self._open.remove(found)
            seconds = told.seconds
            if seconds is None:
                seconds = trio.current_time() - found.since
            await self._emit(steps.tool_step(found.call, told.result, seconds, turn=found.turn))
        elif self._replies or self.in_flight():
            self._results.append(told)
        else:
            call = ToolCall(id="", name=told.name, arguments="")
            step = steps.tool_step(call, told.result, told.seconds or 0.0, turn=self.turns)
            await self._emit({**step, "tool_call_id": None})
