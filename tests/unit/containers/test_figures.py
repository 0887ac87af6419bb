"""What a container has used, by the kernel's own counters."""

import pytest

from agentcompass.containers import figures, life
from support.docker import container, sh

pytestmark = pytest.mark.docker

MiB = 1024 * 1024
LIMITS = {"Memory": 40 * MiB, "MemorySwap": 40 * MiB, "NanoCpus": 200_000_000, "PidsLimit": 30}
SPIN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"


@pytest.fixture(params=["here", "elsewhere"])
async def used(request, docker, image):
    """A container that has met each of its limits, and how its figures are read."""
    async with container(docker, image, HostConfig=LIMITS) as name:
        killed = await sh(docker, name, "exec python3 -c 'x = bytearray(200 << 20)'")
        assert killed.ended.exit_code == 137
        await sh(docker, name, f"exec python3 -c '{SPIN}'")
        await sh(docker, name, "for n in $(seq 60); do sleep 0.1 & done; wait")
        docker.is_here = docker.is_here and request.param == "here"
        yield await figures.read(docker, name)


async def test_each_limit_that_was_met_shows(used, docker):
    assert used.memory_limit_bytes == 40 * MiB
    assert 20 * MiB < used.memory_peak_bytes <= 41 * MiB
    assert used.cpu_seconds >= 0.3
    assert used.throttled_seconds > 0
    assert used.oom_kills >= 1
    if docker.is_here:
        assert used.refused_forks >= 1


async def test_without_limits_there_is_no_limit_to_tell(docker, box):
    found = await figures.read(docker, box)
    assert found.oom_kills == 0
    assert found.throttled_seconds == 0
    if docker.is_here:
        assert found.memory_limit_bytes is None


async def test_of_a_container_that_does_not_run_nothing_is_known(docker, box):
    await life.kill(docker, box)
    await life.wait(docker, box, seconds=60)
    assert await figures.read(docker, box) == figures.Figures()
    assert await figures.read(docker, "agentcompass-test-nothing") == figures.Figures()
