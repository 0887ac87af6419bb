"""Files into containers and out of them."""

import os

import pytest
import trio

from agentcompass.containers import archive, life
from agentcompass.containers.errors import DockerError
from support.docker import container, new_name, sh

pytestmark = pytest.mark.docker


@pytest.fixture
def place():
    """A directory of the shared container that nobody else uses."""
    return f"/{new_name()}"


async def test_a_file_is_written_with_its_directories_and_read(docker, shared_name, place):
    data = bytes(range(256)) * 10
    path = f"{place}/a/b/file"
    await archive.write(docker, shared_name, path, data, mode=0o640, owner=(65534, 12))
    assert await archive.read(docker, shared_name, path) == data
    found = await sh(docker, shared_name, f"stat -c '%a %u %g' {path}")
    assert found.text == "640 65534 12\n"
    made = await sh(docker, shared_name, f"test $(($(date +%s) - $(stat -c %Y {path}))) -lt 300")
    assert made.ended.exit_code == 0


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 262_144, 262_145, 20_000_000])
async def test_files_of_any_size_are_what_they_were(docker, shared_name, place, size):
    data = os.urandom(size)
    await archive.write(docker, shared_name, f"{place}/file", data)
    assert await archive.read(docker, shared_name, f"{place}/file") == data


@pytest.mark.parametrize("name", ["é ü", "a\nb", "-x", "x" * 255, "'\"$(touch /tmp/no)"])
async def test_a_name_may_hold_anything(docker, shared_name, place, name):
    await archive.write(docker, shared_name, f"{place}/{name}", b"there")
    assert await archive.read(docker, shared_name, f"{place}/{name}") == b"there"


async def test_only_the_beginning_is_read_if_that_is_wanted(docker, shared_name, place):
    await sh(docker, shared_name, f"mkdir {place}; truncate -s 100G {place}/huge")
    with trio.fail_after(60):
        assert await archive.read(docker, shared_name, f"{place}/huge", max_bytes=7) == bytes(7)
    with pytest.raises(DockerError) as caught:
        await archive.read(docker, shared_name, f"{place}/huge")
    assert caught.value.code == "artifact-too-large"


async def test_links_are_followed_when_a_file_is_read(docker, shared_name, place):
    script = f"mkdir {place}; cd {place}; echo x >file; ln -s file a; ln -s {place}/a b"
    await sh(docker, shared_name, script)
    assert await archive.read(docker, shared_name, f"{place}/b") == b"x\n"


@pytest.mark.parametrize(
    "make",
    ["true", "mkdir it", "mkfifo it", "ln -s it it", "ln -s nothing it", "mknod it c 1 3"],
    ids=["nothing", "directory", "pipe", "loop", "dangling", "device"],
)
async def test_what_is_no_file_is_not_found(docker, shared_name, place, make):
    await sh(docker, shared_name, f"mkdir {place}; cd {place}; {make}")
    with pytest.raises(FileNotFoundError):
        await archive.read(docker, shared_name, f"{place}/it")


async def test_what_is_at_a_path_is_told(docker, shared_name, place):
    await sh(docker, shared_name, f"mkdir {place}; cd {place}; echo abc >f; ln -s f l; mkfifo p")
    found = await archive.stat(docker, shared_name, f"{place}/f")
    assert (found.size, found.is_file, found.is_dir, found.link) == (4, True, False, None)
    assert (await archive.stat(docker, shared_name, place)).is_dir
    assert (await archive.stat(docker, shared_name, f"{place}/l")).link == f"{place}/f"
    assert not (await archive.stat(docker, shared_name, f"{place}/p")).is_file
    assert await archive.stat(docker, shared_name, f"{place}/none") is None


async def test_a_missing_container_is_no_missing_file(docker):
    for call in (archive.stat, archive.read):
        with pytest.raises(DockerError) as caught:
            await call(docker, "agentcompass-test-nothing", "/etc/passwd")
        assert caught.value.code == "no-such-container"


async def test_a_file_does_not_take_the_place_of_a_directory(docker, shared_name, place):
    await sh(docker, shared_name, f"mkdir {place}; echo kept >{place}/file")
    with pytest.raises(DockerError) as caught:
        await archive.write(docker, shared_name, place, b"x")
    assert caught.value.code == "bad-request"
    assert await archive.read(docker, shared_name, f"{place}/file") == b"kept\n"


async def test_a_full_disk_in_the_container_is_told(docker, image):
    volume = {"Type": "volume", "Target": "/small"}
    volume["VolumeOptions"] = {
        "DriverConfig": {"Options": {"type": "tmpfs", "device": "tmpfs", "o": "size=1m"}}
    }
    async with container(docker, image, HostConfig={"Mounts": [volume]}) as name:
        await archive.write(docker, name, "/small/fits", bytes(100_000))
        with pytest.raises(DockerError) as caught:
            await archive.write(docker, name, "/small/big", bytes(3_000_000))
        assert caught.value.code == "disk-full"
        assert caught.value.retryable


async def test_a_read_only_container_says_so(docker, image):
    async with container(docker, image, HostConfig={"ReadonlyRootfs": True}) as name:
        with pytest.raises(DockerError, match="read-only"):
            await archive.write(docker, name, "/file", b"x")


@pytest.fixture
def source(tmp_path):
    top = tmp_path / "source"
    (top / "sub").mkdir(parents=True)
    (top / "sub" / "run").write_text("#!/bin/sh\necho ran\n")
    (top / "sub" / "run").chmod(0o755)
    (top / "empty").mkdir()
    (top / "inside").symlink_to("sub/run")
    (top / "back").symlink_to("..")
    (tmp_path / "other").write_text("other")
    (top / "outside").symlink_to(tmp_path / "other")
    os.mkfifo(top / "pipe")
    return top


