"""A storm of 429s and broken connections: it costs time, and no attempt. The long form is in `campaign_storm.py`."""

import itertools
import json
import time

import pytest

from agentcompass.testing import FakeEndpoint
from agentcompass.testing.storm import Storm
from support.commandline import Program
from support.storms import Allowance, arguments, solve, write_tasks


@pytest.fixture
def program(tmp_path):
    tmp_path.chmod(0o700)
    return Program(tmp_path)


def summary(stdout):
    return json.loads(stdout)["summary"]


def until(statement):
    ends_at = time.monotonic() + 60
    while not statement():
        assert time.monotonic() < ends_at
        time.sleep(0.01)


@pytest.mark.parametrize("hint", ["exact", "none"])
def test_no_attempt_is_lost_in_a_storm_and_none_scored_as_wrong(program, hint):
    write_tasks(program.folder, 120)
    allowance = Allowance(solve, per_second=60, burst=8, seconds=0.1, hint=hint)
    with FakeEndpoint(Storm(allowance, reset=0.03, seed=1)) as endpoint:
        done = program(*arguments(endpoint.base_url, temperature=0))
    assert done.returncode == 0, done.stderr
    found = summary(done.stdout)
    assert found["counts"]["graded"] == 120
    assert found["score"] == 1.0
    assert allowance.refused > 20


def test_two_processes_share_an_endpoint_and_the_death_of_one_costs_the_other_nothing(program):
    write_tasks(program.folder, 100)
    allowance = Allowance(solve, per_second=25, burst=8, seconds=0.1, hint="seconds")
    environ = {"XDG_RUNTIME_DIR": str(program.folder)}
    board = program.folder / "agentcompass" / "limits-1"
    with FakeEndpoint(allowance) as endpoint:
        asked = arguments(endpoint.base_url, "--results-dir")
        doomed = program.start(*asked, "doomed", environ=environ)
        other = program.start(*asked, "other", environ=environ)
        until(lambda: len(list(board.glob("[!.]*"))) == 2)
        endpoint.wait_for_requests(len(endpoint.requests) + 10, timeout_seconds=60)
        doomed.kill()
        doomed.communicate()
        stdout, stderr = other.communicate(timeout=100)
    assert other.returncode == 0, stderr
    found = summary(stdout)
    assert (found["counts"]["graded"], found["score"]) == (100, 1.0)
    assert list(board.iterdir()) == []


def test_without_a_place_for_the_board_a_run_goes_on_and_says_so_once(program):
    write_tasks(program.folder, 4)
    program.folder.chmod(0o700)
    (program.folder / "agentcompass").write_text("in the way")
    environ = {"XDG_RUNTIME_DIR": str(program.folder)}
    with FakeEndpoint(solve) as endpoint:
        done = program(*arguments(endpoint.base_url), **environ)
        silent = program(*arguments(endpoint.base_url, share_limits=False), **environ)
    assert done.returncode == silent.returncode == 0
    said = "model limits are not shared with other runs on this machine"
    assert done.stderr.count(said) == 1
    assert said not in silent.stderr


def test_an_agents_time_does_not_run_while_its_calls_wait_their_turn(program):
    write_tasks(program.folder, 12)
    with FakeEndpoint(solve) as endpoint:
        options = ("--execution-params", '{"run_timeout_seconds": 1}')
        done = program(*arguments(endpoint.base_url, *options, rpm=240))
    assert done.returncode == 0, done.stderr
    assert summary(done.stdout)["score"] == 1.0
    (journal,) = program.folder.rglob("attempts.jsonl")
    records = map(json.loads, journal.read_text().splitlines())
    waits = [record["phase_seconds"].get("wait", 0) for record in records]
    assert max(waits) > 1


def test_runs_that_follow_each_other_keep_to_what_is_allowed_however_they_end(program):
    write_tasks(program.folder, 3)
    environ = {"XDG_RUNTIME_DIR": str(program.folder)}
    sent = []

    def note(seen):
        sent.append(time.monotonic())
        return solve(seen)

    with FakeEndpoint(note) as endpoint:
        asked = arguments(endpoint.base_url, rpm=40)
        killed = program.start(*asked, "--results-dir", "killed", environ=environ)
        endpoint.wait_for_requests(2, timeout_seconds=60)
        killed.kill()
        killed.communicate()
        for name in ("first", "second"):
            done = program(*asked, "--results-dir", name, **environ)
            assert done.returncode == 0, done.stderr
    gaps = [after - before for before, after in itertools.pairwise(sent)]
    assert min(gaps) > 1.4  # one each 1.5 s
