"""A conversation that becomes too long is handed over: an account of it, questions about that, and their answers.

Source: the documentation of Terminus 2, which calls the three who write them subagents.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias, final

import attrs
import trio

from agentcompass.components.base import Emit, Model
from agentcompass.components.harnesses.terminus2 import prompts
from agentcompass.components.harnesses.tool_loop.conversation import acceptable
from agentcompass.components.messages import Message, Reply
from agentcompass.errors import ModelError
from agentcompass.records import JSON, Usage

Reason: TypeAlias = Literal["proactive", "context-exceeded"]
Part: TypeAlias = Literal["summary", "questions", "answers", "short-summary"]


def user(text: str) -> Message:
    """Return a message of the harness."""
    return Message(role="user", content=text)


@final
class Handoff:
    """Hands conversations over.

    Args:
        model: Who writes all of it.
        emit: Gets a step for each call, and one for each new conversation.
        form: Of the replies that are asked for afterwards.
        task: What every conversation of the attempt begins with: its last message can be continued with words.
    """

    def __init__(
        self,
        model: Model,
        emit: Emit,
        form: prompts.Form,
        task: Callable[[str], tuple[Message, ...]],
    ) -> None:
        self._model, self._emit, self._form, self._task = model, emit, form, task
        self.count = 0
        """Conversations that were handed over."""
        self.usage = Usage()
        """Of the calls that took."""

    async def over(
        self, history: Sequence[Message], screen: str, shown: str, reason: Reason
    ) -> list[Message]:
        """Return the conversation that takes the place of one; it ends with what the model is told next.

        Where the account cannot be had because even that is too long, a short one is made of what the terminal shows;
        where that cannot be had either, there is none.

        Args:
            history: The conversation so far.
            screen: What the terminal shows.
            shown: What the model would have been told next.
            reason: Why this is done.

        Raises:
            ModelError: The endpoint failed.
        """
        self.count += 1
        made = await self._questioned(history, screen, shown)
        if made is None:
            told = self._task(prompts.short_summary(screen, shown))
            made = self._short(await self._ask("short-summary", told), screen, shown)
        await self._told(made, reason)
        return made

    async def without_history(self, screen: str, shown: str) -> list[Message]:
        """Return the shortest conversation there is: the task, and what the terminal shows."""
        self.count += 1
        made = self._short(None, screen, shown)
        await self._told(made, "context-exceeded")
        return made

    def _short(self, account: str | None, screen: str, shown: str) -> list[Message]:
        return list(self._task(prompts.took_over(account, f"{prompts.opening(screen)}\n\n{shown}")))

    async def _questioned(
        self, history: Sequence[Message], screen: str, shown: str
    ) -> list[Message] | None:
        """Account, questions and answers; None if there was too much of something, or nothing was written."""
        request = user(prompts.SUMMARY)
        account = await self._ask("summary", (*history, request))
        if not account:
            return None
        opening = self._task(prompts.questions(account, screen))
        asked = await self._ask("questions", opening)
        if not asked:
            return None
        before = (*history, request, Message(role="assistant", content=account))
        answered = await self._ask("answers", (*before, user(prompts.answers(asked))))
        if not answered:
            return None
        return [
            *opening,
            Message(role="assistant", content=asked),
            user(prompts.go_on(self._form, answered, shown)),
        ]

    async def _ask(self, part: Part, messages: Sequence[Message]) -> str | None:
        """Make a call, and return its text; None if the conversation is too long, or nothing was written."""
        started = trio.current_time()
        try:
            reply = await self._model.chat(messages)
        except ModelError as error:
            if error.code != "context-exceeded":
                raise
            await self._emit(
                {**self._head(part, messages), "error": error.code, "message": error.message}
            )
            return None
        self.usage += reply.usage
        await self._emit(
            {
                **self._head(part, messages),
                **_said(reply),
                "seconds": round(trio.current_time() - started, 3),
            }
        )
        text = acceptable(reply.message).text.strip()
        return text or None

    def _head(self, part: Part, messages: Sequence[Message]) -> dict[str, JSON]:
        return {
            "type": "summary",
            "number": self.count,
            "part": part,
            "messages": len(messages),
            "prompt": messages[-1].text,
        }

    async def _told(self, made: Sequence[Message], reason: Reason) -> None:
        await self._emit(
            {
                "type": "handoff",
                "number": self.count,
                "reason": reason,
                "messages": [{"role": one.role, "content": one.content} for one in made],
            }
        )


def _said(reply: Reply) -> dict[str, JSON]:
    return {
        "content": reply.message.content,
        "reasoning": reply.message.reasoning,
        "stop_reason": reply.stop_reason,
        "usage": attrs.asdict(reply.usage),
        "model": reply.model,
        "response_id": reply.response_id,
    }
