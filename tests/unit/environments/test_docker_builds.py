"""Tasks that bring a Dockerfile, or an image that is published, or both."""

import pytest
import trio

from agentcompass.components.base import ImageBuild, ImageSource, SandboxPlan
from agentcompass.errors import PreflightError, SandboxError
from support.docker import LABEL, engine_host, new_name, python_image
from support.docker_sandboxes import docker_env, docker_lease, remove_images
from support.registry import Registry

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

UNREACHABLE = "127.0.0.1:1/no/registry:1"


@pytest.fixture
async def task(tmp_path):
    """A directory to build from; its images are removed afterwards."""
    (tmp_path / "Dockerfile").write_text(
        f"FROM {python_image()} AS first\nLABEL {LABEL}={tmp_path}\nARG WORD=none\nRUN echo $WORD > /word\n"
        "FROM first\nRUN echo last >> /word\n"
    )
    (tmp_path / "mark").write_text(new_name())
    yield tmp_path
    await remove_images(tmp_path)


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    made = Registry(tmp_path_factory.mktemp("registry"))
    yield made
    made.close()


async def fetched(env, plan):
    """What people are told while the images of a plan are brought, and what then is in the sandbox."""
    lines = []
    await env.fetch(plan, lines.append)
    async with env.open(plan, docker_lease(env)) as session:
        word = (await session.exec("cat /word")).stdout
    return lines, word


async def test_a_task_s_dockerfile_is_built_with_its_arguments_and_to_its_stage(task):
    env = docker_env(image=None)
    for build, word in (
        (ImageBuild(context=task, args={"WORD": "given"}), "given\nlast\n"),
        (ImageBuild(context=task, target="first"), "none\n"),
    ):
        lines, found = await fetched(env, SandboxPlan(build=build))
        assert found == word
        assert lines == [f"building the image of {build.name}"]
        assert await fetched(env, SandboxPlan(build=build)) == ([], word)


async def test_attempts_at_once_share_one_build(task):
    env = docker_env(image=None)
    plan, lines = SandboxPlan(build=ImageBuild(context=task)), []

    async def attempt():
        await env.fetch(plan, lines.append)
        async with env.open(plan, docker_lease(env)) as session:
            assert (await session.exec("true")).returncode == 0

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(attempt)
    assert lines == [f"building the image of {task}/Dockerfile"]


async def test_a_build_that_fails_says_at_which_step(task):
    (task / "Dockerfile").write_text(f"FROM {python_image()}\nRUN echo oh no; exit 3\n")
    with pytest.raises(
        SandboxError, match=r"code: 3\n(.*\n)*.*RUN echo oh no(.*\n)*oh no$"
    ) as caught:
        await docker_env(image=None).fetch(SandboxPlan(build=ImageBuild(context=task)), print)
    assert (caught.value.code, caught.value.retryable) == ("build-failed", False)


async def test_a_build_has_the_time_that_its_task_gives_it(task):
    (task / "Dockerfile").write_text(f"FROM {python_image()}\nRUN sleep 1000\n")
    plan = SandboxPlan(build=ImageBuild(context=task, timeout_seconds=1.0))
    with pytest.raises(SandboxError, match="not built within 1 s") as caught:
        await docker_env(image=None).fetch(plan, print)
    assert caught.value.code == "build-timeout"


async def test_a_directory_that_cannot_be_built_from_is_told_beforehand(task):
    env = docker_env(image=None)
    sources = [
        ImageSource(build=ImageBuild(context=task / "none")),
        ImageSource(build=ImageBuild(context=task, dockerfile="../Dockerfile")),
        ImageSource(image=UNREACHABLE, build=ImageBuild(context=task, dockerfile="Other")),
        ImageSource(build=ImageBuild(context=task)),
    ]
    with pytest.raises(PreflightError) as caught:
        await env.check_images(sources)
    lines = caught.value.message.splitlines()
    assert len(lines) == 4
    for start in (f"there is no {task}/none/Dockerfile", f"{task}/../Dockerfile: ", UNREACHABLE):
        assert any(line.startswith(f"  {start}") for line in lines)


