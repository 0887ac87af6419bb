"""From the first request for a container to the certainty that it is gone."""

import subprocess

import attrs
import pytest
import trio

from agentcompass.components.base import MiB, Resources, SandboxPlan
from agentcompass.components.environments.docker import environment, storage
from agentcompass.components.environments.docker.config import container_config
from agentcompass.components.environments.docker.environment import DockerEnvironment
from agentcompass.components.environments.docker.params import DockerParams
from agentcompass.containers import life
from agentcompass.containers.client import connect
from agentcompass.errors import InfraError, SandboxError
from support.docker import engine_host, make_container
from support.docker_sandboxes import DEAD, docker_env, docker_lease, docker_sandbox, state_of

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]


async def test_a_sandbox_is_there_while_it_is_open_and_gone_afterwards():
    env = docker_env()
    lease = docker_lease(env)
    async with env.open(SandboxPlan(), lease) as session:
        assert (await session.exec("echo hi")).stdout == "hi\n"
        state = await state_of(lease.name)
        assert state.is_running
        assert state.details["Config"]["Labels"]["agentcompass.lease"] == lease.id
    assert await state_of(lease.name) is None


async def test_the_plan_decides_where_and_with_what_commands_run():
    plan = SandboxPlan(
        workdir="/some/where", env={"A": "plan"}, resources=Resources(memory_mb=64, pids=50)
    )
    async with docker_sandbox(
        plan, user="nobody", env_variables={"A": "user", "B": "b"}
    ) as session:
        told = await session.exec("pwd; id -un; echo $A $B; cat /proc/self/status")
        used = await session.usage()
    lines = told.stdout.splitlines()
    assert lines[:3] == ["/some/where", "nobody", "plan b"]
    assert "NoNewPrivs:\t1" in lines
    assert used["memory_limit_bytes"] == 64 * MiB


async def test_a_process_too_many_is_refused_and_counted():
    async with docker_sandbox(SandboxPlan(resources=Resources(pids=20))) as session:
        await session.exec("i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done", timeout=20)
        assert (await session.usage())["refused_forks"] > 0


async def test_a_kill_for_want_of_memory_is_counted():
    async with docker_sandbox(memory_mb=32) as session:
        result = await session.exec(["python3", "-c", "x = bytearray(200_000_000)"])
        used = await session.usage()
    assert result.returncode == 137
    assert used["oom_kills"] == 1
    assert used["memory_peak_bytes"] >= 31 * MiB


async def test_a_container_that_died_says_how():
    env = docker_env()
    lease = docker_lease(env)
    async with env.open(SandboxPlan(), lease) as session:
        async with connect(engine_host()) as docker:
            await life.kill(docker, lease.name)
            await life.wait(docker, lease.name, seconds=30)
        with pytest.raises(SandboxError) as caught:
            await session.exec("true")
        assert caught.value.code == "container-died"
        with pytest.raises(SandboxError):
            await session.end_processes()
        used = await session.usage()
        assert (used["ended"], used["exit_code"]) == ("exited", 137)
    assert await state_of(lease.name) is None


async def test_a_container_that_somebody_else_starts_anew_is_told_as_dead():
    env = docker_env()
    lease = docker_lease(env)
    async with env.open(SandboxPlan(), lease) as session:
        async with connect(engine_host()) as docker:
            await life.restart(docker, lease.name)
        for work in (session.exec("true"), session.end_processes()):
            with pytest.raises(SandboxError) as caught:
                await work
            assert caught.value.code == "container-died"


async def test_a_container_that_is_started_anew_to_end_its_processes_goes_on():
    env = docker_env()
    lease = docker_lease(env)
    async with env.open(SandboxPlan(), lease) as session:
        session._docker.is_here = False  # as if the engine were elsewhere
        await session.exec("(sleep 1000 >/dev/null 2>&1 &)")
        before = await state_of(lease.name)
        assert await session.end_processes() == 1
        assert (await state_of(lease.name)).started_at != before.started_at
        assert (await session.exec("echo hi")).stdout == "hi\n"


async def test_a_kept_sandbox_can_be_entered_and_is_removed_by_its_lease():
    env = docker_env()
    lease = docker_lease(env, keep=True)
    async with env.open(SandboxPlan(), lease) as session:
        await session.write_text("/root/mine", "x")
        hint = session.entry_hint()
    assert hint.endswith(f"exec -it -w / {lease.name} sh")
    words = hint.replace(" -it ", " -i ").split()  # there is no terminal here
    entered = subprocess.run(
        words, input=b"cat /root/mine", capture_output=True, check=True, timeout=60
    )
    assert entered.stdout == b"x"
    await DockerEnvironment(DockerParams()).remove(lease)  # as another process does, without params
    assert await state_of(lease.name) is None
    await env.remove(lease)


