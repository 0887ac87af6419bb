"""What a call costs, where the price is known. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final, final

import attrs

from agentcompass.components.models.price_list import Listed, listed
from agentcompass.components.models.usage import is_standard
from agentcompass.records import JSON, Usage

_PER: Final = 1_000_000
"""Prices are US dollars for so many tokens."""


@final
class Price:
    """The price of one model.

    Args:
        rates: US dollars per million tokens: `input`, `cached_input`, `cache_write`, `output`, and `reasoning` where
            it is another than that of the output; what is absent is unknown. None: nothing is known.
        max_input_tokens: Up to so much input of one call they hold; None: always.
        is_list_price: They hold for ordinary calls only.
    """

    def __init__(
        self,
        rates: Mapping[str, float] | None,
        *,
        max_input_tokens: int | None = None,
        is_list_price: bool = False,
    ) -> None:
        self._rates = rates or {}
        self._max_input_tokens = max_input_tokens
        self._is_list_price = is_list_price

    @property
    def is_known(self) -> bool:
        """Whether an ordinary call has a price."""
        return {"input", "output"} <= set(self._rates)

    def of(self, usage: Usage) -> float | None:
        """Return the cost in US dollars; None when a token of it has no known price, or tokens are unknown."""
        if usage.unmetered_calls:
            return None
        if self._max_input_tokens is not None and usage.input_tokens > self._max_input_tokens:
            return None
        counts = {
            "input": usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens,
            "cached_input": usage.cached_tokens,
            "cache_write": usage.cache_write_tokens,
            "output": usage.output_tokens,
        }
        if "reasoning" in self._rates:
            counts["output"] -= usage.reasoning_tokens
            counts["reasoning"] = usage.reasoning_tokens
        used = {kind: count for kind, count in counts.items() if count}
        if any(kind not in self._rates for kind in used):
            return None
        return sum(count * self._rates[kind] for kind, count in used.items()) / _PER

    def priced(self, usage: Usage, raw_usage: JSON) -> Usage:
        """Return the usage of one call with its cost.

        Args:
            usage: What it used.
            raw_usage: The same as the endpoint told it, which may show that the call was no ordinary one.
        """
        is_known = not self._is_list_price or is_standard(raw_usage)
        return attrs.evolve(usage, cost_usd=self.of(usage) if is_known else None)


def price_of(model_id: str, prices: Mapping[str, Mapping[str, float]], *, host: str = "") -> Price:
    """Return the price of a model.

    By the user's prices: its very id, else the first pattern (`gpt-4*`) that matches it. Else by the list of its maker,
    if the maker's own endpoint is called: others set prices of their own.

    Args:
        model_id: As it is sent.
        prices: The user's, by id or pattern.
        host: Of the endpoint.
    """
    if model_id in prices:
        return Price(prices[model_id])
    for pattern, rates in prices.items():
        if fnmatchcase(model_id, pattern):
            return Price(rates)
    found = listed(host, model_id)
    return Price(None) if found is None else _list_price(found)


def _list_price(found: Listed) -> Price:
    return Price(found.rates, max_input_tokens=found.max_input_tokens, is_list_price=True)
