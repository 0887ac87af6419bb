"""One task fills the disk of the sandboxes: no other is scored for it."""

import attrs

from agentcompass.components.base import AgentOutcome, Evaluation, Where
from support.mounts import small_disk
from support.requests import component
from support.scripted import run, scripted_request, tasks


async def test_attempts_that_fail_while_the_disk_is_full_are_not_zeros(tmp_path):
    async def agent(task_input, session, _model, _emit):
        if task_input.prompt == "t0":
            await session.exec("head -c 200000000 /dev/zero > fill; sleep 1; exit 1")
        else:
            await session.exec("sleep 0.5; echo hello > out.txt")
        return AgentOutcome(answer="done")

    async def evaluate(_task, _outcome, session):
        result = await session.exec("grep -q hello out.txt")
        return Evaluation(metrics={"pass": result.returncode == 0})

    with small_disk(tmp_path / "disk", "size=80m") as disk:
        made = scripted_request(
            {"load": lambda: tasks(8), "where": Where.REUSE, "evaluate": evaluate},
            {"run": agent, "sandbox": True},
        )
        made = attrs.evolve(
            made, environment=component("environment", "host_process", root=str(disk))
        )
        ran = await run(tmp_path / "results", made)
    assert ran.outcome().status == "failed"
    assert {record.failure.code for record in ran.records() if record.failure} == {"disk-full"}
    assert not [record for record in ran.records() if record.metrics == {"pass": 0.0}]
    assert len([record for record in ran.records() if record.verdict == "infra"]) >= 6
