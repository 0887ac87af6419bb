"""Isolation with bubblewrap: real attempts to get out of a sandbox, and to leave something behind.

They need bwrap(1) and a kernel that lets it make namespaces; the network ones also root and ip(8).
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import trio

from agentcompass.components.base import Resources, SandboxPlan
from agentcompass.components.environments import bubblewrap, trees
from agentcompass.components.environments.host_process import HostProcess
from agentcompass.errors import ConfigurationError, PreflightError, SandboxError
from support import host as ordinary
from support.commandline import ROOT, Program
from support.host import alive, eventually, gone, is_running, lease, new_mark

pytestmark = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bwrap is missing: apt-get install bubblewrap"
)
SECRET = "sk-engine-only-51ab"
ORDINARY_USER = 100_000 + os.getpid()  # nobody else, who would be counted with it


def host(root, **params) -> HostProcess:
    return ordinary.host(root, **{"isolation": "bubblewrap", **params})


def sandbox(root, plan=None, **params):
    return ordinary.sandbox(root, plan, **{"isolation": "bubblewrap", **params})


@contextmanager
def canary(mark, **environ):
    """A process of this user outside of every sandbox."""
    with subprocess.Popen(["sleep", mark], env={"PATH": os.environ["PATH"], **environ}) as process:
        try:
            yield process
        finally:
            process.kill()


def python(code, *arguments):
    return [sys.executable, "-I", "-S", "-c", textwrap.dedent(code), *map(str, arguments)]


# --- processes


@pytest.mark.parametrize(
    "attack",
    [
        "pkill -9 -f {mark}",
        "pkill -9 sleep; pkill -9 python",
        "kill -9 {pid}",
        "kill -9 -{pid}",
        "kill -9 -1",
        "for pid in /proc/[0-9]*; do kill -9 ${{pid#/proc/}}; done",
    ],
)
async def test_signals_reach_nothing_outside(tmp_path, attack):
    mark = new_mark()
    with canary(mark) as outside:
        async with sandbox(tmp_path) as session:
            await session.exec(attack.format(mark=mark, pid=outside.pid))
            assert outside.poll() is None
            assert (await session.exec("echo goes on")).stdout == "goes on\n"
        assert outside.poll() is None


async def test_a_command_that_kills_everything_it_can_has_only_ended_itself(tmp_path):
    mark = new_mark()
    async with sandbox(tmp_path) as session:
        await session.exec(f"(env -i setsid /bin/sleep {mark} &) >/dev/null 2>&1")
        assert await eventually(lambda: bool(alive(mark)))
        result = await session.exec("kill -9 -1; sleep 60")
        assert (result.returncode, result.timed_out) == (137, False)
        assert await gone(mark)
        await session.end_processes()
        assert await session.end_processes() == 0


async def test_the_first_process_cannot_be_ended_from_inside(tmp_path):
    kill = "for signal in KILL STOP TERM INT HUP SEGV ABRT USR1 CHLD; do kill -$signal 1; done"
    async with sandbox(tmp_path) as session:
        await session.exec(f"{kill}; sleep 0.05")
        assert (await session.exec("echo fine")).stdout == "fine\n"


async def test_no_process_of_the_machine_is_visible(tmp_path):
    mark = new_mark()
    with canary(mark, KEY=SECRET) as outside:
        async with sandbox(tmp_path) as session:
            seen = await session.exec("ps -eo pid= | wc -l; cat /proc/[0-9]*/cmdline")
            environ = await session.exec("cat /proc/1/environ /proc/$PPID/environ; echo end")
            other = await session.exec(
                f"cat /proc/{outside.pid}/environ /proc/{os.getpid()}/environ"
            )
    assert int(seen.stdout.split("\n", 1)[0]) < 10
    assert mark not in seen.stdout
    assert environ.stdout == "end\n"
    assert SECRET not in other.stdout


async def test_later_commands_see_what_earlier_ones_left(tmp_path):
    serve = """
        import socket
        server = socket.create_server(("127.0.0.1", 8000))
        open("up", "w").close()
        server.accept()[0].sendall(b"hello")
    """
    ask = "import socket; print(socket.create_connection(('127.0.0.1', 8000)).recv(9))"
    async with sandbox(tmp_path, network="none") as session:
        await session.write_text("serve.py", textwrap.dedent(serve))
        await session.exec(f"{sys.executable} -S serve.py >/dev/null 2>&1 & echo $! > pid")
        with trio.fail_after(5):
            while not await session.exists("up"):
                await trio.sleep(0.01)
        assert (await session.exec("kill -0 $(cat pid) && echo there")).stdout == "there\n"
        assert (await session.exec([sys.executable, "-S", "-c", ask])).stdout == "b'hello'\n"


async def test_a_timeout_ends_the_daemons_of_its_command_only(tmp_path):
    mark, other = new_mark(), new_mark()
    async with sandbox(tmp_path) as session:
        await session.exec(f"(setsid sleep {mark} &) >/dev/null 2>&1")
        result = await session.exec(f"(env -i setsid /bin/sleep {other} &); sleep 60", timeout=0.2)
        assert result.timed_out
        assert (len(alive(mark)), len(alive(other))) == (1, 0)
        assert await session.end_processes() == 1
    assert not alive(mark)


async def test_a_guard_that_is_kept_from_its_work_does_not_keep_the_sandbox(tmp_path, monkeypatch):
    monkeypatch.setattr(trees, "KILL_SECONDS", 1.0)
    mark = new_mark()
    script = f"(setsid sleep {mark} &); while :; do kill -STOP $PPID; done"
    async with sandbox(tmp_path) as session:
        with trio.fail_after(10):
            assert (await session.exec(script, timeout=0.2)).timed_out
            assert not alive(mark)
            assert (await session.exec("echo fine")).stdout == "fine\n"


ATTACH = """
    import ctypes, os, sys
    libc = ctypes.CDLL(None, use_errno=True)
    for pid in (1, os.getppid()):
        for request in (16, 0x4206):  # PTRACE_ATTACH, PTRACE_SEIZE
            assert libc.ptrace(request, pid, 0, 0) == -1, "traced"
            assert ctypes.get_errno() in (1, 3), ctypes.get_errno()
        for name in ("mem", "environ", "cwd/", "root/", *(f"fd/{number}" for number in range(16))):
            try:
                os.open(f"/proc/{pid}/{name}", os.O_RDONLY)
            except (PermissionError, FileNotFoundError):
                continue
            sys.exit(f"could open {name} of {pid}")
        try:
            stolen = libc.syscall(438, os.pidfd_open(pid), 0, 0)  # pidfd_getfd
        except OSError:
            continue
        assert stolen == -1, "took a descriptor"
    print("out of reach")
