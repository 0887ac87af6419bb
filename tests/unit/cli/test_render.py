from __future__ import annotations

import copy
import json

import pytest

from agentcompass.cli import render
from agentcompass.errors import PreflightError
from agentcompass.records import OrchestrationResult, RequestOutcome

SCORE = {
    "value": 0.5,
    "graded_value": 0.625,
    "bounds": [0.5, 0.7],
    "ci95": [0.237, 0.763],
    "pass_at_k": {},
    "avg_at_k": None,
    "pass_hat_k": None,
}
RESULT = {
    "metadata": {"name": "demo"},
    "metrics": {
        "primary": "correct",
        "k": 1,
        "scores": {
            "steps": {**SCORE, "value": None, "graded_value": None, "ci95": None},
            "correct": SCORE,
        },
        "categories": {"easy": {"counts": {"tasks": 6}, "scores": {"correct": SCORE}}},
    },
    "summary": {
        "status": "failed",
        "score": 0.5,
        "ci95": [0.237, 0.763],
        "coverage": 0.8,
        "counts": {"planned": 10, "graded": 8, "infra": 2, "cancelled": 0, "skipped": 0},
        "failures": [
            {
                "verdict": "infra",
                "phase": "run",
                "code": "rate-limited",
                "count": 2,
                "task_id": "t1",
                "message": "429\n\x1b[2Jtoo many",
            }
        ],
        "stopped_by": {"timeout": 1},
        "reused": 3,
        "usage": {
            "calls": 12,
            "unmetered_calls": 1,
            "total_tokens": 12345,
            "input_tokens": 12000,
            "output_tokens": 345,
            "cost_usd": None,
        },
        "elapsed_seconds": 725.0,
        "corrupt_lines": [],
        "finish_command": "agentcompass run a b c --reuse r1",
    },
    "paths": {"run_dir": "results/demo/r1", "summary": "results/demo/r1/summary.md"},
}


def changed(**summary):
    result = copy.deepcopy(RESULT)
    result["summary"].update(summary)
    return result


def test_a_result_tells_score_coverage_counts_failures_cost_time_and_what_next():
    assert render.result_text(RESULT).splitlines() == [
        "demo: failed",
        "correct   0.500 [0.237, 0.763]",
        "          0.625 over graded attempts only, between 0.500 and 0.700 in all",
        "steps     n/a",
        "coverage  80.0%",
        "attempts  10 planned: 8 graded, 2 infra",
        "reused    3 attempts of an earlier run",
        "stopped   1 by timeout; graded on what was there",
        "without a score:",
        "  2  infra  run  rate-limited  e.g. t1: 429 too many",
        "by category:",
        "  easy  0.500 [0.237, 0.763]  6 tasks",
        "tokens   12,345 (12,000 in, 345 out) in 12 calls, 1 without usage",
        "cost     unknown",
        "time     12m 05s",
        "results  results/demo/r1",
        "summary  results/demo/r1/summary.md",
        "next     agentcompass run a b c --reuse r1",
    ]


@pytest.mark.parametrize("summary", [{"coverage": 1.0}, {"status": "running"}])
def test_there_is_nothing_to_finish_in_a_whole_or_running_run(summary):
    assert "next " not in render.result_text(changed(**summary))


def test_one_of_a_kind_is_in_the_singular():
    result = changed(reused=1, corrupt_lines=[{}])
    result["metrics"]["categories"]["easy"]["counts"]["tasks"] = 1
    result["summary"]["usage"]["calls"] = 1
    text = render.result_text(result)
    for words in ("1 attempt of an", "1 line cannot be read", "]  1 task", "in 1 call, 1 without"):
        assert words in text


def test_a_name_is_one_line():
    result = copy.deepcopy(RESULT)
    result["metadata"]["name"] = "two\nlines\x1b[2J"
    assert render.result_text(result).splitlines()[0] == "two lines: failed"


def test_several_attempts_show_their_rates():
    result = copy.deepcopy(RESULT)
    result["metrics"]["k"] = 4
    result["metrics"]["scores"]["correct"].update(
        pass_at_k={"1": 0.5, "2": 0.6, "4": None}, avg_at_k=0.5, pass_hat_k=0.25
    )
    assert "avg@4 0.500  pass@1 0.500  pass@4 undefined  pass^4 0.250" in render.result_text(result)


