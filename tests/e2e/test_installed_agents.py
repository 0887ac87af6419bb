"""The real Claude Code and Codex, from npm, in sandboxes without a network, over the gateway."""

import json
import re
import threading
from pathlib import Path

import pytest
import trio

from agentcompass import EvaluationFailedError, run_evaluation
from agentcompass.components.base import LoadContext, SandboxPlan
from agentcompass.components.harnesses.claude_code.harness import ClaudeCode, ClaudeCodeParams
from agentcompass.components.harnesses.codex.harness import Codex, CodexParams
from agentcompass.components.harnesses.installed.place import settled_in
from agentcompass.testing import FakeEndpoint
from support.docker import engine_host, python_image
from support.docker_sandboxes import docker_sandbox
from support.installed_scripts import PROGRAMS, Solver
from support.opened import KEY, Opened

pytestmark = [pytest.mark.docker, pytest.mark.slow]

AGENTS = {"claude_code": ClaudeCode(ClaudeCodeParams()), "codex": Codex(CodexParams())}

ELSEWHERE = {
    r"(Today's date is )\d+-\d+-\d+": r"\g<1>2020-02-03",
    r"(OS Version: )[^\\]+": r"\1Linux 1.0",
    r"<current_date>[^<]+": "<current_date>2020-02-03",
    r"<timezone>[^<]+": "<timezone>Asia/Kathmandu",
}
"""What agents say about where and when they run, as JSON has it, and what they would say there and then."""


@pytest.fixture(scope="module", autouse=True)
def _engine():
    """Found or started before any event loop runs."""
    engine_host()
    python_image()


def evaluate(folder, endpoint, harness, environment="docker", **options):
    """Evaluate an agent on one task of HumanEval; returns the result, the record and the steps.

    Without an endpoint, `options` name a model that needs none.
    """
    environments = {
        "docker": {"image": python_image(), "host": engine_host(), "network": "none"},
        "host_process": {"isolation": "bubblewrap", "network": "none"},
    }
    model = {
        "model": "the-model",
        "model_base_url": getattr(endpoint, "base_url", None),
        "model_api_key": KEY,
    }
    result = run_evaluation(
        benchmark="humaneval",
        benchmark_params={"sample_ids": ["HumanEval/53"]},
        harness=harness,
        environment=environment,
        environment_params=environments[environment],
        results_dir=str(folder),
        data_dir=str(PROGRAMS),
        progress="none",
        **(model if endpoint is not None else {}),
        **options,
    )
    run_dir = Path(result["paths"]["run_dir"])
    (line,) = (run_dir / "attempts.jsonl").read_text().splitlines()
    record = json.loads(line)
    if record["attempt_dir"] is None:  # few steps
        (line,) = (run_dir / "trajectories.jsonl").read_text().splitlines()
        return result, record, json.loads(line)["steps"]
    steps = (run_dir / record["attempt_dir"] / "trajectory.jsonl").read_text().splitlines()
    return result, record, [json.loads(step) for step in steps]


def calls_of(endpoint):
    """What it was asked, but for the question beforehand whether it knows the path."""
    assert endpoint.requests[0].json == {}
    return endpoint.requests[1:]


@pytest.mark.parametrize("environment", ["docker", "host_process"])
@pytest.mark.parametrize("harness", AGENTS)
def test_a_real_agent_solves_a_task_without_a_network(tmp_path, harness, environment):
    solver = Solver()
    with FakeEndpoint(solver) as endpoint:
        result, record, steps = evaluate(tmp_path, endpoint, harness, environment)
    assert result["summary"]["score"] == 1.0
    assert "42" in solver.outputs[0]
    # what the endpoint saw: its own key, the run's model
    calls = calls_of(endpoint)
    for seen in calls:
        assert KEY in seen.headers.get("x-api-key", "") + seen.headers.get("authorization", "")
        assert seen.json["model"] == "the-model"
    # what is written down: every call, what came of it, and no key
    kinds = [step["type"] for step in steps if step["type"] != harness]
    assert kinds == ["message", "reply", "tool", "reply", "final"]
    (tool,) = (step for step in steps if step["type"] == "tool")
    assert (tool["tool_call_id"], tool["exit_code"]) == ("call-0", 0)
    assert "42" in tool["output"]
    assert record["usage"]["calls"] == len(calls) == 2
    assert (record["usage"]["input_tokens"], record["usage"]["unmetered_calls"]) == (24, 0)
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(KEY.encode() in content for content in written)


