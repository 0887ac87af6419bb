import json
import math
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcompass.metrics import intervals

VECTORS = json.loads((Path(__file__).parents[2] / "data/metrics.json").read_text())


@pytest.mark.parametrize(
    "case", VECTORS["wilson_95"], ids=lambda c: f"{c['successes']}-of-{c['n']}"
)
def test_wilson_interval_agrees_with_statsmodels(case):
    assert intervals.wilson(case["successes"], case["n"]) == pytest.approx(case["ci"], abs=1e-6)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_interval_holds_the_proportion_and_solves_the_score_equation(case):
    successes, n = case
    low, high = intervals.wilson(successes, n)
    p = successes / n
    assert 0 <= low <= p <= high <= 1
    for end in (low, high):
        if 0 < end < 1:  # an end is where the score test just rejects
            z = abs(p - end) / math.sqrt(end * (1 - end) / n)
            assert z == pytest.approx(intervals.Z95, rel=1e-6)


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=30))
def test_clustered_stderr_is_the_sample_deviation_over_root_n(means):
    n, mean = len(means), sum(means) / len(means)
    expected = math.sqrt(sum((m - mean) ** 2 for m in means) / (n - 1)) / math.sqrt(n)
    assert intervals.clustered_stderr(means) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_clustered_stderr_of_one_task_is_undefined():
    assert intervals.clustered_stderr([0.5]) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
@settings(max_examples=30, deadline=None)
def test_bootstrap_is_repeatable_and_stays_within_the_values(means):
    first = intervals.bootstrap(means, 200)
    assert first == intervals.bootstrap(means, 200)
    assert min(means) <= first[0] <= first[1] <= max(means)


def test_bootstrap_agrees_with_the_normal_approximation_on_many_tasks():
    means = [(i * 37 % 101) / 100 for i in range(500)]
    low, high = intervals.bootstrap(means, 2000)
    value, stderr = sum(means) / 500, intervals.clustered_stderr(means)
    assert (low, high) == pytest.approx(
        intervals.normal(value, stderr, (0.0, 1.0)), abs=0.15 * stderr
    )


def test_normal_interval_is_cut_at_a_closed_scale_only():
    assert intervals.normal(0.99, 0.1, (0.0, 1.0))[1] == 1.0
    assert intervals.normal(0.99, 0.1, (0.0, None))[1] > 1.0
    assert intervals.normal(0.99, 0.1, (1.0, 0.0))[1] == 1.0


def test_draws_are_bounded_however_many_tasks_there_are():
    assert intervals.resamples_for(100) == 2000
    assert intervals.resamples_for(1000) == 1000
    assert intervals.resamples_for(1001) == 0
    assert intervals.resamples_for(0) == 2000
    assert all(intervals.resamples_for(n) * n <= intervals.DRAW_BUDGET for n in (1, 700, 10**5))


def test_a_bootstrap_at_its_limit_takes_under_a_second():
    means = [0.1 * (i % 11) for i in range(1000)]
    start = time.process_time()
    intervals.bootstrap(means, intervals.resamples_for(1000))
    assert time.process_time() - start < 1
