"""What a call costs, where the price is known. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, final

import attrs

from agentcompass.records import Usage

_PER: Final = 1_000_000
"""Prices are US dollars for so many tokens."""


@final
class Price:
    """The price of one model.

    Args:
        rates: US dollars per million tokens: `input`, `cached_input`, `cache_write`, `output`; what is absent is
            unknown. None: nothing is known.
    """

    def __init__(self, rates: Mapping[str, float] | None) -> None:
        self._rates = rates or {}

    def of(self, usage: Usage) -> float | None:
        """Return the cost in US dollars; None when a token of it has no known price, or tokens are unknown."""
        if usage.unmetered_calls:
            return None
        plain = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        counts = {
            "input": plain,
            "cached_input": usage.cached_tokens,
            "cache_write": usage.cache_write_tokens,
            "output": usage.output_tokens,
        }
        used = {kind: count for kind, count in counts.items() if count}
        if any(kind not in self._rates for kind in used):
            return None
        return sum(count * self._rates[kind] for kind, count in used.items()) / _PER

    def priced(self, usage: Usage) -> Usage:
        """Return the usage of one call with its cost."""
        return attrs.evolve(usage, cost_usd=self.of(usage))


def price_of(model_id: str, prices: Mapping[str, Mapping[str, float]]) -> Price:
    """Return the price of a model: by its very id, else by the first pattern (`gpt-4*`) that matches it."""
    if model_id in prices:
        return Price(prices[model_id])
    for pattern, rates in prices.items():
        if fnmatchcase(model_id, pattern):
            return Price(rates)
    return Price(None)
