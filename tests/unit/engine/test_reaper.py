"""What dead processes left is removed, and nothing else."""

import attrs
import pytest
import trio

from agentcompass.components.base import AgentOutcome
from agentcompass.engine.reaper import reap
from agentcompass.errors import SandboxError
from agentcompass.store.identity import this_process
from agentcompass.store.layout import RunPaths
from agentcompass.store.leases import LeaseBook
from agentcompass.store.lock import RunLock
from support.scripted import ScriptedEnvironment, path, run, scripted_request
from support.storage import lease

DEAD = attrs.evolve(this_process(), started=1)


class Refusing(ScriptedEnvironment):
    """Its sandboxes cannot be removed."""

    id = "refusing"

    async def remove(self, lease):
        raise SandboxError("the daemon is down")


@pytest.fixture
def root(tmp_path):
    """A results root with one run, and what may exist beside it."""
    ScriptedEnvironment.reset()
    return tmp_path


def left(root, name, *, owner=DEAD, run_id="r1", environment=ScriptedEnvironment, **fields):
    """A sandbox that may exist, with its lease in a run directory."""
    made = attrs.evolve(lease(name, **fields), owner=owner, environment=path(environment))
    run_dir = root / "demo" / run_id
    run_dir.mkdir(parents=True, exist_ok=True)
    LeaseBook(RunPaths(run_dir).leases_dir).write(made)
    ScriptedEnvironment.existing.add(made.name)


def leases(root):
    return {file.stem for file in root.rglob("leases/*.json")}


async def reaped(root):
    return await reap(root, trio.CapacityLimiter(1))


async def test_sandboxes_of_dead_processes_go_with_their_leases(root):
    for number in range(20):
        left(root, f"l{number}", run_id=f"r{number % 3}")
    assert await reaped(root) == 20
    assert not ScriptedEnvironment.existing
    assert not leases(root)


async def test_what_somebody_looks_after_stays(root):
    left(root, "living", owner=this_process())
    left(root, "kept", keep=True)
    left(root, "held", run_id="r2")
    lock = RunLock(
        RunPaths(root / "demo" / "r2").lock_file
    )  # by a process that cannot be seen from here
    assert await reaped(root) == 0
    lock.release()
    assert leases(root) == {"living", "kept", "held"}
    assert len(ScriptedEnvironment.existing) == 3


async def test_one_that_cannot_be_removed_keeps_its_lease_and_hurts_no_other(root):
    left(root, "refused", environment=Refusing)
    book = LeaseBook(RunPaths(root / "demo" / "r1").leases_dir)
    book.write(attrs.evolve(lease("foreign"), owner=DEAD, environment="gone:Provider"))
    left(root, "good")
    assert await reaped(root) == 1
    assert leases(root) == {"refused", "foreign"}


async def test_a_run_removes_what_dead_ones_left_in_the_same_results(root):
    left(root, "old")

    async def agent(*_args):
        while leases(root):
            await trio.sleep(0.01)
        return AgentOutcome(answer="right")

    ran = await run(root, scripted_request(harness={"run": agent}))
    assert ran.outcome().status == "completed"


async def test_a_run_goes_on_when_looking_for_old_sandboxes_fails(root, monkeypatch):
    """As on a machine that has no thread to give for it."""
    start = trio._threads.start_thread_soon

    def refuse(function, deliver, name=None):
        if "reap" in (name or ""):
            raise RuntimeError("can't start new thread")
        return start(function, deliver, name)

    monkeypatch.setattr(trio._threads, "start_thread_soon", refuse)
    left(root, "old")
    ran = await run(root, scripted_request())
    assert ran.outcome().status == "completed"
    assert leases(root) == {"old"}