"""


async def test_the_processes_that_keep_the_sandbox_cannot_be_traced(tmp_path):
    async with sandbox(tmp_path) as session:
        result = await session.exec(python(ATTACH))
    assert (result.stdout, result.stderr) == ("out of reach\n", "")


async def test_a_terminal_is_the_sandbox_s_own(tmp_path):
    script = "tty </dev/tty; echo ready; exec sleep 60"
    async with sandbox(tmp_path) as session:
        async with session.process(["sh", "-c", script], tty=True) as program:
            seen = b""
            with trio.fail_after(10):
                while b"ready" not in seen:
                    seen += await program.receive()
            await program.send(b"\x03")
            assert await program.wait() == 130
        async with session.process(["cat"]) as cat:
            await cat.send(b"hello")
            assert await cat.receive() == b"hello"
        listed = await session.exec("ls /dev/pts")
    assert b"/dev/tty" in seen or b"/dev/pts/0" in seen
    assert set(listed.stdout.split()) <= {"ptmx", "0"}


# --- files


@pytest.mark.parametrize(
    "directory",
    [
        "/",
        "/usr",
        "/usr/local/bin",
        "/bin",
        "/etc",
        "/proc",
        "/proc/sys/kernel",
        "/dev",
        "/run",
        "/var",
    ],
)
async def test_nothing_but_the_workspace_can_be_written(tmp_path, directory):
    name = f"{directory.rstrip('/')}/agentcompass-test-{os.getpid()}"
    async with sandbox(tmp_path) as session:
        result = await session.exec(f"touch {name} || mkdir {name} || ln -s x {name}")
        allowed = await session.exec(
            "touch /workspace/a ~/b $TMPDIR/c /tmp/d /var/tmp/e /dev/shm/f"
        )
    assert result.returncode != 0
    assert not os.path.lexists(name)
    assert allowed.stderr == ""


async def test_settings_of_the_kernel_cannot_be_opened_for_writing(tmp_path):
    code = """
        import os
        opened = []
        for directory, _names, files in os.walk("/proc/sys"):
            for name in [*files]:
                try:
                    os.close(os.open(f"{directory}/{name}", os.O_WRONLY))
                    opened.append(f"{directory}/{name}")
                except OSError:
                    pass
        for name in ("sysrq-trigger", "self/uid_map", "self/setgroups", "1/oom_score_adj", "self/mem"):
            try:
                os.close(os.open(f"/proc/{name}", os.O_WRONLY))
                opened.append(name)
            except OSError:
                pass
        print(opened)
    """
    async with sandbox(tmp_path) as session:
        assert (await session.exec(python(code))).stdout == "[]\n"


async def test_homes_temporary_files_and_other_sandboxes_are_not_there(tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    env = host(tmp_path / "root")
    with tempfile.NamedTemporaryFile(dir=Path.home(), prefix="agentcompass-test-") as private:
        async with (
            env.open(SandboxPlan(), lease(env, "one")) as one,
            env.open(SandboxPlan(), lease(env, "two")) as two,
        ):
            await one.write_text("secret-of-one", "1")
            await one.write_text("/tmp/secret-of-one", "1")
            look = f"ls -d {private.name} {results} {env.root}; touch {results}/forged {env.root}/x"
            assert (await two.exec(look)).stdout == ""
            found = await two.exec(_find("-name 'secret-of-one*' -o -name '*agentcompass-test*'"))
            everything = await two.exec(_find("-type f"))
    assert found.stdout == ""
    files = everything.stdout.split()
    assert [name for name in files if not name.startswith(("/etc/", "/dev/", "/tmp/"))] == [
        bubblewrap.KEEPER
    ]
    assert os.listdir(results) == []


def _find(test):
    """A search of all that is visible, without the system, the kernel and Python."""
    skipped = {"/usr", "/lib", "/lib64", "/bin", "/sbin", "/proc", "/nix"}
    skipped |= {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent.parent)}
    return f"find / \\( {' -o '.join(f'-path {path}' for path in skipped)} \\) -prune -o \\( {test} \\) -print"


async def test_accounts_and_keys_of_the_machine_are_not_in_etc(tmp_path):
    async with sandbox(tmp_path) as session:
        listed = await session.exec("ls /etc /etc/ssl; cat /etc/passwd; id -un; echo ~")
    for name in ("shadow", "sudoers", "ssh", "private", "machine-id", "hostname", "root:"):
        assert name not in listed.stdout.split()
    assert listed.stdout.endswith("agent\n/workspace\n")


async def test_nothing_of_the_engine_s_environment_is_visible(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("SHARED", "yes")
    monkeypatch.setenv("PATH", os.environ["PATH"] + os.pathsep + "/home/me/private-tools")
    async with sandbox(tmp_path, inherit_env=("SHARED",)) as session:
        result = await session.exec("env; cat /proc/[0-9]*/environ")
    assert SECRET not in result.stdout
    assert "private-tools" not in result.stdout
    assert str(tmp_path) not in result.stdout
    assert "SHARED=yes\n" in result.stdout


KEYS = """
    import ctypes, os, sys
    libc = ctypes.CDLL(None, use_errno=True)
    add_key, request_key = {"x86_64": (248, 249)}.get(os.uname().machine, (217, 218))
    if sys.argv[1] == "add":
        libc.syscall(250 if add_key == 248 else 219, 1, None)  # a session of our own
        print(libc.syscall(add_key, b"user", b"agentcompass-test", b"secret", 6, -3))
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
    print(libc.syscall(request_key, b"user", b"agentcompass-test", None, 0))
