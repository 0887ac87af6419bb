"""Puts a streamed answer together: the same object as the endpoint would have sent in one piece. Pure.

Serves `openai-chat` (deltas) and `openai-completions` (pieces of text). Source: OpenAI API reference, "Streaming
events" of chat completions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import attrs

from agentcompass.components.models.failures import malformed
from agentcompass.components.models.usage import merged
from agentcompass.records import JSON

_TEXT_FIELDS = ("content", "reasoning_content", "reasoning", "refusal")


@attrs.define(eq=False)
class _Call:
    """A tool call of which parts arrive."""

    index: int | None
    id: str = ""
    name: str = ""
    arguments: list[str] = attrs.field(factory=list)


@final
class StreamedAnswer:
    """Collects events; of several choices only the first counts, as in the whole form."""

    def __init__(self) -> None:
        self.usage: JSON = None
        """The usage so far: endpoints send it last, or with every event."""
        self.error: JSON = None
        """An error object that came instead of the rest."""
        self.is_finished = False
        """The endpoint said why the answer ends."""
        self._head: dict[str, JSON] = {}
        self._choice: dict[str, JSON] = {}
        self._texts: dict[str, list[str]] = {}
        self._calls: list[_Call] = []

    def add(self, payload: JSON) -> None:
        """Take one event.

        Raises:
            ModelError: It is none (`malformed-response`).
        """
        if not isinstance(payload, Mapping):
            raise malformed("an event of the stream is no object")
        self.usage = merged(self.usage, payload.get("usage"))
        if payload.get("error"):
            self.error = payload
            return
        for name in ("id", "model"):
            if payload.get(name):
                self._head[name] = payload[name]
        choices = payload.get("choices") or []
        if not isinstance(choices, list) or not all(isinstance(item, Mapping) for item in choices):
            raise malformed("the choices of an event are no list of objects")
        for choice in choices:
            if not choice.get("index"):
                self._add_choice(choice)

    def whole(self) -> dict[str, JSON]:
        """Return the answer in one piece."""
        texts = {name: "".join(parts) for name, parts in self._texts.items()}
        if "text" in texts:
            self._choice["text"] = texts["text"]
        else:
            message: dict[str, JSON] = {"role": "assistant", "content": None, **texts}
            if self._calls:
                message["tool_calls"] = [_whole_call(call) for call in self._calls]
            self._choice["message"] = message
        return {**self._head, "choices": [self._choice], "usage": self.usage}

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        if choice.get("finish_reason"):
            self._choice["finish_reason"] = choice["finish_reason"]
            self.is_finished = True
        self._add_text("text", choice.get("text"))
        delta = choice.get("delta") or {}
        if not isinstance(delta, Mapping):
            raise malformed("the delta of an event is no object")
        for name in _TEXT_FIELDS:
            self._add_text(name, delta.get(name))
        calls = delta.get("tool_calls") or []
        if not isinstance(calls, list):
            raise malformed("the tool calls of an event are no list")
        for call in calls:
            self._add_call(call)

    def _add_text(self, name: str, value: JSON) -> None:
        if value is None:
            return
        if not isinstance(value, str):
            raise malformed(f"{name} in an event of the stream is no text")
        self._texts.setdefault(name, []).append(value)

    def _add_call(self, delta: JSON) -> None:
        function = (delta.get("function") or {}) if isinstance(delta, Mapping) else None
        if not isinstance(function, Mapping):
            raise malformed("a tool call of an event is no object")
        call = self._call_for(delta.get("index"), str(delta.get("id") or ""))
        call.name = call.name or str(function.get("name") or "")
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            raise malformed("the arguments of a streamed tool call are no text")
        call.arguments.append(arguments or "")

    def _call_for(self, index: JSON, call_id: str) -> _Call:
        """The call that a delta continues, or a new one.

        Calls are told apart by index; some servers send none, or 0 for all, but then a new id begins a new call.
        """
        for call in reversed(self._calls):
            is_same_index = index is None or call.index == index
            if is_same_index and (not call_id or not call.id or call.id == call_id):
                call.id = call.id or call_id
                return call
        new = _Call(index=index if isinstance(index, int) else None, id=call_id)
        self._calls.append(new)
        return new


def _whole_call(call: _Call) -> dict[str, JSON]:
    function = {"name": call.name, "arguments": "".join(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}
