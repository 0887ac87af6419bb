"""A connection to the engine, and containers in it."""

import pytest
import trio

from agentcompass.containers import life
from agentcompass.containers.client import connect
from support.docker import base_image, container, engine_host, make_container, private_engine


@pytest.fixture(scope="session")
def host():
    return engine_host()


@pytest.fixture(scope="session")
def image(host):
    return base_image()


@pytest.fixture(scope="session")
def shared_name(host, image):
    """A container for all tests that leave it as it was, or make files of their own in it."""

    async def make():
        async with connect(host) as docker:
            return await make_container(docker, image)

    async def remove(name):
        async with connect(host) as docker:
            await life.remove(docker, name)

    name = trio.run(make)
    yield name
    trio.run(remove, name)


@pytest.fixture
async def docker(host):
    async with connect(host) as opened:
        yield opened


@pytest.fixture
def remote(docker):
    """The same as if the engine ran on another machine."""
    docker.is_here = False
    return docker


@pytest.fixture
async def box(docker, image):
    """A container of this test's own."""
    async with container(docker, image) as name:
        yield name


@pytest.fixture(scope="session")
def _private(image):
    return private_engine()


@pytest.fixture
def private(_private):
    """An engine that may be broken; it works again afterwards."""
    yield _private
    _private.mend()
