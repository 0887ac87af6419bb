"""The loop of `terminus2`: show the terminal, ask for keys, press them, wait, and again, until the task is complete."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple, final

import attrs
import trio

from agentcompass.components.base import AgentOutcome, Emit, Model, TaskInput
from agentcompass.components.harnesses import steps
from agentcompass.components.harnesses.terminus2 import plan_json, plan_xml, prompts
from agentcompass.components.harnesses.terminus2.control import LostError
from agentcompass.components.harnesses.terminus2.handoff import Handoff, Reason, user
from agentcompass.components.harnesses.terminus2.params import Terminus2Params
from agentcompass.components.harnesses.terminus2.plan import Parser, Plan
from agentcompass.components.harnesses.terminus2.room import Room
from agentcompass.components.harnesses.terminus2.terminal import (
    Shown,
    Terminal,
    TerminalGoneError,
)
from agentcompass.components.harnesses.tool_loop.conversation import acceptable
from agentcompass.components.messages import Message, Reply, ToolCall
from agentcompass.errors import ModelError
from agentcompass.records import Usage

TOOL: Final = "keystrokes"
"""What pressing keys is called in the trajectory."""
_PARSERS: Final[dict[prompts.Form, Parser]] = {"json": plan_json.parse, "xml": plan_xml.parse}
_REFUSALS: Final = ("refusal", "content_filter")
_NOTHING: Final = "(nothing)"
"""What an empty reply is sent back as: many endpoints take no empty text."""


class _Turn(NamedTuple):
    """A reply, and how it is understood."""

    reply: Reply
    plan: Plan


@final
class Attempt:
    """One attempt at a task.

    Args:
        params: Of the harness.
        task_input: What the task says.
        terminal: Open.
        model: Who is asked.
        emit: Gets the steps.
    """

    def __init__(
        self,
        params: Terminus2Params,
        task_input: TaskInput,
        terminal: Terminal,
        model: Model,
        emit: Emit,
    ) -> None:
        self._params, self._task_input = params, task_input
        self._terminal, self._model, self._emit = terminal, model, emit
        self._form: prompts.Form = params.parser
        self._handoff = Handoff(model, emit, self._form, self._task)
        self._room = Room(params.context_tokens)
        self._history: list[Message] = []
        """The conversation up to the last reply."""
        self._next: tuple[Message, ...] = ()
        """What the model is told next."""
        self._fresh = 0
        """Messages of the conversation that were there when it began."""
        self._turns = 0
        self._usage = Usage()
        self._is_pending = False
        """The model has said that the task is complete, and was asked whether it is sure."""

    async def run(self) -> AgentOutcome:
        """Work until the end, whatever that is; see `Terminus2.run`."""
        try:
            self._begin(self._task(prompts.opening((await self._look()).text)))
            for message in (*self._history, *self._next):
                await self._emit(steps.message_step(message))
            outcome = await self._work()
        except TerminalGoneError:
            outcome = AgentOutcome(stopped_by="terminal")
        usage = self._usage + self._handoff.usage
        await self._emit(steps.final_step(outcome, turns=self._turns, usage=usage))
        details = {**self._terminal.details, "handoffs": self._handoff.count}
        return attrs.evolve(outcome, details=details)

    async def _work(self) -> AgentOutcome:
        while self._turns < self._params.max_turns:
            turn = await self._ask()
            if turn is None:
                return AgentOutcome(stopped_by="context")
            reply, plan = turn
            if plan.error is not None and reply.stop_reason in _REFUSALS:
                return AgentOutcome(stopped_by=steps.STOPPED_BY[reply.stop_reason])
            if reply.stop_reason == "length" and not plan.is_whole:
                await self._tell(prompts.cut_off(self._form))
            elif plan.error is not None:
                await self._tell(prompts.correction(self._form, plan.error, plan.warnings))
            elif await self._follow(plan):
                return AgentOutcome(answer=plan.analysis)
        return AgentOutcome(stopped_by="max_turns")

    # --- the terminal

    async def _follow(self, plan: Plan) -> bool:
        """Do what a plan says, and tell the model what came of it; return whether the task is complete for certain."""
        await self._terminal.mark(f"turn {self._turns}")
        started = trio.current_time()
        try:
            for command in plan.commands:
                await self._terminal.press(command.keystrokes)
                await trio.sleep(command.duration)
            shown = await self._terminal.look()
            text = prompts.seen(shown.text, is_new=shown.is_new)
        except LostError as error:
            shown = await self._replaced()
            text = prompts.restarted(str(error), prompts.seen(shown.text, is_new=False))
        seconds = trio.current_time() - started
        told = prompts.with_warnings(plan.warnings, text)
        is_confirmed = plan.is_done and self._is_pending
        if plan.is_done and not is_confirmed:
            told = prompts.confirmation(self._form, told)
        self._is_pending = plan.is_done
        calls = _calls_of(plan, self._turns)
        if calls or not is_confirmed:  # who is done is told nothing more
            await self._tell(told, calls, seconds, is_cut=shown.is_cut)
        return is_confirmed

    async def _look(self) -> Shown:
        try:
            return await self._terminal.look()
        except LostError:
            return await self._replaced()

    async def _replaced(self) -> Shown:
        """Have a new terminal, and what it shows."""
        await self._terminal.replace()
        try:
            return await self._terminal.look()
        except LostError as error:
            raise TerminalGoneError from error

    async def _screen(self) -> str:
        try:
            return await self._terminal.screen()
        except LostError as error:  # the next look deals with it
            return f"({error})"

    # --- the conversation

    def _task(self, words: str) -> tuple[Message, ...]:
        """What a conversation begins with: how to work, the task, and some words after it."""
        *before, last = self._task_input.messages
        head, tail = f"{prompts.introduction(self._form)}\n", f"\n\n{words}"
        if isinstance(last.content, str):
            return (*before, attrs.evolve(last, content=f"{head}{last.content}{tail}"))
        parts = ({"type": "text", "text": head}, *last.content, {"type": "text", "text": tail})
        return (*before, attrs.evolve(last, content=parts))

    def _begin(self, messages: Sequence[Message]) -> None:
        """Begin a conversation; the last message is what the model is told next."""
        self._history, self._next = list(messages[:-1]), tuple(messages[-1:])
        self._fresh = len(messages) + 1
        self._room.forget()

    async def _tell(
        self,
        text: str,
        calls: Sequence[ToolCall] = (),
        seconds: float = 0.0,
        *,
        is_cut: bool = False,
    ) -> None:
        """Tell the model something: what came of its calls, if it made any."""
        self._next = (user(text),)
        if not calls:
            await self._emit(steps.message_step(self._next[0]))
            return
        # the terminal is looked at once, after all of them
        result = steps.ToolResult(text=text, truncated=is_cut)
        await self._emit(steps.tool_step(calls[-1], result, seconds, turn=self._turns))

    async def _ask(self) -> _Turn | None:
        """Return the next turn; None if the conversation is too long for the model, whatever is done about it."""
        if not self._params.enable_summarize:
            return await self._call()
        threshold = self._params.proactive_summarization_threshold
        free = self._room.free(self._history, self._next)
        if len(self._history) > self._fresh and free < threshold:
            await self._hand_over(self._history, "proactive")
        turn = await self._call()
        if turn is None and len(self._history) >= self._fresh:
            kept = len(self._task_input.messages)
            history = self._room.unwound(self._history, self._next, kept)
            await self._hand_over(history, "context-exceeded")
            turn = await self._call()
        if turn is None and self._handoff.count:
            shown = self._next[-1].text
            self._begin(await self._handoff.without_history(await self._screen(), shown))
            turn = await self._call()
        return turn

    async def _hand_over(self, history: Sequence[Message], reason: Reason) -> None:
        shown = self._next[-1].text
        self._begin(await self._handoff.over(history, await self._screen(), shown, reason))

    async def _call(self) -> _Turn | None:
        """Make a call; None if the conversation is too long."""
        messages = (*self._history, *self._next)
        started = trio.current_time()
        try:
            reply = await self._model.chat(messages)
        except ModelError as error:
            if error.code != "context-exceeded":
                raise
            await self._emit(steps.error_step(error))
            return None
        seconds = trio.current_time() - started
        self._turns += 1
        self._usage += reply.usage
        self._room.learn(messages, reply.usage)
        plan = _PARSERS[self._form](reply.message.text)
        calls = [attrs.asdict(call) for call in _calls_of(plan, self._turns)]
        step = steps.reply_step(reply, seconds, turn=self._turns)
        await self._emit({**step, "tool_calls": calls})
        message = acceptable(attrs.evolve(reply.message, tool_calls=()))
        if not message.text:
            message = attrs.evolve(message, content=_NOTHING)
        self._history = [*messages, message]
        return _Turn(reply, plan)


def _calls_of(plan: Plan, turn: int) -> list[ToolCall]:
    """What a plan asks for, as calls of a tool."""
    return [
        ToolCall(
            id=f"call-{turn}-{number}",
            name=TOOL,
            arguments=json.dumps(
                {"keystrokes": command.keystrokes, "duration": command.duration},
                ensure_ascii=False,
            ),
        )
        for number, command in enumerate(plan.commands, 1)
    ]