"""
WITH_KEYS = """
    import sys, trio
    from pathlib import Path
    from agentcompass.components.base import SandboxPlan
    from support.host import host, lease

    async def main(isolation):
        env = host(Path(sys.argv[1]), isolation=isolation)
        async with env.open(SandboxPlan(), lease(env)) as session:
            print((await session.exec([sys.executable, "-c", sys.argv[2], "ask"])).stdout, end="")

    trio.run(main, "none")
    trio.run(main, "bubblewrap")
"""


def test_keys_that_the_kernel_holds_for_the_session_are_not_within_reach(tmp_path):
    keys, engine = textwrap.dedent(KEYS), textwrap.dedent(WITH_KEYS)
    done = subprocess.run(
        [sys.executable, "-c", keys, "add", "-c", engine, tmp_path, keys],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    added, without, within = map(int, done.stdout.split())
    assert without == added
    assert within == -1


async def test_files_go_in_and_out_by_the_names_that_commands_see(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "f").write_text("uploaded")
    async with sandbox(tmp_path / "root") as session:
        assert session.workdir == "/workspace"
        await session.upload(source, "/workspace/up")
        await session.write_text("/tmp/t", "temporary")
        seen = await session.exec(
            "cat up/f /tmp/t; ln -s /workspace/up/f link; ln -s /workspace/up d"
        )
        assert seen.stdout == "uploadedtemporary"
        assert (
            await session.read_text("link")
            == await session.read_text("/workspace/d/f")
            == "uploaded"
        )
        await session.write_text("d/new/g", "through a link")
        await session.download("/workspace", tmp_path / "down")
        with pytest.raises(FileNotFoundError):
            await session.read_bytes(str(source / "f"))
        with pytest.raises(SandboxError, match="leads out"):
            await session.write_bytes("/usr/x", b"")
    assert (tmp_path / "down" / "up" / "new" / "g").read_text() == "through a link"
    assert os.readlink(tmp_path / "down" / "link") == "up/f"


LINKS = """
    ln -s /etc/passwd absolute; ln -s ../../../../../../etc/passwd relative; ln -s {outside}/f host
    ln -s /proc/self/root/etc/passwd magic; ln -s /proc/1/environ environ; ln -s / all; ln -s {outside} dir
    ln -s ../etc/passwd etc; ln -s ../enter enter; ln -s circle circle; mkdir in; ln -s /workspace/../etc in/sly
