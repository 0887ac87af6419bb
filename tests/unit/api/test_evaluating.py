"""The entry points as a program uses them, with a benchmark and a harness that need nobody."""

import asyncio
import json
import threading

import pytest

import agentcompass
from agentcompass import (
    ConfigurationError,
    OrchestrationSpec,
    PreflightError,
    RunRequestSpec,
)
from agentcompass.api.endings import raise_signal
from agentcompass.api.signature import takes_after_first
from agentcompass.options import LaunchOptions
from agentcompass.plan.resolve import resolve_launch
from agentcompass.records import OrchestrationResult


@pytest.fixture
def given(tmp_path, monkeypatch):
    """Arguments of an evaluation of three tasks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    lines = [json.dumps({"id": f"t{n}", "prompt": "?", "answer": str(n)}) for n in range(3)]
    (tmp_path / "tasks.jsonl").write_text("\n".join(lines))
    return {
        "benchmark": "jsonl",
        "harness": "oracle",
        "model": "none",
        "benchmark_params": {"path": "tasks.jsonl"},
        "progress": "none",
    }


def spec(*names):
    return OrchestrationSpec(
        requests=[
            RunRequestSpec(
                name=name,
                benchmark={"id": "jsonl", "path": "tasks.jsonl"},
                harness={"id": "oracle"},
                model={"id": "none"},
            )
            for name in names
        ]
    )


def test_an_evaluation_returns_its_dictionary(given):
    result = agentcompass.run_evaluation(**given)
    assert set(result) == {"metadata", "metrics", "summary", "paths"}
    assert result["summary"]["score"] == 1.0


async def test_an_evaluation_is_awaited_in_a_trio_program(given):
    result = await agentcompass.async_run_evaluation(**given)
    assert result["summary"]["score"] == 1.0


def test_an_evaluation_is_awaited_in_an_asyncio_program(given):
    result = asyncio.run(agentcompass.async_run_evaluation(**given))
    assert result["summary"]["score"] == 1.0


def test_progress_comes_as_dictionaries_in_order_in_the_callers_thread(given):
    told, threads = [], set()

    def on_progress(event):
        told.append(event)
        threads.add(threading.current_thread())

    agentcompass.run_evaluation(**given, on_progress=on_progress)
    kinds = [event["event"] for event in told]
    assert (kinds[0], kinds[-1]) == ("run_prepared", "request_finished")
    assert kinds.count("attempt_finished") == 3
    assert threads == {threading.current_thread()}
    json.dumps(told)


def test_each_request_of_a_launch_is_told_when_it_is_over(given):
    outcomes, events = [], []
    result = agentcompass.launch(
        spec("one", "two"),
        progress="none",
        on_request_finished=outcomes.append,
        on_progress=events.append,
    )
    assert result.status == "completed"
    assert {outcome.name for outcome in outcomes} == {"one", "two"}
    assert {event["request"] for event in events} >= {"one", "two"}


def test_a_launch_may_listen_to_its_requests_only(given):
    outcomes = []
    agentcompass.launch(spec("one"), progress="none", on_request_finished=outcomes.append)
    assert [outcome.status for outcome in outcomes] == ["completed"]


def test_a_launch_may_listen_to_its_progress_only(given):
    events = []
    agentcompass.launch(spec("one"), progress="none", on_progress=events.append)
    assert events[-1]["event"] == "request_finished"


async def test_a_launch_is_awaited(given):
    result = await agentcompass.async_launch(spec("one", "two"), progress="none", only="two")
    assert list(result.requests) == ["two"]


def test_a_resolved_orchestration_is_launched_with_other_settings(given, tmp_path):
    resolved = resolve_launch(spec("one"), LaunchOptions(), **agentcompass.api.surroundings())
    result = agentcompass.launch(resolved, progress="none", results_dir=tmp_path / "elsewhere")
    (outcome,) = result.requests.values()
    assert outcome.paths["run_dir"].startswith(str(tmp_path / "elsewhere"))


def test_one_more_log_file_has_the_log_of_everything(given, tmp_path):
    agentcompass.run_evaluation(**given, log_file=tmp_path / "all.log")
    assert (tmp_path / "all.log").exists()


def test_a_log_file_that_cannot_be_written_is_told_before_anything_runs(given, tmp_path):
    with pytest.raises(PreflightError, match="log_file cannot be written"):
        agentcompass.run_evaluation(**given, log_file=tmp_path / "no" / "such" / "folder.log")
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("name", ["on_progress", "on_request_finished"])
def test_a_callback_that_is_no_function_is_refused(given, name):
    with pytest.raises(ConfigurationError, match=f"{name} must be a function, not str"):
        agentcompass.launch(spec("one"), **{name: "print"})


@pytest.mark.parametrize(("ended_by", "code"), [("sighup", 129), ("sigterm", 143)])
def test_a_launch_that_a_signal_ended_leaves_with_its_code(ended_by, code):
    ended = OrchestrationResult(
        id="o",
        name="o",
        status="cancelled",
        started_at="",
        finished_at="",
        requests={},
        ended_by=ended_by,
    )
    with pytest.raises(SystemExit) as caught:
        raise_signal(ended)
    assert caught.value.code == code


def test_without_docstrings_an_entry_point_has_none():
    @takes_after_first(LaunchOptions)
    def bare(first, options):
        return first, options

    assert bare.__doc__ is None
    assert bare(1, progress="none")[0] == 1
