import json
import math
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.metrics.intervals import resamples_for
from agentcompass.metrics.scores import Score, is_success, score
from agentcompass.records import Metric

VECTORS = json.loads((Path(__file__).parents[2] / "data/metrics.json").read_text())
BINARY = Metric(name="m", primary=True)
SCALAR = Metric(name="m", kind="scalar", worst=0.0, best=10.0)

entry = st.sampled_from([0.0, 1.0, None])
tables = st.integers(1, 4).flatmap(
    lambda k: st.lists(st.lists(entry, min_size=k, max_size=k), min_size=1, max_size=8)
)


@pytest.mark.parametrize("case", VECTORS["tables"], ids=range(len(VECTORS["tables"])))
def test_scores_agree_with_reference_tables(case):
    found = score(BINARY, case["rows"], resamples=1000)
    near = lambda value: value if value is None else pytest.approx(value, abs=1e-6)  # noqa: E731
    assert found.value == near(case["value"])
    assert found.graded_value == near(case["graded_value"])
    assert found.bounds == near(tuple(case["bounds"]))
    assert found.stderr == near(case.get("stderr_strict", case.get("stderr_clustered_strict")))
    if "ci95_wilson_strict" in case:
        assert found.ci95 == near(tuple(case["ci95_wilson_strict"]))
        assert found.ci95_method == "wilson"
        assert found.pass_at_k == {}
    else:
        assert found.ci95[0] <= found.value <= found.ci95[1]
        assert found.pass_at_k == {int(j): near(v) for j, v in case["pass_at"].items()}
        assert found.pass_hat_k == near(case["pass_hat_k"])


@given(tables)
def test_value_is_the_mean_with_missing_as_zero_and_lies_within_its_bounds(rows):
    found = score(BINARY, rows, resamples=0)
    flat = [value or 0.0 for row in rows for value in row]
    assert found.value == pytest.approx(sum(flat) / len(flat))
    assert found.bounds[0] == pytest.approx(found.value)
    assert found.bounds[0] <= found.bounds[1] <= 1
    present = [value for row in rows for value in row if value is not None]
    if present:
        assert found.bounds[0] - 1e-9 <= found.graded_value <= found.bounds[1] + 1e-9
    else:
        assert found.graded_value is None


@given(tables)
def test_no_series_is_defined_where_a_verdict_it_needs_is_missing(rows):
    found = score(BINARY, rows, resamples=0)
    k, fewest = len(rows[0]), min(sum(v is not None for v in row) for row in rows)
    assert [j for j, value in found.pass_at_k.items() if value is None] == (
        list(range(fewest + 1, k + 1)) if k > 1 else []
    )
    assert (found.avg_at_k is not None) == (k > 1 and fewest == k)
    assert (found.pass_hat_k is not None) == (k > 1 and fewest == k)


@given(tables)
def test_with_every_verdict_there_the_series_agree_with_each_other(rows):
    if any(None in row for row in rows) or len(rows[0]) == 1:
        return
    found = score(BINARY, rows, resamples=0)
    assert found.avg_at_k == pytest.approx(found.value)
    assert found.pass_at_k[1] == pytest.approx(found.value)
    rates = list(found.pass_at_k.values())
    assert rates == pytest.approx(sorted(rates))
    assert found.pass_hat_k <= found.value + 1e-9
    solved = sum(any(row) for row in rows) / len(rows)
    assert rates[-1] == pytest.approx(solved)


def test_a_scalar_metric_with_a_missing_verdict_has_no_value_but_has_bounds():
    found = score(SCALAR, [[4.0], [None], [8.0]], resamples=1000)
    assert (found.value, found.stderr, found.ci95) == (None, None, None)
    assert found.graded_value == 6.0
    assert found.bounds == (4.0, pytest.approx(22 / 3))


def test_an_open_scale_has_no_bound_at_its_open_end():
    metric = Metric(name="m", kind="scalar", worst=0.0, best=None)
    assert score(metric, [[4.0], [None]], resamples=0).bounds == (2.0, None)
    assert score(metric, [[4.0], [2.0]], resamples=0).bounds == (3.0, 3.0)


