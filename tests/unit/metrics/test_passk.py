import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.metrics.passk import mean_over_tasks, pass_at_k, pass_hat_k

VECTORS = json.loads((Path(__file__).parents[2] / "data/metrics.json").read_text())


def name(case):
    return f"n{case['n']}-c{case['c']}-k{case['k']}"


def close(value):
    return value if value is None else pytest.approx(value, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("case", VECTORS["pass_at_k"], ids=name)
def test_pass_at_k_agrees_with_reference_values(case):
    assert pass_at_k(case["n"], case["c"], case["k"]) == close(case["value"])


@pytest.mark.parametrize("case", VECTORS["pass_hat_k"], ids=name)
def test_pass_hat_k_agrees_with_reference_values(case):
    assert pass_hat_k(case["n"], case["c"], case["k"]) == close(case["value"])


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.integers(1, 9))
def test_both_estimators_are_the_average_over_all_choices_of_k_attempts(attempts, k):
    n, c = len(attempts), sum(attempts)
    choices = list(itertools.combinations(attempts, k))
    if not choices:
        assert pass_at_k(n, c, k) is None
        assert pass_hat_k(n, c, k) is None
        return
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, choices)) / len(choices))
    assert pass_hat_k(n, c, k) == pytest.approx(sum(map(all, choices)) / len(choices))


def test_one_greedy_sample_gives_no_pass_at_10():
    assert pass_at_k(1, 1, 10) is None


def test_one_task_with_too_few_attempts_makes_the_mean_undefined():
    assert mean_over_tasks({(3, 3): 99, (1, 1): 1}, 2, pass_at_k) is None
    assert mean_over_tasks({(3, 3): 99, (2, 0): 1}, 2, pass_at_k) == pytest.approx(0.99)


def test_no_task_has_no_mean():
    assert mean_over_tasks({}, 1, pass_at_k) is None
