"""What an endpoint says a call used, in the one form in which calls are summed. Pure; never raises.

Sources: the reference pages of the OpenAI chat, completions and responses APIs and of the Anthropic messages API
("usage" objects), and what servers that imitate them were seen to send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agentcompass.records import JSON, Usage


def normalise(protocol: str, raw: JSON) -> Usage:
    """Return the usage of one call, its cost not yet known (`cost_usd` None).

    Args:
        protocol: "openai-chat", "openai-completions", "openai-responses" or "anthropic".
        raw: The usage object of the answer; None, or anything that is none, makes the call unmetered.

    Returns:
        Input includes cached and cache-write tokens, output includes reasoning tokens, for every protocol.
    """
    counts = _READERS[protocol](raw) if isinstance(raw, Mapping) else None
    return counts if counts is not None else unmetered()


def unmetered() -> Usage:
    """Return the usage of one call that said nothing: unknown, not zero."""
    return Usage(calls=1, unmetered_calls=1, cost_usd=None)


def merged(earlier: JSON, later: JSON) -> JSON:
    """Return a usage object of a stream, with what a later event of it says; null says nothing."""
    if not isinstance(later, Mapping):
        return earlier
    if not isinstance(earlier, Mapping):
        return later
    return {**earlier, **{key: value for key, value in later.items() if value is not None}}


def _openai_chat(raw: Mapping[str, JSON]) -> Usage | None:
    prompt, completion = _count(raw, "prompt_tokens"), _count(raw, "completion_tokens")
    total = _count(raw, "total_tokens")
    if completion is None and prompt is not None and total is not None and total >= prompt:
        completion = total - prompt
    if prompt is None or completion is None:
        return None
    details = _part(raw, "prompt_tokens_details")
    reasoning = (
        _count(_part(raw, "completion_tokens_details"), "reasoning_tokens")
        or _count(raw, "reasoning_tokens")
        or 0
    )
    # some servers count reasoning beside the completion: the total tells, or the impossibility
    if reasoning and (reasoning > completion or total == prompt + completion + reasoning):
        completion += reasoning
    cached = _first(
        _count(details, "cached_tokens"),
        _count(raw, "prompt_cache_hit_tokens"),
        _count(raw, "cached_tokens"),
    )
    written = _first(
        _count(details, "cache_write_tokens"), _count(raw, "cache_creation_input_tokens")
    )
    return _usage(prompt, cached, written, completion, reasoning)


def _openai_responses(raw: Mapping[str, JSON]) -> Usage | None:
    given, output = _count(raw, "input_tokens"), _count(raw, "output_tokens")
    if given is None or output is None:
        return None
    details = _part(raw, "input_tokens_details")
    reasoning = _count(_part(raw, "output_tokens_details"), "reasoning_tokens") or 0
    cached = _count(details, "cached_tokens") or 0
    return _usage(given, cached, _count(details, "cache_write_tokens") or 0, output, reasoning)


def _anthropic(raw: Mapping[str, JSON]) -> Usage | None:
    fresh, output = _count(raw, "input_tokens"), _count(raw, "output_tokens")
    if fresh is None or output is None:
        return None
    cached = _count(raw, "cache_read_input_tokens") or 0
    written = _count(raw, "cache_creation_input_tokens") or 0
    return _usage(fresh + cached + written, cached, written, output, 0)


_READERS: Final[Mapping[str, Callable[[Mapping[str, JSON]], Usage | None]]] = {
    "openai-chat": _openai_chat,
    "openai-completions": _openai_chat,
    "openai-responses": _openai_responses,
    "anthropic": _anthropic,
}


def _usage(given: int, cached: int, written: int, output: int, reasoning: int) -> Usage:
    cached = min(cached, given)
    return Usage(
        calls=1,
        input_tokens=given,
        cached_tokens=cached,
        cache_write_tokens=min(written, given - cached),
        output_tokens=output,
        reasoning_tokens=min(reasoning, output),
        cost_usd=None,
    )


def _part(raw: Mapping[str, JSON], name: str) -> Mapping[str, JSON]:
    value = raw.get(name)
    return value if isinstance(value, Mapping) else {}


def _count(raw: Mapping[str, JSON], name: str) -> int | None:
    """A number of tokens, or None where there is none that makes sense."""
    value = raw.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else None


def _first(*values: int | None) -> int:
    return next((value for value in values if value is not None), 0)