async def test_what_only_has_the_name_of_a_sandbox_is_not_ours():
    env = docker_env()
    async with connect(engine_host()) as docker:
        other = await make_container(docker, env.params.image)
        try:
            foreign = attrs.evolve(docker_lease(env), name=other)
            with pytest.raises(SandboxError) as caught:
                await env.remove(foreign)
            assert caught.value.code == "bad-lease"
            assert (await life.inspect(docker, other)).is_running
        finally:
            await life.remove(docker, other)


@pytest.mark.parametrize("milliseconds", [0, 10, 40, 150, 300, 600])
async def test_cancelled_at_any_moment_nothing_is_left(milliseconds):
    env = docker_env()
    lease = docker_lease(env)
    with trio.move_on_after(milliseconds / 1000):
        async with env.open(SandboxPlan(), lease):
            await trio.sleep_forever()
    await env.remove(lease)
    assert await state_of(lease.name) is None


async def test_a_container_ends_by_itself_with_its_lease():
    env = docker_env()
    lease = docker_lease(env, keep=True, seconds=2)
    async with env.open(SandboxPlan(), lease) as session:
        await session.exec("(setsid sleep 1000 >/dev/null 2>&1 &)")
    async with connect(engine_host()) as docker:
        await life.wait(docker, lease.name, seconds=60)
    await env.remove(lease)


async def test_a_command_of_its_own_is_the_main_process_and_ends_with_the_lease_too():
    script = "trap '' TERM; touch /up; while :; do sleep 1; done"
    env = docker_env(command=("sh", "-c", script))
    lease = docker_lease(env, keep=True, seconds=6)
    async with env.open(SandboxPlan(), lease) as session:
        with trio.fail_after(30):
            while not await session.exists("/up"):
                await trio.sleep(0.1)
        await session.exec("(sleep 1000 >/dev/null 2>&1 &)")
        assert await session.end_processes() == 1  # and not the service
        assert (await session.exec("true")).returncode == 0
    async with connect(engine_host()) as docker:
        await life.wait(docker, lease.name, seconds=60)
    await env.remove(lease)


async def test_a_main_process_that_cannot_be_started_is_told_and_nothing_is_left():
    env = docker_env(workdir="/etc/passwd")
    lease = docker_lease(env)
    with pytest.raises(SandboxError):
        async with env.open(SandboxPlan(), lease):
            pass
    assert await state_of(lease.name) is None


async def test_one_that_a_killed_process_has_asked_for_may_still_come():
    env = docker_env()
    lease = docker_lease(env, owner=DEAD)
    config = container_config(env.params, SandboxPlan(), lease, env.params.image, lifetime=60)
    async with connect(engine_host()) as docker, trio.open_nursery() as nursery:
        nursery.start_soon(env.remove, lease)
        await trio.sleep(1)
        await life.create(docker, lease.name, config)
    assert await state_of(lease.name) is None


async def test_nothing_is_awaited_for_an_old_lease(monkeypatch):
    env = docker_env()
    pauses = []
    monkeypatch.setattr(environment.trio, "sleep", pauses.append)
    await env.remove(docker_lease(env, owner=DEAD, age=3600))
    assert pauses == []


async def test_who_writes_more_than_may_be_stored_is_ended(monkeypatch):
    monkeypatch.setattr(storage, "PAUSE_SECONDS", 0.2)
    env = docker_env(storage_mb=5)
    lease = docker_lease(env)
    with pytest.raises(ExceptionGroup) as caught:
        async with env.open(SandboxPlan(), lease) as session:
            assert (await session.exec("head -c 3M /dev/zero > /few; sleep 1")).returncode == 0
            await session.exec("head -c 9M /dev/zero > /much; sleep 100")
    (error,) = caught.value.exceptions
    assert isinstance(error, InfraError)
    assert error.code == "storage-exceeded"
    assert await state_of(lease.name) is None


async def test_eight_sandboxes_at_once_do_not_mix():
    env = docker_env()
    seen = {}

    async def one(number):
        async with env.open(SandboxPlan(), docker_lease(env)) as session:
            await session.write_text("/me", str(number))
            seen[number] = (await session.exec("cat /me; ls /")).stdout[:1]

    async with trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(one, number)
    assert seen == {number: str(number) for number in range(8)}
