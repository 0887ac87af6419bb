"""One model call: the task's messages go in, the text of the reply is the answer.

With the protocol `openai-completions` a base model continues the task's completion prompt instead.
"""

from __future__ import annotations

from typing import ClassVar, Final, final

import attrs
import trio

from agentcompass.components.base import AgentOutcome, Emit, Harness, Model, Session, TaskInput
from agentcompass.components.harnesses import steps
from agentcompass.components.messages import Message, Reply
from agentcompass.data import frozen
from agentcompass.errors import ModelError

COMPLETIONS: Final = "openai-completions"


@frozen(kw_only=True)
class OpenAIChatParams:
    """Parameters of `openai_chat`; those of the generation are the model's."""

    system_prompt: str | None = None
    """Put before what the task says: as, or in front of, its system message; in front of a prompt to complete."""


@final
class OpenAIChat(Harness[OpenAIChatParams]):
    """Asks once. An empty answer is an answer; only an endpoint that gives none is a failure."""

    id = "openai_chat"
    Params: ClassVar[type] = OpenAIChatParams
    protocols: ClassVar[tuple[str, ...]] = (
        "openai-chat",
        "openai-responses",
        "anthropic",
        COMPLETIONS,
    )

    async def run(
        self, task_input: TaskInput, session: Session | None, model: Model, emit: Emit
    ) -> AgentOutcome:
        """Make the call and return its text, with `stopped_by` if the reply was cut off.

        Reasoning that the endpoint tells apart goes to the trajectory, not into the answer.
        """
        if model.protocol == COMPLETIONS:
            return await self._complete(task_input, model, emit)
        messages = self._messages(task_input)
        for message in messages:
            await emit(steps.message_step(message))
        started = trio.current_time()
        try:
            reply = await model.chat(messages)
        except ModelError as error:
            return await _unanswered(error, emit)
        return await _answered(reply, trio.current_time() - started, emit)

    async def _complete(self, task_input: TaskInput, model: Model, emit: Emit) -> AgentOutcome:
        completion_prompt = task_input.completion_prompt
        prompt = task_input.prompt if completion_prompt is None else completion_prompt
        if self.params.system_prompt:
            prompt = f"{self.params.system_prompt}\n\n{prompt}"
        await emit({"type": "prompt", "content": prompt, "stop": list(task_input.completion_stop)})
        started = trio.current_time()
        try:
            reply = await model.complete(prompt, stop=task_input.completion_stop)
        except ModelError as error:
            return await _unanswered(error, emit)
        outcome = await _answered(reply, trio.current_time() - started, emit)
        return attrs.evolve(outcome, is_completion=completion_prompt is not None)

    def _messages(self, task_input: TaskInput) -> tuple[Message, ...]:
        own = self.params.system_prompt
        if not own:
            return task_input.messages
        first, *rest = task_input.messages
        if first.role != "system":
            return (Message(role="system", content=own), *task_input.messages)
        return (Message(role="system", content=f"{own}\n\n{first.text}"), *rest)


async def _answered(reply: Reply, seconds: float, emit: Emit) -> AgentOutcome:
    await emit(steps.reply_step(reply, seconds))
    return AgentOutcome(
        answer=reply.message.text, stopped_by=steps.STOPPED_BY.get(reply.stop_reason)
    )


async def _unanswered(error: ModelError, emit: Emit) -> AgentOutcome:
    """A task too long for the model is the model's limit and graded; every other error is no verdict."""
    if error.code != "context-exceeded":
        raise error
    await emit(steps.error_step(error))
    return AgentOutcome(answer="", stopped_by="context")
