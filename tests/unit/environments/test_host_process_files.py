"""Files of `host_process`: in and out, past hostile names and links, and away at the end."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import trio

from agentcompass.components.base import SandboxPlan
from agentcompass.components.environments import workspace as workspace_module
from agentcompass.components.environments.removal import remove_tree
from agentcompass.components.environments.transfer import download
from agentcompass.errors import SandboxError
from support.host import host, lease, sandbox


async def test_what_is_written_is_read_and_its_directories_are_made(tmp_path):
    async with sandbox(tmp_path) as session:
        await session.write_bytes("a/b/c.bin", b"\x00\xff", mode=0o750)
        assert await session.read_bytes("a/b/c.bin") == b"\x00\xff"
        assert await session.read_bytes(f"{session.workdir}/a/b/c.bin", max_bytes=1) == b"\x00"
        assert (await session.exec("stat -c %a a/b/c.bin")).stdout == "750\n"
        await session.write_text("a/b/c.bin", "new \ud800")
        assert await session.read_text("a/b/c.bin") == "new ?"
        assert (await session.exec("ls -A a/b")).stdout == "c.bin\n"


async def test_existence_is_what_a_command_would_see(tmp_path):
    async with sandbox(tmp_path) as session:
        await session.exec("touch f; mkdir d; ln -s nowhere broken")
        seen = [
            await session.exists(path) for path in ("f", "d", "broken", "none", "/bin/sh", "a\0")
        ]
    assert seen == [True, True, False, False, True, False]


HOSTILE = {
    "nothing": ":",
    "pipe": "mkfifo x",
    "endless device": "ln -s /dev/zero x",
    "directory": "mkdir x",
    "link outside": "ln -s /etc/passwd x",
    "link to the engine's secrets": "ln -s /proc/self/environ x",
    "link in a circle": "ln -s x x",
    "broken link": "ln -s nowhere x",
    "socket": "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"x\")'",
}


@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE.keys())
async def test_whatever_is_no_readable_file_is_not_there(tmp_path, make):
    async with sandbox(tmp_path) as session:
        await session.exec(make)
        with trio.fail_after(2), pytest.raises(FileNotFoundError):
            await session.read_bytes("x")
        with pytest.raises(FileNotFoundError):
            await session.read_bytes("x\0")


async def test_a_link_that_stays_inside_is_followed(tmp_path):
    async with sandbox(tmp_path) as session:
        await session.exec("echo hi > f; ln -s f link; ln -s $PWD/f absolute; mkdir d; ln -s d e")
        assert await session.read_bytes("link") == await session.read_bytes("absolute") == b"hi\n"
        await session.write_text("e/g", "there")
        assert await session.read_text("d/g") == "there"


async def test_a_file_too_large_to_hold_is_refused_unless_a_limit_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace_module, "READ_LIMIT", 1000)
    async with sandbox(tmp_path) as session:
        await session.exec("truncate -s 1T f; truncate -s 1000 g")
        with pytest.raises(SandboxError) as caught:
            await session.read_bytes("f")
        assert len(await session.read_bytes("f", max_bytes=5000)) == 5000
        assert len(await session.read_bytes("g")) == 1000
    assert caught.value.code == "artifact-too-large"


@pytest.mark.parametrize(
    "path", ["link", "dirlink/f", "dirlink/new/f", "../../up", "/tmp/agentcompass-not-mine"]
)
async def test_nothing_is_written_outside(tmp_path, path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("mine")
    (tmp_path / "source").write_text("source")
    async with sandbox(tmp_path / "root") as session:
        await session.exec(f"ln -s {outside}/f link; ln -s {outside} dirlink")
        for write in (session.write_bytes(path, b"x"), session.upload(tmp_path / "source", path)):
            with pytest.raises(SandboxError) as caught:
                await write
            assert caught.value.code == "path-outside"
    assert os.listdir(outside) == ["f"]
    assert (outside / "f").read_text() == "mine"
    assert not os.path.exists("/tmp/agentcompass-not-mine")


async def test_writing_over_a_pipe_replaces_it_and_does_not_wait(tmp_path):
    async with sandbox(tmp_path) as session:
        await session.exec("mkfifo x")
        with trio.fail_after(2):
            await session.write_text("x", "now a file")
            assert await session.read_text("x") == "now a file"


async def test_writing_over_a_directory_is_an_error_and_leaves_no_half_file(tmp_path):
    async with sandbox(tmp_path) as session:
        await session.exec("mkdir x")
        with pytest.raises(OSError):
            await session.write_text("x", "text")
        assert (await session.exec("ls -A . x")).stdout == ".:\nx\n\nx:\n"


@pytest.fixture
def small_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk], check=False, capture_output=True
    )
    if mount.returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


async def test_a_full_disk_has_a_name_and_does_not_hinder_removal(small_disk, tmp_path):
    (tmp_path / "big").write_bytes(b"x" * 500_000)
    async with sandbox(small_disk) as session:
        for write in (
            session.write_bytes("f", b"x" * 500_000),
            session.upload(tmp_path / "big", "g"),
        ):
            with pytest.raises(SandboxError) as caught:
                await write
            assert caught.value.code == "disk-full"
            assert "root" in caught.value.hint
        assert (await session.exec("ls -A")).stdout == ""
        await session.exec("head -c 1M /dev/zero > full; true")
    assert os.listdir(small_disk) == []


# --- copies


async def test_a_directory_goes_in_and_out_unchanged(tmp_path):
    source = tmp_path / "source"
    (source / "sub" / "empty").mkdir(parents=True)
    (source / "run.sh").write_text("echo hi")
    (source / "run.sh").chmod(0o755)
    (
        source
        / "sub"
        / "näme\udcff".encode(errors="surrogateescape").decode(errors="surrogateescape")
    ).touch()
    (source / "sub" / "link").symlink_to("../run.sh")
    async with sandbox(tmp_path / "root") as session:
        await session.upload(source, "copy")
        assert (await session.exec("sub/link", cwd="copy")).stdout == "hi\n"
        await session.download("copy", tmp_path / "back" / "again")
    subprocess.run(
        ["diff", "-r", "--no-dereference", source, tmp_path / "back" / "again"], check=True
    )
    assert os.access(tmp_path / "back" / "again" / "run.sh", os.X_OK)
    assert os.readlink(tmp_path / "back" / "again" / "sub" / "link") == "../run.sh"


async def test_links_of_a_cache_are_uploaded_as_what_they_lead_to(tmp_path):
    (tmp_path / "blob").write_text("content")
    source = tmp_path / "source"
    source.mkdir()
    (source / "data").symlink_to(tmp_path / "blob")
    (source / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "up").symlink_to(source)
    (source / "dir").symlink_to(tmp_path / "shared")
    async with sandbox(tmp_path / "root") as session:
        await session.upload(source, "copy")
        listing = await session.exec("find copy | sort; find copy -type l")
        assert await session.read_text("copy/data") == "content"
    assert listing.stdout.split() == ["copy", "copy/data", "copy/dir"]


async def test_an_upload_into_a_directory_that_became_a_link_outside_is_refused(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "test.py").write_text("assert True")
    (tmp_path / "outside").mkdir()
    async with sandbox(tmp_path / "root") as session:
        await session.exec(f"ln -s {tmp_path}/outside tests")
        with pytest.raises(SandboxError):
            await session.upload(tmp_path / "source", "tests")
    assert os.listdir(tmp_path / "outside") == []


async def test_a_download_leaves_out_what_leads_outside_and_what_is_no_file(tmp_path):
    make = """
        mkdir -p a/b; echo 1 > a/f
        ln -s /etc/passwd a/passwd; ln -s ../../../../../etc a/etc; ln -s .. a/up; ln -s $PWD/a/f a/absolute
        ln -s nowhere a/broken; ln -s b a/tob; ln -s tob/../../.. a/sly; ln -s self a/self; ln -s . a/here
        mkfifo a/pipe; ln /etc/hostname a/hard 2>/dev/null
    """
    target = tmp_path / "target"
    async with sandbox(tmp_path / "root") as session:
        await session.exec(make)
        with trio.fail_after(5):
            await session.download("a", target)
    links = {
        name: os.readlink(target / name)
        for name in os.listdir(target)
        if os.path.islink(target / name)
    }
    assert links == {"absolute": "f", "broken": "nowhere", "tob": "b", "self": "self", "here": "."}
    assert set(os.listdir(target)) - set(links) - {"hard"} == {"b", "f"}


async def test_what_vanishes_while_a_directory_is_downloaded_is_left_out(tmp_path):
    async with sandbox(tmp_path / "root") as session:
        await session.exec("mkdir -p d/gone d/more; touch d/a d/gone/f d/more/g; ln -s a d/link")
        space = session._workspace
        folder = Path(session.workdir) / "d"
        asked = []

        def vanish():
            asked.append(1)
            if len(asked) == 2:  # the top is listed by now
                shutil.rmtree(folder / "gone")
                for name in ("a", "link"):
                    (folder / name).unlink()

        download(space, "d", tmp_path / "copy", None, vanish)
    assert sorted(path.name for path in (tmp_path / "copy").rglob("*")) == ["g", "more"]


async def test_what_vanishes_before_it_is_downloaded_is_an_error(tmp_path):
    async with sandbox(tmp_path / "root") as session:
        await session.exec("mkdir d")
        folder = Path(session.workdir) / "d"
        with pytest.raises(FileNotFoundError):
            download(session._workspace, "d", tmp_path / "copy", None, folder.rmdir)
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(
    ("make", "source", "error"),
    [
        (":", "none", FileNotFoundError),
        ("mkfifo x", "x", FileNotFoundError),
        ("ln -s /etc x", "x", SandboxError),
        ("ln -s /etc x", "x/passwd", SandboxError),
        (":", "/etc/passwd", SandboxError),
        (":", "..", None),
    ],
)
async def test_what_cannot_be_downloaded_is_an_error(tmp_path, make, source, error):
    async with sandbox(tmp_path / "root") as session:
        await session.exec(make)
        if error is None:
            await session.download(source, tmp_path / "target")
            assert sorted(os.listdir(tmp_path / "target")) == ["tmp", "work"]
        else:
            with trio.fail_after(2), pytest.raises(error):
                await session.download(source, tmp_path / "target")


@pytest.mark.parametrize(
    "make",
    ["head -c 50000 /dev/zero > a/f", "truncate -s 1T a/sparse", "cd a; seq 100 | xargs touch"],
    ids=["large", "sparse", "many"],
)
async def test_a_download_is_bounded(tmp_path, make):
    async with sandbox(tmp_path / "root") as session:
        await session.exec("mkdir a; " + make)
        with trio.fail_after(5), pytest.raises(SandboxError) as caught:
            await session.download("a", tmp_path / "target", max_bytes=40_000)
    assert caught.value.code == "artifact-too-large"
    sizes = [entry.stat().st_size for entry in os.scandir(tmp_path / "target")]
    assert sum(sizes) <= 40_000


async def test_an_endless_copy_is_cancelled(tmp_path):
    async with sandbox(tmp_path / "root") as session:
        await session.exec("truncate -s 1T f")
        with trio.move_on_after(0.05) as scope:
            await session.download("f", tmp_path / "target")
        assert scope.cancelled_caught
        assert os.path.getsize(tmp_path / "target") < 1 << 34


# --- removal


def no_check() -> None:
    pass


DEEP = """
import os
os.chdir({path!r})
for _ in range(3000):
    os.mkdir("d"); os.chdir("d")