@pytest.mark.parametrize("environment", ["docker", "host_process"])
@pytest.mark.parametrize("harness", AGENTS)
def test_a_real_agent_is_replayed_on_another_day_and_another_machine(
    tmp_path, harness, environment
):
    exchanges = tmp_path / "exchanges.jsonl"
    with FakeEndpoint(Solver()) as endpoint:
        _, recorded, _ = evaluate(tmp_path, endpoint, harness, environment, record=exchanges)
    text = exchanges.read_text()
    for pattern, other in ELSEWHERE.items():
        text = re.sub(pattern, other, text)
    assert text != exchanges.read_text()
    exchanges.write_text(text)
    model = {"model": f"replay:{exchanges}", "max_retries": 0}
    result, replayed, _ = evaluate(tmp_path, None, harness, environment, **model)
    assert result["summary"]["score"] == 1.0
    assert replayed["answer"] == recorded["answer"]
    assert replayed["usage"] == recorded["usage"]


@pytest.mark.parametrize("harness", AGENTS)
def test_a_replay_answers_no_real_agent_that_is_told_something_else(tmp_path, harness):
    exchanges = tmp_path / "exchanges.jsonl"
    with FakeEndpoint(Solver()) as endpoint:
        evaluate(tmp_path, endpoint, harness, "host_process", record=exchanges)
    exchanges.write_text(exchanges.read_text().replace("Add two numbers", "Add three numbers"))
    model = {"model": f"replay:{exchanges}", "max_retries": 0}
    with pytest.raises(EvaluationFailedError) as caught:
        evaluate(tmp_path, None, harness, "host_process", **model)
    attempts = Path(caught.value.paths["attempts"]).read_text()
    told = json.loads(attempts)["failure"]
    assert (told["code"], told["retryable"]) == ("not-recorded", False)
    assert "three numbers" in told["message"]
    assert "Add two numbers" in told["message"]


@pytest.mark.parametrize("harness", AGENTS)
def test_a_real_agent_that_is_out_of_time_is_graded_on_what_it_left(tmp_path, harness):
    solver = Solver()
    solver.gate = threading.Event()
    with FakeEndpoint(solver) as endpoint:
        limits = {"run_timeout_seconds": 10}
        _, record, steps = evaluate(tmp_path, endpoint, harness, execution_params=limits)
        asked = len(calls_of(endpoint))
        solver.gate.set()
        endpoint.wait_for_open_connections(0)
    assert (record["verdict"], record["stopped_by"]) == ("graded", "timeout")
    assert record["metrics"] == {"pass": 0.0}
    assert record["usage"]["unmetered_calls"] == asked - 1  # the one that was given up
    assert steps[-1]["type"] != "final"


async def until_said(program, words):
    """Read what a program says until it says some words."""
    said = b""
    while words not in said:
        data = await program.receive()
        assert data, said
        said += data


@pytest.mark.parametrize(
    ("harness", "protocol", "refusal"),
    [
        ("claude_code", "anthropic", b'"error_status":401'),
        ("codex", "openai-responses", b"401 Unauthorized"),
    ],
)
async def test_the_next_request_after_the_deadline_gets_401(harness, protocol, refusal):
    solver = Solver()
    solver.gate = threading.Event()  # the second answer does not come in time
    harness = AGENTS[harness]
    await harness.fetch(LoadContext(data_dir=PROGRAMS))
    with FakeEndpoint(solver) as endpoint:
        async with (
            Opened(endpoint, protocols=(protocol,)) as client,
            docker_sandbox(harness.equip(SandboxPlan())) as session,
            settled_in(session, harness._supply.places()) as place,
        ):
            with trio.CancelScope() as attempt:
                async with client.model.serve(session) as gateway:
                    launch = harness.launch(place.program, place, gateway, client.model.id)
                    async with session.process(launch.argv, env=launch.env) as program:
                        await program.send(b"Do it.")
                        await program.close_stdin()
                        await trio.to_thread.run_sync(endpoint.wait_for_requests, 2)
                        attempt.deadline = trio.current_time()
                        try:
                            await trio.sleep_forever()
                        finally:
                            # while it is being ended: it still runs, and asks again
                            with trio.CancelScope(shield=True), trio.fail_after(60):
                                await until_said(program, refusal)
            assert attempt.cancelled_caught
            assert await session.end_processes() == 0
        solver.gate.set()
    assert len(endpoint.requests) == 2
