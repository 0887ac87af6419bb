"""Images: built and pulled, once each, with errors that tell."""

import json
import os

import pytest
import trio

from agentcompass.containers import builds, life
from agentcompass.containers.builds import Build
from agentcompass.containers.errors import DockerError
from agentcompass.containers.images import Images
from support.docker import container, new_name, sh
from support.registry import Registry

pytestmark = pytest.mark.docker


@pytest.fixture
def images(docker):
    return Images(docker)


@pytest.fixture
def context(tmp_path, image):
    """A directory to build from, which no other test has."""
    top = tmp_path / "context"
    (top / "sub").mkdir(parents=True)
    (top / "Dockerfile").write_text(
        f"FROM {image} AS first\nARG WORD=none\nCOPY . /copied\nRUN echo $WORD >/word\nFROM first\n"
    )
    (top / "sub" / "file").write_text(new_name())
    (top / "run").write_text("#!/bin/sh\necho ran\n")
    (top / "run").chmod(0o755)
    (top / "link").symlink_to("sub/file")
    (top / "ignored").write_text("x")
    (top / ".dockerignore").write_text("# words\nignored\n**/*.log\n")
    return top


async def test_a_directory_becomes_an_image_with_its_files(docker, images, context):
    said = []
    tag = await images.build(Build(context=context, args={"WORD": "given"}), progress=said.append)
    async with container(docker, tag) as name:
        found = await sh(docker, name, "cat /word; cd /copied; ls -A; readlink link; ./run")
    listed = ".dockerignore\nDockerfile\nlink\nrun\nsub\n"
    assert found.text == f"given\n{listed}sub/file\nran\n"
    assert any("Step 1/" in line for line in said)


async def test_the_same_content_is_built_once_and_any_other_again(images, context):
    said = []
    first = await images.build(Build(context=context), progress=said.append)
    said.clear()
    assert (
        await images.build(Build(context=context, labels={"x": "y"}), progress=said.append) == first
    )
    (context / "ignored").write_text("other")
    (context / "sub" / "file.log").write_text("other")
    assert await images.build(Build(context=context), progress=said.append) == first
    assert said == []


def tag_of(context, **more):
    return builds.tag_of(Build(context=context, **more), lambda: None)


def test_all_that_makes_an_image_makes_its_tag(context):
    (context / "Other").write_text("FROM scratch\n")
    changes = [
        lambda: (context / "sub" / "file").write_text("changed"),
        lambda: (context / "run").chmod(0o644),
        (context / "new").mkdir,
        (context / "link").unlink,
        lambda: (context / "link").symlink_to("run"),
        lambda: (context / "run").rename(context / "renamed"),
        lambda: (context / "Dockerfile").write_text("FROM scratch\n"),
    ]
    tags = [tag_of(context)]
    for change in changes:
        change()
        tags.append(tag_of(context))
    tags += [
        tag_of(context, args={"A": "1"}),
        tag_of(context, target="first"),
        tag_of(context, platform="linux/arm64"),
        tag_of(context, dockerfile="Other"),
    ]
    assert len(set(tags)) == len(tags)
    os.utime(context / "Other", (1, 1))
    assert tag_of(context, dockerfile="Other") == tags[-1]


async def test_many_who_want_one_image_share_one_build(images, context):
    said, tags = [], set()

    async def build():
        tags.add(await images.build(Build(context=context), progress=said.append))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(build)
    assert len(tags) == 1
    assert sum(line.startswith("Successfully built") for line in said) == 1


async def test_many_who_want_one_image_share_its_failure(images, context):
    (context / "Dockerfile").write_text("FROM agentcompass-test/nothing\n")
    failures = []

    async def build():
        with pytest.raises(DockerError) as caught:
            await images.build(Build(context=context))
        failures.append(caught.value)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(build)
    assert len(failures) == 10
    assert len({id(error) for error in failures}) == 1
    (context / "Dockerfile").write_text("FROM scratch\nCOPY run /\n")
    assert await images.build(Build(context=context))  # and nobody remembers it


