"""Sandboxes that break, through whole runs: every fault is an infrastructure failure by its name, and nothing is left."""

import json
import sys
from pathlib import Path

import pytest
import trio

import agentcompass
from agentcompass import ConfigurationError, EvaluationFailedError
from agentcompass.components.base import SandboxPlan
from agentcompass.testing.sandboxes import FAULTS, FaultySandboxes, FaultySandboxesParams
from support.host import lease


@pytest.fixture
def place(tmp_path):
    line = {"id": "a", "prompt": "?", "command": "echo hi > out && cat out", "solution": "x"}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(line))
    return tmp_path


def evaluate(place, shares, **execution):
    return agentcompass.run_evaluation(
        benchmark="jsonl",
        harness="oracle",
        model="none",
        environment="agentcompass.testing.sandboxes:FaultySandboxes",
        environment_params={"shares": shares, "root": str(place / "boxes")},
        benchmark_params={"path": str(place / "tasks.jsonl")},
        results_dir=place / "results",
        progress="none",
        max_retries=0,
        execution_params={
            "open_timeout_seconds": 1,
            "evaluate_timeout_seconds": 1,
            "close_timeout_seconds": 1,
            **execution,
        },
    )


def ended(place, fault):
    try:
        result = evaluate(place, {fault: 1.0})
    except EvaluationFailedError as error:
        result = error.result
    (line,) = Path(result["paths"]["attempts"]).read_text().splitlines()
    record = json.loads(line)
    return record["verdict"], (record["failure"] or {}).get("code"), record["metrics"]


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ("open_fails", "open-failed"),
        ("open_hangs", "open-timeout"),
        ("command_fails", "exec-failed"),
        ("command_hangs", "evaluate-timeout"),
        ("disk_is_full", "disk-full"),
    ],
)
def test_what_a_provider_does_wrong_is_no_score(place, fault, code):
    assert ended(place, fault) == ("infra", code, None)


@pytest.mark.parametrize("fault", ["open_is_slow", "close_fails", "close_hangs", "remove_fails"])
def test_what_changes_no_answer_changes_no_score(place, fault):
    assert ended(place, fault) == ("graded", None, {"correct": 1.0})


def test_a_sandbox_that_dies_while_it_is_used_is_named(place):
    line = {"id": "a", "prompt": "?", "command": "sleep 0.8", "solution": "x"}
    (place / "tasks.jsonl").write_text(json.dumps(line))
    assert ended(place, "sandbox_dies") == ("infra", "sandbox-died", None)


def test_figures_tell_of_a_kill_for_want_of_memory(place):
    result = evaluate(place, {"memory_runs_out": 1.0})
    (line,) = Path(result["paths"]["attempts"]).read_text().splitlines()
    assert json.loads(line)["sandbox"]["evaluation"]["oom_kills"] == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_left(place, fault):
    ended(place, fault)
    assert list((place / "boxes").iterdir()) == []


def test_an_unknown_fault_is_refused_by_name(place):
    with pytest.raises(ConfigurationError, match="there is no fault 'fire'"):
        evaluate(place, {"fire": 1.0})


def test_shares_of_more_than_everything_are_refused(place):
    with pytest.raises(ConfigurationError, match="no more than 1"):
        evaluate(place, {"open_fails": 0.6, "close_fails": 0.6})


async def test_programs_reach_what_is_served_to_them(tmp_path):
    environment = FaultySandboxes(FaultySandboxesParams(root=str(tmp_path)))
    await environment.check_listening()
    async with (
        environment.open(SandboxPlan(), lease(environment)) as session,
        session.listen() as inlet,
    ):
        asked = f"import socket; socket.create_connection(('{inlet.host}', {inlet.port}))"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.exec, [sys.executable, "-c", asked])
            await trio.aclose_forcefully(await inlet.listener.accept())
