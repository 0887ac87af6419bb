"""What has ended a container: something in it, or somebody else."""

import contextlib

import pytest

from agentcompass.containers import life
from agentcompass.containers.client import connect
from agentcompass.containers.endings import is_from_inside
from agentcompass.containers.errors import DockerError
from support.docker import container, make_container, sh

ID = "the container"
SECOND = 1_000_000_000


async def how_it_died(docker, name):
    await life.wait(docker, name, seconds=60)
    with pytest.raises(DockerError) as caught:
        await life.running(docker, name)
    return caught.value.code, caught.value.retryable


@pytest.mark.docker
@pytest.mark.parametrize("script", ["kill -9 -1", "kill -TERM -1", "pkill -SEGV sleep", "kill 1"])
async def test_one_that_a_program_in_it_has_ended_needs_no_other_try(docker, box, script):
    with contextlib.suppress(DockerError):
        await sh(docker, box, script)
    assert await how_it_died(docker, box) == ("ended-from-inside", False)


@pytest.mark.docker
@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM"])
async def test_one_that_somebody_else_has_ended_does(docker, box, signal):
    await sh(docker, box, "true")  # the first process hears signals now
    await life.kill(docker, box, signal=signal)
    assert await how_it_died(docker, box) == ("container-died", True)


@pytest.mark.docker
async def test_one_that_was_started_anew_and_then_ended_from_inside_is_told_as_such(docker, box):
    await life.restart(docker, box)
    with contextlib.suppress(DockerError):
        await sh(docker, box, "kill -9 -1")
    assert await how_it_died(docker, box) == ("ended-from-inside", False)


@pytest.mark.docker
async def test_one_that_used_up_its_own_memory_is_told_by_that(docker, image):
    limits = {"Memory": 32 * 2**20, "MemorySwap": 32 * 2**20}
    async with container(docker, image, HostConfig=limits) as name:
        with contextlib.suppress(DockerError):
            await sh(docker, name, "python3 -c 'bytearray(200_000_000)'; kill -9 -1")
        assert await how_it_died(docker, name) == ("memory-exceeded", False)


@pytest.mark.docker
async def test_one_that_ended_with_its_engine_needs_another_try(private):
    async with connect(private.host) as docker:
        name = await make_container(docker, private.image)
        private.kill()
        private.start_again()
        assert await how_it_died(docker, name) == ("container-died", True)


def event(action, seconds, container=ID):
    return {"Action": action, "timeNano": seconds * SECOND, "Actor": {"ID": container}}


@pytest.mark.parametrize(
    ("events", "is_so"),
    [
        ([event("start", 10), event("die", 11)], True),
        ([event("start", 5, "another"), event("die", 11)], True),
        ([event("start", 10), event("kill", 10), event("die", 11)], False),
        ([event("start", 10), event("kill", 10, "another"), event("die", 11)], True),
        ([event("kill", 8), event("die", 9), event("start", 10), event("die", 11)], True),
        ([event("exec_start", 10, "another"), event("die", 11)], False),
        ([event("start", 10)], None),
        ([], None),
    ],
    ids=[
        "from its start to its end",
        "from long before its end",
        "killed by somebody",
        "another was killed",
        "killed before it was started anew",
        "from a moment before its end only",
        "no end",
        "nothing",
    ],
)
def test_only_a_list_of_events_that_reaches_back_shows_that_nobody_else_was_it(events, is_so):
    assert is_from_inside(events, ID) is is_so