async def test_when_the_one_who_builds_is_cancelled_another_goes_on(images, context):
    slow = "RUN sleep 2\n"
    (context / "Dockerfile").write_text((context / "Dockerfile").read_text() + slow)
    tags = []

    async def build():
        tags.append(await images.build(Build(context=context)))

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as first:

            async def cancel_soon():
                await trio.sleep(0.5)
                nursery.start_soon(build)
                await trio.sleep(0.5)
                first.cancel()

            nursery.start_soon(cancel_soon)
            await build()
    assert first.cancelled_caught
    assert len(tags) == 1


async def test_a_build_that_is_cancelled_ends_in_the_engine_too(docker, images, context, image):
    (context / "Dockerfile").write_text(f"FROM {image}\nLABEL t={new_name()}\nRUN sleep 1000\n")
    said = []
    with trio.move_on_after(60), trio.CancelScope() as scope:

        def take(line):
            said.append(line)
            if "Running in" in line:
                scope.cancel()

        await images.build(Build(context=context), progress=take)
    assert scope.cancelled_caught
    (step,) = [line.split()[-1] for line in said if "Running in" in line]
    with trio.fail_after(60):
        while await life.inspect(docker, step) is not None:
            await trio.sleep(0.1)


async def test_a_build_that_fails_shows_the_end_of_its_output(images, context, image):
    steps = "RUN for n in $(seq 100); do echo line $n; done; exit 9"
    (context / "Dockerfile").write_text(f"FROM {image}\n{steps}\n")
    with pytest.raises(
        DockerError, match=r"code: 9\nStep 2/2 : RUN for (.*\n)*line 99\nline 100$"
    ) as caught:
        await images.build(Build(context=context))
    assert "line 50\n" not in caught.value.message
    assert caught.value.code == "build-failed"
    assert not caught.value.retryable


async def test_an_image_is_not_built_from_files_that_change_meanwhile(
    images, context, image, monkeypatch
):
    (context / "Dockerfile").write_text(f"FROM {image}\nCOPY v /v\n")
    (context / "v").write_text(new_name())
    build = Build(context=context)
    real = builds.tars.pack

    def late(*args, **options):
        (context / "v").write_text("another")
        return real(*args, **options)

    tag = builds.tag_of(build, lambda: None)
    monkeypatch.setattr(builds.tars, "pack", late)
    with pytest.raises(DockerError, match="changed while the image was to be built") as caught:
        await images.build(build)
    assert caught.value.code == "build-failed"
    assert await images.inspect(tag) is None
    monkeypatch.undo()
    assert await images.build(build) != tag


async def test_what_a_step_writes_on_its_standard_error_is_shown_too(images, context, image):
    (context / "Dockerfile").write_text(f"FROM {image}\nRUN echo the reason >&2; exit 9\n")
    with pytest.raises(DockerError, match=r"\nthe reason$"):
        await images.build(Build(context=context))


async def test_a_build_that_takes_too_long_is_ended_and_shows_where_it_was(
    docker, images, context, image
):
    (context / "Dockerfile").write_text(f"FROM {image}\nLABEL t={new_name()}\nRUN sleep 1000\n")
    said = []
    with pytest.raises(
        DockerError, match=r"not built within 1 s\n(.*\n)*.*RUN sleep 1000"
    ) as caught:
        await images.build(Build(context=context), timeout_seconds=1, progress=said.append)
    assert (caught.value.code, caught.value.retryable) == ("build-timeout", False)
    *_, step = [line.split()[-1] for line in said if "Running in" in line]
    with trio.fail_after(60):
        while await life.inspect(docker, step) is not None:
            await trio.sleep(0.1)


