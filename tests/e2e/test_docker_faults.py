"""An engine that hangs, dies, or has no space left in the middle of a run. It is one of these tests' own."""

import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from functools import partial
from pathlib import Path

import pytest
import trio

from agentcompass.components.base import SandboxPlan
from agentcompass.engine.cleanup import CleanupBudget
from agentcompass.engine.ledger import Ledger
from agentcompass.engine.sandbox import SandboxHouse
from agentcompass.errors import PreflightError, SandboxError
from agentcompass.store.leases import LeaseBook
from support.docker import (
    ENGINE_SCRIPT,
    base_files,
    import_image,
    private_engine,
    start_engine,
)
from support.docker_runs import DockerRuns
from support.docker_sandboxes import docker_env, docker_lease, state_of
from support.mounts import small_disk

pytestmark = [pytest.mark.docker, pytest.mark.timeout(240)]

DEADLINES = {
    "open_timeout_seconds": 4,
    "evaluate_timeout_seconds": 4,
    "close_timeout_seconds": 2,
}
BOUND_SECONDS = 60
"""For a run of one task in which the engine hangs once: its deadlines, thrice the one for closing (what is undone, the
closing, the removal), and the start of the program on a busy machine."""


@pytest.fixture(scope="module")
def _engine():
    return private_engine()


@pytest.fixture
def engine(_engine):
    yield _engine
    _engine.mend()


def runs_on(engine, folder, **fields):
    execution = {**DEADLINES, **fields.pop("execution", {})}
    options = (*fields.pop("options", ()), "--execution-params", json.dumps(execution))
    return DockerRuns(folder, host=engine.host, image=engine.image, options=options, **fields)


def until(is_so, seconds=60):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


class Held:
    """A run of one task that is in one of its phases when the engine begins to hang."""

    def __init__(self, engine, folder, command, **execution):
        self.marks = folder / "marks"
        self.marks.mkdir(parents=True)
        self.runs = runs_on(
            engine,
            folder,
            command=command,
            count=1,
            env_params={"mounts": [f"{self.marks}:/marks"]},
            options=("--max-retries", "0"),
            execution=execution,
        )
        self.child = self.runs.start()

    def has_begun(self):
        return bool(list(self.marks.iterdir()))

    def end(self):
        """Wait for it, and remove what it could not."""
        _, said = self.child.communicate(timeout=2 * BOUND_SECONDS)
        if self.runs.leases():
            assert "agentcompass env close" in said
        (record,) = self.runs.records()
        return record


def test_an_engine_that_hangs_is_bounded_by_the_deadlines_of_the_phases(tmp_path, engine):
    evaluating = Held(
        engine, tmp_path / "evaluating", "touch /marks/now; sleep 1000", evaluate_timeout_seconds=8
    )
    closing = Held(engine, tmp_path / "closing", "touch /marks/now; sleep 3")
    until(lambda: evaluating.has_begun() and closing.has_begun())
    opening = Held(engine, tmp_path / "opening", "true")
    until(opening.runs.leases)
    began = time.monotonic()
    with engine.frozen():
        records = [held.end() for held in (opening, evaluating, closing)]
        assert time.monotonic() - began < BOUND_SECONDS
    every = (opening, evaluating, closing)
    for closer in [held.runs.program.start("env", "close", "results") for held in every]:
        closer.communicate(timeout=BOUND_SECONDS)
    for held, record in zip(every, records, strict=True):
        if record["verdict"] == "infra":
            codes = {
                f"{record['failure']['phase']}-timeout",
                "engine-timeout",
                "engine-unreachable",
            }
            assert record["failure"]["code"] in codes
        assert held.runs.containers() == []
        assert held.runs.leases() == []
    assert records[1]["failure"]["phase"] == "evaluate"


