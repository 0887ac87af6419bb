"""Commands and files of an open container: one for all tests, each with files of its own."""

import os
import secrets

import pytest
import trio

from agentcompass.components.base import MiB
from agentcompass.components.environments.docker.session import DockerSession, Place
from agentcompass.containers import life
from agentcompass.containers.client import connect
from agentcompass.errors import SandboxError
from support.docker import engine_host, make_container, python_image
from support.host import HEADLESS, beats, is_beating

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("engine")]

SECRET = "sk-live-not-for-others"


@pytest.fixture(scope="module")
def box(engine):
    async def make():
        async with connect(engine_host()) as docker:
            return await make_container(docker, python_image(), WorkingDir="/work")

    async def remove(name):
        async with connect(engine_host()) as docker:
            await life.remove(docker, name)

    name = trio.run(make)
    yield name
    trio.run(remove, name)


@pytest.fixture
async def session(box):
    async with connect(engine_host()) as docker, trio.open_nursery() as nursery:
        place = Place(
            name=box,
            workdir="/work",
            user="",
            env={"KEY": SECRET},
            enter=("docker", "-H", "tcp://x:1"),
        )
        yield DockerSession(docker, place, None, nursery)


@pytest.fixture
async def nobody(box):
    async with connect(engine_host()) as docker, trio.open_nursery() as nursery:
        place = Place(name=box, workdir="/work", user="nobody", env={}, enter=("docker",))
        yield DockerSession(docker, place, None, nursery)


@pytest.fixture
def name():
    return secrets.token_hex(6)


async def test_a_shell_line_runs_in_the_work_directory_and_gives_both_streams(session):
    result = await session.exec("pwd; echo oops >&2; exit 3")
    assert (result.returncode, result.stdout, result.stderr) == (3, "/work\n", "oops\n")
    assert result.duration > 0


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["no-such-program"], 127),
        ("no-such-program", 127),
        (["/etc/passwd"], 126),
        ([], 126),
        (["echo", "a\0b"], 126),
        ("kill -TERM $$", 143),
        ("kill -9 $$", 137),
    ],
    ids=["missing", "missing in shell", "not executable", "nothing", "NUL", "TERM", "KILL"],
)
async def test_exit_codes_are_a_shell_s(session, command, code):
    result = await session.exec(command)
    assert result.returncode == code
    assert result.stdout == ""
    assert result.stderr or code not in (126, 127)


async def test_cwd_env_stdin_and_user_are_the_command_s(session, name):
    await session.exec(f"mkdir {name}")
    result = await session.exec(
        "pwd; echo $X; id -un; cat", cwd=name, env={"X": "1"}, user="nobody", stdin="in"
    )
    assert result.stdout == f"/work/{name}\n1\nnobody\nin"


async def test_a_directory_that_is_not_there_is_said_by_name(session):
    result = await session.exec("true", cwd="nowhere")
    assert result.returncode in (126, 127)
    assert "nowhere" in result.stderr


async def test_variables_are_in_each_command_and_nowhere_else(session, box):
    assert (await session.exec("echo $KEY")).stdout == f"{SECRET}\n"
    seen = await session.exec("cat /proc/1/environ /proc/1/cmdline /proc/self/cmdline")
    assert SECRET not in seen.stdout
    async with connect(engine_host()) as docker:
        assert SECRET not in str((await life.inspect(docker, box)).details)


async def test_after_its_time_nothing_of_a_command_is_left(session):
    script = 'trap "" TERM; (setsid sleep 1000 &) ; while :; do :; done'
    result = await session.exec(["sh", "-c", f"echo begun; {script}"], timeout=1)
    assert (result.returncode, result.timed_out, result.stdout) == (124, True, "begun\n")
    left = await session.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert "sleep 1000" not in left.stdout


async def test_a_daemon_whose_first_thread_has_ended_is_ended_too(session):
    await session.write_text("daemon.py", HEADLESS)
    await session.exec("python3 -S daemon.py >/dev/null 2>&1 </dev/null")
    with trio.fail_after(30):
        while not await beats(session):
            await trio.sleep(0.05)
    assert await is_beating(session)
    assert await session.end_processes() == 1
    assert not await is_beating(session)