async def test_a_tree_is_copied_into_a_container(docker, shared_name, place, source):
    await archive.upload(docker, shared_name, source, f"{place}/to", owner=(65534, 65534))
    found = await sh(docker, shared_name, f"cd {place}/to; find . | sort; ./inside; cat outside")
    listed, _, rest = found.text.partition("ran\n")
    assert "./inside" in listed
    assert "./empty" in listed
    assert "./pipe" not in listed
    assert rest == "other"
    owners = await sh(docker, shared_name, f"find {place}/to ! -user nobody")
    assert owners.text == ""


async def test_a_file_is_copied_under_its_new_name(docker, shared_name, place, source):
    await archive.upload(docker, shared_name, source / "sub" / "run", f"{place}/deep/name")
    assert (await sh(docker, shared_name, f"{place}/deep/name")).text == "ran\n"


async def test_a_directory_that_is_there_keeps_its_mode_and_its_files(docker, box, source):
    await sh(docker, box, "echo kept >/tmp/file; mkdir -m 700 /real; ln -s /real /link")
    await archive.upload(docker, box, source, "/tmp")
    await archive.upload(docker, box, source, "/link")
    found = await sh(
        docker, box, "stat -c %a /tmp /real; cat /tmp/file; /tmp/sub/run; /real/sub/run"
    )
    assert found.text == "1777\n700\nkept\nran\nran\n"


async def test_a_source_that_is_missing_is_told_before_anything_is_sent(
    docker, shared_name, place, tmp_path
):
    with pytest.raises(FileNotFoundError):
        await archive.upload(docker, shared_name, tmp_path / "none", place)
    assert await archive.stat(docker, shared_name, place) is None


async def test_a_tree_is_copied_out_of_a_container(docker, shared_name, place, tmp_path):
    script = (
        f"mkdir -p {place}/sub; cd {place}; echo x >sub/run; chmod 750 sub/run; ln sub/run hard;"
        f"ln -s sub/run in; ln -s {place}/sub/run absolute; ln -s /etc/passwd out; mkfifo pipe;"
        "ln -s ../../etc/passwd up; mknod null c 1 3; mkdir -m 0 closed; ln -s / root"
    )
    await sh(docker, shared_name, script)
    target = tmp_path / "deep" / "copy"
    await archive.download(docker, shared_name, place, target)
    found = {str(path.relative_to(target)) for path in target.rglob("*")}
    assert found == {"sub", "sub/run", "hard", "in", "absolute", "closed"}
    assert os.readlink(target / "absolute") == "sub/run"
    assert (target / "sub" / "run").stat().st_mode & 0o777 == 0o750
    assert (target / "hard").read_text() == "x\n"


async def test_a_link_is_followed_to_what_is_copied(docker, shared_name, place, tmp_path):
    await sh(docker, shared_name, f"mkdir {place}; cd {place}; mkdir d; echo x >d/f; ln -s d l")
    await archive.download(docker, shared_name, f"{place}/l", tmp_path / "copy")
    assert (tmp_path / "copy" / "f").read_text() == "x\n"


@pytest.mark.parametrize("what", ["none", "pipe"])
async def test_what_cannot_be_copied_is_not_found(docker, shared_name, place, tmp_path, what):
    await sh(docker, shared_name, f"mkdir {place}; mkfifo {place}/pipe")
    with pytest.raises(FileNotFoundError):
        await archive.download(docker, shared_name, f"{place}/{what}", tmp_path / "copy")


async def test_a_copy_has_a_limit_that_holes_do_not_evade(docker, shared_name, place, tmp_path):
    await sh(docker, shared_name, f"mkdir {place}; truncate -s 1000G {place}/sparse")
    with pytest.raises(DockerError) as caught, trio.fail_after(60):
        await archive.download(docker, shared_name, place, tmp_path / "copy", max_bytes=1_000_000)
    assert caught.value.code == "artifact-too-large"


async def test_files_of_a_container_that_has_ended_can_be_had(docker, box):
    await sh(docker, box, "echo left >/file")
    await life.kill(docker, box)
    await life.wait(docker, box, seconds=60)
    assert await archive.read(docker, box, "/file") == b"left\n"


@pytest.mark.parametrize("milliseconds", [1, 10, 50, 200])
async def test_transfers_that_are_cancelled_end_at_once(
    docker, shared_name, place, tmp_path, milliseconds
):
    (tmp_path / "big").write_bytes(bytes(300_000_000))
    await sh(docker, shared_name, f"mkdir {place}; head -c 300000000 /dev/zero >{place}/big")
    with trio.fail_after(60), trio.move_on_after(milliseconds / 1000) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(archive.upload, docker, shared_name, tmp_path, f"{place}/up")
            nursery.start_soon(archive.download, docker, shared_name, place, tmp_path / "down")
            nursery.start_soon(archive.read, docker, shared_name, f"{place}/big")
    assert scope.cancelled_caught
    assert docker.threads.borrowed_tokens == 0
    await sh(docker, shared_name, f"rm -rf {place}")


async def test_more_transfers_than_any_thread_limit_go_on_at_once(docker, shared_name, place):
    async def both(number):
        data = str(number).encode() * 1000
        await archive.write(docker, shared_name, f"{place}/{number}", data)
        assert await archive.read(docker, shared_name, f"{place}/{number}") == data

    with trio.fail_after(100):
        async with trio.open_nursery() as nursery:
            for number in range(64):
                nursery.start_soon(both, number)
