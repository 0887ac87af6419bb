"""A thousand attempts through storms of 429s with 3 % of requests reset: none lost, none wrong, within 1.2 times the ideal.

The ideal is the number of attempts divided by the calls a second that the endpoint allows. Run by `just campaign`.
"""

import json
import time

import pytest

from agentcompass.testing import FakeEndpoint
from agentcompass.testing.storm import Storm
from support.commandline import Program
from support.storms import Allowance, arguments, solve, write_tasks

ATTEMPTS = 1000
PER_SECOND = 20
RESET = 0.03
MOST = 1.2

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
def program(tmp_path):
    tmp_path.chmod(0o700)
    write_tasks(tmp_path, ATTEMPTS)
    return Program(tmp_path)


def show(capsys, title, allowance, storm, began, attempts=ATTEMPTS):
    with capsys.disabled():
        print(f"\n{title}")
        print(
            f"  requests taken, refused, reset   {allowance.taken}, {allowance.refused}, {storm.happened['reset']}"
        )
        print(f"  seconds, program and all         {time.monotonic() - began:.1f}")
        print(f"  seconds at the endpoint          {allowance.elapsed_seconds:.1f}")
        print(f"  ideal                            {attempts / PER_SECOND:.1f}")
        print(f"  ratio                            {allowance.elapsed_seconds * PER_SECOND / attempts:.3f}")  # fmt: skip


def check(stdout, attempts=ATTEMPTS):
    summary = json.loads(stdout)["summary"]
    assert summary["counts"]["graded"] == attempts
    assert summary["score"] == 1.0


@pytest.mark.parametrize("concurrency", [64, 256])
@pytest.mark.parametrize("hint", ["seconds", "exact", "none"])
def test_a_thousand_attempts(program, capsys, hint, concurrency):
    allowance = Allowance(solve, per_second=PER_SECOND, burst=20, seconds=1.0, hint=hint)
    storm = Storm(allowance, reset=RESET, seed=1)
    began = time.monotonic()
    with FakeEndpoint(storm) as endpoint:
        child = program.start(*arguments(endpoint.base_url, concurrency=concurrency))
        stdout, stderr = child.communicate(timeout=600)
    assert child.returncode == 0, stderr
    check(stdout)
    show(capsys, f"hint {hint}, {concurrency} at once", allowance, storm, began)
    assert allowance.elapsed_seconds <= MOST * ATTEMPTS / PER_SECOND


def test_a_thousand_attempts_by_somebody_who_knows_the_rate(program, capsys):
    allowance = Allowance(solve, per_second=PER_SECOND, burst=20, seconds=1.0)
    storm = Storm(allowance, reset=RESET, seed=1)
    began = time.monotonic()
    with FakeEndpoint(storm) as endpoint:
        asked = arguments(endpoint.base_url, concurrency=256, rpm=60 * PER_SECOND)
        child = program.start(*asked)
        stdout, stderr = child.communicate(timeout=600)
    assert child.returncode == 0, stderr
    check(stdout)
    show(capsys, "rpm given", allowance, storm, began)
    assert allowance.refused == 0
    assert allowance.elapsed_seconds <= 1.1 * ATTEMPTS / PER_SECOND


@pytest.mark.parametrize("rpm", [None, 60 * PER_SECOND])
def test_three_processes_at_once(program, capsys, rpm):
    allowance = Allowance(solve, per_second=PER_SECOND, burst=20, seconds=1.0)
    storm = Storm(allowance, reset=RESET, seed=1)
    began, attempts = time.monotonic(), 3 * ATTEMPTS
    given = {"rpm": rpm} if rpm else {}
    environ = {"XDG_RUNTIME_DIR": str(program.folder)}
    with FakeEndpoint(storm) as endpoint:
        children = [
            program.start(
                *arguments(endpoint.base_url, "--results-dir", f"r{n}", concurrency=128, **given),
                environ=environ,
            )
            for n in range(3)
        ]
        for child in children:
            stdout, stderr = child.communicate(timeout=900)
            assert child.returncode == 0, stderr
            check(stdout)
    show(capsys, f"three processes, rpm {rpm}", allowance, storm, began, attempts)
    assert allowance.elapsed_seconds <= MOST * attempts / PER_SECOND
