"""What `tool_loop` sends with each call: all that was said, in a form that every endpoint takes, and shorter if need be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import final

import attrs

from agentcompass.components.harnesses.tool_loop.tools import BadArgumentsError, parsed, readable
from agentcompass.components.messages import Message, ToolCall


@final
class Conversation:
    """The messages so far.

    Args:
        messages: What the model is told first.
    """

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = list(messages)
        self._last_reply = len(self._messages)
        self._elided: set[int] = set()

    @property
    def messages(self) -> tuple[Message, ...]:
        """All of them, in order."""
        return tuple(self._messages)

    def add(self, message: Message) -> None:
        """Append what the model said, or what it is told."""
        if message.role == "assistant":
            self._last_reply = len(self._messages)
            message = acceptable(message)
        self._messages.append(message)

    def add_result(self, call: ToolCall, text: str) -> None:
        """Append what came of a tool call."""
        self._messages.append(Message(role="tool", content=text, tool_call_id=call.id))

    def elide(self) -> int:
        """Leave out the tool outputs before the last reply; return how many were shortened by that."""
        before = len(self._elided)
        for index, message in enumerate(self._messages[: self._last_reply]):
            if message.role != "tool" or index in self._elided:
                continue
            size = len(message.text.encode(errors="replace"))
            note = f"[{size} bytes of output left out to make room]"
            if len(note) < size:
                self._messages[index] = attrs.evolve(message, content=note)
                self._elided.add(index)
        return len(self._elided) - before


def acceptable(message: Message) -> Message:
    """Return an assistant's message as it can be sent back.

    Many servers parse the arguments of former calls, and refuse the whole request where that fails.
    """
    content = message.content
    return attrs.evolve(
        message,
        content=readable(content) if isinstance(content, str) else content,
        tool_calls=tuple(
            attrs.evolve(call, name=readable(call.name), arguments=_as_object(call.arguments))
            for call in message.tool_calls
        ),
    )


def _as_object(arguments: str) -> str:
    try:
        text = json.dumps(parsed(arguments), ensure_ascii=False)
    except (BadArgumentsError, RecursionError):
        return json.dumps({"not_an_object": readable(arguments)})
    # nothing is changed without need: endpoints find their own text again in their caches
    is_fine = arguments.strip() and readable(text) == text
    return arguments if is_fine else readable(text)
