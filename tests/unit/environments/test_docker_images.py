"""Images: looked at beforehand, built once, and an engine that is away is waited for."""

import pytest
import trio

from agentcompass.components.base import SandboxPlan
from agentcompass.components.environments.docker import engine as engine_module
from agentcompass.components.environments.docker import progress
from agentcompass.containers import life, resources
from agentcompass.containers.client import connect
from agentcompass.errors import PreflightError, SandboxError
from support.docker import LABEL, RUN, engine_host, new_name, python_image
from support.docker_sandboxes import docker_env, docker_lease, docker_sandbox, remove_images

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

MISSING = "agentcompass.invalid/no/such:image"
"""A registry of a name that never resolves (RFC 2606)."""


@pytest.fixture
async def recipe(tmp_path):
    """A directory to build from; its images are removed afterwards."""
    (tmp_path / "Dockerfile").write_text(
        f"FROM {python_image()}\nLABEL {LABEL}={tmp_path}\nCOPY mark /mark\nRUN echo step >> /steps\nWORKDIR /built\n"
        'ENTRYPOINT ["/bin/false"]\n'
    )
    (tmp_path / "mark").write_text(new_name())
    yield tmp_path
    await remove_images(tmp_path)


async def check(env, *plans):
    """What of the plans' images is missing, by name; sizes of the others are real."""
    sources = {source for plan in plans for source in env.images_of(plan)}
    sizes = await env.check_images(sources)
    assert set(sizes) == sources
    assert all(size is None or size > 1_000_000 for size in sizes.values())
    return {source.name for source, size in sizes.items() if size is None}


async def test_what_is_there_needs_nothing_and_what_cannot_be_had_is_named():
    env = docker_env()
    assert await check(env, SandboxPlan(), SandboxPlan(image=python_image())) == set()
    wanted = ("", MISSING, f"{MISSING}2", python_image())
    with pytest.raises(PreflightError) as caught:
        await check(env, *(SandboxPlan(image=name or None) for name in wanted))
    assert f"  {MISSING}: " in caught.value.message
    assert f"  {MISSING}2: " in caught.value.message
    assert python_image() not in caught.value.message


async def test_a_task_without_an_image_is_told_beforehand_if_there_is_no_other():
    env = docker_env(image=None)
    assert await check(env, SandboxPlan(image=python_image())) == set()
    with pytest.raises(SandboxError, match="names no image"):
        env.images_of(SandboxPlan())
    with pytest.raises(SandboxError) as caught:
        await env.fetch(SandboxPlan(), print)
    assert (caught.value.code, caught.value.retryable) == ("no-such-image", False)


async def test_never_pulled_is_never_looked_for():
    env = docker_env(pull="never", image=MISSING)
    with pytest.raises(PreflightError, match="none may be pulled"):
        await check(env, SandboxPlan())
    with pytest.raises(SandboxError) as caught:
        await env.fetch(SandboxPlan(), print)
    assert caught.value.code == "no-such-image"


async def test_a_pull_that_fails_is_told_and_has_a_code():
    lines = []
    with pytest.raises(SandboxError) as caught:
        await docker_env(image=MISSING).fetch(SandboxPlan(), lines.append)
    assert caught.value.code == "pull-failed"
    env = docker_env(pull="always")
    with pytest.raises(SandboxError):
        await env.fetch(SandboxPlan(), lines.append)  # it is there, and nowhere to be pulled from


async def test_an_image_is_built_once_for_many_and_its_entry_point_is_not_run(recipe):
    env = docker_env(build=str(recipe))
    dockerfile = str(recipe / "Dockerfile")
    assert await check(env, SandboxPlan()) == {dockerfile}
    lines = []
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(env.fetch, SandboxPlan(), lines.append)
    assert lines.count(f"building the image of {dockerfile}") == 1
    assert await check(env, SandboxPlan()) == set()
    async with env.open(SandboxPlan(), docker_lease(env)) as session:
        told = await session.exec("cat /mark /steps; pwd")
    assert told.stdout == f"{(recipe / 'mark').read_text()}step\n/built\n"


async def test_another_content_is_another_image(recipe):
    env = docker_env(build=str(recipe))
    await env.fetch(SandboxPlan(), print)
    (recipe / "mark").write_text("changed")
    assert await check(env, SandboxPlan()) == {str(recipe / "Dockerfile")}
    (recipe / "Dockerfile").unlink()
    with pytest.raises(PreflightError, match=r"\n  there is no /\S*/Dockerfile\n"):
        await check(env, SandboxPlan())
    (recipe / "Dockerfile").write_text("nonsense")


