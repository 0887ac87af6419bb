"""The environment `host_process`: commands run on this machine, in a directory of their own.

Without isolation it is no security boundary: a command can do whatever this user can. What it does guarantee is in
docs/environments.md, and how: processes in `keeper.py`, files in `workspace.py`, namespaces in `enclosure.py`.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Literal, final

import attrs
import trio
from trio.from_thread import check_cancelled

from agentcompass.components.base import (
    Capabilities,
    Environment,
    MiB,
    Resources,
    SandboxPlan,
    Session,
)
from agentcompass.components.environments import bubblewrap, leftovers
from agentcompass.components.environments import keeper as programs
from agentcompass.components.environments.enclosure import OWN_PROCESSES, Enclosure
from agentcompass.components.environments.place import OpenPlace, Place
from agentcompass.components.environments.removal import remove_tree
from agentcompass.components.environments.session import HostSession, Surroundings, to_bytes
from agentcompass.components.environments.space import DiskSpace
from agentcompass.components.environments.trees import Command, Keeper
from agentcompass.components.environments.workspace import (
    Workspace,
    directory_of,
    undone_on_error,
)
from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError, PreflightError, SandboxError
from agentcompass.records import Lease

MIN_FREE_BYTES = 64 * MiB
FILE_THREADS = 8
"""File operations at once."""
CONTROL_THREADS = 16
"""Sandboxes being opened or removed at once; apart from files, so that no copy holds up a removal."""
ROOT_DETAIL = "root"
DEFAULT_PIDS = 4096
"""Of an isolated sandbox whose plan does not say; of others all that the user may have."""


@frozen(kw_only=True)
class HostProcessParams:
    """Parameters of `host_process`."""

    root: str | None = None
    """Directory in which each sandbox gets a directory of its own; null: the system's temporary directory."""
    env_variables: Mapping[str, str] = attrs.field(factory=dict)
    """Environment variables for every command."""
    inherit_env: tuple[str, ...] = ()
    """Names of this machine's environment variables that commands see too; by default they see none but PATH."""
    shell: str = "/bin/sh"
    """Program that gets command lines, after `-c`."""
    isolation: Literal["none", "bubblewrap"] = "none"
    """`bubblewrap`: each sandbox has its own processes, files and, if need be, network; none: commands have your rights."""
    network: Literal["host", "none"] = "host"
    """`none`: no network but the sandbox's own loopback device; needs isolation. A task may ask for `none` by itself."""
    visible_paths: tuple[str, ...] = ()
    """With isolation: further files and directories of this machine that commands may read, by their absolute paths."""