"""


async def test_links_in_artifacts_lead_nowhere_outside(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text(SECRET)
    async with sandbox(tmp_path / "root") as session:
        await session.exec(LINKS.format(outside=outside))
        for name in ("absolute", "relative", "host", "magic", "environ", "etc", "enter", "circle"):
            with pytest.raises(FileNotFoundError):
                await session.read_bytes(name)
        for name in ("all/etc/x", "in/sly/x", "etc", "enter", "all/proc/x"):
            with pytest.raises((SandboxError, OSError)):
                await session.write_bytes(name, b"forged")
        await session.write_bytes("dir/f", b"the sandbox's own")  # below its own /tmp
        await session.download(".", tmp_path / "down")
    assert sorted(os.listdir(tmp_path / "down")) == ["circle", "in"]
    assert (outside / "f").read_text() == SECRET


async def test_a_directory_that_turns_into_a_link_meanwhile_leads_nowhere_outside(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    back = os.path.relpath(outside, "/")
    # As the engine would follow them: up from the workspace on this machine, and by its own path.
    flip = f"""
        while :; do
            mkdir d; rm -rf d; ln -s {"../" * 30}{back} d; rm d; ln -s {outside} d; rm d
        done
    """
    async with sandbox(tmp_path / "root") as session, session.process(["sh", "-c", flip]):
        for number in range(300):
            try:
                await session.write_bytes(f"d/sub/{number}", b"x")
                await session.download("d", tmp_path / "down" / str(number))
            except (SandboxError, OSError):
                continue
    assert os.listdir(outside) == []


# --- privileges

ATTEMPTS = {
    "mount": "mount -t tmpfs none /workspace",
    "bind mount": "mount --bind /usr /workspace",
    "remount": "mount -o remount,rw /usr",
    "unmount": "umount -l /tmp",
    "chroot": "chroot / /bin/true",
    "user namespace": "unshare --user true",
    "mount namespace": "unshare --mount true",
    "entering": "nsenter -t 1 -a true",
    "device": "mknod disk b 254 0",
    "host name": "hostname elsewhere",
    "setuid": "python3 -c 'import os; os.setuid(0)'",
    "giving away": "touch f && chown 0:0 f",
    "pivot": "pivot_root . .",
    "kernel log": "dmesg",
    "clock": "date -s 2020-01-01",
}


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS.keys())
async def test_no_privilege_is_to_be_had(tmp_path, attempt):
    async with sandbox(tmp_path) as session:
        path = "PATH=$PATH:/usr/sbin:/sbin"
        assert (await session.exec(f"{path}; {attempt}")).returncode != 0


async def test_set_user_id_programs_give_nothing(tmp_path):
    async with sandbox(tmp_path) as session:
        await session.exec("cp $(command -v id) mine; chmod 4755 mine")
        result = await session.exec(
            "./mine -u; grep -E 'NoNewPrivs|CapPrm|CapEff|CapAmb' /proc/self/status;"
            "grep -vc nosuid /proc/self/mounts"
        )
    user, *words, without_nosuid = result.stdout.split()
    assert user == bubblewrap.USER_ID
    assert words == [
        "CapPrm:",
        "0" * 16,
        "CapEff:",
        "0" * 16,
        "CapAmb:",
        "0" * 16,
        "NoNewPrivs:",
        "1",
    ]
    assert without_nosuid == "0"


# --- network


CONNECT = """
    import socket, sys
    try:
        socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2)
        print("connected")
    except OSError as error:
        print(error.errno)
