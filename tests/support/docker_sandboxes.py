"""Sandboxes of the environment `docker` on the engine of the tests."""

import contextlib
import secrets
from datetime import UTC, datetime, timedelta

from agentcompass.components.base import SandboxPlan
from agentcompass.components.environments.docker.environment import DockerEnvironment
from agentcompass.components.environments.docker.params import DockerParams
from agentcompass.containers import life
from agentcompass.containers.client import connect
from agentcompass.containers.images import Images
from agentcompass.containers.wire import Ask
from agentcompass.records import Lease, ProcessIdentity
from agentcompass.store.identity import this_process
from support.docker import LABEL, engine_host, python_image

DEAD = ProcessIdentity(boot_id="another", pid=1, started=1)
"""A process that is not there any more."""


def docker_env(**params) -> DockerEnvironment:
    """Without a network, which starts quicker."""
    if "host" not in params:
        params["host"] = engine_host()
    if "image" not in params and "build" not in params:
        params["image"] = python_image()
    if "allowed_hosts" not in params:
        params.setdefault("network", "none")
    return DockerEnvironment(DockerParams(**params))


def docker_lease(env, *, keep=False, seconds=3600.0, owner=None, age=0.0) -> Lease:
    now = datetime.now(UTC) - timedelta(seconds=age)
    lease_id = secrets.token_hex(8)
    return Lease(
        id=lease_id,
        run_id="run",
        task_id="task",
        environment=env.id,
        name=f"agentcompass-test-{lease_id}",
        created_at=now.isoformat(timespec="milliseconds"),
        expires_at=(now + timedelta(seconds=seconds)).isoformat(timespec="milliseconds"),
        owner=owner or this_process(),
        details=env.lease_details(),
        keep=keep,
    )


@contextlib.asynccontextmanager
async def docker_sandbox(plan=None, **params):
    env = docker_env(**params)
    async with env.open(plan or SandboxPlan(), docker_lease(env)) as session:
        yield session


async def state_of(name, host=None):
    """How a container stands; None if there is none."""
    async with connect(host or engine_host()) as docker:
        return await life.inspect(docker, name)


async def remove_images(label, host=None):
    """Remove the images with a value of the tests' label."""
    async with connect(host or engine_host()) as docker:
        query = {"filters": {"label": [f"{LABEL}={label}"]}}
        for image in await docker.call(Ask("GET", "/images/json", "list images", query=query)):
            await Images(docker).remove(image["Id"])