@final
class HostProcess(Environment[HostProcessParams]):
    """Sandboxes that are directories and processes of this machine."""

    id = "host_process"
    description = "Commands run on this machine in a temporary directory; isolation is a parameter"
    Params: ClassVar[type] = HostProcessParams

    def __init__(self, params: HostProcessParams) -> None:
        super().__init__(params)
        if params.network == "none" and not self.is_isolated:
            raise ConfigurationError(
                "host_process can withhold the network only from isolated sandboxes",
                hint="Add the parameter isolation: bubblewrap.",
            )
        # Limits hold for each process, not for the sandbox as a whole, so they are not claimed. Nor is a boundary, where
        # services of this machine are reached by its network, or by sockets in its abstract name space.
        self.capabilities = Capabilities(
            network_control=self.is_isolated,
            is_security_boundary=self.is_isolated and params.network == "none",
        )
        # A command takes three (its guard, its two outputs), namespaces two more; one is for what runs in the background.
        self.descriptors = 6 if self.is_isolated else 4
        self._keeper = Keeper()
        self._files = trio.CapacityLimiter(FILE_THREADS)
        self._control = trio.CapacityLimiter(CONTROL_THREADS)
        # Without self, whose end must wait for no garbage collection: the keeper ends with it.
        self._space = DiskSpace(partial(_resolved, params.root))

    @property
    def is_isolated(self) -> bool:
        """Whether sandboxes have namespaces of their own."""
        return self.params.isolation == "bubblewrap"

    @cached_property
    def _view(self) -> bubblewrap.View:
        """What isolated sandboxes see of this machine."""
        return bubblewrap.look_around(self.params.visible_paths)

    @property
    def root(self) -> Path:
        """Where sandboxes go, without links."""
        return _resolved(self.params.root)

    def lease_details(self) -> Mapping[str, str]:
        """The root, so that a sandbox is found again when the parameter has changed."""
        return {ROOT_DETAIL: str(self.root)}

    async def preflight(self) -> None:
        """Check the platform, the root directory, that commands can be started, and isolated if they are to be.

        Raises:
            PreflightError: One of them is not as it must be.
        """
        await trio.to_thread.run_sync(self._preflight, limiter=self._control)

    def _preflight(self) -> None:
        if sys.platform != "linux" or not Path("/proc/self/stat").exists():
            raise PreflightError(
                "host_process needs Linux with /proc",
                hint="Use the environment docker on this machine.",
            )
        if not os.access(self.params.shell, os.X_OK):
            raise PreflightError(
                f"the shell {self.params.shell!r} cannot be run", hint="Set the parameter shell."
            )
        root, hint = self.root, "Choose another directory by the parameter root."
        try:
            root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=root):
                space = os.statvfs(root)
        except OSError as error:
            raise PreflightError(f"{root} cannot be written: {error}", hint=hint) from error
        if space.f_bavail * space.f_frsize < MIN_FREE_BYTES:
            raise PreflightError(
                f"{root} has less than {MIN_FREE_BYTES // MiB} MiB of space left", hint=hint
            )
        try:
            self._keeper.ensure()
        except SandboxError as error:
            raise PreflightError(error.message, hint=error.hint) from error
        if self.is_isolated:
            if not self._view.contains(self.params.shell):
                raise PreflightError(
                    f"the shell {self.params.shell!r} is not visible to isolated sandboxes",
                    hint="Set the parameter shell, or name its directory by the parameter visible_paths.",
                )
            bubblewrap.try_out(self._view)

    async def check_listening(self) -> None:
        """Do nothing: it is always possible."""

    @asynccontextmanager
    async def open(self, plan: SandboxPlan, lease: Lease) -> AsyncIterator[Session]:
        """Make a work directory and lend it; afterwards no process of it is left, nor the directory unless `lease.keep`.

        Raises:
            SandboxError: The directory cannot be made (code `disk-full`, `workspace-failed`), the plan asks for
                a work directory outside of it (`unsupported-workdir`), or there are no namespaces (`isolation-failed`).
        """
        session = await trio.to_thread.run_sync(self._make, plan, lease, limiter=self._control)
        try:
            await session.open()
            yield session
        finally:
            await session.close(keep=lease.keep)

    async def remove(self, lease: Lease) -> None:
        """Kill what carries the lease's mark and remove its directory, in whichever process that was made.

        Raises:
            SandboxError: The lease names no directory of this environment (code `bad-lease`), or something is left.
        """
        root = Path(lease.details.get(ROOT_DETAIL) or self.root)
        directory = directory_of(root, lease.name)
        await trio.to_thread.run_sync(
            _remove, lease.id, directory, check_cancelled, limiter=self._control
        )

    def _make(self, plan: SandboxPlan, lease: Lease) -> HostSession:
        self._keeper.ensure()
        if self.is_isolated:
            _ = self._view  # before there is anything to undo
        limits = rlimits(plan.resources, is_isolated=self.is_isolated)
        workspace = Workspace.create(
            self.root, lease.name, plan.workdir, is_enclosed=self.is_isolated
        )
        machine = OpenPlace(self._keeper, lease.id, self._control)
        place: Place = machine
        base, entry = self._base_env(workspace), None
        if self.is_isolated:
            with undone_on_error(workspace.dir):
                network = plan.network and self.params.network == "host"
                line = bubblewrap.furnish(self._view, workspace, plan.shared, network=network)
                entry = bubblewrap.write_entry(workspace, line, base)
            place = Enclosure(self._keeper, _enclosing(line, workspace, lease), machine)
        surroundings = Surroundings(
            env={**base, **self._named_env(), **plan.env},
            shell=self.params.shell,
            limits=limits,
            lease_id=lease.id,
            entry=entry,
        )
        return HostSession(
            workspace, surroundings, place, self._files, self._control, space=self._space
        )

    def _base_env(self, workspace: Workspace) -> dict[str, str]:
        """What commands see in any case; nothing in it is secret."""
        path = os.environ.get("PATH", os.defpath)
        return {
            "PATH": self._view.search_path(path) if self.is_isolated else path,
            "LANG": "C.UTF-8",
            "HOME": workspace.seen(workspace.work_dir),
            "TMPDIR": workspace.seen(workspace.tmp_dir),
            "SHELL": self.params.shell,
            "TERM": "dumb",
        }

    def _named_env(self) -> dict[str, str]:
        """What the user names; nothing else of this machine's environment is seen."""
        inherited = {
            name: os.environ[name] for name in self.params.inherit_env if name in os.environ
        }
        return {**inherited, **self.params.env_variables}