def test_many_causes_are_cut():
    (group,) = RESULT["summary"]["failures"]
    text = render.result_text(changed(failures=[group] * 500))
    assert "490 more causes" in text
    assert text.count("rate-limited") == 10


def test_a_result_without_any_verdict_is_told_too():
    counts = {"planned": 5, "graded": 0, "infra": 0, "cancelled": 0, "skipped": 0}
    assert "attempts  5 planned: none finished" in render.result_text(changed(counts=counts))


def test_a_request_without_result_gives_the_same_keys():
    outcome = RequestOutcome(name="demo", status="failed", error="no Docker")
    value = render.outcome_json(outcome)
    assert set(value) == set(RESULT)
    assert value["summary"] == {"status": "failed", "error": "no Docker"}


def test_an_orchestration_in_json_has_every_request_with_its_result_or_its_error():
    broken = PreflightError("no Docker", hint="Start it.")
    result = OrchestrationResult(
        id="o1",
        name="nightly",
        status="partial_failure",
        started_at="2026-01-01T00:00:00Z",
        finished_at="2026-01-01T01:00:00Z",
        requests={
            "one": RequestOutcome(
                name="one", status="completed", result=RESULT, paths={"run_dir": "results/one/r1"}
            ),
            "two": RequestOutcome(name="two", status="failed", error=str(broken), exception=broken),
            "three": RequestOutcome(name="three", status="timed_out"),
        },
    )
    requests = json.loads(json.dumps(render.orchestration_json(result)))["requests"]
    assert list(requests) == ["one", "two", "three"]
    assert requests["one"]["result"] == RESULT
    assert requests["two"] == {
        "status": "failed",
        "error": "no Docker\nStart it.",
        "error_kind": "PreflightError",
        "result": None,
        "paths": {},
    }
    assert (requests["three"]["status"], requests["three"]["error_kind"]) == ("timed_out", None)


def test_tokens_that_no_call_told_are_unknown_and_not_zero():
    result = copy.deepcopy(RESULT)
    result["summary"]["usage"].update(calls=2, unmetered_calls=2, total_tokens=0)
    assert "tokens   unknown in 2 calls, 2 without usage" in render.result_text(result)


def test_many_categories_are_cut_and_counted():
    result = copy.deepcopy(RESULT)
    board = result["metrics"]["categories"]["easy"]
    result["metrics"]["categories"] = {f"category-{n}": board for n in range(50)}
    text = render.result_text(result)
    assert text.count("category-") == 30
    assert "20 more" in text


def test_what_was_noticed_is_told_most_frequent_first_cut_and_counted():
    rows = [
        {"analyzer": "repetition", "label": f"label-{n}", "count": n, "detail": "again\nand again",
         "examples": [{"task_id": "t1"}] if n % 2 else []}
        for n in range(15)
    ]  # fmt: skip
    lines = render.result_text(changed(analysis={"rows": rows})).splitlines()
    noticed = lines[lines.index("noticed:") + 1 :][:11]
    assert noticed[0].split() == ["14", "repetition", "label-14", "again", "and", "again"]
    assert "e.g. t1: again and again" in noticed[1]
    assert "4 more, in the summary" in noticed[10]


def test_an_open_scale_has_no_bounds_to_tell():
    result = copy.deepcopy(RESULT)
    result["metrics"]["scores"]["correct"]["bounds"] = [0.5, None]
    assert "0.625 over graded attempts only\n" in render.result_text(result)


def test_where_nothing_was_graded_the_number_is_said_to_be_no_score():
    result = copy.deepcopy(RESULT)
    result["metrics"]["scores"]["correct"] |= {
        "value": 0.0,
        "graded_value": None,
        "bounds": [0.0, 1.0],
    }
    text = render.result_text(result)
    assert "this is no score, and anything from 0.000 to 1.000 is possible" in text


def test_a_run_without_calls_and_times_has_no_cost_and_no_time():
    usage = {**RESULT["summary"]["usage"], "calls": 0}
    text = render.result_text(changed(usage=usage, elapsed_seconds=None))
    assert not any(line.startswith(("tokens", "cost", "time")) for line in text.splitlines())
