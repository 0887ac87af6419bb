"""What a call costs, where the price is known."""

import pytest

from agentcompass.components.models.pricing import price_of
from agentcompass.components.models.usage import unmetered
from agentcompass.records import Usage

PRICES = {
    "org/big-*": {"input": 2.0, "cached_input": 0.2, "cache_write": 2.5, "output": 10.0},
    "*": {"input": 1.0, "output": 1.0},
    "org/big-one": {"input": 3.0, "output": 3.0},
}


def usage(**counts):
    return Usage(calls=1, cost_usd=None, **counts)


def test_each_kind_of_token_has_its_price():
    used = usage(
        input_tokens=1_000_000,
        cached_tokens=400_000,
        cache_write_tokens=100_000,
        output_tokens=50_000,
    )
    assert price_of("org/big-two", PRICES).of(used) == pytest.approx(1.0 + 0.08 + 0.25 + 0.5)


def test_the_very_id_wins_over_patterns_and_the_first_pattern_over_later_ones():
    used = usage(input_tokens=1_000_000)
    assert price_of("org/big-one", PRICES).of(used) == 3.0
    assert price_of("org/big-two", PRICES).of(used) == 2.0
    assert price_of("other", PRICES).of(used) == 1.0


def test_an_unknown_model_has_an_unknown_price():
    assert price_of("x", {}).of(usage(input_tokens=5, output_tokens=1)) is None


def test_cached_tokens_without_a_price_of_their_own_are_not_guessed():
    assert price_of("other", PRICES).of(usage(input_tokens=10, cached_tokens=5)) is None
    assert price_of("other", PRICES).of(usage(input_tokens=10)) == pytest.approx(1e-5)


def test_unknown_tokens_have_an_unknown_cost():
    assert price_of("other", PRICES).of(unmetered()) is None


def test_no_tokens_cost_nothing():
    assert price_of("x", {}).of(usage()) == 0.0
    assert Usage().cost_usd == 0.0