open("bottom", "w").close()
"""


async def test_a_workspace_full_of_traps_is_removed(tmp_path):
    make = f"""
        mkdir -p ro/deep/er unreadable many; touch ro/deep/f
        chmod 500 ro ro/deep ro/deep/er; chmod 000 unreadable
        mkfifo pipe; ln -s / root; ln -s .. many/up; touch -- '-rf' '{"x" * 255}' "$(printf 'a\\nb\\377')"
        for i in $(seq 40); do mkdir -p many/$i/$i/$i; done; cd many; seq 1000 | xargs touch
        chmod 500 ../..
    """
    async with sandbox(tmp_path) as session:
        assert (await session.exec(make)).returncode == 0
        await session.exec(["python3", "-c", DEEP.format(path=session.workdir)])
    assert os.listdir(tmp_path) == []


async def test_a_directory_that_is_being_written_is_removed(tmp_path):
    target = tmp_path / "busy"
    (target / "sub").mkdir(parents=True)
    script = "i=0; while [ $i -lt 4000 ]; do i=$((i+1)); : > $0/sub/$i || exit; done 2>/dev/null"
    with subprocess.Popen(["sh", "-c", script, target]):
        await trio.to_thread.run_sync(remove_tree, target, no_check)
    assert not target.exists()


async def test_what_somebody_else_removes_meanwhile_does_not_end_the_removal(tmp_path):
    target = tmp_path / "d"
    target.mkdir()
    for number in range(5):
        (target / str(number)).touch()

    def interfere():
        for path in list(target.glob("?")):
            path.unlink()
            (target / "more").mkdir(exist_ok=True)

    remove_tree(target, interfere)
    assert not target.exists()


async def test_a_directory_that_is_gone_before_its_removal_ends_is_removed(tmp_path):
    target = tmp_path / "d"
    (target / "a").mkdir(parents=True)

    def interfere():
        if target.exists():
            (target / "a").rmdir()
            target.rmdir()

    remove_tree(target, interfere)
    remove_tree(target, no_check)
    assert not target.exists()


async def test_names_that_removal_uses_itself_do_not_stop_it(tmp_path):
    target = tmp_path / "d"
    for number in (1, 2):
        (target / f".removed-{os.getpid()}-{number}" / "x").mkdir(parents=True)
    (target / "a/b/c").mkdir(parents=True)
    remove_tree(target, no_check)
    assert not target.exists()


async def test_nobody_but_its_owner_s_directory_is_removed(tmp_path):
    (tmp_path / "d").mkdir()
    try:
        os.chown(tmp_path / "d", 12345, 12345)
    except PermissionError:
        pytest.skip("a directory cannot be given away here")
    with pytest.raises(SandboxError) as caught:
        remove_tree(tmp_path / "d", no_check)
    assert caught.value.code == "bad-lease"


async def test_what_cannot_be_removed_is_reported(small_disk, tmp_path):
    env = host(tmp_path)
    mine = lease(env, "one")
    with pytest.raises(SandboxError) as caught:
        async with env.open(SandboxPlan(), mine) as session:
            os.mkdir(f"{session.workdir}/mounted")
            subprocess.run(
                ["mount", "--bind", small_disk, f"{session.workdir}/mounted"], check=True
            )
    assert caught.value.code == "workspace-left"
    subprocess.run(["umount", "-l", f"{session.workdir}/mounted"], check=True)
    await env.remove(mine)
    assert os.listdir(tmp_path) == ["disk"]


async def test_removal_stops_when_asked_and_can_begin_again(tmp_path):
    target = tmp_path / "d"
    target.mkdir()
    for number in range(50):
        (target / str(number)).touch()
    calls = iter(range(20))
    with pytest.raises(StopIteration):
        remove_tree(target, lambda: next(calls))
    assert 0 < len(os.listdir(target)) < 50
    remove_tree(target, no_check)
    assert not target.exists()
