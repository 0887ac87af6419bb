"""What an endpoint says a call used, in the one form in which calls are summed. Pure; never raises.

Sources: the reference pages of the OpenAI chat, completions and responses APIs and of the Anthropic messages API
("usage" objects), and what servers that imitate them were seen to send.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agentcompass.records import JSON, Usage

_ORDINARY: Final[Mapping[str, tuple[JSON, ...]]] = {
    "service_tier": (None, "standard", "default"),
    "speed": (None, "standard"),
    "inference_geo": (None, "global", "not_available"),
}

_MOST_TOKENS: Final = 2**53
"""That one call can be said to have used: more makes no sense, and sums of it could not be written down."""


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
    """Return a usage object of a stream, with what a later event of it says; null says nothing, nor does a late 0."""
    if not isinstance(later, Mapping):
        return earlier
    if not isinstance(earlier, Mapping):
        return later
    told = {key: value for key, value in later.items() if value or earlier.get(key) is None}
    return {**earlier, **told}


def is_standard(raw: JSON) -> bool:
    """Whether a usage object tells of nothing that costs other than the list says.

    That is: another tier, speed or place of processing, cache entries that live longer than by default, tools that the
    endpoint runs.
    """
    if not isinstance(raw, Mapping):
        return True
    given = _part(raw, "input_tokens_details") or _part(raw, "prompt_tokens_details")
    long_writes = (
        _part(raw, "cache_creation").get("ephemeral_1h_input_tokens"),
        _part(given, "cache_write_tokens_details").get("ttl_12h_tokens"),
    )
    return not (
        any(long_writes)
        or any(_part(raw, "server_tool_use").values())
        or any(raw.get(name) not in ordinary for name, ordinary in _ORDINARY.items())
    )


def _openai_chat(raw: Mapping[str, JSON]) -> Usage | None:
    prompt, completion = _count(raw, "prompt_tokens"), _count(raw, "completion_tokens")
    total = _count(raw, "total_tokens")
    if completion is None and prompt is not None and total is not None and total >= prompt:
        completion = total - prompt
    if prompt is None or completion is None:
        return None
    details = _part(raw, "prompt_tokens_details")
    completion, reasoning = _with_reasoning(
        completion,
        _count(_part(raw, "completion_tokens_details"), "reasoning_tokens")
        or _count(raw, "reasoning_tokens")
        or 0,
        None if total is None else total - prompt,
    )
    cached = _first(
        _count(details, "cached_tokens"),
        _count(raw, "prompt_cache_hit_tokens"),
        _count(raw, "cached_tokens"),
        _count(raw, "cache_read_input_tokens"),
    )
    written = _first(
        _count(details, "cache_write_tokens"), _count(raw, "cache_creation_input_tokens")
    )
    return _usage(prompt, cached, written, completion, reasoning)


def _openai_responses(raw: Mapping[str, JSON]) -> Usage | None:
    given, output = _count(raw, "input_tokens"), _count(raw, "output_tokens")
    if given is None or output is None:
        return None
    details, total = _part(raw, "input_tokens_details"), _count(raw, "total_tokens")
    output, reasoning = _with_reasoning(
        output,
        _count(_part(raw, "output_tokens_details"), "reasoning_tokens") or 0,
        None if total is None else total - given,
    )
    cached = _count(details, "cached_tokens") or 0
    return _usage(given, cached, _count(details, "cache_write_tokens") or 0, output, reasoning)


def _anthropic(raw: Mapping[str, JSON]) -> Usage | None:
    fresh, output = _count(raw, "input_tokens"), _count(raw, "output_tokens")
    if fresh is None or output is None:
        return None
    cached = _count(raw, "cache_read_input_tokens") or 0
    written = _count(raw, "cache_creation_input_tokens")
    if written is None:
        lifetimes = _part(raw, "cache_creation")
        written = sum(_count(lifetimes, name) or 0 for name in lifetimes)
    thinking = _count(_part(raw, "output_tokens_details"), "thinking_tokens") or 0
    return _usage(fresh + cached + written, cached, written, output, thinking)


def _with_reasoning(output: int, reasoning: int, by_total: int | None) -> tuple[int, int]:
    """Output and reasoning, where some servers count reasoning beside the output.

    The total tells, or the impossibility. Where the total is more than its parts and no reasoning is named, the rest
    is reasoning that the server does not name (Gemini, by its OpenAI-like endpoint).
    """
    beside = 0 if by_total is None else by_total - output
    if reasoning and (reasoning > output or reasoning == beside):
        return output + reasoning, reasoning
    if not reasoning and beside > 0:
        return output + beside, beside
    return output, reasoning


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
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def _first(*values: int | None) -> int:
    return next((value for value in values if value is not None), 0)
