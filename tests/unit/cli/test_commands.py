"""Whole commands, as a person gives them, in processes of their own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attrs import evolve

from agentcompass.components import registry
from agentcompass.records import Lease, ProcessIdentity
from agentcompass.store.identity import this_process
from agentcompass.store.leases import LeaseBook
from support.screen import Screen

PARAMS = '{"path": "tasks.jsonl"}'


def oracle(*more):
    return ("run", "jsonl", "oracle", "m", "--benchmark-params", PARAMS, *more)


# --- run


def test_a_run_prints_its_result_and_nothing_else_on_standard_output(program):
    done = program(*oracle())
    assert done.returncode == 0
    head, *rest = done.stdout.splitlines()
    assert head == "m_jsonl_oracle: completed"
    assert rest[0].split() == ["correct", "1.000", "[0.510,", "1.000]"]
    assert "4 attempts planned" in done.stderr
    assert not any(line.startswith(("error", "m_jsonl")) for line in done.stderr.splitlines())


def test_the_result_as_json_is_what_the_sdk_returns(program):
    done = program(*oracle("--format", "json", "--progress", "none"))
    result = json.loads(done.stdout)
    assert set(result) == {"metadata", "metrics", "summary", "paths"}
    assert (result["summary"]["score"], done.stderr) == (1.0, "")


def test_a_run_in_an_ascii_locale_works(program):
    done = program(
        *oracle(), LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", PYTHONIOENCODING="ascii"
    )
    assert done.returncode == 0
    assert (done.stdout + done.stderr).isascii()


def test_a_run_without_enough_coverage_fails_and_says_what_to_do(program):
    done = program(
        *("run", "jsonl", "openai_chat", "m", "--benchmark-params", PARAMS, "--max-retries", "0"),
        *("--model-base-url", "http://127.0.0.1:9/v1", "--model-params", '{"max_retries": 0}'),
        *("--model-api-key", "sk-verysecret", "--progress", "none", "--log-level", "CRITICAL"),
    )
    assert done.returncode == 1
    assert "without a score:\n  4  infra  run  connection-failed" in done.stdout
    assert "Nothing was graded: run the same command again." in done.stderr
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert "sk-verysecret" not in done.stdout + done.stderr


def test_standard_input_can_be_the_parameters(program):
    done = program("run", "jsonl", "oracle", "m", "--benchmark-params", "-", stdin=PARAMS)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "jsnol", "oracle", "m"], 2, "unknown benchmark 'jsnol' (did you mean 'jsonl'?)"),
        (["run", "jsonl", "oracle"], 2, "MODEL requires an argument"),
        (["run", "jsonl", "openai_chat", "m", "--benchmark-params", PARAMS], 2, "--model-base-url"),
        (["rnu"], 2, 'Unknown command "rnu". Did you mean "run"?'),
        (["launch", "no-such-file.yaml"], 2, "there is no such file"),
        (["summary", "."], 1, "error: "),
        (["list", "benches"], 2, "Choose from"),
        (["config", "explain", "exection.k"], 2, "did you mean 'execution.k'?"),
        (["env", "list", "no-such-folder"], 2, "there is no directory 'no-such-folder'"),
    ],
    ids=["benchmark", "positional", "url", "command", "file", "summary", "list", "config", "env"],
)
def test_an_expected_error_is_one_message_and_its_code(program, arguments, code, message):
    done = program(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_results_directory_that_cannot_be_is_a_preflight_error(program):
    (program.folder / "file").write_text("")
    done = program(*oracle("--results-dir", "file/results", "--progress", "none"))
    assert done.returncode == 3
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("ending", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "term"]
)
def test_a_signal_ends_a_run_with_its_code_and_what_there_is(
    program, silent_endpoint, ending, code
):
    arguments = ("run", "jsonl", "openai_chat", "m", "--benchmark-params", PARAMS)
    with program.start(*arguments, "--model-base-url", silent_endpoint) as child:
        for line in child.stderr:
            if "results in" in line:
                break
        time.sleep(0.2)
        child.send_signal(ending)
        out, err = child.communicate(timeout=20)
    assert child.returncode == code
    assert out.startswith("m_jsonl_openai_chat: cancelled")
    assert "Traceback" not in err


def test_a_timeout_is_124(program, silent_endpoint):
    arguments = ("run", "jsonl", "openai_chat", "m", "--benchmark-params", PARAMS)
    done = program(*arguments, "--model-base-url", silent_endpoint, "--timeout-seconds", "1")
    assert done.returncode == 124
    assert done.stdout.startswith("m_jsonl_openai_chat: timed out")


def test_a_run_on_a_terminal_is_live_and_leaves_the_result(program, silent_endpoint):
    code = f"""
import os, sys
os.chdir({str(program.folder)!r})
os.environ["HOME"] = {str(program.folder)!r}
sys.argv = ["agentcompass", "run", "jsonl", "openai_chat", "m", "--benchmark-params", {PARAMS!r},
            "--model-base-url", {silent_endpoint!r}]
