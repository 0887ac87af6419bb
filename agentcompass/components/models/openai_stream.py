"""Puts a streamed answer together: the same object as the endpoint would have sent in one piece. Pure.

Serves `openai-chat` (deltas) and `openai-completions` (pieces of text). Source: OpenAI API reference, "Streaming
events" of chat completions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

import attrs

from agentcompass.components.models.failures import malformed
from agentcompass.components.models.fields import objects
from agentcompass.components.models.openai_common import beside_call, choice_failure
from agentcompass.components.models.usage import merged
from agentcompass.records import JSON

_HEAD: Final = ("id", "model")
_TEXT_FIELDS: Final = frozenset({"content", "reasoning_content", "reasoning", "refusal"})
_OTHER_FIELDS: Final = frozenset({"extra_content", "reasoning_details", "tool_calls"})
_DETAIL_TEXTS: Final = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""By type of reasoning detail: what of it comes in pieces."""


@attrs.define(eq=False)
class _Call:
    """A tool call of which parts arrive."""

    index: int | None
    id: str = ""
    name: str = ""
    arguments: list[str] = attrs.field(factory=list)
    beside: dict[str, JSON] = attrs.field(factory=dict)

    def whole(self) -> dict[str, JSON]:
        function = {"name": self.name, "arguments": "".join(self.arguments)}
        return {"id": self.id, "type": "function", "function": function, **self.beside}


@attrs.define(eq=False)
class _Detail:
    """A reasoning detail of which parts arrive; pieces of one have its type and index."""

    begun: dict[str, JSON]
    pieces: list[str] = attrs.field(factory=list)

    def takes(self, later: Mapping[str, JSON]) -> bool:
        field = _DETAIL_TEXTS.get(str(later.get("type")))
        is_same = all(self.begun.get(name) == later.get(name) for name in ("type", "index"))
        return field is not None and is_same

    def add(self, later: Mapping[str, JSON]) -> None:
        field = _DETAIL_TEXTS.get(str(later.get("type")))
        for name, value in later.items():
            if name == field:
                self.pieces.append(str(value or ""))
            elif value is not None or name not in self.begun:
                self.begun[name] = value

    def whole(self) -> dict[str, JSON]:
        field = _DETAIL_TEXTS.get(str(self.begun.get("type")))
        return {**self.begun, field: "".join(self.pieces)} if field else self.begun


@final
class ChoiceStream:
    """Collects events; of several choices only the first counts, as in the whole form."""

    def __init__(self) -> None:
        self.usage: JSON = None
        """The usage so far: endpoints send it last, or with every event."""
        self.error: JSON = None
        """An error object that came instead of the rest."""
        self.is_finished = False
        """The endpoint said why the answer ends."""
        self.is_over = False
        """Never: usage may come later, and the end has a word of its own."""
        self._is_empty = True
        self._head: dict[str, JSON] = {}
        self._choice: dict[str, JSON] = {}
        self._texts: dict[str, list[str]] = {}
        self._calls: list[_Call] = []
        self._details: list[_Detail] = []
        self._beside: dict[str, JSON] = {}

    def add(self, payload: JSON) -> None:
        """Take one event.

        Raises:
            ModelError: It is none (`malformed-response`).
        """
        if not isinstance(payload, dict):
            raise malformed("an event of the stream is no object")
        if payload.get("usage") is not None:
            self.usage = merged(self.usage, payload["usage"])
        if payload.get("error"):
            self.error = payload
            return
        for name in _HEAD:
            if payload.get(name):
                self._head[name] = payload[name]
        for choice in objects(payload.get("choices"), "the choices of an event"):
            if not choice.get("index"):
                self._add_choice(choice)

    def whole(self) -> dict[str, JSON]:
        """Return the answer in one piece, without a choice if none came."""
        if self._is_empty:
            return {**self._head, "choices": [], "usage": self.usage}
        texts = {name: "".join(parts) for name, parts in self._texts.items()}
        if "text" in texts:
            self._choice["text"] = texts["text"]
        else:
            message: dict[str, JSON] = {
                "role": "assistant",
                "content": None,
                **texts,
                **self._beside,
            }
            if self._calls:
                message["tool_calls"] = [call.whole() for call in self._calls]
            if self._details:
                message["reasoning_details"] = [detail.whole() for detail in self._details]
            self._choice["message"] = message
        return {**self._head, "choices": [self._choice], "usage": self.usage}

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        self._is_empty = False
        if (failure := choice_failure(choice)) is not None:
            self.error = failure
            return
        if choice.get("finish_reason"):
            self._choice["finish_reason"] = choice["finish_reason"]
            self.is_finished = True
        self._add_text("text", choice.get("text"))
        delta = choice.get("delta") or {}
        if not isinstance(delta, dict):
            raise malformed("the delta of an event is no object")
        # only what is there: mostly one field, of each of thousands of events
        for name, value in delta.items():
            if name in _TEXT_FIELDS:
                self._add_text(name, value)
            elif value is not None and name in _OTHER_FIELDS:
                self._add_other(name, value)

    def _add_other(self, name: str, value: JSON) -> None:
        if name == "extra_content":
            self._beside[name] = value
        elif name == "reasoning_details":
            self._add_details(value)
        else:
            for call in objects(value, "the tool calls of an event"):
                self._add_call(call)

    def _add_text(self, name: str, value: JSON) -> None:
        if value is None:
            return
        if not isinstance(value, str):
            raise malformed(f"{name} in an event of the stream is no text")
        self._texts.setdefault(name, []).append(value)

    def _add_details(self, details: JSON) -> None:
        for detail in details if isinstance(details, list) else ():
            if not isinstance(detail, Mapping):
                continue
            if not (self._details and self._details[-1].takes(detail)):
                self._details.append(_Detail({}))
            self._details[-1].add(detail)

    def _add_call(self, delta: Mapping[str, JSON]) -> None:
        function = delta.get("function") or {}
        if not isinstance(function, Mapping):
            raise malformed("a tool call of an event is no object")
        call = self._call_for(delta.get("index"), str(delta.get("id") or ""))
        call.name = call.name or str(function.get("name") or "")
        arguments = function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            raise malformed("the arguments of a streamed tool call are no text")
        call.arguments.append(arguments or "")
        call.beside.update(beside_call(delta))

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