def test_an_engine_that_dies_is_waited_for_and_the_run_ends_well(tmp_path, engine):
    runs = runs_on(
        engine,
        tmp_path,
        command="sleep 0.5",
        count=10,
        at_once=3,
        options=("--max-retries", "4"),
        execution={"retry_min_delay_seconds": 0.1, "open_timeout_seconds": 60},
    )
    child = runs.start()
    until(lambda: len(runs.records()) >= 2)
    engine.kill()
    time.sleep(2)
    engine.start_again()
    _, said = child.communicate(timeout=180)
    assert child.returncode == 0, said
    failures = {
        record["failure"]["code"] for record in runs.records() if record["verdict"] == "infra"
    }
    assert failures <= {
        "engine-lost",
        "engine-unreachable",
        "container-died",
        "no-such-exec",
        "no-such-container",
        "sandbox-died",
        "start-failed",
    }
    assert failures
    graded = [record for record in runs.records() if record["verdict"] == "graded"]
    assert len(graded) == 10
    if runs.leases():
        assert runs.program("env", "close", "results").returncode == 0
    assert runs.containers() == []


@pytest.fixture
def full_soon():
    """An engine on a disk of 160 MB, its image, and the disk."""
    directory = Path(tempfile.mkdtemp(prefix="acd-", dir="/tmp"))
    with small_disk(directory / "disk", "size=160m") as disk:
        host = start_engine(disk, directory.name)
        try:
            yield host, import_image(host, *base_files()), disk
        finally:
            subprocess.run([ENGINE_SCRIPT, "stop", disk, directory.name], timeout=100, check=False)
    shutil.rmtree(directory, ignore_errors=True)


async def test_a_command_that_fails_on_a_full_disk_is_a_fault_of_the_sandbox(full_soon):
    host, image, _disk = full_soon
    env = docker_env(host=host, image=image)
    with pytest.raises(PreflightError, match="docker system df"):
        await env.preflight()
    lease = docker_lease(env)
    async with env.open(SandboxPlan(), lease) as session:
        assert (await session.exec("exit 3")).returncode == 3
        with pytest.raises(SandboxError) as caught:
            await session.exec("cat /dev/zero > /fill", timeout=60)
        assert caught.value.code == "disk-full"
        with pytest.raises(SandboxError) as caught:
            await session.write_bytes("/more", b"x" * 5_000_000)
        assert caught.value.code == "disk-full"
    assert await state_of(lease.name, host) is None


async def test_elsewhere_the_container_itself_is_asked(full_soon):
    host, image, _disk = full_soon
    env = docker_env(host=host, image=image)
    async with env.open(SandboxPlan(), docker_lease(env)) as session:
        assert session._space is None  # nobody has looked where the engine keeps its data
        with pytest.raises(SandboxError) as caught:
            await session.exec("cat /dev/zero > /fill", timeout=60)
        assert caught.value.code == "disk-full"


async def test_a_frozen_engine_does_not_hold_up_a_cancellation_for_ever(engine):
    env = docker_env(host=engine.host, image=engine.image)
    lease = docker_lease(env)
    began = trio.current_time()
    with trio.move_on_after(1):
        async with env.open(SandboxPlan(), lease) as session:
            with engine.frozen():
                await session.exec("true")
    assert trio.current_time() - began < 60
    await env.remove(lease)
    assert await state_of(lease.name, engine.host) is None


async def test_an_engine_that_hangs_while_a_sandbox_closes_is_bounded_by_the_time_for_closing(
    tmp_path, engine, caplog
):
    env = docker_env(host=engine.host, image=engine.image)
    house = SandboxHouse(
        environment=env,
        ledger=Ledger(LeaseBook(tmp_path), "run", env.id, trio.CapacityLimiter(1)),
        budget=CleanupBudget(60),
        open_timeout_seconds=60,
        close_timeout_seconds=1,
        keep=False,
    )
    with contextlib.ExitStack() as stack:
        hang = partial(stack.enter_context, engine.frozen())
        async with house.open(SandboxPlan(), "task", on_kept=print, on_closing=hang) as session:
            assert (await session.exec("true")).returncode == 0
            began = trio.current_time()
        assert trio.current_time() - began < 10
    (lease,) = LeaseBook(tmp_path).list()
    assert f"sandbox {lease.name} was not removed: that took longer than 1 s" in caplog.text
    await env.remove(lease)
    assert await state_of(lease.name, engine.host) is None
