"""How many files may be open: checked before anything runs, and enough are left to sum up."""

import resource
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from agentcompass import descriptors
from agentcompass.engine.planning import check_descriptors
from agentcompass.errors import PreflightError
from support.requests import component, orchestration, request

TESTS = Path(__file__).parents[2]
MADE = request(component("benchmark", "humaneval"), component("harness", "oracle"))


def check(tmp_path, concurrency, *, attempts=1000, requests=1, has_model=False, sandbox=4, **more):
    made = [attrs.evolve(MADE, name=f"r{number}") for number in range(requests)]
    plan = orchestration(tmp_path, *made, task_concurrency=concurrency, **more)
    check_descriptors(plan, made[0], attempts, has_model=has_model, sandbox=sandbox)


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(descriptors, "limit", lambda: 256)


def test_a_concurrency_that_cannot_be_carried_is_refused_with_the_one_that_can(tmp_path, few):
    with pytest.raises(PreflightError) as caught:
        check(tmp_path, 256)
    assert "may have 256" in caught.value.message
    assert "ulimit -n 1110" in caught.value.hint
    assert "set task_concurrency to 42 or less" in caught.value.hint
    check(tmp_path, 42)
    with pytest.raises(PreflightError):
        check(tmp_path, 43)


def test_connections_count_up_to_as_many_as_the_model_may_have(tmp_path, few):
    def ask(concurrency, max_connections):
        made = attrs.evolve(MADE, model=attrs.evolve(MADE.model, max_connections=max_connections))
        plan = orchestration(tmp_path, made, task_concurrency=concurrency)
        check_descriptors(plan, made, 9000, has_model=True, sandbox=0)

    ask(170, 256)
    with pytest.raises(PreflightError):
        ask(171, 256)
    ask(9000, 170)


def test_sandboxes_count_up_to_as_many_as_the_provider_may_open(tmp_path, few):
    check(tmp_path, 9000, provider_limits={"host_process": 40})
    with pytest.raises(PreflightError):
        check(tmp_path, 9000, provider_limits={"host_process": 0})


def test_a_few_attempts_need_no_more_than_a_few_whatever_the_concurrency(tmp_path, few):
    check(tmp_path, 9000, attempts=10)


def test_the_requests_of_a_launch_share_the_concurrency(tmp_path, few):
    with pytest.raises(PreflightError):
        check(tmp_path, 256, attempts=10, requests=2)
    check(tmp_path, 40, attempts=10, requests=2)


def test_nothing_is_suggested_where_nothing_fits(tmp_path, monkeypatch):
    monkeypatch.setattr(descriptors, "limit", lambda: 32)
    with pytest.raises(PreflightError) as caught:
        check(tmp_path, 1)
    assert "task_concurrency to" not in caught.value.hint


def child(tmp_path, program, soft, hard):
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env={"PYTHONPATH": f"{TESTS.parent}:{TESTS}", "PATH": "/usr/bin:/bin"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.split()


def test_the_limit_is_raised_for_us_and_not_for_commands(tmp_path):
    program = """
import sys, trio
from pathlib import Path
from agentcompass import descriptors
from support.host import sandbox

async def main():
    descriptors.raise_limit()
    descriptors.raise_limit()
    async with sandbox(Path(sys.argv[1])) as session:
        seen = await session.exec("ulimit -Sn; ulimit -Hn; ulimit -n 400; ulimit -Sn")
    print(descriptors.limit(), descriptors.given_limit(), seen.stdout)

trio.run(main)
"""
    assert child(tmp_path, program, 200, 500) == ["500", "200", "200", "500", "400"]


def test_a_run_whose_descriptors_are_used_up_is_summed_up_all_the_same(tmp_path):
    program = """
import os, sys, trio
from pathlib import Path
from agentcompass.engine import orchestrate
from support.scripted import run, scripted_request, tasks

leaked = []
finish = orchestrate._Run._finish

async def leak(self, *args):
    try:
        while True:
            leaked.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        await finish(self, *args)

orchestrate._Run._finish = leak

async def main():
    made = scripted_request({"load": lambda: tasks(3)})
    ran = await run(Path(sys.argv[1]), made)
    print(len(leaked) > 10, ran.outcome().status, (ran.run_dir() / "metrics.json").exists())

trio.run(main)
"""
    assert child(tmp_path, program, 150, 150) == ["True", "completed", "True"]


def test_as_many_as_are_said_to_fit_do_fit(tmp_path):
    program = """
import attrs, sys, trio
from pathlib import Path
from agentcompass.components.base import AgentOutcome
from support.requests import component
from support.scripted import run, scripted_request, tasks

async def agent(_input, session, _model, _emit):
    await session.exec("sleep 0.3")
    return AgentOutcome(answer="right")

async def main():
    here = Path(sys.argv[1])
    host = component("environment", "host_process", root=str(here / "root"))
    made = scripted_request({"load": lambda: tasks(60)}, {"run": agent, "sandbox": True})
    made = attrs.evolve(made, environment=host)
    refused = await run(here / "results", made, task_concurrency=60)
    print(type(refused.outcome().exception).__name__, (here / "results" / made.name).exists())
    ran = await run(here / "results", made, task_concurrency=28)
    print(ran.outcome().status)

trio.run(main)
"""
    assert child(tmp_path, program, 200, 200) == ["PreflightError", "False", "completed"]
