"""Puts a streamed answer of the `openai-responses` protocol together. Pure.

Source: OpenAI API reference, "Streaming events" of responses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, final

from agentcompass.components.models.failures import malformed
from agentcompass.records import JSON

_LAST: Final = ("response.completed", "response.incomplete")


@final
class ResponsesStream:
    """Collects events: each item comes once more as a whole when it is done, so that the pieces need not be kept."""

    def __init__(self) -> None:
        self.usage: JSON = None
        """The usage, which comes with the end."""
        self.error: JSON = None
        """An error object that came instead of the rest."""
        self.is_finished = False
        """The endpoint said how the response ended."""
        self.is_over = False
        """Nothing more of the answer comes."""
        self._items: dict[int, JSON] = {}
        self._response: Mapping[str, JSON] = {}

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
        elif kind == "response.failed":
            response = self._end(payload)
            self.error = {"error": response.get("error") or {"message": "the response failed"}}
        elif kind in _LAST:
            self._response = self._end(payload)
            self.is_finished = self.is_over = True
        elif kind == "response.output_item.done":
            index = payload.get("output_index")
            # some servers give no index: then the order is that of arrival
            self._items[index if type(index) is int else len(self._items)] = payload.get("item")

    def whole(self) -> dict[str, JSON]:
        """Return the answer in one piece. The items that came one by one win: their encrypted content is complete."""
        items = [item for _, item in sorted(self._items.items())]
        output = self._response.get("output")
        if isinstance(output, list) and len(output) > len(items):
            items = output
        return {**self._response, "output": items}

    def _end(self, payload: Mapping[str, JSON]) -> Mapping[str, JSON]:
        response = payload.get("response")
        if not isinstance(response, Mapping):
            raise malformed("the last event of the stream has no response")
        self.usage = response.get("usage")
        return response
