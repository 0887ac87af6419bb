"""A command that fails while the disk is full is no evidence against the agent."""

import os
import time

import pytest
import trio

from agentcompass.components.base import Resources, SandboxPlan
from agentcompass.components.environments import space as space_module
from agentcompass.components.environments.space import DiskSpace
from agentcompass.errors import SandboxError
from support.host import host, lease, sandbox
from support.mounts import small_disk

FILL = "head -c 20M /dev/zero > fill 2>/dev/null"


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk", "size=8m") as directory:
        yield directory


@pytest.fixture
def few_inodes(tmp_path):
    with small_disk(tmp_path / "disk", "nr_inodes=100") as directory:
        yield directory


@pytest.fixture
def roomy(monkeypatch):
    """Every disk has room enough for a long time."""
    monkeypatch.setattr(space_module, "FASTEST_BYTES", 1)
    monkeypatch.setattr(space_module, "FASTEST_INODES", 1)


async def is_disk_full(awaitable):
    with pytest.raises(SandboxError) as caught:
        await awaitable
    assert "root" in caught.value.hint
    return caught.value.code == "disk-full" and caught.value.retryable


async def test_a_command_that_fails_for_want_of_space_is_a_fault_of_the_sandbox(disk):
    async with sandbox(disk) as session:
        assert (await session.exec("exit 3")).returncode == 3
        assert await is_disk_full(session.exec(FILL))
    assert os.listdir(disk) == []


async def test_one_that_succeeds_on_a_full_disk_is_fine(disk):
    async with sandbox(disk) as session:
        assert (await session.exec(f"{FILL}; true")).returncode == 0
        assert (await session.exec("echo hi")).stdout == "hi\n"
        assert await is_disk_full(session.exec("echo hi > other"))


async def test_no_inodes_left_is_a_full_disk_too(few_inodes):
    async with sandbox(few_inodes) as session:
        assert await is_disk_full(session.exec("i=0; while touch f$i; do i=$((i+1)); done; exit 1"))


async def test_one_that_ran_out_of_time_on_a_full_disk_tells_nothing(disk):
    async with sandbox(disk) as session:
        assert await is_disk_full(session.exec(f"{FILL}; sleep 60", timeout=0.3))
        assert await session.end_processes() == 0


async def test_space_that_is_free_again_when_a_command_fails_is_not_forgotten(disk):
    async with sandbox(disk) as session:
        assert await is_disk_full(session.exec(f"{FILL}; sleep 0.1; rm fill; exit 1"))
        assert (await session.exec("exit 1")).returncode == 1


async def test_what_another_sandbox_filled_and_freed_counts_as_well(disk):
    env = host(disk)
    async with (
        env.open(SandboxPlan(), lease(env, "one")) as one,
        env.open(SandboxPlan(), lease(env, "two")) as two,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(one.exec, f"sleep 0.1; {FILL}; sleep 0.1; rm fill; true")
        assert await is_disk_full(two.exec("sleep 0.4; exit 1"))


async def test_one_that_was_cancelled_on_a_full_disk_is_told_when_the_agent_is_done(disk):
    async with sandbox(disk) as session:
        with trio.move_on_after(0.3):
            await session.exec(f"{FILL}; sleep 60")
        assert await is_disk_full(session.end_processes())
        assert await is_disk_full(session.exec("true"))
    assert os.listdir(disk) == []


async def test_the_limit_of_the_tasks_own_files_is_the_agents_business(disk):
    plan = SandboxPlan(resources=Resources(storage_mb=1))
    async with sandbox(disk, plan) as session:
        await session.exec("head -c 1M /dev/zero > own; i=0")
        fill = "i=0; while head -c 1M /dev/zero > f$i; do i=$((i+1)); done 2>/dev/null; true"
        assert (await session.exec(fill)).returncode == 0
        assert (await session.exec("echo more >> own")).returncode == 153


async def test_a_file_system_that_cannot_be_asked_is_not_full(tmp_path):
    space = DiskSpace(lambda: tmp_path / "missing")
    assert not await space.was_full_since(0)


async def test_a_file_system_that_does_not_count_is_not_full(tmp_path):
    assert os.statvfs("/proc").f_blocks == 0
    assert not await DiskSpace(lambda: "/proc").was_full_since(0)


async def test_a_file_system_that_makes_inodes_as_it_needs_them_is_judged_by_its_space(tmp_path):
    with small_disk(tmp_path / "disk", "size=8m,nr_inodes=0") as directory:
        assert os.statvfs(directory).f_files == 0
        space = DiskSpace(lambda: directory)
        assert not await space.was_full_since(0)
        (directory / "fill").write_bytes(b"x" * (8 << 20))
        assert await space.was_full_since(0)


async def test_with_room_enough_it_is_looked_at_twice_a_second_however_many_commands_run(
    tmp_path, roomy
):
    looks = []

    def root():
        looks.append(1)
        time.sleep(0.02)  # longer than a command takes
        return tmp_path

    space = DiskSpace(root)
    started = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            with space.watched(nursery):
                await trio.sleep(0.005)
    assert not space.seen_full_since(started)
    # Each time by one whose look is cut off by its end, and by one that begins meanwhile.
    assert 1 <= len(looks) <= 2 * (1 + (trio.current_time() - started) / 0.5)


async def test_one_of_many_commands_looks_for_all(tmp_path, roomy):
    looks = []

    def root():
        looks.append(1)
        return tmp_path

    space = DiskSpace(root)

    async def command(seconds):
        async with trio.open_nursery() as nursery:
            with space.watched(nursery):
                await trio.sleep(seconds)

    started = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(100):
            nursery.start_soon(command, 0.1 + number / 200)
    assert 1 <= len(looks) <= 2 + (trio.current_time() - started) / 0.5
