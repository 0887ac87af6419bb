"""Evaluating again what the agents of an earlier run left."""

import json
import shutil
from pathlib import Path

import pytest

import agentcompass
from agentcompass import ConfigurationError
from support import regrading

BENCHMARK = "support.regrading:Colours"


def evaluate(results_dir, *, raises=False, benchmark=BENCHMARK, **params):
    arguments = {
        "benchmark": benchmark,
        "harness": "support.regrading:Painter",
        "model": "none",
        "benchmark_params": params,
        "results_dir": results_dir,
        "progress": "none",
        "max_retries": 0,
    }
    if not raises:
        return agentcompass.run_evaluation(**arguments)
    with pytest.raises(agentcompass.EvaluationFailedError) as caught:
        agentcompass.run_evaluation(**arguments)
    return caught.value.result


def regrade(run, *, raises=False, **options):
    run_dir = run["paths"]["run_dir"]
    if not raises:
        return agentcompass.regrade(run_dir, progress="none", **options)
    with pytest.raises(agentcompass.EvaluationFailedError) as caught:
        agentcompass.regrade(run_dir, progress="none", **options)
    return caught.value.result


def score(result):
    return result["summary"]["score"]


def lines(result):
    text = Path(result["paths"]["attempts"]).read_text()
    return {record["task_id"]: record for record in map(json.loads, text.splitlines())}


@pytest.fixture(autouse=True)
def forget():
    regrading.WORKED.clear()


def test_another_grader_judges_what_is_there_without_any_agent(tmp_path):
    run = evaluate(tmp_path, tasks=2, right="red")
    regrading.WORKED.clear()
    again = regrade(run, benchmark_params={"right": "blue"})
    assert (score(run), score(again)) == (0.0, 1.0)
    assert regrading.WORKED == []
    assert again["metadata"]["regraded_from"] == run["metadata"]["run_id"]
    assert again["metadata"]["name"] == run["metadata"]["name"]


def test_attempts_whose_evaluator_failed_get_their_grade(tmp_path):
    run = evaluate(tmp_path, raises=True, tasks=2, is_broken=True)
    again = regrade(run, benchmark_params={"is_broken": False})
    assert score(again) == 1.0
    assert sorted(regrading.WORKED) == ["task-0", "task-1"]


def test_attempts_without_an_agents_work_stay_as_they_ended(tmp_path):
    run = evaluate(tmp_path, raises=True, tasks=3)
    again = regrade(run, raises=True)
    counts = again["summary"]["counts"]
    assert (counts["graded"], counts["infra"], counts["planned"]) == (2, 1, 3)
    record = lines(again)["task-2"]
    assert record["failure"]["message"] == lines(run)["task-2"]["failure"]["message"]
    assert record["reused_from"] == run["metadata"]["run_id"]


def test_tasks_that_the_earlier_run_did_not_have_are_skipped_and_never_executed(tmp_path):
    run = evaluate(tmp_path, tasks=1)
    again = regrade(run, raises=True, benchmark_params={"tasks": 2})
    assert lines(again)["task-1"]["verdict"] == "skipped"
    assert regrading.WORKED == ["task-0"]


def test_the_whole_answer_is_judged_again_also_if_it_stands_in_a_file(tmp_path):
    run = evaluate(tmp_path, tasks=1)
    assert len(lines(regrade(run))["task-0"]["details"]["said"]) > 70_000


def test_what_was_regraded_can_be_regraded_when_the_first_run_is_gone(tmp_path):
    run = evaluate(tmp_path, tasks=1)
    again = regrade(run)
    shutil.rmtree(run["paths"]["run_dir"])
    assert score(regrade(again)) == 1.0


def test_what_was_reused_is_regraded_from_where_it_was_made(tmp_path):
    run = evaluate(tmp_path, tasks=1)
    reused = agentcompass.run_evaluation(
        benchmark=BENCHMARK,
        harness="support.regrading:Painter",
        model="none",
        benchmark_params={"tasks": 1},
        results_dir=tmp_path,
        progress="none",
        reuse_run_id=run["metadata"]["run_id"],
    )
    assert score(regrade(reused)) == 1.0


def test_an_artifact_that_is_gone_is_named_and_scores_nothing(tmp_path):
    run = evaluate(tmp_path, tasks=1)
    shutil.rmtree(next(Path(run["paths"]["run_dir"]).rglob("artifacts-1")))
    failure = lines(regrade(run, raises=True))["task-0"]["failure"]
    assert (failure["code"], failure["phase"]) == ("artifact-missing", "collect")


def test_an_artifact_that_leads_out_of_its_run_is_refused(tmp_path):
    run = evaluate(tmp_path, tasks=1)
    journal = Path(run["paths"]["attempts"])
    record = json.loads(journal.read_text())
    record["artifacts"]["colour.txt"] = "../../../secret.txt"
    journal.write_text(json.dumps(record) + "\n")
    assert lines(regrade(run, raises=True))["task-0"]["failure"]["code"] == "bad-artifact"


def test_files_of_agent_and_evaluator_are_kept_with_the_attempt(tmp_path):
    run = evaluate(tmp_path, tasks=1)
    attempt = Path(run["paths"]["run_dir"], lines(run)["task-0"]["attempt_dir"])
    assert (attempt / "agent-1" / "notes.txt").read_text() == "one coat"
    assert (attempt / "evaluation-1" / "report.txt").read_text() == "blue"


def test_what_was_judged_in_the_agents_sandbox_cannot_be_regraded(tmp_path):
    run = evaluate(tmp_path, tasks=1, benchmark="support.regrading:InPlace", raises=True)
    with pytest.raises(ConfigurationError, match="in the sandbox where the agent worked"):
        agentcompass.regrade(run["paths"]["run_dir"], progress="none")


def test_a_run_in_which_no_agent_came_to_its_end_has_nothing_to_regrade(tmp_path):
    run = evaluate(tmp_path, tasks=1)
    Path(run["paths"]["attempts"]).write_text("")
    with pytest.raises(ConfigurationError, match="nothing that could be evaluated again"):
        agentcompass.regrade(run["paths"]["run_dir"], progress="none")