from agentcompass.cli.entry import main
main()
"""
    screen = Screen(code, columns=100, rows=40)
    try:
        screen.until("4 active: run 4")
        assert "0/4" in screen.text
        screen.child.sendintr()
        assert screen.end() == 130
        assert "ending the run (sigint)" in screen.text
        assert "m_jsonl_openai_chat: cancelled" in screen.text
        assert "0/4 " not in screen.text
        assert screen.cursor_is_shown
    finally:
        screen.close()


# --- the other commands


def test_summary_shows_what_the_run_showed(program):
    run = program(*oracle("--run-id", "r1"))
    done = program("summary", "results/m_jsonl_oracle/r1")
    assert done.returncode == 0
    result, hint = run.stdout[: len(done.stdout)], run.stdout[len(done.stdout) :]
    assert done.stdout == result
    assert "agentcompass run jsonl openai_chat MODEL" in hint, (
        "how to put in a model, after a run without"
    )


def test_summary_as_json(program):
    program(*oracle("--run-id", "r1"))
    done = program("summary", "results/m_jsonl_oracle/r1", "--format", "json")
    assert json.loads(done.stdout)["summary"]["counts"]["graded"] == 4


@pytest.mark.parametrize(
    ("plural", "kind"),
    [
        ("benchmarks", "benchmark"),
        ("harnesses", "harness"),
        ("environments", "environment"),
        ("recipes", "recipe"),
        ("analyzers", "analyzer"),
    ],
)
def test_list_shows_every_kind(program, plural, kind):
    done = program("list", plural, "--format", "json")
    assert json.loads(done.stdout) == dict(registry.known(kind))


def test_listing_imports_no_component(program):
    code = """
import sys
sys.argv = ["agentcompass", "list", "benchmarks"]
from agentcompass.cli.app import run
run(sys.argv[1:])
print([name for name in sys.modules if ".benchmarks." in name or name in ("trio", "httpx", "rich.console")])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=program.environment(),
        capture_output=True,
        check=True,
        text=True,
        timeout=30,
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_config_explain_tells_value_origin_and_what_it_overrode(program):
    (program.folder / "agentcompass.yaml").write_text("execution:\n  k: 3\n")
    done = program("config", "explain", "execution.k")
    lines = [line.split(None, 1) for line in done.stdout.splitlines()[1:]]
    assert lines[0] == ["value", "3"]
    assert "agentcompass.yaml:2:" in lines[1][1]
    assert lines[2] == ["overrode", "1  built-in default"]


def test_config_show_lists_every_setting_with_its_origin(program):
    (program.folder / "more.yaml").write_text("runtime: {results_dir: elsewhere}\n")
    done = program("config", "show", "--config", "more.yaml", "--format", "json")
    values = {value["key"]: value for value in json.loads(done.stdout)}
    assert values["runtime.results_dir"]["value"] == "elsewhere"
    assert values["execution.k"]["origin"] == "built-in default"


def test_config_docs_describes_settings_and_components(program):
    text = program("config", "docs").stdout
    assert (
        "execution.k  (integer, at least 1, at most 10000; default 1, --k)\n    Attempts at each task."
        in text
    )
    assert "benchmarks.jsonl.path  (path; required)" in text


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(program, shell):
    done = program("completion", shell)
    assert done.returncode == 0
    assert "agentcompass" in done.stdout
    assert "model-base-url" in done.stdout


def test_completion_is_installed_where_the_shell_looks(program):
    done = program("completion", "bash", "--install")
    (path,) = done.stdout.splitlines()
    assert path.startswith(str(program.folder))
    assert "model-base-url" in Path(path).read_text()


# --- env


def lease(name, owner, **more):
    return Lease(
        id=name,
        run_id="r1",
        task_id="t1",
        environment="host_process",
        name=name,
        created_at="2026-01-01T00:00:00Z",
        expires_at="2026-01-02T00:00:00Z",
        owner=owner,
        **more,
    )


@pytest.fixture
def leases(program, tmp_path):
    dead = ProcessIdentity(boot_id="gone", pid=1, started=1)
    directory = tmp_path / "results" / "demo" / "r1" / "leases"
    (directory.parent).mkdir(parents=True)
    (directory.parent / "run.json").write_text("{}")
    book = LeaseBook(directory)
    for name, owner, keep in [
        ("left", dead, False),
        ("kept", dead, True),
        ("used", this_process(), False),
    ]:
        sandbox = tmp_path / "sandboxes" / name
        sandbox.mkdir(parents=True)
        book.write(lease(name, owner, keep=keep, details={"directory": str(sandbox)}))
    return book


def test_sandboxes_are_listed_with_their_state(program, leases):
    done = program("env", "list", "--format", "json")
    states = {one["name"]: one["state"] for one in json.loads(done.stdout)}
    assert states == {"left": "left", "kept": "kept", "used": "in use"}


def test_a_corrupt_lease_is_a_warning(program, leases):
    (leases.leases_dir / "broken.json").write_text("{")
    done = program("env", "list")
    assert done.returncode == 0
    assert "broken.json cannot be read" in done.stderr
    assert len(done.stdout.splitlines()) == 4


