"""Two data sets of Terminal-Bench under shared limits, with `terminus2` in containers: real tasks, through a real terminal.

The orchestration is that of docs/orchestrations.md and of everybody's first launch; the data is of this machine, and the
model a script behind a real endpoint.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentcompass import OrchestrationDefaults, OrchestrationSpec, RunRequestSpec, launch
from agentcompass.testing import FakeEndpoint, chat
from support import terminal_bench
from support.docker import engine_host

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

KEYS = {
    "hello-world": ["printf 'Hello, world!\\n' > hello.txt\n"],
    "fix-permissions": ["ls -l\n", "chmod +x process_data.sh\n", "./process_data.sh; echo over\n"],
}


def replies(seen):
    """The next keystrokes for whichever task is told, then twice that it is complete."""
    messages = seen.json["messages"]
    told = json.dumps(messages[:2])
    task = "hello-world" if "hello.txt" in told else "fix-permissions"
    turn = sum(message["role"] == "assistant" for message in messages)
    is_done = turn >= len(KEYS[task])
    commands = [] if is_done else [{"keystrokes": KEYS[task][turn], "duration": 0.5}]
    plan = {"analysis": "So far.", "plan": "Go on.", "commands": commands, "task_complete": is_done}
    return chat(json.dumps(plan))


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    terminal_bench.base_image()
    return terminal_bench.converted(tmp_path_factory.mktemp("tasks") / "harbor", *KEYS)


def test_the_orchestration_of_the_documentation_runs_with_tasks_of_this_machine(
    tmp_path, tasks, monkeypatch
):
    monkeypatch.setenv("DOCKER_HOST", engine_host())
    with FakeEndpoint(replies) as endpoint:
        spec = OrchestrationSpec(
            name="terminal-evaluations",
            task_concurrency=4,
            defaults=OrchestrationDefaults(
                harness={"id": "terminus2", "max_turns": 300},
                environment={"id": "docker"},
                model={
                    "id": "scripted",
                    "base_url": endpoint.base_url,
                    "api_key": "key-of-the-test",
                    "api_protocol": "openai-chat",
                },
            ),
            requests=[
                RunRequestSpec(
                    name="terminal-bench-2.1",
                    benchmark={"id": "terminal_bench_2_1", "dataset_path": str(tasks)},
                ),
                RunRequestSpec(
                    name="terminal-bench-2-verified",
                    benchmark={"id": "terminal_bench_2_verified", "dataset_path": str(tasks)},
                ),
            ],
        )
        result = launch(spec, progress="none", results_dir=tmp_path / "results")
        assert {seen.headers["authorization"] for seen in endpoint.requests} == {
            "Bearer key-of-the-test"
        }
    assert result.status == "completed"
    for name in ("terminal-bench-2.1", "terminal-bench-2-verified"):
        outcome = result.requests[name]
        assert outcome.result["summary"]["score"] == 1.0
        assert outcome.result["summary"]["counts"]["graded"] == len(KEYS)
        run_dir = Path(outcome.paths["run_dir"])
        assert len(list(run_dir.rglob("recording.cast"))) == len(KEYS)
        for line in Path(outcome.paths["attempts"]).read_text().splitlines():
            record = json.loads(line)
            assert record["usage"]["calls"] == len(KEYS[record["task_id"]]) + 2
