"""After its time or a cancellation nothing of a command is left, whatever it does and wherever the engine is."""

import pytest
import trio

from agentcompass.containers import inside, life, processes
from agentcompass.containers.attach import ContainerCommand
from agentcompass.containers.builds import Build
from agentcompass.containers.errors import DockerError
from agentcompass.containers.images import Images
from agentcompass.containers.outside import descendants, strangers
from agentcompass.containers.run import program, run
from support.docker import busybox_image, container, sh

pytestmark = pytest.mark.docker

DAEMON = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.chdir("/")
        os.closerange(0, 3)
        time.sleep(1000)
    os._exit(0)
os.wait()
time.sleep(1000)
"""
OTHER_USER = "import os\nos.setuid(1234)\nos.execvp('sleep', ['sleep', '1000'])"
HIDDEN = "import os, time\nos.setuid(1234)\ntime.sleep(1000)"
"""Its environment can be read by nobody in the container, not even by its own user."""
MULTIPLY = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
STUBBORN = {
    "ignores the signal": ["sh", "-c", "trap '' TERM; while :; do :; done"],
    "leaves children": ["sh", "-c", "sleep 1000 & (sleep 1000 &) ; sleep 1000"],
    "forks twice": ["python3", "-c", DAEMON],
    "empties its environment": ["sh", "-c", "env -i sh -c 'sleep 1000 & sleep 1000'; true"],
    "becomes another user": ["python3", "-c", OTHER_USER],
    "stops itself": ["sh", "-c", "kill -STOP $$; sleep 1000"],
    "writes without end": ["sh", "-c", "while :; do echo x; done"],
}


@pytest.fixture(params=["here", "elsewhere"])
def wherever(request, docker):
    """The engine on this machine, where processes are ended from outside; and as if it were on another."""
    if request.param == "elsewhere":
        docker.is_here = False
    elif not docker.is_here:
        pytest.skip("the engine is on another machine, or this user is not root")
    return docker


async def shown(docker, name):
    """The arguments of what runs in a container beside its own two processes."""
    found = await inside.listing(docker, name)
    return [process.text for process in found[2:]]


@pytest.mark.parametrize(
    ("argv", "user"),
    [pytest.param(argv, "", id=name) for name, argv in STUBBORN.items()]
    + [pytest.param(STUBBORN["forks twice"], "nobody", id="as nobody")],
)
async def test_after_its_time_nothing_is_left(wherever, box, argv, user):
    kept = bytearray()
    before = (await life.running(wherever, box)).pid
    with trio.fail_after(60):
        ended = await run(
            wherever,
            box,
            ContainerCommand(argv=argv, user=user),
            stdout=kept.extend,
            stderr=kept.extend,
            timeout=0.6,
        )
    assert (ended.exit_code, ended.timed_out) == (124, True)
    assert ended.n_killed >= 1
    assert await shown(wherever, box) == []
    assert (await life.running(wherever, box)).pid == before


async def test_a_process_that_nobody_inside_can_look_at_does_not_outlive_its_time(wherever, box):
    ended = await sh(wherever, box, f'exec python3 -c "{HIDDEN}"', timeout=1)
    assert ended.ended.timed_out
    assert await shown(wherever, box) == []


@pytest.mark.parametrize("how", ["ignores the signal", "forks twice"])
async def test_after_a_cancellation_nothing_is_left(wherever, box, how):
    with trio.move_on_after(0.6) as scope:
        await run(
            wherever,
            box,
            ContainerCommand(argv=STUBBORN[how]),
            stdout=lambda _data: None,
            stderr=lambda _data: None,
        )
    assert scope.cancelled_caught
    assert await shown(wherever, box) == []


@pytest.mark.parametrize("milliseconds", [0, 1, 3, 10, 30, 60, 100])
async def test_cancelled_at_any_moment_of_its_start_nothing_is_left(wherever, box, milliseconds):
    with trio.move_on_after(milliseconds / 1000):
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(sh, wherever, box, "sleep 1000 & sleep 1000")
    assert await shown(wherever, box) == []


async def test_output_until_the_end_of_its_time_is_there(wherever, box):
    ended = await sh(wherever, box, "echo early; echo e >&2; sleep 1000", timeout=1)
    assert (ended.text, ended.stderr) == ("early\n", b"e\n")


async def test_other_commands_and_what_they_left_are_not_touched(wherever, box):
    await sh(wherever, box, "sleep 2000 >/dev/null 2>&1 &")
    async with program(wherever, box, ContainerCommand(argv=["cat"])) as other:
        ended = await sh(wherever, box, "sleep 1000", timeout=0.5)
        assert ended.ended.n_killed >= 1
        await other.send(b"alive")
        assert await other.receive() == b"alive"
        assert len(await shown(wherever, box)) == 2
    (left,) = await shown(wherever, box)
    assert left.startswith("sleep 2000")


async def test_processes_that_multiply_are_ended(wherever, image):
    async with container(wherever, image, HostConfig={"PidsLimit": 100}) as name:
        with trio.fail_after(100):
            ended = await run(
                wherever,
                name,
                ContainerCommand(argv=["python3", "-c", MULTIPLY]),
                stdout=lambda _data: None,
                stderr=lambda _data: None,
                timeout=1,
            )
            assert ended.timed_out
        assert await shown(wherever, name) == []


async def test_time_counts_from_the_start_of_the_command(docker, box):
    """Sixteen at once take the engine longer to start than each of them has time for."""
    results = []

    async def nap():
        results.append((await sh(docker, box, "sleep 0.3; echo slept", timeout=2)).text)

    async with trio.open_nursery() as nursery:
        for _ in range(16):
            nursery.start_soon(nap)
    assert results == ["slept\n"] * 16


async def test_all_that_is_not_the_containers_own_is_ended(wherever, box):
    script = "env -i sleep 1000 >/dev/null 2>&1 & (sleep 1000 >/dev/null 2>&1 &) ; true"
    await sh(wherever, box, script)
    assert len(await shown(wherever, box)) == 2
    await sh(wherever, box, "echo kept >/file")
    assert await processes.end_all(wherever, box, seconds=60) == 2
    assert await processes.end_all(wherever, box, seconds=60) == 0
    assert await shown(wherever, box) == []
    assert (await sh(wherever, box, "cat /file")).text == "kept\n"


async def test_in_a_container_without_an_init_only_its_main_process_stays(wherever, image):
    async with container(wherever, image, HostConfig={"Init": False}) as name:
        await sh(wherever, name, "sleep 1000 >/dev/null 2>&1 &")
        assert await processes.end_all(wherever, name, seconds=60) == 1
        assert len(await inside.listing(wherever, name)) == 1


async def test_what_the_main_process_started_is_the_containers_own(wherever, image):
    main = ["sh", "-c", "sleep 3000 & wait"]
    async with container(wherever, image, Cmd=main) as name:
        while len(await inside.listing(wherever, name)) < 3:
            await trio.sleep(0.01)  # the engine says that it runs before it has started anything
        await sh(wherever, name, "sleep 1000 >/dev/null 2>&1 &")
        assert await processes.end_all(wherever, name, seconds=60) == 1
        assert len(await inside.listing(wherever, name)) == 3


async def test_in_busybox_the_shell_finds_them_all_the_same(remote, host):
    async with container(remote, await trio.to_thread.run_sync(busybox_image)) as name:
        ended = await sh(remote, name, "sleep 1000 & (setsid sleep 1000 &) ; sleep 1000", timeout=1)
        assert ended.ended.n_killed >= 3
        assert await shown(remote, name) == []
        assert (await life.running(remote, name)).pid


async def test_without_a_shell_to_end_it_the_container_is_started_anew(remote, image, tmp_path):
    (tmp_path / "Dockerfile").write_text(f"FROM {image}\nRUN rm -f /bin/sh /bin/dash /bin/bash\n")
    bare = await Images(remote).build(Build(context=tmp_path))
    async with container(remote, bare) as name:
        before = (await life.running(remote, name)).pid
        with trio.fail_after(60):
            ended = await run(
                remote,
                name,
                ContainerCommand(argv=["sleep", "1000"]),
                stdout=lambda _data: None,
                stderr=lambda _data: None,
                timeout=1,
            )
        assert ended.timed_out
        assert (await life.running(remote, name)).pid != before
        assert await shown(remote, name) == []


async def test_a_shell_that_lies_is_found_out_from_outside(remote, image, tmp_path):
    (tmp_path / "lie").write_text("#!/usr/bin/python3\nprint(0)\n")
    script = "COPY lie /bin/lie\nRUN chmod +x /bin/lie && ln -sf lie /bin/sh\n"
    (tmp_path / "Dockerfile").write_text(f"FROM {image}\n{script}")
    bare = await Images(remote).build(Build(context=tmp_path))
    async with container(remote, bare) as name:
        await run(
            remote,
            name,
            ContainerCommand(argv=["sleep", "1000"]),
            stdout=lambda _data: None,
            stderr=lambda _data: None,
            timeout=1,
        )
        assert await shown(remote, name) == []


async def test_the_end_of_a_command_in_a_dead_container_is_no_failure_of_its_own(wherever, image):
    async with container(wherever, image) as name:
        with pytest.raises(DockerError) as caught:
            async with program(wherever, name, ContainerCommand(argv=["sleep", "1000"])) as running:
                await life.kill(wherever, name)
                await running.wait()
    assert caught.value.code == "container-died"


def test_strangers_are_told_from_the_containers_own():
    #            init    main    its child  a command and its child  an orphan
    parents = {100: 1, 101: 100, 105: 101, 200: 100, 201: 200, 300: 100}
    assert strangers(parents, 100, has_init=True) == {200, 201, 300}
    assert strangers(parents, 100, has_init=False) == {101, 105, 200, 201, 300}
    assert strangers({100: 1}, 100, has_init=True) == set()


def test_descendants_are_found_through_generations():
    assert descendants({2}, {1: 0, 2: 1, 3: 2, 4: 3, 5: 1}) == {3, 4}
    assert descendants({9}, {1: 0}) == set()
