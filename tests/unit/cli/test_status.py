"""`agentcompass status` beside a real run: while it works, while it is being ended, after it was killed."""

from __future__ import annotations

import contextlib
import json
import shlex
import signal
import threading
import time

import pytest

from agentcompass.testing import FakeEndpoint, chat

PARAMS = '{"path": "tasks.jsonl"}'


@pytest.fixture
def gate():
    return threading.Event()


@pytest.fixture
def endpoint(gate):
    """Answers the first task at once, and the others when the gate is opened."""
    with FakeEndpoint(lambda seen: chat("0").but(gate=gate if seen.number else None)) as endpoint:
        yield endpoint
        gate.set()


def run(endpoint, *more):
    return (
        *("run", "jsonl", "openai_chat", "m", "--benchmark-params", PARAMS, "--run-id", "r1"),
        *("--model-base-url", endpoint.base_url, "--task-concurrency", "2", *more),
    )


@contextlib.contextmanager
def running(program, *arguments):
    """The program at work; killed at the end, if it still is."""
    child = program.start(*arguments)
    try:
        yield child
    finally:
        child.kill()
        child.communicate(timeout=60)


def launch_file(program, endpoint):
    (program.folder / "all.yaml").write_text(f"""
name: nightly
task_concurrency: 5
defaults:
  benchmark: {{id: jsonl, path: tasks.jsonl}}
  harness: {{id: openai_chat}}
  model: {{id: m, base_url: "{endpoint.base_url}"}}
requests:
  - name: one
  - {{name: two, harness: {{id: oracle}}}}
  - {{name: three, benchmark: {{path: no-such.jsonl}}}}
""")
    return ("launch", "all.yaml", "--progress", "none")


def status(program, *arguments):
    done = program("status", *arguments, "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def await_status(program, is_there, *arguments, seconds=60.0):
    """Ask until the status is as it should be."""
    end = time.monotonic() + seconds
    while True:
        done = program("status", *arguments, "--format", "json")
        found = json.loads(done.stdout) if done.returncode == 0 else None
        if found is not None and is_there(found):
            return found
        assert time.monotonic() < end, done.stdout + done.stderr


def has_one_done(found, running=2):
    request = found["requests"][0]
    return request["done"] == 1 and request["running"] == running


def test_a_run_under_way_tells_what_is_done_and_what_runs(program, endpoint, gate):
    with running(program, *run(endpoint)) as child:
        found = await_status(program, has_one_done)
        assert (found["status"], found["process"]["pid"]) == ("running", child.pid)
        assert found["process_state"] == "alive"
        assert [one["phase"] for one in found["activities"]] == ["run", "run"]
        assert found["requests"][0]["waiting"] == 1
        text = program("status", "results/m_jsonl_openai_chat/r1").stdout
        assert text.startswith("m_jsonl_openai_chat: running")
        assert f"process    {child.pid}, alive" in text
        assert "attempts   4 planned: 1 done, 2 running, 1 waiting" in text
        gate.set()
        child.communicate(timeout=60)
    assert child.returncode == 0
    assert status(program)["status"] == "completed"


def test_a_killed_run_says_so_and_the_command_it_gives_finishes_it(program, endpoint, gate):
    with running(program, *run(endpoint)) as child:
        await_status(program, has_one_done)
        child.send_signal(signal.SIGKILL)
    found = status(program)
    assert (found["status"], found["process_state"]) == ("interrupted", "gone")
    text = program("status").stdout
    assert f"process    {child.pid} is gone" in text
    assert "attempts   4 planned: 1 done, 3 missing" in text
    (command,) = [line[11:] for line in text.splitlines() if line.startswith("next ")]
    gate.set()
    done = program(*_words(command))
    assert done.returncode == 0, done.stderr
    assert "reused    1 attempt of an earlier run" in done.stdout


def _words(command):
    program, *words = shlex.split(command)
    assert program == "agentcompass"
    return words


def test_a_launch_under_way_is_a_table_of_its_requests(program, endpoint, gate):
    with running(program, *launch_file(program, endpoint)) as child:
        found = await_status(
            program,
            lambda found: (
                has_one_done(found, running=3) and found["requests"][1]["status"] == "completed"
            ),
        )
        assert (found["kind"], found["name"], found["status"]) == ("launch", "nightly", "running")
        assert [one["status"] for one in found["requests"]] == ["running", "completed", "failed"]
        assert "no-such.jsonl" in found["requests"][2]["error"]
        rows = [line.split() for line in program("status", "results/nightly").stdout.splitlines()]
        assert ["one", "running", "1/4", "3", "0"] in [row[:5] for row in rows]
        child.send_signal(signal.SIGKILL)
    found = status(program, "results")
    assert found["status"] == "interrupted"
    assert [one["status"] for one in found["requests"]] == ["interrupted", "completed", "failed"]
    gate.set()
    done = program("launch", "all.yaml", "--reuse", "--format", "json", "--progress", "none")
    summaries = json.loads(done.stdout)["requests"]
    assert summaries["one"]["result"]["summary"]["reused"] == 1
    assert summaries["two"]["result"]["summary"]["reused"] == 4
    assert status(program)["status"] == "partial_failure"


def test_a_run_that_is_being_written_is_never_called_broken(program, endpoint, gate):
    """Asked again and again from the first moment to the last, it is not there yet, or it is whole."""
    gate.set()
    lines = [json.dumps({"id": f"t{n}", "prompt": "?", "answer": "0"}) for n in range(300)]
    (program.folder / "tasks.jsonl").write_text("\n".join(lines))
    seen = set()
    with running(program, *run(endpoint, "--progress", "none")) as child:
        while child.poll() is None:
            done = program("status", "--format", "json")
            if done.returncode:
                assert "there is no run" in done.stderr
                continue
            found = json.loads(done.stdout)
            seen.add(found["status"])
            (request,) = found["requests"]
            assert request["done"] + request["running"] + request["waiting"] == 300
            assert request["error"] is None
    assert child.returncode == 0
    assert seen <= {"running", "completed"}


def test_no_run_and_no_directory_are_errors_that_say_what_to_give(program):
    (program.folder / "results").mkdir()
    (program.folder / "file").touch()
    assert "'file' is a file, not a directory" in program("status", "file").stderr
    nothing, nowhere = program("status"), program("status", "nowhere")
    assert (nothing.returncode, nowhere.returncode) == (1, 2)
    assert "error: there is no run in" in nothing.stderr
    assert "there is no directory 'nowhere'" in nowhere.stderr
    assert (nothing.stdout, nowhere.stdout) == ("", "")


def test_a_damaged_run_is_an_error_that_names_the_file(program, endpoint, gate):
    gate.set()
    assert program(*run(endpoint)).returncode == 0
    (program.folder / "results/m_jsonl_openai_chat/r1/plan.json").write_text("{")
    done = program("status")
    assert (done.returncode, done.stdout) == (1, "")
    assert "plan.json cannot be used" in done.stderr