def test_no_results_mean_no_sandboxes(program):
    assert program("env", "list").stdout == "no sandboxes\n"


def test_closing_removes_what_nobody_uses(program, leases):
    done = program("env", "close")
    assert (done.returncode, done.stdout) == (0, "2 removed, 0 failed, 1 in use left alone\n")
    assert [one.name for one in leases.list()] == ["used"]


def test_closing_all_removes_what_is_in_use_too(program, leases):
    done = program("env", "close", str(leases.leases_dir.parent), "--all")
    assert done.stdout == "3 removed, 0 failed\n"
    assert leases.list() == ()


def test_a_sandbox_that_cannot_be_removed_is_told_and_the_others_are_removed(program, leases):
    dead = ProcessIdentity(boot_id="gone", pid=1, started=1)
    leases.write(evolve(lease("foreign", dead), environment="no_such_environment"))
    done = program("env", "close")
    assert done.returncode == 1
    assert "foreign could not be removed: unknown environment" in done.stderr
    assert [one.name for one in leases.list()] == ["foreign", "used"]


# --- pages


def test_the_help_of_a_command_is_printed_like_every_result(program):
    done = program("summary", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: agentcompass summary [OPTIONS] RUN_DIR...")


def test_a_page_of_help_for_documents_is_printed_alone(program):
    done = subprocess.run(
        [sys.executable, "-m", "agentcompass.cli.help", "status"],
        env=program.environment(),
        capture_output=True,
        check=True,
        text=True,
        timeout=30,
    )
    assert done.stdout.startswith("Usage: agentcompass status [OPTIONS] [DIR]")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("list", "recipes"), "swebench_testbed "),
        (("list", "harnesses"), "nop "),
        (("config", "show"), "execution.k "),
    ],
    ids=["recipes", "components", "settings"],
)
def test_lists_are_lines(program, arguments, line):
    done = program(*arguments)
    assert done.returncode == 0
    assert any(one.startswith(line) for one in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("config", "docs"), {"key", "type", "doc", "default"}),
        (("config", "explain", "execution.k"), {"key", "value", "origin", "overrode"}),
    ],
    ids=["docs", "explain"],
)
def test_settings_are_told_as_json_too(program, arguments, names):
    value = json.loads(program(*arguments, "--format", "json").stdout)
    assert names <= set(value[0] if isinstance(value, list) else value)


def test_a_parameter_of_a_component_is_explained_although_no_file_has_it(program):
    done = program("config", "explain", "benchmarks.jsonl.limit")
    assert done.returncode == 0
    assert "meaning" in done.stdout


def test_a_completion_that_cannot_be_installed_says_what_to_do(program):
    done = program("completion", "bash", "--install", HOME="/dev/null/nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert "the completion cannot be installed: Not a directory" in done.stderr
    assert "`agentcompass completion bash` prints the script" in done.stderr


def test_a_path_longer_than_any_is_a_directory_that_is_not_there(program):
    done = program("env", "list", "x" * 5000)
    assert done.returncode == 2
    assert "there is no directory" in done.stderr


# --- comparing


@pytest.fixture
def runs(program):
    for run_id in ("r1", "r2"):
        assert program(*oracle("--run-id", run_id, "--progress", "none")).returncode == 0
    return tuple(f"results/m_jsonl_oracle/{run_id}" for run_id in ("r1", "r2"))


def test_several_runs_are_compared_in_one_table(program, runs):
    done = program("summary", *runs)
    assert (done.returncode, done.stderr) == (0, "")
    head, *rows = done.stdout.splitlines()
    assert head.split() == ["run", "status", "score", "coverage", "tokens", "cost", "time"]
    assert "".join(rows).count("1.000 [0.510, 1.000]  100.0%") == 2
    assert all(f"m_jsonl_oracle {run_id}" in done.stdout for run_id in ("r1", "r2"))


def test_several_runs_in_json_are_an_array_of_what_each_alone_would_be(program, runs):
    both = json.loads(program("summary", *runs, "--format", "json").stdout)
    each = [json.loads(program("summary", run, "--format", "json").stdout) for run in runs]
    assert both == each


@pytest.mark.parametrize("form", ["text", "json"])
def test_one_run_that_cannot_be_read_does_not_hide_the_others(program, runs, form):
    done = program("summary", "no-such-run", *runs, "--format", form)
    assert done.returncode == 1
    assert "no-such-run is not a run directory" in done.stderr
    assert done.stdout.count("r2") >= 1


def test_a_run_is_looked_at_again_before_it_is_shown(program, runs):
    done = program("summary", *runs, "--analyze")
    assert done.returncode == 0
    assert "1.000" in done.stdout


def test_no_run_directory_is_a_mistake_that_is_told_in_plain_words(program):
    done = program("summary")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: RUN_DIR requires an argument\n`agentcompass summary --help` shows what can be given.\n"
    )