# --- published, and built only where that cannot be had


async def test_an_image_that_is_there_is_neither_pulled_nor_built(task):
    plan = SandboxPlan(image=python_image(), build=ImageBuild(context=task))
    lines, word = await fetched(docker_env(image=None), plan)
    assert (lines, word) == ([], "")


async def test_a_published_image_is_pulled(task, registry, tmp_path_factory, monkeypatch):
    registry.log_in(config := tmp_path_factory.mktemp("login"))
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    with registry.pushed(engine_host()) as name:
        plan = SandboxPlan(image=name, build=ImageBuild(context=task))
        env = docker_env(image=None)
        (source,) = env.images_of(plan)
        assert await env.check_images([source]) == {source: None}
        lines = []
        await env.fetch(plan, lines.append)
        assert lines == [f"pulling the image {name}"]
        assert (await env.check_images([source]))[source] >= 3_000_000


@pytest.mark.parametrize("why", ["unreachable", "missing", "denied", "never pulled"])
async def test_what_cannot_be_pulled_is_built_and_that_is_said_once(
    task, registry, tmp_path_factory, monkeypatch, why
):
    config = tmp_path_factory.mktemp("login")
    if why == "missing":
        registry.log_in(config)
    monkeypatch.setenv("DOCKER_CONFIG", str(config))
    name = UNREACHABLE if why == "unreachable" else f"{registry.address}/none:1"
    env = docker_env(image=None, pull="never" if why == "never pulled" else "missing")
    plan = SandboxPlan(image=name, build=ImageBuild(context=task))
    (source,) = env.images_of(plan)
    assert await env.check_images([source]) == {source: None}
    lines, word = await fetched(env, plan)
    assert word == "none\nlast\n"
    note, building = lines
    assert name in note
    assert note.endswith(f"; {task}/Dockerfile is built instead")
    assert building == f"building the image of {task}/Dockerfile"
    assert await fetched(env, plan) == ([], word)
    assert (await env.check_images([source]))[source] > 1_000_000


async def test_without_a_dockerfile_a_failed_pull_is_a_failure():
    with pytest.raises(SandboxError) as caught:
        await docker_env(image=None).fetch(SandboxPlan(image=UNREACHABLE), print)
    assert caught.value.code == "pull-failed"


async def test_building_may_be_asked_for(task):
    env = docker_env(image=None, task_images="built")
    plan = SandboxPlan(image=python_image(), build=ImageBuild(context=task))
    assert [source.name for source in env.images_of(plan)] == [f"{task}/Dockerfile"]
    lines, word = await fetched(env, plan)
    assert (len(lines), word) == (1, "none\nlast\n")
    only_image = SandboxPlan(image=python_image())
    assert [source.name for source in env.images_of(only_image)] == [python_image()]


@pytest.mark.parametrize("name", ["No/Such", "../x", "a b", "x:y:z", "-v", "x" * 300 + "/"])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(SandboxError, match="no name of an image") as caught:
        docker_env(image=None).images_of(SandboxPlan(image=name))
    assert (caught.value.code, caught.value.retryable) == ("no-such-image", False)


async def test_a_task_s_user_is_that_of_its_commands():
    for plan, who in ((SandboxPlan(user="nobody"), "nobody"), (SandboxPlan(), "root")):
        env = docker_env(user=None if plan.user is None else "root")
        async with env.open(plan, docker_lease(env)) as session:
            assert (await session.exec("id -un")).stdout == f"{who}\n"
            await session.write_text("/tmp/mine", "x")
            assert (await session.exec("stat -c %U /tmp/mine")).stdout == f"{who}\n"
            assert (await session.exec("id -un", user="root")).stdout == "root\n"
