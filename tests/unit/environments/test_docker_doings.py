"""What an agent does to its own sandbox is no fault of the sandbox, and wins it no other try."""

import contextlib
from pathlib import Path

import pytest
import trio

from agentcompass.components.base import MiB, Resources, SandboxPlan
from agentcompass.components.environments.docker import storage
from agentcompass.components.environments.docker.session import DockerSession, Place
from agentcompass.containers.client import connect
from agentcompass.errors import SandboxError
from support.docker import container, engine_host, new_name, python_image
from support.docker_sandboxes import docker_sandbox

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]


async def test_who_kills_all_processes_has_ended_its_own_sandbox():
    async with docker_sandbox() as session:
        with pytest.raises(SandboxError) as caught:
            await session.exec("kill -9 -1; sleep 100")
        assert (caught.value.code, caught.value.retryable) == ("ended-from-inside", False)
        with pytest.raises(SandboxError) as caught:
            await session.exec("true")
        assert (caught.value.code, caught.value.retryable) == ("ended-from-inside", False)


DEEP = """
import os
os.mkdir('x')
os.chdir('x')
open('kept', 'w').close()
for _ in range(30):
    os.mkdir('d' * 200)
    os.chdir('d' * 200)
"""
NOTHING = {
    "a link in a circle": "ln -s y x; ln -s x y",
    "a link through a file": "touch y; ln -s y/z x",
    "a link with a long name": 'ln -s "$(printf %05000d 0 | head -c 4000)" x',
    "a pipe": "mkfifo x",
}


@pytest.mark.parametrize("script", NOTHING.values(), ids=NOTHING)
async def test_an_artifact_that_is_none_is_not_there(script, tmp_path):
    async with docker_sandbox(SandboxPlan(workdir="/work")) as session:
        await session.exec(script)
        with pytest.raises(FileNotFoundError):
            await session.download("x", tmp_path / "x")
        with pytest.raises(FileNotFoundError):
            await session.read_bytes("x")


async def test_of_an_artifact_is_left_out_what_cannot_be_copied(tmp_path):
    async with docker_sandbox(SandboxPlan(workdir="/work")) as session:
        await session.exec(["python3", "-c", DEEP])
        await session.exec("ln -s itself x/itself")
        await session.download("x", tmp_path / "x")
        assert {path.name for path in (tmp_path / "x").iterdir()} == {"kept", "d" * 200, "itself"}
        await session.upload(tmp_path / "x", "y")
        assert (await session.exec("ls y")).stdout == f"{'d' * 200}\nkept\n"


async def test_a_file_of_a_terabyte_is_too_large_and_stays_so(tmp_path):
    async with docker_sandbox() as session:
        await session.exec("truncate -s 1T /x")
        with pytest.raises(SandboxError) as caught:
            await session.download("/x", tmp_path / "x", max_bytes=MiB)
        assert (caught.value.code, caught.value.retryable) == ("artifact-too-large", False)


IN_THE_WAY = {
    "a file": "touch x",
    "a link in a circle": "ln -s y x; ln -s x y",
    "a link to nothing": "ln -s /nowhere/at/all x",
    "a link to processes": "ln -s /proc/1 x",
}


@pytest.mark.parametrize("script", IN_THE_WAY.values(), ids=IN_THE_WAY)
async def test_what_is_in_the_way_of_a_file_will_be_there_again(script, tmp_path):
    (tmp_path / "f").touch()
    async with docker_sandbox(SandboxPlan(workdir="/work")) as session:
        await session.exec(script)
        assert not await session.exists("x/y/z")
        for work in (session.write_text("x/y/z", "1"), session.upload(tmp_path / "f", "x/y/z")):
            with pytest.raises(SandboxError) as caught:
                await work
            assert (caught.value.code, caught.value.retryable) == ("bad-path", False)


LARGE = {
    "a file": "head -c 9M /dev/zero > /much",
    "a file that is deleted and open": "(sleep 1000; true) 3>/much >/dev/null 2>&1 & head -c 9M /dev/zero > /much; rm /much",
}


@pytest.mark.parametrize("script", LARGE.values(), ids=LARGE)
async def test_what_is_written_quickly_is_seen_before_the_evaluation(script, monkeypatch):
    monkeypatch.setattr(storage, "PAUSE_SECONDS", 1000)
    async with docker_sandbox(SandboxPlan(resources=Resources(storage_mb=5))) as session:
        await session.exec("head -c 3M /dev/zero > /few; head -c 9M /dev/zero > /dev/shm/memory")
        await session.end_processes()
        await session.exec(script)
        with pytest.raises(SandboxError) as caught:
            await session.end_processes()
        assert (caught.value.code, caught.value.retryable) == ("storage-exceeded", False)


@contextlib.contextmanager
def machine_with(memory):
    """A group of control groups with a limit that is nobody's own, as a whole machine has; its name."""
    root = Path("/sys/fs/cgroup")
    is_unified = (root / "cgroup.controllers").exists()
    name = new_name()
    group = (root if is_unified else root / "memory") / name
    group.mkdir()
    try:
        limit = group / ("memory.max" if is_unified else "memory.limit_in_bytes")
        limit.write_text(str(memory))
        yield name
    finally:
        for inner in sorted(group.glob("**/"), reverse=True):
            inner.rmdir()


@pytest.mark.parametrize(
    ("own", "code"),
    [(0, "machine-out-of-memory"), (500 * MiB, "machine-out-of-memory"), (30 * MiB, None)],
    ids=["without a limit", "far from its limit", "at its own limit"],
)
async def test_a_kill_since_the_machine_has_no_memory_is_not_the_command_s_own(own, code):
    hungry = ["python3", "-c", "x = bytearray(300_000_000)"]
    limits = {"Memory": own, "MemorySwap": own}
    async with connect(engine_host()) as docker, trio.open_nursery() as nursery:
        with machine_with(60 * MiB) as parent:
            host = {**limits, "CgroupParent": f"/{parent}"}
            async with container(docker, python_image(), HostConfig=host) as name:
                place = Place(name=name, workdir="/", user="", env={}, enter=("docker",))
                session = DockerSession(docker, place, None, nursery)
                assert (await session.exec("exit 3")).returncode == 3
                if code is None:
                    assert (await session.exec(hungry)).returncode == 137
                else:
                    with pytest.raises(SandboxError) as caught:
                        await session.exec(hungry)
                    assert (caught.value.code, caught.value.retryable) == (code, True)
                assert (await session.exec("exit 3")).returncode == 3
