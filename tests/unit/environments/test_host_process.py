"""Commands of `host_process`: how they run, what they see, what comes back."""

import os
import sys
import time

import pytest
import trio

from agentcompass.components.base import Resources, SandboxPlan
from agentcompass.components.environments.host_process import HostProcess
from agentcompass.errors import PreflightError, SandboxError
from support.host import eventually, gone, host, is_running, lease, new_mark, sandbox
from support.mounts import small_disk


async def test_a_shell_line_runs_in_the_work_directory_and_gives_both_streams(tmp_path):
    async with sandbox(tmp_path) as session:
        result = await session.exec("pwd; echo oops >&2; exit 3")
    assert (result.returncode, result.stdout, result.stderr) == (
        3,
        f"{session.workdir}\n",
        "oops\n",
    )
    assert 0 < result.duration < 5


async def test_arguments_are_passed_as_they_are(tmp_path):
    async with sandbox(tmp_path) as session:
        result = await session.exec(["printf", "%s|", "a b", "$HOME", "é\n", "\udcff", "\ud800"])
    assert result.stdout == "a b|$HOME|é\n|\ufffd|?|"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["no-such-program"], 127),
        ("no-such-program", 127),
        (["/etc/passwd"], 126),
        (["/etc"], 126),
        ([], 126),
        (["echo", "a\0b"], 126),
        (["true", "x" * 200_000], 126),
        ("kill -TERM $$", 143),
        ("kill -9 $$", 137),
    ],
    ids=[
        "missing",
        "missing in shell",
        "not executable",
        "directory",
        "nothing",
        "NUL",
        "too long",
        "TERM",
        "KILL",
    ],
)
async def test_exit_codes_are_a_shell_s(tmp_path, command, code):
    async with sandbox(tmp_path) as session:
        result = await session.exec(command)
        assert result.returncode == code
        assert result.stderr or code not in (126, 127)


async def test_a_directory_that_is_not_there_is_said_by_name(tmp_path):
    async with sandbox(tmp_path) as session:
        result = await session.exec("true", cwd="nowhere")
    assert result.returncode == 126
    assert "nowhere: No such file" in result.stderr


async def test_cwd_env_and_stdin_are_the_command_s(tmp_path):
    async with sandbox(tmp_path) as session:
        await session.exec("mkdir sub")
        result = await session.exec("pwd; echo $X; cat", cwd="sub", env={"X": "1"}, stdin="in")
    assert result.stdout == f"{session.workdir}/sub\n1\nin"


async def test_input_larger_than_a_pipe_and_unread_input_hold_up_nobody(tmp_path):
    async with sandbox(tmp_path) as session:
        counted = await session.exec("wc -c", stdin=b"x" * 3_000_000)
        unread = await session.exec("true", stdin=b"x" * 3_000_000)
    assert counted.stdout.strip() == "3000000"
    assert unread.returncode == 0


