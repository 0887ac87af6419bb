"""What a sandbox with `isolation: bubblewrap` sees of this machine, as arguments of bwrap(1).

Everything is named here that is visible; what is not named does not exist inside.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import join, quote
from shutil import which
from typing import Final

from agentcompass.components.environments.keeper import INSIDE
from agentcompass.components.environments.workspace import SANDBOX_TMP, SANDBOX_WORK, Workspace
from agentcompass.data import frozen
from agentcompass.errors import PreflightError

PROGRAM: Final = "bwrap"
HOSTNAME: Final = "agentcompass"
USER: Final = "agent"
USER_ID: Final = "1000"
"""Of everything inside, whoever runs AgentCompass: not 0, by which tar, for one, would try to give files away."""
SHARED_MEMORY_BYTES: Final = 64 * 1024 * 1024
"""/dev/shm, which is memory."""
KEEPER: Final = "/run/agentcompass/keeper.py"
TRIAL_SECONDS: Final = 60.0

SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
ETC: Final = (
    *(
        "alternatives",
        "bash.bashrc",
        "ca-certificates",
        "fonts",
        "gai.conf",
        "host.conf",
        "inputrc",
    ),
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic", "mime.types"),
    *("nsswitch.conf", "pki/ca-trust/extracted", "pki/tls/certs", "protocols", "services"),
    *("ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone"),
)
"""Of /etc: what programs need to start and to trust certificates; no accounts, no keys, nothing of services."""
NETWORK_ETC: Final = ("hosts", "resolv.conf")
PREFIX_PARTS: Final = (
    *("bin", "lib", "lib32", "lib64", "libexec", "include", "share", "ssl", "pyvenv.cfg"),
)
"""Of a Python installation; not all of it, since it may be somebody's project or home directory too."""
HIDDEN_PROC: Final = (
    *("acpi", "asound", "fs", "kcore", "keys", "key-users", "kmsg", "kpagecgroup", "kpagecount"),
    *(
        "kpageflags",
        "latency_stats",
        "sched_debug",
        "scsi",
        "slabinfo",
        "timer_list",
        "vmallocinfo",
    ),
)
"""Files of /proc that tell about, or act on, the whole machine, and that a container of root's could open."""

NO_PROGRAM: Final = "Install bubblewrap 0.8 or newer (Debian, Ubuntu: apt-get install bubblewrap), or use the environment docker."
NO_NAMESPACES: Final = (
    "It takes bubblewrap 0.8 or newer, and user namespaces: sysctl user.max_user_namespaces above 0, "
    "kernel.unprivileged_userns_clone=1 on older Debian, kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu, and "
    "in a container one that is allowed to make them. Otherwise use the environment docker."
)


@frozen(kw_only=True)
class View:
    """What of this machine is visible, read-only, in every sandbox of an environment."""

    program: str
    """bwrap."""
    binds: tuple[tuple[str, str], ...]
    """Pairs of a path here and the path inside."""
    links: tuple[tuple[str, str], ...]
    """Pairs of what a symbolic link says and its path inside."""

    def contains(self, path: str) -> bool:
        """Whether a path is visible inside under the name that it has here."""
        names = [*(name for _source, name in self.binds), *(name for _to, name in self.links)]
        return any(Path(path).is_relative_to(name) for name in names)

    def search_path(self, path: str) -> str:
        """What of a PATH is visible, so that it tells nothing about the rest; the interpreter's directory is added."""
        own = str(Path(sys.executable).parent)
        entries = [entry for entry in path.split(os.pathsep) if entry and self.contains(entry)]
        return os.pathsep.join([*entries, *(() if own in entries else (own,))])

    def late(self) -> Iterator[str]:
        """What must be mounted after the workspace, because it lies where that is: an interpreter below /tmp."""
        for source, name in self.binds:
            if _is_below_workspace(name):
                yield from ("--ro-bind", source, name)

    def arguments(self) -> Iterator[str]:
        """The rest, which is the same for all sandboxes."""
        for source, name in self.binds:
            if not _is_below_workspace(name):
                yield from ("--ro-bind", source, name)
        for to, name in self.links:
            yield from ("--symlink", to, name)
        yield from ("--proc", "/proc", "--dev", "/dev")
        for name in HIDDEN_PROC:
            path = Path("/proc", name)
            if path.is_dir():
                yield from ("--tmpfs", str(path), "--remount-ro", str(path))
            elif path.exists():
                yield from ("--ro-bind", os.devnull, str(path))
        yield from (
            "--size",
            str(SHARED_MEMORY_BYTES),
            "--tmpfs",
            "/dev/shm",
            "--remount-ro",
            "/dev",
        )
        yield from ("--dir", "/run", "--dir", "/var", "--symlink", SANDBOX_TMP, "/var/tmp")
        yield from ("--ro-bind", str(Path(__file__).with_name("keeper.py")), KEEPER)


