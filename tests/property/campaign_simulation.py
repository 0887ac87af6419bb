"""Twenty requests with five thousand tasks each, and a million tasks: hours of a virtual clock. Run by `just campaign`."""

import json
import os
import subprocess
import sys

import pytest

from support.commandline import ROOT
from support.ideal import Stream, list_schedule
from support.simulation import Referee, run_engine, run_scheduler
from support.virtual import results

TASKS = int(os.environ.get("CAMPAIGN_SIMULATED", "1000000"))
EACH = 5000
FEW = TASKS // 100
SLOTS = 64

pytestmark = pytest.mark.timeout(4 * 3600)


def streams(provider=lambda at: (None, "a", "b")[at % 3]):
    return [
        Stream(
            name=f"r{at}", tasks=EACH, mean_seconds=60.0, failing=0.1, retries=2, delay_seconds=30.0,
            provider=provider(at), seed=at,
        )
        for at in range(20)
    ]  # fmt: skip


def show(capsys, title, **figures):
    with capsys.disabled():
        print(f"\n{title}")
        for name, value in figures.items():
            print(f"  {name.replace('_', ' '):28} {value}")


def check(capsys, title, referee, given, ideal):
    share = given.utilisation(SLOTS) / ideal.utilisation(SLOTS)
    show(
        capsys, title, executions=given.executions, virtual_days=f"{given.makespan / 86_400:.2f}",
        slots_busy=f"{given.utilisation(SLOTS):.4f}", of_the_ideal=f"{share:.4f}", most_apart=referee.most_apart,
    )  # fmt: skip
    assert referee.problems == []
    assert referee.most_apart == 1
    assert given.executions == ideal.executions
    assert share >= 0.99


def test_the_scheduler_alone_does_as_well_as_the_list_schedule(capsys):
    for title, provider, places in (
        ("without limits", lambda _at: None, {}),
        ("a provider with few places", lambda at: (None, "a", "b")[at % 3], {"a": 16}),
    ):
        made, referee = streams(provider), Referee(20)
        given = run_scheduler(made, SLOTS, places, {}, referee=referee)
        check(capsys, f"scheduler, {title}", referee, given, list_schedule(made, SLOTS, places, {}))


def test_the_whole_engine_does_as_well_as_the_list_schedule(capsys):
    made, referee, places = streams(), Referee(20), {"a": 16}
    with results() as directory:
        result, given = run_engine(made, SLOTS, places, {}, directory, referee=referee)
    assert result.status == "completed"
    check(capsys, "engine", referee, given, list_schedule(made, SLOTS, places, {}))


def measured(level, tasks):
    path = f"{ROOT}:{ROOT / 'tests'}"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.simulation", level, str(tasks)],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def test_a_million_tasks_cost_the_scheduler_no_memory(capsys):
    few, many = measured("scheduler", FEW), measured("scheduler", TASKS)
    more = many["peak"] - few["peak"]
    show(
        capsys, f"scheduler, {TASKS} tasks", cpu_us_an_execution=f"{many['cpu_us']:.0f}",
        with_a_hundredth=f"{few['cpu_us']:.0f}", peak=f"{many['peak'] / 2**20:.0f} MiB", bytes_more=more,
    )  # fmt: skip
    assert more < 4 * 2**20


def test_a_million_tasks_cost_the_engine_what_the_benchmark_gives_and_little_more(capsys):
    few, many = measured("engine", FEW), measured("engine", TASKS)
    each = (many["peak"] - few["peak"]) / (TASKS - FEW)
    show(
        capsys, f"engine, {TASKS} tasks", cpu_us_an_execution=f"{many['cpu_us']:.0f}",
        with_a_hundredth=f"{few['cpu_us']:.0f}", peak=f"{many['peak'] / 2**20:.0f} MiB", bytes_a_task=f"{each:.0f}",
    )  # fmt: skip
    assert each < 600  # a `Task` with its id is 210