def _resolved(root: str | None) -> Path:
    return Path(root or tempfile.gettempdir()).expanduser().resolve()


def _enclosing(line: Sequence[str], workspace: Workspace, lease: Lease) -> Command:
    """The command that makes the namespaces, and that holds the lock on the workspace while they are there."""
    return Command(
        argv=[to_bytes(word) for word in bubblewrap.keeper_command(line)],
        # The mark, and what the dynamic linker may need to find libpython.
        env={
            to_bytes(leftovers.MARK): to_bytes(lease.id),
            **{
                to_bytes(name): to_bytes(os.environ[name])
                for name in ("LD_LIBRARY_PATH",)
                if name in os.environ
            },
        },
        cwd=b"/",
        workspace=to_bytes(str(workspace.dir)),
        limits=[(resource.RLIMIT_CORE, 0)],
    )


def rlimits(resources: Resources, *, is_isolated: bool) -> list[tuple[int, int]]:
    """Return the limits of each process (setrlimit(2)) that come nearest to what a sandbox may use.

    `pids` counts all processes of this user, as the kernel does, so those that there are now are added, where the
    sandbox has no count of its own; the kernel does not apply it to root. `cpus` and `gpus` have no counterpart.
    """
    limits = [(resource.RLIMIT_CORE, 0)]
    if resources.memory_mb is not None:
        limits.append((resource.RLIMIT_AS, resources.memory_mb * MiB))
    if resources.storage_mb is not None:
        limits.append((resource.RLIMIT_FSIZE, resources.storage_mb * MiB))
    pids = DEFAULT_PIDS if resources.pids is None and is_isolated else resources.pids
    if pids is not None:
        others = OWN_PROCESSES if is_isolated and _counts_by_namespace() else _own_processes()
        limits.append((resource.RLIMIT_NPROC, others + pids))
    return limits


def _counts_by_namespace() -> bool:
    """Whether this kernel counts a user's processes for each user namespace by itself."""
    version = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return version is not None and (int(version[1]), int(version[2])) >= (5, 14)


def _own_processes() -> int:
    """The threads of this user: what the kernel counts for RLIMIT_NPROC."""
    count = 0
    for pid in programs.all_pids():
        try:
            if Path(f"/proc/{pid}").stat().st_uid == os.getuid():
                count += len(list(Path(f"/proc/{pid}/task").iterdir()))
        except OSError:
            continue  # it has just ended
    return count


def _remove(lease_id: str, directory: Path, check: Callable[[], None]) -> None:
    leftovers.end(lease_id, check)
    leftovers.await_guards(directory, check)
    # A guard may have been about to start a command when the engine died.
    leftovers.end(lease_id, check)
    remove_tree(directory, check)