def test_a_scalar_metric_gets_a_bootstrap_interval_or_a_normal_one_on_many_tasks():
    rows = [[float(i % 7)] for i in range(50)]
    assert score(SCALAR, rows, resamples=1000).ci95_method == "bootstrap"
    assert score(SCALAR, rows, resamples=0).ci95_method == "normal"


def test_a_single_scalar_task_has_a_value_and_no_interval():
    found = score(SCALAR, [[3.0]], resamples=1000)
    assert (found.value, found.stderr, found.ci95) == (3.0, None, None)


def test_tasks_that_all_succeed_every_time_do_not_claim_certainty():
    found = score(BINARY, [[1.0, 1.0, 1.0]] * 3, resamples=1000)
    assert found.ci95_method == "wilson"
    assert found.ci95[0] < 0.5
    assert found.ci95[1] == 1.0


def test_an_empty_table_has_no_score():
    assert score(BINARY, [], resamples=1000) == Score()


def test_success_is_the_best_end_of_the_scale_whichever_it_is():
    assert is_success(BINARY, 1.0)
    assert not is_success(BINARY, 0.99)
    assert is_success(Metric(name="errors", kind="scalar", worst=9.0, best=0.0), 0.0)
    assert not is_success(Metric(name="errors", kind="scalar", worst=9.0, best=0.0), 1.0)
    assert is_success(Metric(name="speed", kind="scalar", best=None), 0.1)


def test_a_missing_verdict_counts_as_the_worst_of_a_metric_where_low_is_good():
    found = score(Metric(name="m", worst=1.0, best=0.0), [[0.0], [None]], resamples=0)
    assert found.value == 0.5
    assert found.bounds == (0.5, 0.0)


@pytest.mark.parametrize("k", [1, 5])
def test_ten_thousand_tasks_are_scored_in_under_a_second(k):
    rows = [[float((i * 7 + j * 3) % 5 > 1) for j in range(k)] for i in range(10_000)]
    start = time.process_time()
    found = score(BINARY, rows, resamples=resamples_for(len(rows)))
    assert time.process_time() - start < 1
    assert math.isfinite(found.value)


LARGE = st.one_of(
    st.none(),
    st.sampled_from([1e200, -1e200, 1.7e308, -1.7e308, 0.0, 1.0, 5e-324]),
    st.floats(allow_nan=False, allow_infinity=False),
)
large_tables = st.integers(1, 3).flatmap(
    lambda k: st.lists(st.lists(LARGE, min_size=k, max_size=k), min_size=1, max_size=6)
)
ends = st.one_of(st.none(), st.sampled_from([0.0, 1.0, 1.7e308, -1.7e308]))


@given(
    large_tables, st.sampled_from(["binary", "scalar"]), ends, ends, st.sampled_from([0, 1000, 20])
)
def test_whatever_the_numbers_are_a_score_is_finite_or_none(rows, kind, worst, best, resamples):
    metric = Metric(name="m", kind=kind, worst=worst, best=best)
    found = score(metric, rows, resamples=resamples)
    numbers = [found.value, found.graded_value, found.stderr, found.avg_at_k, found.pass_hat_k]
    numbers += [*found.bounds, *(found.ci95 or ()), *found.pass_at_k.values()]
    assert all(number is None or math.isfinite(number) for number in numbers)
    assert (found.ci95 is None) == (found.ci95_method is None)


def test_what_cannot_be_computed_is_none_and_the_rest_is_there():
    metric = Metric(name="m", kind="scalar", worst=0.0, best=None)
    found = score(metric, [[1e200], [3e200]], resamples=1000)
    assert found.value == found.graded_value == 2e200
    assert (found.stderr, found.ci95, found.ci95_method) == (None, None, None)
    assert score(metric, [[1.7e308], [1.7e308]], resamples=1000).value is None