"""
UNREACHABLE, REFUSED = "101\n", "111\n"


SERVE = """
    import socket
    server = socket.create_server(("198.51.100.2", 8000))
    print("up", flush=True)
    while True:
        server.accept()[0].close()
"""
CONNECT_FROM_SANDBOXES = """
    import json, sys, trio
    from pathlib import Path
    from agentcompass.components.base import SandboxPlan
    from support.host import host, lease

    async def connect(plan, network):
        env = host(Path(sys.argv[1]), isolation="bubblewrap", network=network)
        command = [sys.executable, "-I", "-S", "-c", sys.argv[2], "198.51.100.2", "8000"]
        async with env.open(plan, lease(env)) as session:
            return (await session.exec(command)).stdout

    async def main():
        print(json.dumps([
            await connect(SandboxPlan(), "host"),
            await connect(SandboxPlan(), "none"),
            await connect(SandboxPlan(network=False), "host"),
        ]))

    trio.run(main)
"""


@pytest.fixture
def two_hosts():
    """Commands that run a program on each of two hosts, 198.51.100.1 and .2, linked to each other and to nothing else.

    Both are network namespaces made here: the network of this machine is not touched, so no address can be in use.
    """
    program = shutil.which("ip", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if os.geteuid() != 0 or program is None:
        pytest.skip("hosts can be made by root only, with ip(8): apt-get install iproute2")
    one, two = (f"agentcompass-{number}-{os.getpid()}" for number in (1, 2))

    def ip(*words):
        subprocess.run([program, *words], check=True, timeout=10)

    with ExitStack() as made:
        for name in (one, two):
            ip("netns", "add", name)
            made.callback(ip, "netns", "delete", name)
        ip(
            "-n",
            one,
            "link",
            "add",
            "name",
            "eth",
            "type",
            "veth",
            "peer",
            "name",
            "eth",
            "netns",
            two,
        )
        for name, address in ((one, "198.51.100.1/30"), (two, "198.51.100.2/30")):
            ip("-n", name, "addr", "add", address, "dev", "eth")
            ip("-n", name, "link", "set", "eth", "up")
        yield [[program, "netns", "exec", name] for name in (one, two)]


def test_another_host_is_reached_with_the_network_only(tmp_path, two_hosts):
    here, there = two_hosts
    engine = [sys.executable, "-c", textwrap.dedent(CONNECT_FROM_SANDBOXES)]
    with subprocess.Popen([*there, *python(SERVE)], stdout=subprocess.PIPE) as server:
        assert server.stdout.readline() == b"up\n"
        done = subprocess.run(
            [*here, *engine, tmp_path, textwrap.dedent(CONNECT)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
            capture_output=True,
            timeout=30,
            check=False,
        )
        server.kill()
    assert done.stderr == b""
    assert json.loads(done.stdout) == ["connected\n", UNREACHABLE, UNREACHABLE]


async def test_services_of_this_machine_are_not_reached_without_network(tmp_path):
    abstract = f"\0agentcompass-test-{os.getpid()}"
    code = """
        import socket, sys
        try:
            socket.socket(socket.AF_UNIX).connect("\\0" + sys.argv[1])
            print("connected")
        except OSError as error:
            print(error.errno)
    """
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as named:
        named.bind(abstract)
        named.listen()
        async with sandbox(tmp_path, network="none") as session:
            port = server.getsockname()[1]
            assert (await session.exec(python(CONNECT, "127.0.0.1", port))).stdout == REFUSED
            assert (await session.exec(python(code, abstract[1:]))).stdout == REFUSED


# --- bounds


async def test_many_processes_end_with_the_sandbox(tmp_path):
    mark = new_mark()
    script = f"i=0; while [ $i -lt 500 ]; do (env -i /bin/sleep {mark} &); i=$((i+1)); done"
    async with sandbox(tmp_path) as session:
        await session.exec(f"({script}) </dev/null >/dev/null 2>&1")
        assert len(alive(mark)) == 500
        began = time.monotonic()
    assert time.monotonic() - began < 5
    assert not alive(mark)


async def test_limits_are_on_commands(tmp_path):
    plan = SandboxPlan(resources=Resources(memory_mb=200, storage_mb=5, pids=50))
    async with sandbox(tmp_path, plan) as session:
        limits = await session.exec("ulimit -v; ulimit -c; ulimit -H -v; ulimit -H -f")
        storage = await session.exec("head -c 6M /dev/zero > big; stat -c %s big")
    assert limits.stdout.split() == [str(200 * 1024), "0", str(200 * 1024), str(5 * 2048)]
    assert storage.stdout.strip() == str(5 * 1024 * 1024)


FORK_BOMB = """
    import os, resource, time
    limit = resource.getrlimit(resource.RLIMIT_NPROC)
    assert limit[0] == limit[1], limit
    while True:
        try:
            os.fork()
        except OSError:
            time.sleep(0.01)
