"""When to ask again."""

import json
import random
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.net.retry import asked_wait_seconds, backoff_seconds

CASES = json.loads(Path(__file__).parents[2].joinpath("data/retry-after.json").read_text())
NOW = datetime.fromisoformat("2026-11-29T12:00:00+00:00").timestamp()


@pytest.mark.parametrize(("value", "wait"), CASES["cases"])
def test_retry_after_is_understood_in_every_form(value, wait):
    assert asked_wait_seconds({"retry-after": value}, now=NOW) == wait


@pytest.mark.parametrize(("written", "wait"), CASES["milliseconds_header"])
def test_milliseconds_win(written, wait):
    pairs = [part.split(": ") for part in written.split(" with ")]
    assert asked_wait_seconds(dict(pairs), now=NOW) == wait


@pytest.mark.parametrize(
    "value",
    [
        "1_000",
        "١٢",
        "0x10",
        "1e999",
        "Sun, 99 Nov 2026 12:00:30 GMT",
        "Sun, 29 Nov 99999999 12:00:30 GMT",
        "\x00",
    ],
)
def test_odd_values_are_ignored(value):
    assert asked_wait_seconds({"retry-after": value}, now=NOW) is None


def test_a_date_without_zone_is_utc():
    assert asked_wait_seconds({"retry-after": "Sun Nov 29 12:00:07 2026"}, now=NOW) == 7


def test_no_header_asks_for_nothing():
    assert asked_wait_seconds({}, now=NOW) is None


@given(st.text())
def test_no_header_value_is_fatal(value):
    wait = asked_wait_seconds({"retry-after": value, "retry-after-ms": value}, now=NOW)
    assert wait is None or wait >= 0


@given(n_failures=st.integers(1, 10_000), seed=st.integers())
def test_backoff_stays_within_its_bounds(n_failures, seed):
    wait = backoff_seconds(n_failures, base_seconds=0.5, cap_seconds=60, random=random.Random(seed))
    assert 0 <= wait <= min(60, 0.5 * 2.0 ** min(n_failures - 1, 20))


def test_backoff_uses_the_whole_interval():
    class Highest:
        def uniform(self, a, b):
            assert a == 0
            return b

    waits = [
        backoff_seconds(n, base_seconds=1, cap_seconds=10, random=Highest()) for n in range(1, 7)
    ]
    assert waits == [1, 2, 4, 8, 10, 10]
