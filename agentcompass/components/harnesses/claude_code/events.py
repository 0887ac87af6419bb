"""What Claude Code tells (`--output-format stream-json`), as steps.

What its model says is known from the gateway; taken from here is what came of tool calls, and how it ended.
Source: the events of version 2.1.197; Claude Code's documentation, "Run Claude Code programmatically".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, final

from agentcompass.components.harnesses.installed.account import Account, Told
from agentcompass.components.harnesses.installed.agent import Report
from agentcompass.components.harnesses.steps import ToolResult
from agentcompass.records import JSON

KIND: Final = "claude_code"
"""Type of the steps that have no other."""
_EXIT_CODE: Final = re.compile(r"Exit code (\d+)(\n|$)")
_USE_ERROR: Final = "<tool_use_error>"
_SHELL: Final = "Bash"
_QUIET: Final = frozenset({"thinking_tokens", "api_retry"})
"""Events about the calls of the model, of which the gateway knows more."""


@final
class ClaudeCodeHearing:
    """Listens to one attempt.

    Args:
        account: Gets the steps.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self.report = Report()

    async def take(self, event: Mapping[str, Any]) -> None:
        """Take an event; kinds that are unknown here become steps of their own."""
        kind = event.get("type")
        if kind == "user":
            for told in _results(event):
                await self._account.take_result(told)
        elif kind == "assistant":
            await self._account.go_on()
        elif kind == "result":
            self.report = _report(event)
        elif kind == "system" and event.get("subtype") == "init":
            await self._account.note(_started(event))
        elif event.get("subtype") not in _QUIET:
            await self._account.note({"type": KIND, "event": dict(event)})

    async def take_unreadable(self, text: str) -> None:
        """Take a line that is no event."""
        await self._account.note({"type": KIND, "unreadable": text})


def _started(event: Mapping[str, Any]) -> dict[str, JSON]:
    kept = {"version": event.get("claude_code_version"), "tools": event.get("tools")}
    return {"type": KIND, "event": {"type": "system", "subtype": "init", **kept}}


def _report(event: Mapping[str, Any]) -> Report:
    said = event.get("result")
    text = said if isinstance(said, str) else None
    if event.get("subtype") == "error_max_turns":
        return Report(stopped_by="max_turns", problem="it has made all its turns")
    if event.get("subtype") == "success" and not event.get("is_error"):
        return Report(answer=text or "")
    errors = event.get("errors")
    listed = [str(error) for error in errors] if isinstance(errors, list) else []
    problem = text or "; ".join(listed) or str(event.get("subtype"))
    stopped_by = "refusal" if event.get("stop_reason") == "refusal" else None
    return Report(stopped_by=stopped_by, problem=problem)


def _results(event: Mapping[str, Any]) -> Iterable[Told]:
    message = event.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping) and block.get("type") == "tool_result":
            yield _told(block, event.get("tool_use_result"))


def _told(block: Mapping[str, Any], detail: JSON) -> Told:
    text, call_id = _text(block.get("content")), block.get("tool_use_id")
    details = detail if isinstance(detail, Mapping) else {}
    found = _EXIT_CODE.match(text)
    exit_code = int(found[1]) if block.get("is_error") and found else None
    if not block.get("is_error") and "stdout" in details:
        exit_code = 0
    return Told(
        result=ToolResult(
            text=text,
            exit_code=exit_code,
            timed_out=details.get("interrupted") is True,
            error=_error(text) if block.get("is_error") and not found else None,
        ),
        name=_SHELL if "stdout" in details else "",
        is_of=lambda call: call.id == call_id,
    )


def _error(text: str) -> str | None:
    """Why nothing was done, if nothing was."""
    if not text.startswith(_USE_ERROR):
        return None
    return "unknown-tool" if "No such tool" in text else "bad-arguments"


def _text(content: JSON) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "\n".join(
        str(part.get("text") or f"({part.get('type')})")
        for part in parts
        if isinstance(part, Mapping)
    )