async def test_what_stays_in_the_background_is_ended_before_the_evaluation(session, name):
    await session.exec(f"(setsid sh -c 'touch {name}; sleep 1000' >/dev/null 2>&1 &)")
    with trio.fail_after(30):
        while not await session.exists(name):
            await trio.sleep(0.05)
    assert await session.end_processes() == 2  # the shell, and sleep
    assert await session.end_processes() == 0
    assert (await session.exec("echo alive")).stdout == "alive\n"


async def test_output_is_cut_in_the_middle(session):
    result = await session.exec("head -c 4000000 /dev/zero; printf end", max_output=1000)
    assert result.truncated
    assert result.stdout.endswith("end")
    assert len(result.stdout) < 1100


async def test_binary_output_is_decoded_once(session):
    result = await session.exec(["printf", "a\\377\\000b"])
    assert result.stdout == "a\ufffd\0b"


async def test_a_program_is_talked_to(session):
    async with session.process(["sh", "-c", "read x; echo got $x; stty size"], tty=True) as shell:
        await shell.resize(30, 99)
        await shell.send(b"hello\n")
        output = b""
        while data := await shell.receive():
            output += data
        assert await shell.wait() == 0
    assert b"got hello\r\n30 99\r\n" in output


async def test_a_program_that_cannot_be_one_is_refused(session):
    with pytest.raises(ValueError, match="NUL"):
        async with session.process(["a\0b"]):
            pass


async def test_files_come_and_go(session, name):
    data = bytes(range(256)) * 5000
    await session.write_bytes(f"{name}/deep/file", data, mode=0o750)
    assert await session.read_bytes(f"{name}/deep/file") == data
    assert await session.read_bytes(f"/work/{name}/deep/file", max_bytes=3) == data[:3]
    assert (await session.exec(f"stat -c %a {name}/deep/file")).stdout == "750\n"
    await session.write_text(f"{name}/text", "é")
    assert await session.read_text(f"{name}/text") == "é"
    with pytest.raises(FileNotFoundError):
        await session.read_bytes(f"{name}/nothing")
    with pytest.raises(FileNotFoundError):
        await session.read_bytes(name)


async def test_what_exists_is_what_a_command_sees(session, name):
    await session.exec(f"mkdir {name}; ln -s nowhere {name}/broken; ln -s . {name}/good")
    assert await session.exists(name)
    assert await session.exists(f"{name}/good")
    assert await session.exists("/proc/self/status")  # no file of the container's own
    assert not await session.exists(f"{name}/broken")
    assert not await session.exists(f"{name}/other")
    assert not await session.exists("a\0b")


async def test_trees_are_copied_both_ways_and_stay_inside(session, name, tmp_path):
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "sub" / "file").write_text("x")
    await session.upload(tmp_path / "in", name)
    await session.exec(f"ln -s /etc/passwd {name}/out; ln -s sub/file {name}/link; mkfifo {name}/p")
    await session.download(name, tmp_path / "back")
    assert (tmp_path / "back" / "sub" / "file").read_text() == "x"
    assert os.readlink(tmp_path / "back" / "link") == "sub/file"
    assert sorted(os.listdir(tmp_path / "back")) == ["link", "sub"]


async def test_a_download_has_its_limit(session, name, tmp_path):
    await session.exec(f"head -c 3M /dev/zero > {name}")
    with pytest.raises(SandboxError) as caught:
        await session.download(name, tmp_path / "x", max_bytes=MiB)
    assert caught.value.code == "artifact-too-large"


async def test_files_belong_to_the_user_of_commands(nobody, session, name, tmp_path):
    (tmp_path / "f").write_text("x")
    await nobody.write_text(f"{name}-1", "x")
    await nobody.upload(tmp_path / "f", f"{name}-2")
    owners = await session.exec(f"stat -c %u {name}-1 {name}-2")
    assert owners.stdout == "65534\n65534\n"
    assert (await nobody.exec("id -un")).stdout == "nobody\n"


async def test_the_way_in_is_one_command(session, nobody, box):
    assert session.entry_hint() == f"docker -H tcp://x:1 exec -it -w /work {box} sh"
    assert nobody.entry_hint() == f"docker exec -it -w /work -u nobody {box} sh"


async def test_figures_are_the_kernel_s(session):
    await session.exec("head -c 50M /dev/zero | tail -c 40M | wc -c")
    used = await session.usage()
    assert used["memory_peak_bytes"] > 30 * MiB
    assert used["cpu_seconds"] > 0
    assert used["oom_kills"] == 0
