"""`agentcompass launch` as a person gives it: the table at the end, reuse, parts of a file, and the end of it all."""

from __future__ import annotations

import json
import re
import signal
import textwrap
import time

import pytest

from agentcompass.progress.text import cells
from support.screen import Screen

DEFAULTS = (
    "defaults: {benchmark: {id: jsonl, path: tasks.jsonl}, harness: {id: oracle}, model: {id: m}}\n"
)

SLOW = '''
"""A sandbox that takes its time to close, and longer to be removed."""

from contextlib import asynccontextmanager

import trio

from agentcompass.components.environments.host_process import HostProcess


class SlowToClose(HostProcess):
    id = "slow_to_close"

    @asynccontextmanager
    async def open(self, plan, lease):
        async with super().open(plan, lease) as session:
            try:
                yield session
            finally:
                await trio.sleep(600)

    async def remove(self, lease):
        await trio.sleep(600)
'''


def launch(program, text, *more, **environ):
    (program.folder / "all.yaml").write_text(DEFAULTS + textwrap.dedent(text))
    return program("launch", "all.yaml", "--progress", "none", *more, **environ)


def requests_of(done):
    return json.loads(done.stdout)["requests"]


def test_the_table_fits_eighty_columns_and_tells_the_errors_apart(program):
    long = "a request with a name that is longer than anybody should have to read in a table of eighty columns"
    done = launch(
        program,
        f"""
        requests:
          - {{name: good}}
          - {{name: {long}}}
          - {{name: no-file, benchmark: {{path: gone.jsonl}}}}
          - {{name: no-task, benchmark: {{sample_ids: [t9]}}}}
        """,
    )
    assert done.returncode == 1
    table = done.stdout.split("results:")[0]
    assert max(map(cells, table.splitlines())) <= 80
    row = r"^good +completed  1\.000 \[0\.510, 1\.000\]  100\.0% +- +- +\d+s$"
    assert re.search(row, table, re.MULTILINE), table
    assert re.search(r"^no-file +failed +- +- +- +- +-$", table, re.MULTILINE)
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert [line.split(": ")[1] for line in errors] == ["no-file", "no-task"]


def test_one_document_has_everything_when_a_program_asks(program):
    done = launch(
        program,
        "requests: [{name: good}, {name: bad, benchmark: {path: gone.jsonl}}]",
        "--format",
        "json",
    )
    found = json.loads(done.stdout)
    assert (done.returncode, found["status"], found["ended_by"]) == (1, "partial_failure", None)
    good, bad = found["requests"]["good"], found["requests"]["bad"]
    assert set(good["result"]) == {"metadata", "metrics", "summary", "paths"}
    assert (good["status"], good["error"], good["error_kind"]) == ("completed", None, None)
    assert (bad["status"], bad["result"], bad["error_kind"]) == (
        "failed",
        None,
        "ConfigurationError",
    )
    assert "gone.jsonl" in bad["error"]


def test_only_the_requests_that_are_asked_for_run(program):
    text = "requests: [{name: one}, {name: two-a}, {name: two-b}]"
    done = launch(program, text, "--only", "two-*", "--format", "json")
    assert list(requests_of(done)) == ["two-a", "two-b"]
    done = launch(program, text, "--only", "tow-a")
    assert (done.returncode, done.stdout) == (2, "")
    assert "two-a" in done.stderr


def reused(done):
    return {
        name: outcome["result"]["summary"]["reused"] for name, outcome in requests_of(done).items()
    }


def test_reuse_for_all_leaves_out_who_says_otherwise(program):
    text = "requests: [{name: one}, {name: two, runtime: {reuse: false}}]"
    assert launch(program, text, "--run-id", "r1").returncode == 0
    assert reused(launch(program, text, "--format", "json")) == {"one": 0, "two": 0}
    assert reused(launch(program, text, "--reuse", "--format", "json")) == {"one": 4, "two": 0}


def test_a_request_reuses_by_itself_and_from_the_run_it_names(program):
    assert launch(program, "requests: [{name: one}, {name: two}]", "--run-id", "r1").returncode == 0
    done = launch(
        program,
        """
        requests:
          - {name: one, runtime: {reuse: true, reuse_run_id: r1}}
          - {name: two}
          - {name: three, runtime: {reuse: true}}
          - {name: four, runtime: {reuse: true, reuse_run_id: r7}}
        """,
        *("--format", "json"),
    )
    found = requests_of(done)
    assert found["one"]["result"]["metadata"]["reused_from"] == "r1"
    assert found["one"]["result"]["summary"]["reused"] == 4
    assert found["two"]["result"]["summary"]["reused"] == 0
    assert found["three"]["result"]["summary"]["reused"] == 0, "its name has no earlier run"
    assert found["four"]["status"] == "failed"
    assert "there is no run 'r7' to reuse" in found["four"]["error"]