def look_around(visible_paths: Sequence[str]) -> View:
    """Find what sandboxes are to see.

    Args:
        visible_paths: Named by the user, beside the system and the Python that AgentCompass runs on.

    Raises:
        PreflightError: bwrap is not installed, or one of the paths is not there.
    """
    program = which(PROGRAM)
    if program is None:
        raise PreflightError(f"there is no program {PROGRAM} on the PATH", hint=NO_PROGRAM)
    links = tuple((os.readlink(path), path) for path in SYSTEM if Path(path).is_symlink())  # noqa: PTH115 - text is wanted
    paths = [path for path in SYSTEM if Path(path).is_dir() and not Path(path).is_symlink()]
    paths += [path for name in ETC if Path(path := f"/etc/{name}").exists()]
    for prefix in _python_prefixes():
        paths += [str(part) for name in PREFIX_PARTS if (part := prefix / name).exists()]
    for path in visible_paths:
        if not Path(path).is_absolute() or not Path(path).exists():
            raise PreflightError(
                f"{path!r} is no absolute path of this machine",
                hint="Correct the parameter visible_paths.",
            )
        if any(Path(mount).is_relative_to(path) for mount in (SANDBOX_WORK, SANDBOX_TMP)):
            raise PreflightError(
                f"{path!r} would hide the sandbox's own directory",
                hint="Name what is needed below it in the parameter visible_paths.",
            )
        paths.append(path)
    covered = [name for _to, name in links]
    binds: list[str] = []
    for path in paths:
        if not any(Path(path).is_relative_to(other) for other in (*binds, *covered)):
            binds.append(path)
    return View(program=program, binds=tuple((path, path) for path in binds), links=links)


def _is_below_workspace(name: str) -> bool:
    return any(Path(name).is_relative_to(mount) for mount in (SANDBOX_WORK, SANDBOX_TMP))


def _python_prefixes() -> Iterator[Path]:
    """The directories of the Python that runs this: of its environment, and of the installation behind each link."""
    yield from (Path(sys.prefix), Path(sys.base_prefix))
    program = Path(sys.executable)
    for _ in range(40):  # as many links as the kernel follows
        yield program.parent.parent
        yield program.parent.resolve().parent
        if not program.is_symlink():
            break
        program = program.parent / program.readlink()


def _command_line(
    view: View, workspace: Workspace, shared: Mapping[str, Path], *, network: bool
) -> list[str]:
    etc = workspace.dir / "etc"
    binds = [(str(etc / name), f"/etc/{name}") for name in sorted(os.listdir(etc))]  # noqa: PTH208 - names
    if network:
        binds += [(path, path) for name in NETWORK_ETC if Path(path := f"/etc/{name}").exists()]
    # Other sandboxes are hidden, should the directory of all of them lie in something visible.
    root = str(workspace.dir.parent)
    hidden = ("--tmpfs", root, "--remount-ro", root) if view.contains(root) else ()
    return [
        view.program,
        *namespaces(network=network),
        *view.arguments(),
        *(word for source, name in binds for word in ("--ro-bind", source, name)),
        *(word for name, place in workspace.mounts for word in ("--bind", str(place), name)),
        *view.late(),
        *(word for name, source in shared.items() for word in ("--ro-bind", str(source), name)),
        *hidden,
        *("--remount-ro", "/proc", "--remount-ro", "/", "--chdir", SANDBOX_WORK),
    ]


def namespaces(*, network: bool) -> list[str]:
    """The namespaces, and no way to make more: as its owner a process could use much more of the kernel."""
    return [
        *("--unshare-user", "--disable-userns", "--uid", USER_ID, "--gid", USER_ID),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--hostname", HOSTNAME),
        *("--unshare-cgroup-try", "--die-with-parent", "--new-session"),
        *(() if network else ("--unshare-net",)),
    ]


def keeper_command(line: Sequence[str]) -> list[str]:
    """Return the whole command that makes an enclosure."""
    return [*line, "--as-pid-1", "--", sys.executable, "-I", "-S", KEEPER, INSIDE]


def furnish(
    view: View, workspace: Workspace, shared: Mapping[str, Path], *, network: bool
) -> list[str]:
    """Write what a sandbox has of its own in /etc, where no command can write, and return how bwrap is called for it.

    Args:
        view: Of the machine.
        workspace: Of the sandbox, just made.
        shared: Directories of this machine, by their path inside.
        network: Whether the machine's network is visible; without, there is a loopback device only.

    Returns:
        The command line without the program that is to run inside.
    """
    etc = workspace.dir / "etc"
    etc.mkdir()
    (etc / "passwd").write_text(f"{USER}:x:{USER_ID}:{USER_ID}:{USER}:{SANDBOX_WORK}:/bin/sh\n")
    (etc / "group").write_text(f"{USER}:x:{USER_ID}:\n")
    if not network:
        (etc / "hosts").write_text(f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost\n")
    return _command_line(view, workspace, shared, network=network)


def write_entry(workspace: Workspace, line: Sequence[str], env: Mapping[str, str]) -> str:
    """Write a script that enters a sandbox that was kept, and return the command that runs it.

    Args:
        workspace: Of the sandbox.
        line: What `furnish` returned.
        env: Variables for the shell that is started; none of them secret, since they stand in the file.
    """
    script = workspace.dir / "enter"
    words = ["env", "-i", *(f"{name}={value}" for name, value in env.items()), *line]
    script.write_text(f"#!/bin/sh\nexec {join([*words, '--', env['SHELL']])}\n")
    script.chmod(0o700)
    return quote(str(script))


def try_out(view: View) -> None:
    """Make namespaces once, and run the interpreter in them.

    Raises:
        PreflightError: This machine does not allow it; the message has bwrap's reason.
    """
    line = [view.program, *namespaces(network=False), *view.arguments(), *view.late(), "--"]
    try:
        tried = subprocess.run(
            [*line, sys.executable, "-I", "-S", "-c", ""],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TRIAL_SECONDS,
            check=False,
            env={},
        )
        problem = tried.stderr.decode(errors="replace").strip()[-500:] if tried.returncode else None
    except (OSError, subprocess.SubprocessError) as error:
        problem = str(error)
    if problem is not None:
        raise PreflightError(f"bubblewrap cannot isolate here: {problem}", hint=NO_NAMESPACES)