"""
BY_AN_ORDINARY_USER = """
    import json, os, sys, trio
    from pathlib import Path
    from agentcompass.components.base import Resources, SandboxPlan
    from support.host import host, lease

    def processes():
        count = 0
        for name in os.listdir("/proc"):
            try:
                count += name.isdigit() and os.stat(f"/proc/{name}").st_uid == os.getuid()
            except OSError:
                pass
        return count

    async def main():
        root, most = Path(sys.argv[1]), 0
        env = host(root, isolation="bubblewrap", network="none")
        await env.preflight()
        plan = SandboxPlan(resources=Resources(pids=40))
        before = processes()
        async with env.open(plan, lease(env)) as session:
            whoami = await session.exec("id -u; cat /etc/passwd | wc -l; ls /root /home")
            async with trio.open_nursery() as nursery:
                @nursery.start_soon
                async def watch():
                    nonlocal most
                    while True:
                        most = max(most, processes() - before)
                        await trio.sleep(0.02)
                bomb = await session.exec([sys.executable, "-I", "-S", "-c", sys.argv[2]], timeout=0.7)
                nursery.cancel_scope.cancel()
            again = await session.exec("echo fine")
        print(json.dumps({
            "user": os.getuid(), "inside": whoami.stdout, "most": most, "timed_out": bomb.timed_out,
            "again": again.stdout, "left": processes() - before, "files": os.listdir(root),
        }))

    trio.run(main)
"""


def as_ordinary_user():
    """What runs a program as a user without any privilege, who finds this Python though it may lie in root's home."""
    if os.geteuid() != 0:
        return []
    home = str(Path.home())
    needed = {sys.prefix, sys.base_prefix, str(ROOT)}
    binds = []
    for path in sorted(path for path in needed if Path(path).is_relative_to(home)):
        for parent in (
            *reversed(Path(path).relative_to(home).parents),
            Path(path).relative_to(home),
        ):
            binds += ["--perms", "0755", "--dir", f"{home}/{parent}"]
        binds += ["--ro-bind", path, path]
    return [
        *(
            "bwrap",
            "--dev-bind",
            "/",
            "/",
            "--perms",
            "0755",
            "--tmpfs",
            home,
            *binds,
            "--cap-add",
            "ALL",
        ),
        *(
            "--",
            "setpriv",
            f"--reuid={ORDINARY_USER}",
            f"--regid={ORDINARY_USER}",
            "--clear-groups",
        ),
        *("--inh-caps=-all", "--bounding-set=-all", "--"),
    ]


