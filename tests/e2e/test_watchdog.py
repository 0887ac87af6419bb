"""A component that no cancellation can reach does not keep the process."""

import json
import signal
import time

import pytest

from support.commandline import Program

STUCK = """
import time, trio
from agentcompass import AgentOutcome, Harness

class Blocks(Harness):
    id = "blocks"
    needs_model = False
    async def run(self, task_input, session, model, emit):
        print("stuck", flush=True)
        time.sleep(1000)

class Shields(Harness):
    id = "shields"
    needs_model = False
    async def run(self, task_input, session, model, emit):
        print("stuck", flush=True)
        with trio.CancelScope(shield=True):
            await trio.sleep(1000)
"""


@pytest.fixture
def program(tmp_path):
    (tmp_path / "stuck.py").write_text(STUCK)
    task = {"id": "a", "prompt": "hi", "answer": "hello"}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    return Program(tmp_path)


def start(program, harness, *options):
    environ = program.environment()
    path = f"{environ['PYTHONPATH']}:{program.folder}"
    process = program.start(
        "run", "jsonl", f"stuck:{harness}", "none", "--benchmark-params", '{"path": "tasks.jsonl"}',
        *(options or ("--cleanup-grace-seconds", "1")), environ={"PYTHONPATH": path},
    )  # fmt: skip
    assert process.stdout.readline() == "stuck\n"
    return process


@pytest.mark.signals
@pytest.mark.parametrize("harness", ["Blocks", "Shields"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stuck_component_is_left_behind_within_the_grace(program, harness, number, code):
    process = start(program, harness)
    began = time.monotonic()
    process.send_signal(number)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == code
    assert time.monotonic() - began < 1 + 5
    assert "does not react" in stderr


@pytest.mark.parametrize("harness", ["Blocks", "Shields"])
def test_the_time_limit_holds_for_a_stuck_component_too(program, harness):
    process = start(program, harness, "--timeout-seconds", "1", "--cleanup-grace-seconds", "1")
    process.communicate(timeout=30)
    assert process.returncode == 124


@pytest.mark.signals
def test_a_third_interrupt_leaves_at_once(program):
    process = start(program, "Blocks", "--cleanup-grace-seconds", "60")
    for _ in range(40):  # on a busy machine several become one before they are noticed
        process.send_signal(signal.SIGINT)
        time.sleep(0.25)
        if process.poll() is not None:
            break
    process.communicate(timeout=10)
    assert process.returncode == 130
