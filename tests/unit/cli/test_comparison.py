"""Several results as one table that fits the screen."""

import copy

import pytest

from agentcompass.cli import comparison
from agentcompass.progress.text import cells
from agentcompass.records import OrchestrationResult, RequestOutcome

LONG = "the request for the benchmark with the long name, which nobody should ever have to shorten, at 3 in the morning"


def result(name="one", run_id="r1", status="completed", **summary):
    usage = {"calls": 12, "unmetered_calls": 0, "total_tokens": 12345, "cost_usd": 1.5}
    known = {
        "status": status,
        "score": 0.5,
        "ci95": [0.237, 0.763],
        "coverage": 1.0,
        "usage": usage,
        "elapsed_seconds": 725.0,
    }
    return {"metadata": {"name": name, "run_id": run_id}, "summary": {**known, **summary}}


def usage(**changes):
    return {**result()["summary"]["usage"], **changes}


def orchestration(*outcomes):
    return OrchestrationResult(
        id="o1",
        name="nightly",
        status="partial_failure",
        started_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T01:00:00Z",
        requests={outcome.name: outcome for outcome in outcomes},
    )


def outcome(name="one", run_dir="results/one/r1", **summary):
    return RequestOutcome(
        name=name,
        status=summary.get("status", "completed"),
        result=result(name, **summary),
        paths={"run_dir": run_dir},
    )


def test_a_launch_is_a_line_for_each_request_and_where_its_results_are():
    ended = orchestration(outcome(), RequestOutcome(name="two", status="timed_out"))
    assert comparison.orchestration_text(ended, 80).splitlines() == [
        "nightly: partial failure",
        "request  status     score                 coverage  tokens  cost   time",
        "one      completed  0.500 [0.237, 0.763]  100.0%    12.3k   $1.50  12m 05s",
        "two      timed out  -                     -         -       -      -",
        "results:",
        "  results/one/r1",
    ]


def test_a_launch_that_left_no_results_names_no_place():
    ended = orchestration(RequestOutcome(name="two", status="failed"))
    assert "results:" not in comparison.orchestration_text(ended, 80)


@pytest.mark.parametrize(
    ("known", "tokens", "cost"),
    [
        (usage(cost_usd=None), "12.3k", "unknown"),
        (usage(unmetered_calls=3), "12.3k+", "$1.50"),
        (usage(unmetered_calls=12, total_tokens=0, cost_usd=None), "unknown", "unknown"),
        (usage(calls=0, total_tokens=0, cost_usd=0.0), "-", "-"),
        (usage(cost_usd=0.0), "12.3k", "$0.00"),
    ],
    ids=["price", "some tokens", "all tokens", "no call", "free"],
)
def test_what_is_not_known_is_unknown_and_never_zero(known, tokens, cost):
    text = comparison.results_text([result(usage=known, elapsed_seconds=None)], 80)
    assert text.splitlines()[1].split()[-3:] == [tokens, cost, "-"]


def test_runs_of_one_name_are_told_apart_by_their_id():
    text = comparison.results_text([result(), result(run_id="r2"), result("two")], 100)
    assert [line.split("  ")[0] for line in text.splitlines()[1:]] == ["one r1", "one r2", "two"]


@pytest.mark.parametrize("columns", [80, 100, 200])
def test_a_table_is_never_wider_than_the_screen(columns):
    names = ["one", "\u6771\u4eac" * 30, LONG, "x" * 500, "e\u0301" * 70, "twelve chars"]
    ended = orchestration(*(outcome(name) for name in names))
    lines = comparison.orchestration_text(ended, columns).splitlines()
    table = lines[: lines.index("results:")]
    assert max(map(cells, table)) <= columns
    heads = [line.index("completed") for line in table if "completed" in line]
    assert len(heads) == len(names)


def test_a_long_name_has_a_line_of_its_own_whole_where_it_fits():
    lines = comparison.orchestration_text(orchestration(outcome(), outcome(LONG)), 120).splitlines()
    assert lines[3] == LONG
    assert lines[4].split()[0] == "completed"
    assert lines[4].index("completed") == lines[2].index("completed")


def test_a_name_wider_than_the_screen_keeps_its_beginning_and_its_end():
    lines = comparison.orchestration_text(orchestration(outcome(LONG)), 80).splitlines()
    assert lines[2].startswith("the request for the benchmark")
    assert lines[2].endswith("at 3 in the morning")
    assert len(lines[2]) == 80


def test_names_cannot_break_the_table():
    lines = comparison.results_text([result("two\nlines\x1b[2J")], 80).splitlines()
    assert lines[1].startswith("two lines  completed")


def test_figures_of_any_size_leave_room_for_a_name():
    huge = result(score=-1.5e300, ci95=[-2e300, -1e300])
    lines = comparison.results_text([huge, copy.deepcopy(huge)], 80).splitlines()
    assert "-1.5e+300 [-2e+300, -1e+300]" in lines[-1]


def test_a_run_that_did_not_complete_shows_what_is_graded_so_far():
    scores = {"correct": {"graded_value": 0.75}}, {"correct": {"graded_value": None}}
    runs = [
        result(name, status="cancelled") | {"metrics": {"primary": "correct", "scores": known}}
        for name, known in zip(("one", "two"), scores, strict=True)
    ]
    _head, one, two = comparison.results_text(runs, 80).splitlines()
    assert "0.750 so far  100.0%" in one
    assert "n/a  " in two
