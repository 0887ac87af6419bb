"""What a call costs, where the price is known."""

import re
from pathlib import Path

import pytest

from agentcompass.components.models.price_list import AS_OF, LISTS, listed
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


def test_reasoning_costs_what_output_does_unless_it_has_a_price_of_its_own():
    used = usage(output_tokens=1_000_000, reasoning_tokens=400_000)
    assert price_of("m", {"m": {"output": 10.0}}).of(used) == 10.0
    own = {"m": {"output": 10.0, "reasoning": 5.0}}
    assert price_of("m", own).of(used) == pytest.approx(6.0 + 2.0)
    assert price_of("m", {"m": {"reasoning": 5.0}}).of(used) is None


def test_no_tokens_cost_nothing():
    assert price_of("x", {}).of(usage()) == 0.0
    assert Usage().cost_usd == 0.0


# --- list prices


OPENAI, ANTHROPIC = "api.openai.com", "api.anthropic.com"
LISTED = [
    pytest.param(host, name, line, id=name)
    for host, models in LISTS.items()
    for name, line in models.items()
]


@pytest.mark.parametrize(("host", "name", "line"), LISTED)
def test_a_line_of_the_list_makes_sense(host, name, line):
    rates = line.rates
    assert {"input", "output"} <= set(rates) <= {"input", "cached_input", "cache_write", "output"}
    assert rates.get("cached_input", 0) < rates["input"] < rates["output"]
    assert rates["input"] < rates.get("cache_write", 1e9)
    assert listed(host, name) == line
    if host == ANTHROPIC:  # by its price page: writing an entry costs a quarter more than the input
        assert rates["cache_write"] == pytest.approx(1.25 * rates["input"])


def test_the_list_says_when_it_was_read():
    assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", AS_OF)
    document = Path(__file__).parents[3] / "docs/models.md"
    assert f"list price of {AS_OF}" in document.read_text()


@pytest.mark.parametrize(
    ("host", "model", "same_as"),
    [
        (OPENAI, "gpt-4.1-2025-04-14", "gpt-4.1"),
        (OPENAI, "gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        (ANTHROPIC, "claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        (ANTHROPIC, "claude-opus-5-5", "claude-opus-5-5"),
        (OPENAI, "gpt-5-nano", "gpt-5-nano"),
        (OPENAI, "gpt-4.1-mine", None),
        (OPENAI, "gpt-5-pro", None),
        (OPENAI, "ft:gpt-4.1-2025-04-14:me", None),
        (OPENAI, "claude-opus-5", None),
        ("proxy.example", "gpt-4.1", None),
        ("", "gpt-4.1", None),
    ],
)
def test_a_model_is_found_by_its_id_and_its_snapshots_at_its_maker_only(host, model, same_as):
    found = listed(host, model)
    assert found == (None if same_as is None else LISTS[host][same_as])


def test_the_users_price_wins_over_the_list():
    used = usage(input_tokens=1_000_000)
    assert price_of("gpt-4.1", {}, host=OPENAI).of(used) == 2.0
    assert price_of("gpt-4.1", {"gpt-*": {"input": 7.0}}, host=OPENAI).of(used) == 7.0
    assert price_of("gpt-4.1", {}, host="proxy.example").of(used) is None


def test_longer_input_than_the_list_is_for_has_an_unknown_cost():
    price = price_of("gpt-5.5", {}, host=OPENAI)
    assert price.of(usage(input_tokens=272_000)) == pytest.approx(1.36)
    assert price.of(usage(input_tokens=272_001)) is None


def test_a_list_price_is_for_ordinary_calls_and_a_price_of_the_user_for_all():
    used = usage(input_tokens=1_000_000)
    price = price_of("gpt-4.1", {}, host=OPENAI)
    assert price.priced(used, {"service_tier": "default"}).cost_usd == 2.0
    assert price.priced(used, {"service_tier": "priority"}).cost_usd is None
    own = price_of("m", {"m": {"input": 2.0}})
    assert own.priced(used, {"service_tier": "priority"}).cost_usd == 2.0
