"""`agentcompass export`, on runs that the program has made."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agentcompass.testing import FakeEndpoint, chat
from support.atif import faults
from support.terminus import DONE, Script, plan

PARAMS = '{"path": "tasks.jsonl"}'


def run(program, endpoint, *more, harness="openai_chat", params=PARAMS):
    done = program(
        *("run", "jsonl", harness, "m", "--benchmark-params", params, "--progress", "none"),
        *("--model-base-url", endpoint.base_url, "--format", "json", *more),
    )
    assert done.returncode == 0, done.stderr
    return Path(program.folder, json.loads(done.stdout)["paths"]["run_dir"])


def documents(directory):
    found = {
        path: json.loads(path.read_bytes()) for path in sorted(Path(directory).glob("*/*.json"))
    }
    for path, value in found.items():
        assert faults(value, path.parent) == []
    return found


def test_each_attempt_becomes_a_document_below_the_run(program):
    with FakeEndpoint(chat("1", usage={"prompt_tokens": 9, "completion_tokens": 2})) as endpoint:
        run_dir = run(program, endpoint, "--k", "2")
    done = program("export", str(run_dir), "--format", "atif")
    assert (done.returncode, done.stderr) == (0, "8 files written\n")
    assert done.stdout == f"{run_dir}/export/atif\n"
    found = documents(run_dir / "export/atif")
    assert [str(path.relative_to(run_dir / "export/atif")) for path in found][:2] == [
        "t0/attempt-1.json",
        "t0/attempt-2.json",
    ]
    value = found[run_dir / "export/atif/t1/attempt-1.json"]
    assert (value["agent"]["name"], value["agent"]["model_name"]) == ("openai_chat", "m")
    assert value["extra"]["metrics"] == {"correct": 1.0}
    assert value["final_metrics"]["total_prompt_tokens"] == 9
    assert [step["message"] for step in value["steps"]] == ["?", "1"]


def test_the_trajectory_of_an_agent_with_tools_is_written_where_it_is_wanted(program):
    calls = [
        chat(None, tool_calls=[("bash", json.dumps({"command": f"echo {n}"}))]) for n in range(3)
    ]
    script = [*calls, chat(None, tool_calls=[("submit", '{"answer": "0"}')])]
    with FakeEndpoint(
        lambda seen: script[sum(m["role"] == "tool" for m in seen.json["messages"])]
    ) as endpoint:
        run_dir = run(program, endpoint, harness="tool_loop")
    done = program("export", str(run_dir), "--format", "atif", "--output", "out")
    assert done.returncode == 0
    value = documents(program.folder / "out")[program.folder / "out/t0/attempt-1.json"]
    turns = [step for step in value["steps"] if step["source"] == "agent"]
    assert [turn["tool_calls"][0]["function_name"] for turn in turns] == ["bash"] * 3 + ["submit"]
    assert "exit code 0\n2\n" in turns[2]["observation"]["results"][0]["content"]
    assert not (run_dir / "export").exists()


def test_a_run_of_a_terminal_agent_has_its_keys_its_screens_and_its_recording(program):
    task = {"id": "greet", "prompt": "Write hello.txt.", "command": "grep -q hello hello.txt"}
    (program.folder / "work.jsonl").write_text(json.dumps(task))
    script = Script([(plan("echo hello > hello.txt; cat hello.txt\n"), "\nhello\n"), DONE, DONE])
    params = json.dumps({"path": "work.jsonl", "evaluate_in": "reuse"})
    with FakeEndpoint(script) as endpoint:
        run_dir = run(program, endpoint, harness="terminus2", params=params)
    assert json.loads((run_dir / "metrics.json").read_text())["score"] == 1.0
    recording = run_dir / "tasks/greet/attempt-1/agent-1/recording.cast"
    assert json.loads(recording.read_text().partition("\n")[0])["version"] == 2
    assert program("export", str(run_dir), "--format", "atif").returncode == 0
    (value,) = documents(run_dir / "export/atif").values()
    first = next(step for step in value["steps"] if step["source"] == "agent")
    assert first["tool_calls"][0]["function_name"] == "keystrokes"
    assert first["tool_calls"][0]["arguments"]["keystrokes"].startswith("echo hello")
    assert "echo hello" in first["observation"]["results"][0]["content"]


def test_attempts_that_were_taken_over_have_their_steps_too(program):
    with FakeEndpoint(chat("1")) as endpoint:
        first = run(program, endpoint)
        second = run(program, endpoint, "--reuse")
    assert program("export", str(second), "--format", "atif").stderr == "4 files written\n"
    assert len(documents(second / "export/atif")) == 4
    shutil.rmtree(first)
    done = program("export", str(second), "--format", "atif", "--output", "out")
    assert done.returncode == 1
    assert f"the run {first.name} that executed it is not beside this one" in done.stderr
    assert "4 attempts left out" not in done.stdout


def test_attempts_that_were_evaluated_again_have_their_steps_too(program):
    with FakeEndpoint(chat("1")) as endpoint:
        first = run(program, endpoint)
    done = program("regrade", str(first), "--format", "json", "--progress", "none")
    assert done.returncode == 0, done.stderr
    again = Path(program.folder, json.loads(done.stdout)["paths"]["run_dir"])
    assert program("export", str(again), "--format", "atif").stderr == "4 files written\n"
    assert len(documents(again / "export/atif")) == 4


def test_a_run_without_trajectories_has_nothing_to_export(program):
    done = program("run", "jsonl", "oracle", "m", "--benchmark-params", PARAMS, "--format", "json")
    run_dir = json.loads(done.stdout)["paths"]["run_dir"]
    done = program("export", run_dir, "--format", "atif")
    assert (done.returncode, done.stdout) == (1, "")
    assert "has nothing to export as atif: it has no trajectory" in done.stderr


def test_a_lost_trajectory_is_said_and_the_others_are_written(program):
    with FakeEndpoint(chat("1")) as endpoint:
        run_dir = run(program, endpoint)
    journal = run_dir / "attempts.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    lines[0]["steps_at"] = None
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines) + "damage\n")
    done = program("export", str(run_dir), "--format", "atif")
    assert done.returncode == 0
    assert "warning: 1 attempt left out: it has no trajectory\n" in done.stderr
    assert "warning: 1 line of the journal cannot be read\n" in done.stderr
    assert "3 files written\n" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((".", "--format", "atif"), 1, "is not a run directory"),
        (("none", "--format", "atif"), 2, "there is no directory 'none'"),
        ((".",), 2, "--format"),
    ],
    ids=["no run", "no directory", "no format"],
)
def test_what_cannot_be_exported_is_one_message(program, arguments, code, message):
    done = program("export", *arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr


def test_an_unknown_form_names_the_nearest(program):
    with FakeEndpoint(chat("1")) as endpoint:
        run_dir = run(program, endpoint)
    done = program("export", str(run_dir), "--format", "ateef")
    assert done.returncode == 2
    assert "unknown format 'ateef'" in done.stderr
