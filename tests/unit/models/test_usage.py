"""What an endpoint says a call used."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.components.models.usage import is_standard, merged, normalise, unmetered

CASES = json.loads(Path(__file__).parents[2].joinpath("data/usage.json").read_text())["cases"]
PROTOCOLS = ["openai-chat", "openai-completions", "openai-responses", "anthropic"]


def raw_of(case):
    if "raw_stream" not in case:
        return case["raw"]
    usage = None
    for event in case["raw_stream"]:
        usage = merged(usage, *event.values())
    return usage


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.get("note", case["protocol"]))
def test_reference_cases(case):
    usage = normalise(case["protocol"], raw_of(case))
    if case["total"] is None:
        assert usage == unmetered()
        return
    assert usage.calls == 1
    assert usage.unmetered_calls == 0
    assert usage.cost_usd is None
    seen = {
        "input": usage.input_tokens,
        "cached": usage.cached_tokens,
        "cache_write": usage.cache_write_tokens,
        "output": usage.output_tokens,
        "reasoning": usage.reasoning_tokens,
        "total": usage.total_tokens,
    }
    assert seen == {name: case[name] for name in seen}


@pytest.mark.parametrize(
    "raw",
    [
        {},
        [],
        "many",
        7,
        {"prompt_tokens": None, "completion_tokens": 3},
        {"prompt_tokens": -1, "completion_tokens": 3},
        {"prompt_tokens": True, "completion_tokens": 3},
        {"prompt_tokens": "12", "completion_tokens": 3},
        {"prompt_tokens": 1.5, "completion_tokens": 3},
        {"prompt_tokens": 2**53 + 1, "completion_tokens": 3},
        {"prompt_tokens": 12, "completion_tokens": 10**30},
        {"prompt_tokens": 12, "completion_tokens": 1e300},
        {"prompt_tokens": float("nan"), "completion_tokens": float("inf")},
    ],
)
def test_nonsense_is_unknown_not_zero(raw):
    for protocol in PROTOCOLS:
        assert normalise(protocol, raw) == unmetered()


def test_whole_floats_count():
    usage = normalise("openai-chat", {"prompt_tokens": 12.0, "completion_tokens": 3.0})
    assert usage.total_tokens == 15


def test_a_missing_completion_follows_from_the_total():
    usage = normalise("openai-completions", {"prompt_tokens": 12, "total_tokens": 20})
    assert usage.output_tokens == 8


def test_more_reasoning_than_completion_was_counted_beside_it():
    raw = {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "completion_tokens_details": {"reasoning_tokens": 40},
    }
    assert normalise("openai-chat", raw).output_tokens == 42


def test_parts_are_never_more_than_the_whole():
    raw = {
        "prompt_tokens": 5,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 9, "cache_write_tokens": 9},
    }
    usage = normalise("openai-chat", raw)
    assert (usage.cached_tokens, usage.cache_write_tokens) == (5, 0)


def test_later_events_win_but_for_what_they_do_not_know():
    earlier = {"a": 1, "b": 2, "c": None, "d": {"x": 1}}
    later = {"a": 3, "b": 0, "c": 0, "d": {}, "e": 0, "f": None}
    assert merged(earlier, later) == {"a": 3, "b": 2, "c": 0, "d": {"x": 1}, "e": 0, "f": None}
    assert merged(None, later) == later
    assert merged(earlier, None) == merged(earlier, "many") == earlier


@pytest.mark.parametrize(
    ("raw", "is_ordinary"),
    [
        (None, True),
        ({"input_tokens": 5, "output_tokens": 1}, True),
        ({"service_tier": "standard", "speed": None, "inference_geo": "not_available"}, True),
        (
            {"cache_creation": {"ephemeral_5m_input_tokens": 9, "ephemeral_1h_input_tokens": 0}},
            True,
        ),
        ({"server_tool_use": {"web_search_requests": 0}}, True),
        ({"service_tier": "priority"}, False),
        ({"service_tier": "batch"}, False),
        ({"speed": "fast"}, False),
        ({"inference_geo": "us"}, False),
        ({"cache_creation": {"ephemeral_1h_input_tokens": 1}}, False),
        (
            {"input_tokens_details": {"cache_write_tokens_details": {"ttl_12h_tokens": 4}}},
            False,
        ),
        (
            {"prompt_tokens_details": {"cache_write_tokens_details": {"ttl_12h_tokens": 4}}},
            False,
        ),
        ({"server_tool_use": {"web_search_requests": 2}}, False),
    ],
    ids=range(13),
)
def test_calls_that_no_list_price_is_for_are_known(raw, is_ordinary):
    assert is_standard(raw) == is_ordinary


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.dictionaries(
        st.sampled_from(
            [
                "prompt_tokens",
                "completion_tokens",
                "total_tokens",
                "input_tokens",
                "output_tokens",
                "prompt_tokens_details",
                "cached_tokens",
                "completion_tokens_details",
                "reasoning_tokens",
                "cache_read_input_tokens",
                "cache_creation",
                "output_tokens_details",
                "server_tool_use",
                "service_tier",
            ]
        ),
        inner,
    ),
    max_leaves=12,
)


@given(protocol=st.sampled_from(PROTOCOLS), earlier=JSON_VALUES, later=JSON_VALUES)
def test_no_usage_object_is_fatal_and_sums_always_hold(protocol, earlier, later):
    usage = normalise(protocol, merged(earlier, later))
    assert usage.calls == 1
    assert 0 <= usage.cached_tokens + usage.cache_write_tokens <= usage.input_tokens
    assert 0 <= usage.reasoning_tokens <= usage.output_tokens
    assert is_standard(merged(earlier, later)) in {True, False}
