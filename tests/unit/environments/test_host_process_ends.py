"""Nothing of a sandbox outlives what ends it: timeouts, cancellation, close, `kill -9` of the engine or of the keeper."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import trio

from agentcompass.components.base import SandboxPlan
from agentcompass.errors import SandboxError
from support.host import (
    HEADLESS,
    alive,
    beats,
    eventually,
    gone,
    host,
    is_beating,
    lease,
    new_mark,
    sandbox,
)

DAEMONS = {
    "child": "sleep {mark} &",
    "own session": "(setsid sleep {mark} &)",
    "double fork": "(setsid sh -c '(sleep {mark} &) ; exit' &)",
    "without environment": "(env -i setsid /bin/sh -c 'sleep {mark}; :' </dev/null >/dev/null 2>&1 &)",
    "deaf": "(setsid sh -c \"trap '' TERM INT HUP; while :; do sleep {mark}; done\" &)",
    "stopped": "(setsid sh -c 'kill -STOP $$; sleep {mark}' &)",
    "elsewhere": "(cd / && setsid sleep {mark} &)",
}


@pytest.mark.parametrize("daemon", DAEMONS.values(), ids=DAEMONS.keys())
async def test_a_timeout_kills_every_kind_of_daemon_of_its_command(tmp_path, daemon):
    mark = new_mark()
    async with sandbox(tmp_path) as session:
        result = await session.exec(
            daemon.format(mark=mark) + "\necho so far; sleep 60", timeout=0.15
        )
        assert not alive(mark)
    assert (result.returncode, result.timed_out, result.stdout) == (124, True, "so far\n")
    assert result.duration < 1.5


@pytest.mark.parametrize("daemon", DAEMONS.values(), ids=DAEMONS.keys())
async def test_end_processes_kills_every_kind_of_daemon_and_counts(tmp_path, daemon):
    mark = new_mark()
    async with sandbox(tmp_path) as session:
        await session.exec(daemon.format(mark=mark))
        assert await eventually(lambda: bool(alive(mark)))
        assert await session.end_processes() >= 1
        assert not alive(mark)
        assert await session.end_processes() == 0
        assert (await session.exec("echo again")).stdout == "again\n"


@pytest.mark.parametrize("isolation", ["none", "bubblewrap"])
async def test_a_daemon_whose_first_thread_has_ended_is_ended_too(tmp_path, isolation):
    async with sandbox(tmp_path, isolation=isolation) as session:
        await session.write_text("daemon.py", HEADLESS)
        await session.exec(f"{sys.executable} -S daemon.py >/dev/null 2>&1 </dev/null")
        with trio.fail_after(20):
            while not await beats(session):
                await trio.sleep(0.05)
        assert await is_beating(session)
        assert await session.end_processes() == 1
        assert not await is_beating(session)


async def test_a_timeout_ends_a_daemon_whose_first_thread_has_ended(tmp_path):
    async with sandbox(tmp_path) as session:
        await session.write_text("daemon.py", HEADLESS)
        script = f"{sys.executable} -S daemon.py >/dev/null 2>&1 </dev/null; sleep 60"
        assert (await session.exec(script, timeout=2)).timed_out
        assert await beats(session)
        assert not await is_beating(session)


async def test_a_busy_loop_that_ignores_signals_ends_in_time(tmp_path):
    mark = new_mark()
    script = f"trap '' TERM INT HUP; (setsid sleep {mark} &); while :; do :; done"
    async with sandbox(tmp_path) as session:
        with trio.fail_after(2):
            assert (await session.exec(script, timeout=1)).timed_out
        assert not alive(mark)


async def test_a_timeout_spares_what_earlier_commands_left(tmp_path):
    mark, other = new_mark(), new_mark()
    async with sandbox(tmp_path) as session:
        await session.exec(f"(setsid sleep {mark} &) >/dev/null 2>&1")
        await session.exec(f"(setsid sleep {other} &); sleep 60", timeout=0.1)
        assert (len(alive(mark)), len(alive(other))) == (1, 0)
    assert not alive(mark)


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
async def test_a_timeout_that_makes_no_sense_is_over_at_once(tmp_path, timeout):
    async with sandbox(tmp_path) as session:
        with trio.fail_after(2):
            assert (await session.exec("sleep 60", timeout=timeout)).returncode == 124


async def test_a_process_that_always_forks_and_ends_is_caught(tmp_path):
    mark = new_mark()
    hop = f"hop() {{ : {mark}; (hop) & }}; hop; sleep 60"
    async with sandbox(tmp_path) as session:
        with trio.fail_after(5):
            assert (await session.exec(["sh", "-c", hop], timeout=0.3)).timed_out
        assert await gone(mark, 0.1)


async def test_hundreds_of_daemons_are_ended_at_once(tmp_path):
    mark = new_mark()
    script = f"i=0; while [ $i -lt 300 ]; do (setsid sleep {mark} &); i=$((i+1)); done"
    async with sandbox(tmp_path) as session:
        await session.exec(script + " >/dev/null 2>&1")
        assert await session.end_processes() == 300
        assert not alive(mark)


async def test_cancelling_a_command_waits_until_its_tree_is_dead(tmp_path):
    mark = new_mark()
    async with sandbox(tmp_path) as session:
        with trio.move_on_after(0.15) as scope:
            await session.exec(f"(setsid sleep {mark} &); sleep {mark}")
        assert scope.cancelled_caught
        assert not alive(mark)


async def test_ending_processes_ends_a_command_that_is_awaited(tmp_path):
    results = []
    async with sandbox(tmp_path) as session, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def wait() -> None:
            results.append(await session.exec("touch up; sleep 60"))

        assert await eventually(lambda: os.path.exists(f"{session.workdir}/up"))
        assert await session.end_processes() == 2
    assert results[0].returncode == 137


async def test_closing_ends_daemons_and_removes_the_workspace(tmp_path):
    mark = new_mark()
    async with sandbox(tmp_path) as session:
        await session.exec(f"(setsid sleep {mark} &) >/dev/null 2>&1")
    assert not alive(mark)
    assert os.listdir(tmp_path) == []


async def test_an_error_inside_closes_too(tmp_path):
    mark = new_mark()
    with pytest.raises(KeyError):
        async with sandbox(tmp_path) as session:
            await session.exec(f"(setsid sleep {mark} &) >/dev/null 2>&1")
            raise KeyError
    assert not alive(mark)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("milliseconds", [0, 0.3, 0.6, 1, 1.5, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 30])
async def test_whenever_a_task_is_cancelled_nothing_is_left(tmp_path, milliseconds):
    mark = new_mark()
    env = host(tmp_path)
    if milliseconds != 30:
        await env.preflight()  # else the keeper's own start is cancelled too
    with trio.move_on_after(milliseconds / 1000):
        async with env.open(SandboxPlan(), lease(env)) as session:
            await session.exec(f"(setsid sleep {mark} &) >/dev/null 2>&1")
            await session.exec(f"sleep {mark}", timeout=0.01)
            await session.write_bytes("f", b"x" * 100_000)
            await session.end_processes()
    assert not alive(mark)
    assert os.listdir(tmp_path) == []


async def test_a_close_that_is_cancelled_still_closes(tmp_path):
    mark = new_mark()
    with trio.CancelScope() as scope:
        async with sandbox(tmp_path) as session:
            await session.exec(f"(setsid sleep {mark} &) >/dev/null 2>&1; mkdir d; touch d/1 d/2")
            scope.cancel()
    assert not alive(mark)
    assert os.listdir(tmp_path) == []


async def test_no_zombies_and_no_descriptors_stay(tmp_path):
    env = host(tmp_path)

    async def use() -> None:
        async with env.open(SandboxPlan(), lease(env)) as session:
            await session.exec("true")
            await session.exec("sleep 60", timeout=0.01)
            await session.exec("sleep 0.01 & :")
            async with session.process(["cat"], tty=True):
                pass

    def zombies() -> set[str]:
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        stats = {pid: Path(f"/proc/{pid}/stat") for pid in children}
        return {pid for pid, stat in stats.items() if stat.exists() and ") Z" in stat.read_text()}

    await use()
    before, others = len(os.listdir("/proc/self/fd")), zombies()
    for _ in range(5):
        await use()
    assert len(os.listdir("/proc/self/fd")) <= before
    assert zombies() <= others  # those of other tests are none of ours


# --- the keeper is killed


async def test_a_command_that_kills_its_guard_is_reported_and_leaves_nothing(tmp_path):
    mark = new_mark()
    script = f"(env -i setsid /bin/sleep {mark} &) </dev/null >/dev/null 2>&1; kill -9 $PPID; sleep {mark}"
    async with sandbox(tmp_path) as session:
        with pytest.raises(SandboxError) as caught:
            await session.exec(script)
        assert caught.value.code == "sandbox-died"
        assert await gone(mark)
        assert (await session.exec("echo fine")).stdout == "fine\n"
        assert await session.end_processes() == 0


async def test_an_interactive_program_that_kills_its_guard_is_reported(tmp_path):
    mark = new_mark()
    argv = ["sh", "-c", f"kill -9 $PPID; sleep {mark}"]
    async with sandbox(tmp_path) as session, session.process(argv) as program:
        assert await program.receive() == b""
        with pytest.raises(SandboxError):
            await program.wait()
    assert await gone(mark)


async def test_when_keeper_and_guard_are_killed_the_mark_still_finds_everything(tmp_path):
    mark = new_mark()
    async with sandbox(tmp_path) as session:
        started = await session.exec(
            f"(setsid sleep {mark} &) >/dev/null 2>&1; echo $PPID; ps -o ppid= -p $PPID"
        )
        guard, keeper = map(int, started.stdout.split())
        os.kill(keeper, signal.SIGKILL)
        os.kill(guard, signal.SIGKILL)
        assert await session.end_processes() == 1
        assert not alive(mark)
        assert (await session.exec("echo a new keeper")).stdout == "a new keeper\n"


async def test_careless_signals_to_all_pythons_do_not_end_the_keeper(tmp_path):
    async with sandbox(tmp_path) as session:
        result = await session.exec(
            "kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; echo still here"
        )
    assert result.stdout == "still here\n"


async def test_a_guard_that_was_stopped_goes_on(tmp_path):
    async with sandbox(tmp_path) as session:
        with trio.fail_after(5):
            result = await session.exec("kill -STOP $PPID; sleep 60", timeout=0.2)
    assert result.timed_out


# --- the engine is killed

ENGINE = """
    import os, signal, sys, trio
    from pathlib import Path
    from support.host import host, lease
    from agentcompass.components.base import SandboxPlan

    root, mark = Path(sys.argv[1]), sys.argv[2]

    async def one(env, number, ready):
        async with env.open(SandboxPlan(), lease(env, f"s{number}")) as session:
            await session.exec(f"(setsid sleep {mark} &) >/dev/null 2>&1")
            await session.exec(f"(env -i setsid /bin/sleep {mark} &) </dev/null >/dev/null 2>&1")
            print(session._surroundings.lease_id, flush=True)
            await session.exec(f"trap '' HUP TERM; sleep {mark}; :")

    async def main():
        env = host(root)
        if sys.argv[3] == "forks":
            await env.preflight()
            if os.fork() == 0:  # a child of the application that holds all sockets open
                os.close(1)
                signal.pause()
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(one, env, number, None)

    trio.run(main)
