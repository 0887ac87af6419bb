"""How many tokens a call will use, before it is made: for a limit that endpoints count by the minute.

It need not be right, since what was really used takes its place as soon as it is known; it must only not be far off.
"""

from __future__ import annotations

from typing import Final, final

from agentcompass.records import JSON, Usage

_CHARACTERS_PER_TOKEN: Final = 4.0
"""Of the languages and programs that agents read; learned as calls are metered."""
_ATTACHMENT: Final = 2048
"""A text of so many characters without a space is an image or a file in disguise."""
_ATTACHMENT_TOKENS: Final = 1500.0
_FIRST_OUTPUT: Final = 500.0
"""Tokens of an answer while none was metered."""
_MEMORY: Final = 0.9
_OUTPUT_LIMITS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")


@final
class TokenEstimate:
    """Estimates the tokens of the calls to one model from those before."""

    def __init__(self) -> None:
        self._per_token = _CHARACTERS_PER_TOKEN
        self._output = _FIRST_OUTPUT
        self.typical = 0.0
        """Tokens of a call, on average; 0 while none was metered."""

    def of(self, body: JSON) -> float:
        """Return the tokens of a request and its answer."""
        limits = [body.get(name) for name in _OUTPUT_LIMITS]
        given = [limit for limit in limits if type(limit) is int and limit > 0]
        return _characters(body) / self._per_token + min([self._output, *given])

    def learn(self, usage: Usage, body: JSON = None) -> None:
        """Take note of what a call really used.

        Args:
            usage: Of it.
            body: What was asked; None: only the mean is of interest.
        """
        if usage.unmetered_calls or usage.input_tokens <= 0:
            return
        is_first = self.typical == 0.0
        self._output = usage.output_tokens if is_first else _mean(self._output, usage.output_tokens)
        self.typical = usage.total_tokens if is_first else _mean(self.typical, usage.total_tokens)
        if body is not None:
            per_token = min(20.0, max(0.5, _characters(body) / usage.input_tokens))
            self._per_token = _mean(self._per_token, per_token)


def _mean(known: float, new: float) -> float:
    return _MEMORY * known + (1 - _MEMORY) * new


def _characters(value: JSON) -> float:
    """The text in a value; what is no text but looks like it counts as the tokens that it is likely to cost."""
    total, todo = 0.0, [value]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            is_attachment = len(item) >= _ATTACHMENT and " " not in item[:_ATTACHMENT]
            total += _ATTACHMENT_TOKENS * _CHARACTERS_PER_TOKEN if is_attachment else len(item)
        elif isinstance(item, dict):
            todo.extend(item.values())
            total += 8.0 * len(item)
        elif isinstance(item, list | tuple):
            todo.extend(item)
    return total