async def test_a_build_that_fails_says_what_it_said(tmp_path):
    (tmp_path / "Dockerfile").write_text(f"FROM {python_image()}\nRUN echo oh no; exit 3\n")
    with pytest.raises(SandboxError, match="oh no") as caught:
        await docker_env(build=str(tmp_path)).fetch(SandboxPlan(), print)
    assert (caught.value.code, caught.value.retryable) == ("build-failed", False)


async def test_the_task_s_image_comes_before_the_user_s():
    async with docker_sandbox(SandboxPlan(image=python_image()), image=MISSING) as session:
        assert (await session.exec("true")).returncode == 0


async def test_steps_are_told_now_and_then(autojump_clock, monkeypatch):
    lines = []
    told = progress.Told("pulling x", lines.append)
    for number in range(100):
        told(f"{number} of 100 MB")
        await trio.sleep(1)
    assert lines == [
        "pulling x",
        *(f"pulling x: {number} of 100 MB" for number in (15, 30, 45, 60, 75, 90)),
    ]


async def test_an_engine_that_is_away_is_waited_for_and_told_once(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_module, "AWAY_SECONDS", 20.0)
    socket = tmp_path / "docker.sock"
    env = docker_env(host=f"unix://{socket}")
    lines = []
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(env.fetch, SandboxPlan(), lines.append)
        await trio.sleep(0.7)
        socket.symlink_to(engine_host().removeprefix("unix://"))
    assert len(lines) == 1
    assert "waiting for the Docker engine" in lines[0]


async def test_one_that_stays_away_is_a_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_module, "AWAY_SECONDS", 0.2)
    env = docker_env(host=f"unix://{tmp_path}/docker.sock")
    with pytest.raises(SandboxError) as caught:
        await env.fetch(SandboxPlan(), print)
    assert (caught.value.code, caught.value.retryable) == ("engine-unreachable", True)
    with pytest.raises(PreflightError, match="no Docker engine can be reached"):
        await env.preflight()


async def test_preflight_says_all_that_is_wrong(tmp_path):
    network, volume = new_name(), new_name()
    mounts = (f"{tmp_path}/nowhere:/x", f"{volume}:/y", f"{volume}:/z:ro")
    env = docker_env(mounts=mounts, network=network, cpus=100_000.0, memory_mb=1)
    with pytest.raises(PreflightError) as caught:
        await env.preflight()
    said = caught.value.message
    assert f"{tmp_path}/nowhere is not there" in said
    assert f"docker network create {network}" in said
    assert said.count(f"docker volume create {volume}") == 1
    assert "cpus 100000 is more than" in said
    assert "memory_mb 1 is less than" in said
    assert len(said.splitlines()) == 5


async def test_a_volume_that_is_there_is_mounted_and_stays():
    volume = new_name()
    async with connect(engine_host()) as docker:
        await resources.create_volume(docker, volume, {LABEL: RUN})
        try:
            env = docker_env(mounts=(f"{volume}:/data",))
            await env.preflight()
            async with env.open(SandboxPlan(), docker_lease(env)) as session:
                assert (await session.exec("touch /data/x")).returncode == 0
            assert await resources.listed_volumes(docker, f"{LABEL}={RUN}")
        finally:
            await resources.remove_volume(docker, volume)


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"user": "nobody-of-that-name"}, "no-such-user"),
        ({"gpus": 1}, "no-such-device"),
    ],
)
async def test_what_only_the_start_can_tell_is_not_tried_again(params, code):
    with pytest.raises(SandboxError) as caught:
        async with docker_sandbox(**params):
            pass
    assert (caught.value.code, caught.value.retryable) == (code, False)


async def test_an_image_without_the_program_that_waits_is_not_tried_again(tmp_path):
    (tmp_path / "Dockerfile").write_text(f"FROM {python_image()}\nRUN rm /bin/sleep\n")
    with pytest.raises(SandboxError, match="could not be started") as caught:
        async with docker_sandbox(build=str(tmp_path)):
            pass
    assert (caught.value.code, caught.value.retryable) == ("no-such-program", False)


async def test_mounts_are_there(tmp_path):
    (tmp_path / "f").write_text("x")
    async with docker_sandbox(mounts=(f"{tmp_path}:/data:ro",)) as session:
        result = await session.exec("cat /data/f; touch /data/g")
    assert result.stdout == "x"
    assert "Read-only" in result.stderr


async def test_the_connection_is_closed_when_nobody_uses_it_and_opened_again():
    env = docker_env()
    await env.preflight()
    assert env._engine._connected is None
    async with env._engine.use() as first, env._engine.use() as second:
        assert first is second
        assert (await life.inspect(first.docker, new_name())) is None
    assert env._engine._connected is None
