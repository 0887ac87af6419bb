"""A request between its preparation and its scores: what it holds, takes over and hands out."""

import gc
from collections import Counter

import attrs
import trio

from agentcompass.components.base import AgentOutcome
from agentcompass.engine import request
from agentcompass.engine.jobs import Job
from agentcompass.store.reader import read_run
from support.scripted import run, scripted_request, tasks


async def test_planned_attempts_are_no_objects_until_they_start(tmp_path):
    most = 0

    def agent(task_input, *_args):
        nonlocal most
        if int(task_input.prompt[1:]) % 50 == 0:
            gc.collect()
            most = max(most, sum(isinstance(thing, Job) for thing in gc.get_objects()))
        return AgentOutcome(answer="right")

    made = scripted_request({"load": lambda: tasks(300)}, {"run": agent}, k=3)
    ran = await run(tmp_path, made, task_concurrency=4)
    assert ran.outcome().result["summary"]["counts"]["graded"] == 900
    assert 0 < most < 20


def reused(ran, index=0):
    return Counter(record.reused_from for record in ran.records(index))


async def test_more_is_taken_over_than_fits_between_two_turns_of_others(tmp_path, monkeypatch):
    monkeypatch.setattr(request, "AT_ONCE", 3)
    first = scripted_request({"load": lambda: tasks(10)})
    await run(tmp_path, first)
    second = attrs.evolve(scripted_request({"load": lambda: tasks(12)}), reuse=True)
    ran = await run(tmp_path, second)
    assert reused(ran) == {first.run_id: 10, None: 2}
    assert ran.outcome().status == "completed"


async def test_a_run_that_is_ended_while_it_takes_over_has_taken_over_all(tmp_path, monkeypatch):
    """It is the newest from then on: what it lacked would be executed again."""
    monkeypatch.setattr(request, "AT_ONCE", 1)
    executed = []

    def agent(task_input, *_args):
        executed.append(task_input.prompt)
        return AgentOutcome(answer="right")

    def make(count):
        return scripted_request({"load": lambda: tasks(count)}, {"run": agent})

    first = make(200)
    await run(tmp_path, first)
    second = attrs.evolve(make(201), reuse=True)

    async def end_at_once(control):
        journal = tmp_path / second.name / second.run_id / "attempts.jsonl"
        while not journal.exists():
            await trio.lowlevel.checkpoint()
        control.cancel_now("sigint")

    executed.clear()
    ran = await run(tmp_path, second, beside=end_at_once)
    assert ran.outcome().status == "cancelled"
    assert reused(ran)[first.run_id] == 200
    last = attrs.evolve(make(201), reuse=True)
    ran = await run(tmp_path, last)
    assert reused(ran).total() == 201
    assert executed.count("t5") == 0
    assert read_run(ran.run_dir()).status == "completed"
