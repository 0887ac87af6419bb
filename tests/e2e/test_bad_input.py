"""What a user gets wrong is said in one or two lines that name the nearest right thing, and leaves no trace."""

import json
import os
import time

import pytest

from support.commandline import Program

GOOD = {"id": "a", "prompt": "hi", "answer": "hello"}
RUN = ("run", "jsonl", "oracle", "none", "--benchmark-params", '{"path": "tasks.jsonl"}')


@pytest.fixture
def program(tmp_path):
    write(tmp_path, GOOD)
    return Program(tmp_path)


def write(folder, *tasks):
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))


def refused(program, arguments, *words, code=2, **environ):
    """Check the exit code, the words, that it is short, and that nothing was made."""
    before = sorted(path.name for path in program.folder.iterdir())
    done = program(*arguments, **environ)
    message = done.stderr.strip()
    assert done.returncode == code, message
    assert "Traceback" not in message
    for word in words:
        assert word in message, message
    assert len(message.splitlines()) <= 4, message
    assert done.stdout == ""
    assert sorted(path.name for path in program.folder.iterdir()) == before
    return message


def with_benchmark(**params):
    return (*RUN[:5], json.dumps({"path": "tasks.jsonl"} | params))


CASES = {
    "unknown benchmark": (("run", "humanevl", "oracle", "none"), ("humanevl", "humaneval")),
    "unknown harness": (("run", "humaneval", "orcale", "none"), ("orcale", "oracle")),
    "unknown environment": ((*RUN, "--env", "host_proces"), ("host_proces", "host_process")),
    "unknown recipe": ((*RUN, "--recipe", "swe"), ("swe", "recipe")),
    "unknown protocol": ((*RUN, "--model-api-protocol", "openai-chta"), ("openai-chta", "openai-chat")),
    "unknown benchmark parameter": (with_benchmark(scorr="exact"), ("scorr", "scorer")),
    "unknown harness parameter": ((*RUN, "--harness-params", '{"sytem_prompt": "x"}'), ("sytem_prompt",)),
    "unknown environment parameter": ((*RUN, "--env-params", '{"rot": "/tmp"}'), ("rot", "root")),
    "unknown execution parameter": ((*RUN, "--execution-params", '{"max_retrys": 1}'), ("max_retrys", "max_retries")),
    "unknown option": ((*RUN, "--max-retrys", "1"), ("--max-retrys", "--max-retries")),
    "unknown command": (("rnu", "humaneval"), ("rnu", "run")),
    "bad JSON": ((*RUN[:5], '{"path": tasks}'), ("path", "JSON")),
    "JSON that is no object": ((*RUN[:5], "[1]"), ("object",)),
    "JSON from a file that is not there": ((*RUN[:5], "@missing.json"), ("missing.json",)),
    "a negative number": ((*RUN, "--task-concurrency", "-1"), ("task-concurrency", "-1")),
    "zero concurrency": ((*RUN, "--task-concurrency", "0"), ("task-concurrency", "0")),
    "NaN": ((*RUN, "--cleanup-grace-seconds", "nan"), ("cleanup-grace-seconds",)),
    "a fraction of a task": ((*RUN, "--task-concurrency", "1.5"), ("task-concurrency", "1.5")),
    "no number": ((*RUN, "--max-retries", "many"), ("max-retries", "many")),
    "a bad limit": ((*RUN, "--provider-limit", "host_process"), ("provider-limit", "=")),
    "a limit of nothing known": ((*RUN, "--provider-limit", "hots_process=2"), ("hots_process", "host_process")),
    "a negative rate": ((*RUN, "--env-open-qps", "host_process=-2"), ("env-open-qps",)),
    "an unknown progress": ((*RUN, "--progress", "fancy"), ("fancy", "auto")),
    "an unknown log level": ((*RUN, "--log-level", "LOUD"), ("LOUD", "WARNING")),
    "a limit that is a word": (with_benchmark(limit="3"), ("limit",)),
    "a limit that is a fraction": (with_benchmark(limit=2.9), ("limit", "2.9")),
    "an unknown task": (with_benchmark(sample_ids=["b"]), ("'b'",)),
    "a task id that is a path": (with_benchmark(sample_ids=["../../x"]), ("../../x",)),
    "a bad pattern": ((*RUN, "--retry-pattern-list", '["("]'), ("retry-pattern-list", "unterminated")),
    "k of 0": ((*RUN, "--k", "0"), ("k", "0")),
    "coverage above 1": ((*RUN, "--min-coverage", "1.5"), ("min-coverage", "1.5")),
    "a run id that is a path": ((*RUN, "--run-id", "../x"), ("../x",)),
    "an unset variable": ((*RUN, "--model-api-key", "${SURELY_UNSET}"), ("SURELY_UNSET", "api-key")),
    "no endpoint": (("run", "humaneval", "openai_chat", "m"), ("--model-base-url",)),
    "a URL that is none": (("run", "humaneval", "openai_chat", "m", "--model-base-url", "localhost"), ("localhost",)),
    "a missing file": (("run", "jsonl", "oracle", "none", "--benchmark-params", '{"path": "taks.jsonl"}'), ("taks.jsonl",)),
    "no path": (("run", "jsonl", "oracle", "none"), ("path",)),
    "a missing config file": ((*RUN, "--config", "missing.yaml"), ("missing.yaml",)),
    "too few arguments": (("run", "humaneval"), ("HARNESS",)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_mistake_is_named_and_leaves_no_trace(program, case):
    arguments, words = CASES[case]
    refused(program, arguments, *words)


def test_a_mistake_is_told_in_about_a_second(program):
    began = time.monotonic()
    refused(program, CASES["unknown benchmark"][0])
    assert time.monotonic() - began < 5  # bounded, not measured: the figure stands in benchmarks/


def test_several_mistakes_are_told_at_once(program):
    message = refused(
        program,
        ("run", "humanevl", "orcale", "none", "--k", "0"),
        "humanevl", "orcale", "k",
    )  # fmt: skip
    assert len(message.splitlines()) >= 3


TASK_FILES = {
    "a path as id": ([GOOD | {"id": "../../x"}], ("../../x", "tasks.jsonl:1")),
    "the same id twice": ([GOOD, GOOD], ("'a'", "tasks.jsonl:2")),
    "no id": ([{"prompt": "x", "answer": "y"}], ("id", "tasks.jsonl:1")),
    "an unknown field": ([GOOD | {"awnser": "y"}], ("awnser", "answer")),
    "a control character in an id": ([GOOD | {"id": "a\x00b"}], ("tasks.jsonl:1",)),
}


@pytest.mark.parametrize("case", TASK_FILES)
def test_a_mistake_in_the_users_tasks_is_named_with_its_line(program, case):
    tasks, words = TASK_FILES[case]
    write(program.folder, *tasks)
    refused(program, RUN, *words)


CONFIG_FILES = {
    "an unknown section": ("benchmark: {}\n", ("agentcompass.yaml:1:1", "benchmarks")),
    "an unknown key": ("execution:\n  max_retrys: 3\n", ("agentcompass.yaml:2:3", "max_retrys", "max_retries")),
    "an unknown component": ("benchmarks:\n  humanevl: {}\n", ("agentcompass.yaml:2", "humanevl", "humaneval")),
    "a key twice": ("execution: {}\nexecution: {}\n", ("agentcompass.yaml:2", "execution")),
    "a word for a switch": ("execution:\n  keep_environment: yes\n", ("agentcompass.yaml:2", "keep_environment")),
    "a broken file": ("execution: [\n", ("agentcompass.yaml",)),
}  # fmt: skip


@pytest.mark.parametrize("case", CONFIG_FILES)
def test_a_mistake_in_a_config_file_is_named_with_its_place(program, case):
    text, words = CONFIG_FILES[case]
    (program.folder / "agentcompass.yaml").write_text(text)
    refused(program, RUN, *words)


def test_an_unset_variable_in_a_config_file_is_named_with_its_place(program):
    (program.folder / "agentcompass.yaml").write_text(
        "environments:\n  host_process:\n    root: ${SURELY_UNSET}\n"
    )
    refused(program, RUN, "SURELY_UNSET", "agentcompass.yaml:3", "root")


def test_a_variable_nobody_uses_may_be_unset(program):
    (program.folder / "agentcompass.yaml").write_text(
        "benchmarks:\n  humaneval:\n    prompt_style: ${SURELY_UNSET}\n"
    )
    assert program(*RUN).returncode == 0


@pytest.mark.parametrize("place", ["/proc/results", "tasks.jsonl", "tasks.jsonl/results"])
def test_a_results_directory_that_cannot_be_written_is_not_ready(program, place):
    refused(program, (*RUN, "--results-dir", place), place, code=3)


def test_a_run_id_that_exists_starts_nothing(program):
    assert program(*RUN, "--run-id", "mine").returncode == 0
    (journal,) = (program.folder / "results").rglob("attempts.jsonl")
    before = journal.read_bytes()
    done = program(*RUN, "--run-id", "mine")
    assert done.returncode in (2, 3)
    assert "mine" in done.stderr
    assert journal.read_bytes() == before


def test_a_broken_plug_in_breaks_only_itself(program):
    (program.folder / "broken_plugin.py").write_text("raise SystemExit('at import')\n")
    environ = {
        "PYTHONPATH": os.pathsep.join([program.environment()["PYTHONPATH"], str(program.folder)]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    refused(
        program,
        ("run", "broken_plugin:Thing", "oracle", "none"),
        "broken_plugin",
        "at import",
        **environ,
    )
    assert program(*RUN, **environ).returncode == 0
