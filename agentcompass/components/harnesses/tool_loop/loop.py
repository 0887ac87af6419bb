"""The loop of `tool_loop`: ask, do what the model asks for, tell it what came of it, and again."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, final

import trio

from agentcompass.components.base import (
    AgentOutcome,
    Emit,
    Harness,
    KiB,
    Model,
    Session,
    TaskInput,
)
from agentcompass.components.harnesses import steps
from agentcompass.components.harnesses.tool_loop.conversation import Conversation
from agentcompass.components.harnesses.tool_loop.tools import Toolbox
from agentcompass.components.messages import Message, Reply
from agentcompass.data import frozen
from agentcompass.errors import ModelError, SandboxError
from agentcompass.records import Usage
from agentcompass.spec.ranges import PositiveFloat, PositiveInt, Range

SYSTEM_PROMPT: Final = """\
You work on a task in a sandbox, by yourself: nobody reads along, and nobody answers questions. With the tool `bash` \
you run commands; look at what they print before you go on, and check your work before you call it done. Then call the \
tool `submit`, which ends your work. If the task asks for an answer, submit the answer itself, complete and without \
remarks. If it asks for files or for changes, make them in the sandbox, and submit one sentence about what you did."""

NUDGE: Final = """\
You called no tool. If you are done, call `submit` with your answer; if not, go on with `bash`. Another reply without a \
call will be taken as your answer."""


@frozen(kw_only=True)
class ToolLoopParams:
    """Parameters of `tool_loop`; those of the generation are the model's."""

    max_turns: PositiveInt = 50
    """Replies of the model after which it is stopped."""
    token_budget: PositiveInt | None = None
    """Input and output tokens of all calls of one attempt together, after which it is stopped; null means no limit.
    Replies for which the endpoint tells no usage are not counted."""
    command_timeout_seconds: PositiveFloat = 120.0
    """Longest that one command may take; the model can ask for less."""
    max_output_bytes: Annotated[int, Range(minimum=KiB)] = 16 * KiB
    """What the model sees of one command's output: head and tail, the middle left out."""
    system_prompt: str = SYSTEM_PROMPT
    """Put before what the task says: as, or in front of, its system message."""


@final
class ToolLoop(Harness[ToolLoopParams]):
    """A model with a shell, which works until it submits an answer."""

    id = "tool_loop"
    Params: ClassVar[type] = ToolLoopParams
    needs_sandbox = True
    sends: ClassVar[tuple[str, ...]] = ("tools",)
    protocols: ClassVar[tuple[str, ...]] = ("openai-chat", "openai-responses", "anthropic")

    async def run(
        self, task_input: TaskInput, session: Session | None, model: Model, emit: Emit
    ) -> AgentOutcome:
        """Let the model work.

        Returns:
            What it submitted, or its second reply in a row without a tool call. `stopped_by` is `max_turns`, `budget`
            or `context` where it was stopped, then without an answer unless its last reply called no tool.

        Raises:
            ModelError: The endpoint failed.
            SandboxError: The sandbox failed.
        """
        if session is None:
            raise SandboxError(f"{self.id} needs a sandbox and was given none", retryable=False)
        toolbox = Toolbox(
            session,
            command_timeout_seconds=self.params.command_timeout_seconds,
            max_output_bytes=self.params.max_output_bytes,
        )
        conversation = Conversation(self._told(task_input))
        return await _Attempt(self.params, toolbox, conversation, model, emit).run()

    def _told(self, task_input: TaskInput) -> tuple[Message, ...]:
        first, *rest = task_input.messages
        own = self.params.system_prompt
        if first.role != "system":
            return (Message(role="system", content=own), *task_input.messages)
        return (Message(role="system", content=f"{own}\n\n{first.text}"), *rest)


@final
class _Attempt:
    """One attempt at a task."""

    def __init__(
        self,
        params: ToolLoopParams,
        toolbox: Toolbox,
        conversation: Conversation,
        model: Model,
        emit: Emit,
    ) -> None:
        self._params, self._toolbox, self._conversation = params, toolbox, conversation
        self._model, self._emit = model, emit
        self._tools = toolbox.tools
        self._turns = 0
        self._usage = Usage()
        self._text: str | None = None
        """What the last reply said, if it called no tool."""

    async def run(self) -> AgentOutcome:
        for message in self._conversation.messages:
            await self._emit(steps.message_step(message))
        outcome = await self._work()
        await self._emit(steps.final_step(outcome, turns=self._turns, usage=self._usage))
        return outcome

    async def _work(self) -> AgentOutcome:
        budget = self._params.token_budget
        while self._turns < self._params.max_turns:
            if budget is not None and self._usage.total_tokens >= budget:
                return AgentOutcome(answer=self._text, stopped_by="budget")
            reply = await self._ask()
            if reply is None:
                return AgentOutcome(answer=self._text, stopped_by="context")
            self._conversation.add(reply.message)
            has_calls = bool(reply.message.tool_calls)
            outcome = await (self._use_tools(reply) if has_calls else self._take_text(reply))
            if outcome is not None:
                return outcome
        return AgentOutcome(answer=self._text, stopped_by="max_turns")

    async def _ask(self) -> Reply | None:
        """Return the next reply; None if the conversation, shortened as far as it can be, is too long for the model."""
        try:
            return await self._call()
        except ModelError as error:
            await self._explain(error)
        count = self._conversation.elide()
        if count == 0:
            return None
        await self._emit({"type": "elided", "outputs": count})
        try:
            return await self._call()
        except ModelError as error:
            await self._explain(error)
        return None

    async def _call(self) -> Reply:
        started = trio.current_time()
        reply = await self._model.chat(self._conversation.messages, tools=self._tools)
        self._turns += 1
        self._usage += reply.usage
        seconds = trio.current_time() - started
        await self._emit(steps.reply_step(reply, seconds, turn=self._turns))
        return reply

    async def _explain(self, error: ModelError) -> None:
        """Note that a conversation was too long; raise every other error."""
        if error.code != "context-exceeded":
            raise error
        await self._emit(steps.error_step(error))

    async def _use_tools(self, reply: Reply) -> AgentOutcome | None:
        """Do what a reply asks for, in its order and up to its `submit`."""
        self._text = None
        for call in reply.message.tool_calls:
            started = trio.current_time()
            result = await self._toolbox.use(call)
            seconds = trio.current_time() - started
            await self._emit(steps.tool_step(call, result, seconds, turn=self._turns))
            if result.submitted is not None:
                return AgentOutcome(answer=result.submitted)
            self._conversation.add_result(call, result.text)
        return None

    async def _take_text(self, reply: Reply) -> AgentOutcome | None:
        """Ask once for a tool call; accept the second text in a row."""
        text, before = reply.message.text, self._text
        self._text = text or before or ""
        if before is not None:
            return AgentOutcome(
                answer=self._text, stopped_by=steps.STOPPED_BY.get(reply.stop_reason)
            )
        nudge = Message(role="user", content=NUDGE)
        self._conversation.add(nudge)
        await self._emit(steps.message_step(nudge))
        return None