async def test_nothing_of_the_host_s_environment_is_visible(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-agents")
    monkeypatch.setenv("SHARED", "yes")
    async with sandbox(
        tmp_path,
        SandboxPlan(env={"P": "plan"}),
        inherit_env=("SHARED",),
        env_variables={"Q": "user"},
    ) as session:
        result = await session.exec("env; tr '\\0' '\\n' < /proc/$PPID/environ")
        names = {line.partition("=")[0] for line in result.stdout.splitlines()}
    assert names - {"LD_LIBRARY_PATH", "_", "SHLVL", "OLDPWD"} == {
        *("PATH", "LANG", "HOME", "TMPDIR", "SHELL", "TERM", "PWD", "AGENTCOMPASS_LEASE"),
        *("SHARED", "P", "Q"),
    }
    assert f"HOME={session.workdir}\n" in result.stdout
    assert "LANG=C.UTF-8\n" in result.stdout


async def test_commands_hold_none_of_our_descriptors(tmp_path):
    async with sandbox(tmp_path) as session:
        result = await session.exec(["ls", "/proc/self/fd"])
    assert result.stdout.split() == ["0", "1", "2", "3"]  # 3 is ls reading the directory


async def test_signals_that_python_ignores_are_not_ignored_in_commands(tmp_path):
    async with sandbox(tmp_path) as session:
        result = await session.exec("grep SigIgn /proc/self/status; yes | head -n 1")
    _name, ignored, output = result.stdout.split()
    # 32 and 33 are the C library's own.
    assert int(ignored, 16) & ~(3 << 31) == 0
    assert output == "y"


async def test_a_flood_without_newlines_is_cut_in_the_middle(tmp_path):
    async with sandbox(tmp_path) as session:
        result = await session.exec("head -c 40000000 /dev/zero; printf end", max_output=1000)
    assert result.truncated
    assert "[... 39999003 bytes dropped ...]" in result.stdout
    assert result.stdout.endswith("end")
    assert len(result.stdout) < 1100


async def test_a_command_that_closes_its_output_is_still_awaited(tmp_path):
    async with sandbox(tmp_path) as session:
        result = await session.exec("exec >&- 2>&-; sleep 0.2; exit 7")
    assert result.returncode == 7


async def test_a_background_process_that_holds_the_output_does_not_hold_the_caller(tmp_path):
    mark = new_mark()
    async with sandbox(tmp_path) as session:
        result = await session.exec(f"sleep {mark} & echo started")
        assert result.stdout == "started\n"
        assert result.duration < 1.5
        assert await session.end_processes() == 1
    assert await gone(mark)


async def test_a_background_process_does_not_fail_on_output_that_nobody_reads(tmp_path):
    async with sandbox(tmp_path) as session:
        await session.exec("(sleep 0.4; head -c 300000 /dev/zero && touch written) &")
        assert await eventually(lambda: os.path.exists(f"{session.workdir}/written"))


async def test_background_processes_stay_for_later_commands(tmp_path):
    async with sandbox(tmp_path) as session:
        await session.exec(
            "(while [ ! -e stop ]; do sleep 0.02; done; touch stopped) >/dev/null 2>&1 &"
        )
        await session.exec("touch stop")
        assert await eventually(lambda: os.path.exists(f"{session.workdir}/stopped"))


async def test_another_user_is_refused(tmp_path):
    async with sandbox(tmp_path) as session:
        with pytest.raises(SandboxError) as caught:
            await session.exec("true", user="nobody")
    assert (caught.value.code, caught.value.retryable) == ("unsupported-user", False)


async def test_limits_of_the_plan_bind_every_process_for_good(tmp_path):
    plan = SandboxPlan(resources=Resources(memory_mb=60, storage_mb=5, pids=50))
    async with sandbox(tmp_path, plan) as session:
        limits = await session.exec(
            "ulimit -v; ulimit -c; ulimit -H -v; grep processes /proc/self/limits"
        )
        memory = await session.exec(["sh", "-c", "head -c 120M /dev/zero | tail"])
        storage = await session.exec("head -c 6M /dev/zero > big; stat -c %s big")
    virtual, core, hard, _max, _processes, pids, _hard_pids, _unit = limits.stdout.split()
    assert (virtual, core, hard) == (str(60 * 1024), "0", str(60 * 1024))
    assert int(pids) >= 50
    assert memory.returncode != 0
    assert storage.stdout.strip() == str(5 * 1024 * 1024)


async def test_thirty_sessions_at_once_do_not_mix(tmp_path):
    env = host(tmp_path)
    seen = {}

    async def one(number: int) -> None:
        async with env.open(SandboxPlan(), lease(env, f"s{number}")) as session:
            await session.write_text("me", str(number))
            seen[number] = (await session.exec("cat me; sleep 0.05; ls")).stdout

    async with trio.open_nursery() as nursery:
        for number in range(30):
            nursery.start_soon(one, number)
    assert seen == {number: f"{number}me\n" for number in range(30)}
    assert os.listdir(tmp_path) == []


async def test_the_loop_is_never_blocked(tmp_path):
    env = host(tmp_path)
    await env.preflight()
    worst = 0.0
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def watch() -> None:
                nonlocal worst
                while True:
                    before = time.perf_counter()
                    await trio.sleep(0.005)
                    worst = max(worst, time.perf_counter() - before)

            async with env.open(SandboxPlan(), lease(env)) as session:
                await session.exec(
                    "for i in 1 2 3 4 5 6 7 8; do mkdir d$i; touch d$i/{a,b,c}; done; sleep 0.3"
                )
            scope.cancel()
    assert worst < 0.25


async def test_the_keeper_ends_with_its_environment(tmp_path):
    env = host(tmp_path)
    async with env.open(SandboxPlan(), lease(env)) as session:
        keeper = (await session.exec("ps -o ppid= -p $PPID")).stdout.strip()
    assert is_running(keeper)
    del env, session
    assert await eventually(lambda: not is_running(keeper))


# --- interactive programs


async def test_a_program_is_talked_to_through_pipes(tmp_path):
    async with sandbox(tmp_path) as session, session.process(["cat"]) as cat:
        await cat.send(b"hello")
        assert await cat.receive() == b"hello"
        await cat.send(b"world")
        assert [await cat.receive(3), await cat.receive(3)] == [b"wor", b"ld"]
        await cat.close_stdin()
        assert await cat.receive() == b""
        assert await cat.wait() == 0


async def test_a_terminal_is_a_real_one(tmp_path):
    script = "test -t 0 -a -t 1 -a -t 2 && tty >/dev/tty; stty size; read line; echo got $line; stty size; cat; exit 4"
    argv = ["sh", "-c", script]
    async with sandbox(tmp_path) as session, session.process(argv, tty=True) as program:
        seen = b""
        while b"24 80" not in seen:
            seen += await program.receive()
        await program.resize(30, 100)
        await program.send(b"line\n")
        while b"30 100" not in seen:
            seen += await program.receive()
        await program.close_stdin()
        while data := await program.receive():
            seen += data
        assert await program.wait() == 4
    assert b"/dev/pts/" in seen
    assert b"got line" in seen


@pytest.mark.parametrize(
    ("argv", "options", "problem"),
    [
        ([], {}, "no command"),
        (["printf", "a\0b"], {}, "a NUL character"),
        (["true"], {"cwd": "a\0"}, "a NUL character"),
        (["true"], {"env": {"A": "\0"}}, "a NUL character"),
        (["true"], {"env": {"": "x"}}, "a variable without a name"),
        (["true"], {"env": {"A=B": "x"}}, "with = in its name"),
    ],
)
async def test_what_the_system_could_not_even_be_asked_is_an_error(
    tmp_path, argv, options, problem
):
    async with sandbox(tmp_path) as session:
        with pytest.raises(ValueError, match=problem):
            async with session.process(argv, **options):
                pass
        if argv:
            result = await session.exec(argv, **options)
            assert result.returncode != 0
            assert problem in result.stderr


async def test_an_interrupt_typed_on_a_terminal_reaches_the_program(tmp_path):
    argv = ["sh", "-c", "echo ready; exec sleep 60"]
    async with sandbox(tmp_path) as session, session.process(argv, tty=True) as program:
        assert b"ready" in await program.receive()
        await program.send(b"\x03")
        assert await program.wait() == 130


@pytest.mark.parametrize("tty", [False, True], ids=["pipes", "terminal"])
async def test_leaving_a_program_kills_its_tree(tmp_path, tty):
    mark = new_mark()
    async with sandbox(tmp_path) as session:
        script = f"trap '' HUP TERM INT; (setsid sleep {mark} &); echo up; sleep {mark}"
        async with session.process(["sh", "-c", script], tty=tty) as program:
            assert b"up" in await program.receive()
        assert await gone(mark, 0.1)


async def test_output_ends_with_the_program_though_a_daemon_holds_it_open(tmp_path):
    argv = ["sh", "-c", "sleep 60 & echo bye"]
    async with sandbox(tmp_path) as session, session.process(argv) as program:
        with trio.fail_after(2):
            assert await program.receive() == b"bye\n"
            assert await program.receive() == b""
            assert await program.wait() == 0


async def test_writing_to_a_program_that_does_not_listen_is_an_error_and_no_hang(tmp_path):
    async with sandbox(tmp_path) as session, session.process(["true"]) as program:
        await program.wait()
        with pytest.raises(BrokenPipeError):
            await program.send(b"x")
        await program.close_stdin()
        with pytest.raises(trio.ClosedResourceError):
            await program.send(b"x")


# --- before anything runs


async def test_preflight_passes_on_this_machine(tmp_path):
    await host(tmp_path / "new").preflight()


async def test_preflight_says_what_is_wrong_with_the_root(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(PreflightError, match="cannot be written") as caught:
        await host(tmp_path / "file").preflight()
    assert "root" in caught.value.hint


async def test_preflight_says_what_is_wrong_with_the_shell(tmp_path):
    with pytest.raises(PreflightError, match="no-shell"):
        await host(tmp_path, shell="/no-shell").preflight()


async def test_preflight_says_that_there_is_no_room_for_sandboxes(tmp_path):
    with (
        small_disk(tmp_path / "disk", "size=8m") as directory,
        pytest.raises(PreflightError, match=r"less than \d+ MiB of space left") as caught,
    ):
        await host(directory).preflight()
    assert "root" in caught.value.hint


async def test_preflight_tells_when_commands_cannot_be_started(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no-python")
    with pytest.raises(PreflightError, match="/no-python"):
        await host(tmp_path).preflight()


@pytest.mark.parametrize("workdir", ["/testbed", "../up", "a/../../b"])
async def test_a_work_directory_outside_is_refused(tmp_path, workdir):
    with pytest.raises(SandboxError) as caught:
        async with sandbox(tmp_path, SandboxPlan(workdir=workdir)):
            pass
    assert caught.value.code == "unsupported-workdir"
    assert os.listdir(tmp_path) == []


async def test_a_relative_work_directory_is_made(tmp_path):
    async with sandbox(tmp_path, SandboxPlan(workdir="src/app")) as session:
        assert (await session.exec("pwd")).stdout.endswith("/src/app\n")


def test_what_it_is_not_is_declared():
    assert not HostProcess.capabilities.is_security_boundary
    assert not HostProcess.capabilities.images
