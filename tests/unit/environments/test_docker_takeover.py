"""An agent that goes on in the container's own processes does not outlive the end of its processes."""

import platform

import pytest
import trio

from agentcompass.components.base import SandboxPlan
from agentcompass.errors import SandboxError
from support.docker_sandboxes import docker_env, docker_lease, docker_sandbox, state_of
from support.takeover import SCRIPT, SIGN

pytestmark = [
    pytest.mark.docker,
    pytest.mark.usefixtures("engine"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64"),
]

OWN = ["sleep", "docker-init"]


async def size(session):
    return int((await session.exec(f"stat -c %s {SIGN} || echo 0")).stdout)


async def take_over(session, name):
    done = await session.exec(["python3", "-c", SCRIPT, name])
    assert done.returncode == 0, done.stderr
    with trio.fail_after(30):
        while not await size(session):
            await trio.sleep(0.05)


@pytest.mark.parametrize("name", OWN)
async def test_who_took_over_a_process_of_the_container_is_gone_and_the_files_are_there(name):
    async with docker_sandbox() as session:
        await session.write_text("/kept", "x")
        await take_over(session, name)
        await session.end_processes()
        before = await size(session)
        await session.exec("sleep 0.2")
        assert await size(session) == before > 0
        assert await session.read_text("/kept") == "x"
        # ... and the processes that it was started anew with are nobody's
        assert await session.end_processes() == 0
        assert (await session.exec("echo hi")).stdout == "hi\n"


CHANGED = {
    "its program": "cp /bin/sleep /bin/other && mv /bin/other /bin/sleep",
    "its library, in place": "f=$(echo /lib/*/libc.so.6); cp $f /other; dd if=/other of=$f conv=notrunc status=none",
}


@pytest.mark.parametrize("script", CHANGED.values(), ids=CHANGED)
async def test_one_whose_next_main_process_would_be_another_program_is_given_up(script):
    async with docker_sandbox() as session:
        await take_over(session, "sleep")
        assert (await session.exec(script)).returncode == 0
        with pytest.raises(SandboxError) as caught:
            await session.end_processes()
    assert (caught.value.code, caught.value.retryable) == ("taken-over", False)


async def test_a_sandbox_that_cannot_be_started_anew_is_given_up():
    async with docker_sandbox(allowed_hosts=("x=127.0.0.1:1",)) as session:
        await take_over(session, "sleep")
        with pytest.raises(SandboxError) as caught:
            await session.end_processes()
    assert (caught.value.code, caught.value.retryable) == ("taken-over", False)


async def test_one_whose_own_processes_were_left_alone_goes_on_as_it_is():
    env = docker_env()
    lease = docker_lease(env)
    async with env.open(SandboxPlan(), lease) as session:
        begun = (await state_of(lease.name)).started_at
        await session.exec(
            "for i in 1 2 3 4 5 6 7 8 9; do (setsid sleep 0.01 &) ; done; kill -USR2 $$"
        )
        await session.exec("setsid sleep 1000 >/dev/null 2>&1 & kill -CHLD 1")
        assert await session.end_processes() == 1
        assert await session.end_processes() == 0
        assert (await state_of(lease.name)).started_at == begun