def test_an_ordinary_user_has_it_too_and_a_fork_bomb_is_bounded():
    root = Path(tempfile.mkdtemp(prefix="agentcompass-test-"))
    try:
        (root / "sandboxes").mkdir()
        if os.geteuid() == 0:
            for path in (root, root / "sandboxes"):
                os.chown(path, ORDINARY_USER, ORDINARY_USER)
        command = [*as_ordinary_user(), sys.executable, "-c", textwrap.dedent(BY_AN_ORDINARY_USER)]
        paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        done = subprocess.run(
            [*command, root / "sandboxes", textwrap.dedent(FORK_BOMB)],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": paths, "HOME": str(root)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        shutil.rmtree(root)
    assert done.stderr == ""
    seen = json.loads(done.stdout)
    assert seen["user"] == (ORDINARY_USER if os.geteuid() == 0 else os.getuid())
    assert seen["inside"].split()[:2] == [bubblewrap.USER_ID, "1"]
    # Those of the plan, and ours: keepers, guards, bwrap.
    assert 20 < seen["most"] < 40 + 15
    assert seen["timed_out"]
    assert (seen["again"], seen["left"], seen["files"]) == ("fine\n", 0, [])


# --- ends

ENGINE = """
    import sys, trio
    from pathlib import Path
    from support.host import host, lease
    from agentcompass.components.base import SandboxPlan

    root, mark = Path(sys.argv[1]), sys.argv[2]

    async def one(env, number):
        async with env.open(SandboxPlan(), lease(env, f"s{number}")) as session:
            await session.exec(f"(env -i setsid /bin/sleep {mark} &) </dev/null >/dev/null 2>&1")
            print("up", flush=True)
            await session.exec(f"trap '' HUP TERM; sleep {mark}; :")

    async def main():
        env = host(root, isolation="bubblewrap")
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(one, env, number)

    trio.run(main)
"""


async def test_killing_the_engine_leaves_nothing(tmp_path):
    mark, root = new_mark(), tmp_path / "root"
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    engine = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(ENGINE), root, mark],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
        start_new_session=True,
    )
    with engine:
        assert [engine.stdout.readline() for _ in range(3)] == [b"up\n"] * 3
        assert await eventually(lambda: len(alive(f"sleep\0{mark}")) >= 6)
        engine.kill()
    assert await gone(mark)
    assert await gone(f"{root}/agentcompass-s")  # bwrap has it in its arguments
    env = host(root)
    for number in range(3):
        await env.remove(lease(env, f"s{number}"))
    assert os.listdir(root) == []


def parents(pid):
    """The processes above one, nearest first."""
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        yield pid


@pytest.mark.parametrize("victims", [["bwrap"], ["guard"], ["guard", "keeper"], ["inside"]])
async def test_whatever_is_killed_outside_takes_the_sandbox_with_it(tmp_path, victims):
    mark = new_mark()
    async with sandbox(tmp_path) as session:
        await session.exec(f"(env -i setsid /bin/sleep {mark} &) </dev/null >/dev/null 2>&1")
        pids = []
        while len(pids) != 1:  # none while it goes from one program to the next
            await trio.sleep(0.02)
            pids = alive(f"/bin/sleep\0{mark}")
        _inner_guard, inside, bwrap, guard, keeper, *_ = parents(pids[0])
        names = {"bwrap": bwrap, "guard": guard, "keeper": keeper, "inside": inside}
        for victim in victims:
            os.kill(names[victim], 9)
        assert await gone(mark)
        assert await eventually(lambda: not is_running(bwrap))
        assert (await session.exec("echo a new one")).stdout == "a new one\n"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("milliseconds", [0, 1, 3, 6, 10, 15, 20, 25, 30, 40, 60, 90])
async def test_whenever_a_task_is_cancelled_nothing_is_left(tmp_path, milliseconds):
    mark = new_mark()
    env = host(tmp_path)
    await trio.to_thread.run_sync(env._keeper.ensure)
    with trio.move_on_after(milliseconds / 1000):
        async with env.open(SandboxPlan(), lease(env)) as session:
            await session.exec(f"(setsid sleep {mark} &) >/dev/null 2>&1")
            await session.exec(f"sleep {mark}", timeout=0.01)
            await session.end_processes()
    assert not alive(mark)
    assert not alive(str(tmp_path))
    assert os.listdir(tmp_path) == []


async def test_a_kept_sandbox_says_how_to_enter_it(tmp_path):
    env = host(tmp_path, env_variables={"TOKEN": SECRET})
    kept = lease(env, "kept", keep=True)
    async with env.open(SandboxPlan(), kept) as session:
        await session.exec("echo hi > f")
        hint = session.entry_hint()
    script = "cat f; pwd; id -u; touch /usr/x || ls /home"
    entered = subprocess.run(
        hint, shell=True, input=script, capture_output=True, text=True, timeout=20, check=False
    )
    assert entered.stdout == f"hi\n/workspace\n{bubblewrap.USER_ID}\n"
    assert not any(SECRET in path.read_text() for path in tmp_path.glob("*/enter"))
    await env.remove(kept)
    assert os.listdir(tmp_path) == []


