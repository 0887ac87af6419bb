import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.metrics.board import UNCATEGORIZED, TaskOutcome, score_tasks
from agentcompass.records import Metric

METRICS = (Metric(name="ok", primary=True), Metric(name="cost", kind="scalar", best=None))
BY_LETTER = {
    "g": "graded",
    "f": "graded",
    "i": "infra",
    "c": "cancelled",
    "s": "skipped",
    ".": None,
}


def task(letters, category=None):
    """g: graded 1, f: graded 0, i: infra, c: cancelled, s: skipped, .: no record."""
    values = [
        {"ok": float(letter == "g"), "cost": float(at)} if letter in "gf" else None
        for at, letter in enumerate(letters)
    ]
    verdicts = [BY_LETTER[letter] for letter in letters]
    return TaskOutcome(category=category, verdicts=verdicts, values=values)


def board(*tasks, strategy="avg"):
    outcomes = [item if isinstance(item, TaskOutcome) else task(item) for item in tasks]
    return score_tasks(outcomes, METRICS, k=len(outcomes[0].verdicts), strategy=strategy)


outcomes = st.integers(1, 4).flatmap(
    lambda k: st.lists(st.text("gfics.", min_size=k, max_size=k), min_size=1, max_size=8)
)


@given(outcomes, st.sampled_from(["avg", "pass"]))
def test_every_planned_attempt_is_counted_exactly_once(rows, strategy):
    counts = board(*rows, strategy=strategy).counts
    assert counts.planned == sum(map(len, rows))
    assert counts.planned == counts.graded + counts.infra + counts.cancelled + counts.skipped
    assert 0 <= counts.not_needed <= counts.skipped


@given(outcomes)
def test_with_pass_the_value_is_the_share_of_tasks_that_ever_succeeded(rows):
    found = board(*rows, strategy="pass")
    solved = sum("g" in row for row in rows)
    failed = sum(set(row) == {"f"} for row in rows)
    assert found.scores["ok"].value == pytest.approx(solved / len(rows))
    assert found.coverage == pytest.approx((solved + failed) / len(rows))
    assert found.counts.resolved == solved + failed
    open_tasks = len(rows) - solved - failed
    assert found.scores["ok"].bounds[1] == pytest.approx((solved + open_tasks) / len(rows))


@given(outcomes)
def test_with_pass_the_rate_within_j_attempts_is_known_only_when_no_earlier_verdict_is_missing(
    rows,
):
    k = len(rows[0])
    rates = board(*rows, strategy="pass").scores["ok"].pass_at_k
    for j in range(1, k + 1) if k > 1 else ():
        heads = [row[:j] for row in rows]
        is_open = any("g" not in head and set(head) != {"f"} for head in heads)
        expected = None if is_open else sum("g" in head for head in heads) / len(rows)
        assert rates[j] == (expected if expected is None else pytest.approx(expected))


def test_with_pass_attempts_after_a_success_are_not_missing():
    found = board("g..", "fgs", "fff", strategy="pass")
    assert found.coverage == 1.0
    assert found.counts.skipped == 3
    assert found.counts.not_needed == 3
    assert found.scores["ok"].value == pytest.approx(2 / 3)
    assert found.scores["ok"].pass_at_k == {
        1: pytest.approx(1 / 3),
        2: pytest.approx(2 / 3),
        3: pytest.approx(2 / 3),
    }


def test_with_pass_a_task_is_open_while_a_failure_could_still_become_a_success():
    found = board("fi", "g.", strategy="pass")
    assert found.coverage == 0.5
    assert found.scores["ok"].bounds == (0.5, 1.0)


def test_with_pass_a_success_after_an_infrastructure_failure_resolves_the_task():
    found = board("ig", strategy="pass")
    assert found.coverage == 1.0
    assert found.counts.infra == 1
    assert found.scores["ok"].pass_at_k == {1: None, 2: 1.0}


def test_with_pass_other_metrics_come_from_the_deciding_attempt():
    assert board("fgs", strategy="pass").scores["cost"].value == 1.0
    assert board("fff", strategy="pass").scores["cost"].value == 2.0


def test_with_avg_nothing_recorded_is_missing():
    found = board("g.", "gf")
    assert found.coverage == 0.75
    assert found.counts.skipped == 1
    assert found.counts.not_needed == 0
    assert found.counts.resolved == 1


def test_two_of_eight_with_two_errors_reads_a_quarter():
    found = board(*"ggffffii")
    assert found.scores["ok"].value == 0.25
    assert found.scores["ok"].graded_value == pytest.approx(1 / 3)


def test_tasks_with_and_without_category_are_scored_side_by_side():
    found = board(task("g", "math"), task("f"), task("f", "math"))
    assert list(found.categories) == [UNCATEGORIZED, "math"]
    assert found.categories["math"].scores["ok"].value == 0.5
    assert sum(b.counts.planned for b in found.categories.values()) == 3


def test_no_categories_at_all_give_no_breakdown():
    assert board("g", "f").categories == {}


def test_nothing_planned_is_no_success():
    found = score_tasks([], METRICS, k=1, strategy="avg")
    assert found.coverage == 0.0
    assert found.scores["ok"].value is None


def test_a_graded_attempt_without_a_metric_is_missing_for_that_metric_only():
    half = attrs.evolve(task("g"), values=[{"ok": 1.0}])
    found = board(half, "f")
    assert found.scores["ok"].value == 0.5
    assert found.scores["cost"].value is None
