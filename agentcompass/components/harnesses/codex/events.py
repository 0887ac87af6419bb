"""What Codex tells (`codex exec --json`), as steps.

What its model says is known from the gateway; taken from here is what came of commands, and how it ended.
Source: the events of version 0.171.0; Codex's documentation, "Non-interactive mode".
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final, final

import trio

from agentcompass.components.harnesses.installed.account import Account, Told
from agentcompass.components.harnesses.installed.agent import Report
from agentcompass.components.harnesses.steps import ToolResult
from agentcompass.components.messages import ToolCall
from agentcompass.records import JSON

KIND: Final = "codex"
"""Type of the steps that have no other."""
_COMMAND: Final = "command_execution"
_SAID: Final = frozenset({"agent_message", "reasoning"})
"""Items that are parts of replies."""
_WORK: Final = frozenset({_COMMAND, "file_change", "mcp_tool_call"})
"""Items after which it asks its model again."""
_NAME: Final = "exec_command"
_ARGUMENTS: Final = ("cmd", "command")
"""Under which its tools take a command."""


@final
class CodexHearing:
    """Listens to one attempt.

    Args:
        account: Gets the steps.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._text: str | None = None
        self._problem: str | None = None
        self._is_complete = False
        self._begun: dict[str, float] = {}
        """When an item was begun, by its id."""

    @property
    def report(self) -> Report:
        """What it said so far."""
        if self._is_complete:
            last = self._account.last
            if last is not None and last.reply and last.reply.stop_reason == "refusal":
                return Report(stopped_by="refusal", problem=last.reply.message.text)
            return Report(answer=self._text or "")
        return Report(problem=self._problem)

    async def take(self, event: Mapping[str, Any]) -> None:
        """Take an event; kinds that are unknown here become steps of their own."""
        kind, item = event.get("type"), event.get("item")
        if isinstance(item, Mapping):
            if kind == "item.started":
                self._begun[str(item.get("id"))] = trio.current_time()
            elif kind == "item.completed":
                await self._take_item(item)
        elif kind == "turn.completed":
            self._is_complete = True
        elif kind in ("turn.failed", "error"):
            self._is_complete = False
            self._problem = _message(event)
            await self._account.note({"type": KIND, "event": dict(event)})
        elif kind not in ("thread.started", "turn.started"):
            await self._account.note({"type": KIND, "event": dict(event)})

    async def take_unreadable(self, text: str) -> None:
        """Take a line that is no event."""
        await self._account.note({"type": KIND, "unreadable": text})

    async def _take_item(self, item: Mapping[str, Any]) -> None:
        kind = item.get("type")
        if kind == "agent_message" and isinstance(item.get("text"), str):
            self._text = item["text"]
        elif kind in _WORK:
            self._text = None  # what was said before was not the last word
        if kind in _SAID:
            await self._account.go_on()
        elif kind == _COMMAND:
            begun = self._begun.pop(str(item.get("id")), None)
            seconds = None if begun is None else trio.current_time() - begun
            await self._account.take_result(_told(item, seconds))
        else:
            await self._account.note({"type": KIND, "item": dict(item)})


def _message(event: Mapping[str, Any]) -> str:
    error = event.get("error")
    source = error if isinstance(error, Mapping) else event
    return str(source.get("message") or "it failed")


def _told(item: Mapping[str, Any], seconds: float | None) -> Told:
    command, exit_code = str(item.get("command") or ""), item.get("exit_code")
    return Told(
        result=ToolResult(
            text=str(item.get("aggregated_output") or ""),
            exit_code=exit_code if type(exit_code) is int else None,
        ),
        name=_NAME,
        is_of=lambda call: _is_of(command, call),
        seconds=seconds,
    )


def _is_of(command: str, call: ToolCall) -> bool:
    """Whether a command is that of a call: what is told of it has no id, only the words that were run."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return False
    asked = next((arguments[name] for name in _ARGUMENTS if name in arguments), None)
    return asked is not None and _script(asked) in (command, _last_word(command))


def _script(asked: JSON) -> str:
    """What a call asks to run: a line for a shell, or words of which the last is one."""
    return str(asked[-1]) if isinstance(asked, list) and asked else str(asked)


def _last_word(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    return words[-1] if words else command