"""


@pytest.mark.parametrize("application", ["plain", "forks"])
async def test_killing_the_engine_ends_every_tree_and_another_process_cleans_up(
    tmp_path, application
):
    mark = new_mark()
    root = tmp_path / "root"
    program = tmp_path / "engine.py"
    program.write_text(textwrap.dedent(ENGINE))
    paths = [str(Path(__file__).parents[2]), str(Path(__file__).parents[3])]
    engine = subprocess.Popen(
        [sys.executable, program, root, mark, application],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    )
    with engine:
        ids = [engine.stdout.readline().decode().strip() for _ in range(5)]
        assert all(ids)
        time.sleep(0.1)
        assert len(alive(f"sleep\0{mark}")) >= 15
        engine.kill()
        engine.wait()
        assert await gone(f"sleep\0{mark}", 1.5)
        if application == "forks":
            assert len(alive(mark)) == 1
            os.killpg(engine.pid, signal.SIGKILL)
    assert len(os.listdir(root)) == 5
    env = host(tmp_path / "another root")
    for lease_id in ids:
        left = lease(host(root), lease_id.rpartition("-")[0])
        await env.remove(left)
        await env.remove(left)
    assert os.listdir(root) == []


async def test_remove_at_once_after_the_kill_waits_for_the_guards(tmp_path):
    # The lock that a guard holds is what tells another process that it still works.
    env = host(tmp_path)
    async with env.open(SandboxPlan(), lease(env)) as session:
        await session.exec("(env -i sh -c 'exec sleep 0.3' &) </dev/null >/dev/null 2>&1")
        began = time.monotonic()
        await env.remove(lease(env))
        assert time.monotonic() - began > 0.15
    assert os.listdir(tmp_path) == []


# --- leases


async def test_keeping_leaves_the_files_but_no_process(tmp_path):
    mark = new_mark()
    env = host(tmp_path)
    kept = lease(env, "kept", keep=True)
    async with env.open(SandboxPlan(), kept) as session:
        await session.exec(f"echo hi > f; (setsid sleep {mark} &) >/dev/null 2>&1")
        hint = session.entry_hint()
    assert not alive(mark)
    assert subprocess.check_output(f"{hint} && cat f", shell=True) == b"hi\n"
    await env.remove(kept)
    assert os.listdir(tmp_path) == []


async def test_remove_ends_what_carries_the_mark_only(tmp_path):
    env, mark = host(tmp_path), new_mark()
    mine = lease(env)
    argv = ["sleep", mark]
    marked = subprocess.Popen(argv, env={"PATH": os.environ["PATH"], "AGENTCOMPASS_LEASE": mine.id})
    similar = subprocess.Popen(
        argv, env={"PATH": os.environ["PATH"], "AGENTCOMPASS_LEASE": mine.id + "0"}
    )
    with marked, similar:
        assert await eventually(lambda: len(alive(f"sleep\0{mark}")) == 2)
        with trio.move_on_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.to_thread.run_sync, marked.wait)
                await env.remove(mine)
        assert marked.returncode == -signal.SIGKILL
        assert similar.poll() is None
        similar.kill()


@pytest.mark.parametrize("name", ["../x", "/etc", "", ".", "..", "a/b", "a\0b", "x" * 300, "-rf"])
async def test_a_lease_that_names_no_directory_of_ours_removes_nothing(tmp_path, name):
    env = host(tmp_path)
    with pytest.raises(SandboxError) as caught:
        await env.remove(lease(env, name))
    assert caught.value.code == "bad-lease"


async def test_a_link_in_place_of_a_workspace_is_not_followed(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / "agentcompass-one").symlink_to("precious")
    env = host(tmp_path)
    with pytest.raises(SandboxError):
        await env.remove(lease(env))
    assert (tmp_path / "precious" / "file").exists()


async def test_a_name_that_is_taken_is_an_error_and_not_removed(tmp_path):
    (tmp_path / "agentcompass-one").mkdir()
    (tmp_path / "agentcompass-one" / "file").touch()
    with pytest.raises(SandboxError) as caught:
        async with sandbox(tmp_path):
            pass
    assert caught.value.code == "workspace-failed"
    assert (tmp_path / "agentcompass-one" / "file").exists()
