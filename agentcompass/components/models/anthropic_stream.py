"""Puts a streamed answer of the `anthropic` protocol together. Pure.

Source: Anthropic API reference, "Streaming Messages".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

import attrs

from agentcompass.components.models.failures import malformed
from agentcompass.components.models.fields import arguments_object, text_at
from agentcompass.components.models.usage import merged
from agentcompass.records import JSON

_DELTAS: Final[Mapping[JSON, tuple[str, str]]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "input"),
}
"""By type of delta: the field that holds the piece, and the field of the block that it belongs to."""


@attrs.define(eq=False)
class _Block:
    """A content block of which parts arrive."""

    begun: Mapping[str, JSON]
    pieces: dict[str, list[str]] = attrs.field(factory=dict)
    citations: list[JSON] = attrs.field(factory=list)

    def whole(self) -> dict[str, JSON]:
        block = dict(self.begun)
        for name, pieces in self.pieces.items():
            text, begun = "".join(pieces), self.begun.get(name)
            if name == "input":
                block[name] = _input(text, begun)
            else:
                block[name] = (begun if isinstance(begun, str) else "") + text
        if self.citations:
            block["citations"] = self.citations
        return block


@final
class AnthropicStream:
    """Collects events."""

    def __init__(self) -> None:
        self.error: JSON = None
        """An error object that came instead of the rest."""
        self.is_finished = False
        """The endpoint said why the answer ends."""
        self.is_over = False
        """Nothing more of the answer comes."""
        self._message: dict[str, JSON] = {}
        self._blocks: dict[int, _Block] = {}
        self._usage: JSON = None
        self._has_final_usage = False

    @property
    def usage(self) -> JSON:
        """The usage; None before the end, because what the start says of the output is but a placeholder."""
        return self._usage if self._has_final_usage or self.is_finished else None

    def add(self, payload: JSON) -> None:
        """Take one event; kinds that are unknown here are passed over.

        Raises:
            ModelError: It is none (`malformed-response`).
        """
        if not isinstance(payload, Mapping):
            raise malformed("an event of the stream is no object")
        kind = payload.get("type")
        if kind == "error" or payload.get("error"):
            self.error = payload
        elif kind == "message_start":
            self._message = dict(_part(payload, "message"))
            self._usage = merged(self._usage, self._message.get("usage"))
        elif kind == "content_block_start":
            self._blocks[_index(payload)] = _Block(_part(payload, "content_block"))
        elif kind == "content_block_delta":
            self._add_delta(_index(payload), _part(payload, "delta"))
        elif kind == "message_delta":
            self._message.update(_part(payload, "delta"))
            self._usage = merged(self._usage, payload.get("usage"))
            self._has_final_usage |= isinstance(payload.get("usage"), Mapping)
            self.is_finished |= self._message.get("stop_reason") is not None
        elif kind == "message_stop":
            self.is_finished = self.is_over = True

    def whole(self) -> dict[str, JSON]:
        """Return the answer in one piece."""
        blocks = [block.whole() for _, block in sorted(self._blocks.items())]
        return {**self._message, "content": blocks, "usage": self.usage}

    def _add_delta(self, index: int, delta: Mapping[str, JSON]) -> None:
        block = self._blocks.get(index)
        if block is None:
            raise malformed("an event of the stream continues a block that was never begun")
        kind = delta.get("type")
        if isinstance(kind, str) and kind in _DELTAS:
            source, target = _DELTAS[kind]
            block.pieces.setdefault(target, []).append(text_at(delta, source, "an event"))
        elif kind == "citations_delta":
            block.citations.append(delta.get("citation"))


def _input(text: str, begun: JSON) -> JSON:
    """The input of a call; text that is no object, as of an answer that was cut off, stays text."""
    if not text.strip():
        return begun if isinstance(begun, Mapping) else {}
    parsed = arguments_object(text)
    return text if parsed.get("not_an_object") == text else parsed


def _part(payload: Mapping[str, JSON], name: str) -> Mapping[str, JSON]:
    value = payload.get(name)
    if not isinstance(value, Mapping):
        raise malformed(f"an event of the stream has no {name}")
    return value


def _index(payload: Mapping[str, JSON]) -> int:
    index = payload.get("index")
    if type(index) is not int:
        raise malformed("an event of the stream has no index")
    return index