async def test_many_sandboxes_at_once_do_not_mix(tmp_path):
    env = host(tmp_path)
    seen = {}

    async def one(number):
        async with env.open(SandboxPlan(), lease(env, f"s{number}")) as session:
            await session.write_text("me", str(number))
            seen[number] = (await session.exec("cat me; sleep 0.05; ls")).stdout

    async with trio.open_nursery() as nursery:
        for number in range(12):
            nursery.start_soon(one, number)
    assert seen == {number: f"{number}me\n" for number in range(12)}
    assert os.listdir(tmp_path) == []


# --- before anything runs


async def test_preflight_passes_on_this_machine(tmp_path):
    await host(tmp_path).preflight()
    await host(tmp_path, visible_paths=(str(ROOT / "docs"),)).preflight()


async def test_preflight_says_that_bwrap_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PreflightError, match="no program bwrap") as caught:
        await host(tmp_path).preflight()
    assert "apt-get install bubblewrap" in caught.value.hint


WHERE_THERE_ARE_NONE = """
    import sys, trio
    from pathlib import Path
    from agentcompass.components.base import SandboxPlan
    from agentcompass.errors import PreflightError, SandboxError
    from support.host import host, lease

    async def main():
        env = host(Path(sys.argv[1]), isolation="bubblewrap")
        try:
            await env.preflight()
        except PreflightError as error:
            print(error.message, error.hint, sep="\\n")
        try:
            async with env.open(SandboxPlan(), lease(env)):
                pass
        except SandboxError as error:
            print(error.code)

    trio.run(main)
"""


def test_where_no_namespaces_can_be_made_the_error_says_why(tmp_path):
    # bwrap itself makes a place where the kernel refuses them.
    forbidden = ["bwrap", "--unshare-user", "--disable-userns", "--dev-bind", "/", "/", "--"]
    done = subprocess.run(
        [*forbidden, sys.executable, "-c", textwrap.dedent(WHERE_THERE_ARE_NONE), tmp_path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    message, hint, code = done.stdout.splitlines()
    assert message.startswith("bubblewrap cannot isolate here: bwrap: ")
    assert "user.max_user_namespaces" in hint
    assert code == "isolation-failed"
    assert os.listdir(tmp_path) == []


async def test_preflight_says_that_the_shell_or_a_path_is_not_to_be_seen(tmp_path):
    shell = tmp_path / "shell"
    shell.symlink_to("/bin/sh")
    with pytest.raises(PreflightError, match="not visible"):
        await host(tmp_path, shell=str(shell)).preflight()
    with pytest.raises(PreflightError, match="no absolute path"):
        await host(tmp_path, visible_paths=("/no/such/place",)).preflight()
    with pytest.raises(PreflightError, match="hide"):
        await host(tmp_path, visible_paths=("/",)).preflight()


async def test_a_visible_path_can_be_read_and_not_written(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "f").write_text("tool")
    async with sandbox(tmp_path / "root", visible_paths=(str(tools),)) as session:
        result = await session.exec(f"cat {tools}/f; touch {tools}/x")
    assert result.stdout == "tool"
    assert os.listdir(tools) == ["f"]


async def test_a_root_below_a_visible_path_does_not_show_other_sandboxes(tmp_path):
    env = host(tmp_path / "root", visible_paths=(str(tmp_path),))
    async with (
        env.open(SandboxPlan(), lease(env, "one")) as one,
        env.open(SandboxPlan(), lease(env, "two")) as two,
    ):
        await one.write_text("secret", "1")
        assert (await two.exec(f"find {tmp_path} /workspace /tmp -name secret")).stdout == ""


def test_what_it_can_do_depends_on_the_parameters(tmp_path):
    plain, open_, shut = ordinary.host(tmp_path), host(tmp_path), host(tmp_path, network="none")
    assert not plain.capabilities.network_control
    assert not plain.capabilities.is_security_boundary
    assert open_.capabilities.network_control
    assert not open_.capabilities.is_security_boundary
    assert shut.capabilities.is_security_boundary
    with pytest.raises(ConfigurationError, match="isolated"):
        ordinary.host(tmp_path, network="none")


# --- as a whole


def test_humaneval_scores_in_it(tmp_path):
    program = Program(tmp_path)
    done = program(
        *("run", "humaneval", "oracle", "none", "--benchmark-params", '{"limit": 5}'),
        *("--env-params", '{"isolation": "bubblewrap", "network": "none"}'),
    )
    assert done.returncode == 0, done.stderr
    (metrics,) = tmp_path.rglob("metrics.json")
    summary = json.loads(metrics.read_text())
    assert summary["score"] == 1.0
    assert summary["counts"]["graded"] == summary["counts"]["planned"] == 5
