"""`agentcompass summary RUN_DIR --analyze` and what is listed and shown of analyzers."""

import json

import pytest

from support.commandline import Program


@pytest.fixture
def program(tmp_path):
    (tmp_path / "questions.jsonl").write_text('{"id": "a", "prompt": "1+1?", "answer": "2"}\n')
    return Program(tmp_path)


def evaluated(program, *options, harness="nop"):
    params = json.dumps({"path": "questions.jsonl"})
    done = program(
        "run", "jsonl", harness, "m", "--benchmark-params", params, "--run-id", "r1", *options
    )
    assert done.returncode == 0, done.stderr
    return program.folder / f"results/m_jsonl_{harness}/r1", done


def test_the_built_in_analyzers_are_listed(program):
    done = program("list", "analyzers")
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert names == [
        "empty_output", "error_taxonomy", "latency", "repeated_tool_calls", "repetition", "token_use",
        "truncation",
    ]  # fmt: skip


def test_what_was_noticed_is_shown(program):
    _run_dir, done = evaluated(program)
    assert "error_taxonomy  evaluator: result: no answer" in done.stdout


def test_a_run_without_analysis_is_analysed_when_asked(program):
    run_dir, done = evaluated(program, "--no-enable-analysis")
    assert "noticed" not in done.stdout
    assert not (run_dir / "analysis.json").exists()
    done = program("summary", str(run_dir), "--analyze", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["summary"]["analysis"]["analyzed"] == 1
    assert "Analysis" in (run_dir / "summary.md").read_text()


def test_an_analyzer_that_is_no_longer_installed_is_a_warning(program):
    run_dir, _done = evaluated(program)
    file = run_dir / "run.json"
    info = json.loads(file.read_text())
    info["request"]["execution"]["analysis_params"] = {"gone": {}}
    file.write_text(json.dumps(info))
    done = program("summary", str(run_dir), "--analyze")
    assert done.returncode == 0
    assert "warning: analyzer gone is left out" in done.stderr


def test_what_is_no_run_is_an_error(program):
    done = program("summary", ".", "--analyze")
    assert "is not a run directory" in done.stderr
    assert done.returncode != 0


def test_parameters_of_an_analyzer_are_checked_before_anything_runs(program):
    params = json.dumps({"path": "questions.jsonl"})
    wrong = json.dumps({"latency": {"floor_seconds": -1}})
    done = program(
        "run", "jsonl", "nop", "m", "--benchmark-params", params, "--analysis-params", wrong
    )
    assert done.returncode == 2
    assert "latency.floor_seconds" in done.stderr