def test_the_defaults_of_a_file_may_say_that_all_reuse(program):
    assert launch(program, "requests: [{name: one}, {name: two}]").returncode == 0
    (program.folder / "all.yaml").write_text(
        DEFAULTS.replace("model: {id: m}", "model: {id: m}, runtime: {reuse: true}")
        + "requests: [{name: one}, {name: two, runtime: {reuse: false}}]\n"
    )
    done = program("launch", "all.yaml", "--progress", "none", "--format", "json")
    assert reused(done) == {"one": 4, "two": 0}


# --- the end


@pytest.fixture
def slow(program):
    """The program with tasks that go on for ever in sandboxes that do not close; returns its arguments."""
    (program.folder / "plugin.py").write_text(SLOW)
    tasks = [
        {"id": f"t{n}", "prompt": "x", "solution": "y", "command": "sleep 600"} for n in range(2)
    ]
    (program.folder / "tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)))
    (program.folder / "all.yaml").write_text(
        DEFAULTS + "requests: [{name: one, environment: {id: 'plugin:SlowToClose'}}]\n"
    )
    return ("launch", "all.yaml", "--cleanup-grace-seconds", "60")


def with_plugin(program):
    return {"PYTHONPATH": f"{program.environment()['PYTHONPATH']}:{program.folder}"}


def await_line(stream, words):
    for line in stream:
        if words in line:
            return line
    raise AssertionError(f"it never said {words!r}")


def await_running(program):
    """Wait until both tasks are at work in their sandboxes."""
    end = time.monotonic() + 60
    while _events(program).count('"phase":"prepare"') < 2:
        assert time.monotonic() < end
        time.sleep(0.05)


def _events(program):
    found = program.folder.glob("results/one/*/events.jsonl")
    return "".join(path.read_text() for path in found)


def test_the_end_says_what_is_being_cleaned_up_counts_down_and_names_what_is_left(program, slow):
    child = program.start(*slow, "--progress", "plain", environ=with_plugin(program))
    try:
        await_line(child.stderr, "results in")
        await_running(program)
        child.send_signal(signal.SIGINT)
        notice = await_line(child.stderr, "ending the run")
        assert "(sigint): cancelling 2 attempts, removing 2 sandboxes, for at most 60 s" in notice
        countdown = await_line(child.stderr, "cleaning up: 2 sandboxes")
        what = r", \d+s left . t\d in \w+ for \d+s, t\d in \w+ for \d+s$"
        assert re.search(what, countdown), countdown
        found = json.loads(program("status", "--format", "json").stdout)
        assert found["ending"]["reason"] == "sigint"
        assert 0 < found["ending"]["seconds_left"] < 60
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
        child.communicate()
    assert child.returncode == 130
    assert "one      cancelled" in out
    assert "2 sandboxes could not be confirmed gone:" in err
    assert "agentcompass env close" in err
    listed = program("env", "list", "--format", "json", **with_plugin(program))
    names = [one["name"] for one in json.loads(listed.stdout)]
    assert len(names) == 2
    assert all(name in err for name in names)


def test_on_a_terminal_the_grace_counts_down_in_place(program, slow):
    path = with_plugin(program)["PYTHONPATH"]
    code = f"""
import os, sys
os.chdir({str(program.folder)!r})
os.environ["HOME"] = {str(program.folder)!r}
sys.path[:0] = {path.split(":")!r}
sys.argv = ["agentcompass", *{slow!r}]
from agentcompass.cli.entry import main
main()
"""
    screen = Screen(code, columns=100, rows=30)

    def left(screen):
        shown = re.search(r"cleaning up \(sigint\): 2 sandboxes, (\d+) s left", screen.text)
        return int(shown[1]) if shown else None

    try:
        screen.until("2 active: evaluate 2", timeout=60)
        screen.child.sendintr()
        screen.until(left, timeout=60)
        first = left(screen)
        screen.until(lambda screen: (left(screen) or first) < first, timeout=60)
        assert "waiting for" not in screen.text
        screen.child.sendintr()
        assert screen.end(timeout=60) == 130
        assert "2 sandboxes could not be confirmed gone:" in screen.text
        assert screen.cursor_is_shown
    finally:
        screen.close()