@pytest.mark.parametrize(
    ("dockerfile", "words"),
    [("NONSENSE x\n", "unknown instruction"), ("FROM scratch\nCOPY none /\n", "none")],
)
async def test_a_dockerfile_that_cannot_be_used_is_told(images, context, dockerfile, words):
    (context / "Dockerfile").write_text(dockerfile)
    with pytest.raises(DockerError, match=words) as caught:
        await images.build(Build(context=context))
    assert caught.value.code == "build-failed"


async def test_a_dockerfile_that_is_not_there_is_told(images, context):
    for dockerfile, words in (
        ("Missing", "there is no .*/Missing"),
        ("../Dockerfile", "is not in"),
    ):
        with pytest.raises(DockerError, match=words) as caught:
            await images.build(Build(context=context, dockerfile=dockerfile))
        assert caught.value.code == "build-failed"


async def test_an_image_that_is_there_is_not_pulled(images, image):
    for pull in ("missing", "never"):
        assert (await images.ensure(image, pull=pull)).startswith("sha256:")
    assert (await images.inspect(image))["Size"] > 1_000_000
    assert await images.inspect("agentcompass-test/nothing") is None


async def test_an_image_that_may_not_be_pulled_is_told(images):
    with pytest.raises(DockerError, match="none may be pulled") as caught:
        await images.ensure("agentcompass-test/nothing", pull="never")
    assert caught.value.code == "no-such-image"


# --- a registry, with a password


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    made = Registry(tmp_path_factory.mktemp("registry"))
    yield made
    made.close()


@pytest.fixture
def pushed(host, registry):
    """An image of the registry that the engine has not."""
    with registry.pushed(host) as name:
        yield name


@pytest.fixture
def login(tmp_path, registry, monkeypatch):
    """The docker command's configuration, after `docker login`."""
    registry.log_in(tmp_path)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))


async def test_an_image_is_pulled_with_the_users_credentials(images, pushed, login):
    said = []
    assert (await images.ensure(pushed, progress=said.append)).startswith("sha256:")
    assert any("3 MB" in text for text in said)
    said.clear()
    await images.ensure(pushed, progress=said.append)
    assert said == []


async def test_many_who_want_one_image_share_one_pull(images, pushed, login):
    said = []

    async def ensure():
        await images.ensure(pushed, pull="always", progress=said.append)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ensure)
    assert sum(text.startswith("Status: ") for text in said) == 1


async def test_always_is_once_for_one_run(docker, pushed, login):
    said = []
    for images in (Images(docker), Images(docker)):
        for _ in range(2):
            await images.ensure(pushed, pull="always", progress=said.append)
    assert sum(text.startswith("Status: ") for text in said) == 2


async def test_without_credentials_a_registry_refuses_and_that_is_told(
    images, pushed, monkeypatch, tmp_path
):
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with pytest.raises(DockerError) as caught:
        await images.ensure(pushed)
    assert caught.value.code == "registry-auth-failed"
    assert not caught.value.retryable


async def test_an_image_that_the_registry_has_not_is_told(images, registry, login):
    with pytest.raises(DockerError) as caught:
        await images.ensure(f"{registry.address}/nothing:1")
    assert caught.value.code == "no-such-image"


async def test_a_registry_that_is_not_there_is_told_and_may_come_back(images):
    with pytest.raises(DockerError, match="connection refused") as caught:
        await images.ensure("127.0.0.1:1/nothing:1")
    assert caught.value.code == "pull-failed"
    assert caught.value.retryable


@pytest.mark.filterwarnings("ignore:docker-credential-of-nobody")
async def test_a_credential_helper_that_fails_is_told(images, registry, tmp_path, monkeypatch):
    content = {"credHelpers": {registry.address: "of-nobody"}}
    (tmp_path / "config.json").write_text(json.dumps(content))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with pytest.raises(DockerError, match="of-nobody") as caught:
        await images.ensure(f"{registry.address}/nothing:1")
    assert caught.value.code == "registry-auth-failed"
