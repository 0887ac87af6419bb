"""The environment `host_process`: commands run on this machine, in a directory of their own.

It is no security boundary: a command can do whatever this user can. What it does guarantee is in
docs/environments.md, and how: processes in `keeper.py`, files in `workspace.py`.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar, final

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
from agentcompass.components.environments import keeper as programs
from agentcompass.components.environments import leftovers
from agentcompass.components.environments.removal import remove_tree
from agentcompass.components.environments.session import HostSession, Surroundings
from agentcompass.components.environments.trees import Keeper
from agentcompass.components.environments.workspace import Workspace, directory_of
from agentcompass.errors import PreflightError, SandboxError
from agentcompass.records import Lease

MIN_FREE_BYTES = 64 * MiB
FILE_THREADS = 8
"""File operations at once."""
CONTROL_THREADS = 16
"""Sandboxes being opened or removed at once; apart from files, so that no copy holds up a removal."""
ROOT_DETAIL = "root"


@attrs.frozen(kw_only=True)
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


@final
class HostProcess(Environment[HostProcessParams]):
    """Sandboxes that are directories and processes of this machine."""

    id = "host_process"
    description = "Commands run on this machine in a temporary directory; no security boundary"
    Params: ClassVar[type] = HostProcessParams
    # Limits hold for each process, not for the sandbox as a whole, so they are not claimed.
    capabilities: ClassVar[Capabilities] = Capabilities()

    def __init__(self, params: HostProcessParams) -> None:
        super().__init__(params)
        self._keeper = Keeper()
        self._files = trio.CapacityLimiter(FILE_THREADS)
        self._control = trio.CapacityLimiter(CONTROL_THREADS)

    @property
    def root(self) -> Path:
        """Where sandboxes go, without links."""
        return Path(self.params.root or tempfile.gettempdir()).expanduser().resolve()

    def lease_details(self) -> Mapping[str, str]:
        """The root, so that a sandbox is found again when the parameter has changed."""
        return {ROOT_DETAIL: str(self.root)}

    async def preflight(self) -> None:
        """Check the platform, the root directory, and that commands can be started.

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

    @asynccontextmanager
    async def open(self, plan: SandboxPlan, lease: Lease) -> AsyncIterator[Session]:
        """Make a work directory and lend it; afterwards no process of it is left, nor the directory unless `lease.keep`.

        Raises:
            SandboxError: The directory cannot be made (code `disk-full`, `workspace-failed`), or the plan asks for
                a work directory outside of it (`unsupported-workdir`).
        """
        session = await trio.to_thread.run_sync(self._make, plan, lease, limiter=self._control)
        try:
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
        limits = rlimits(plan.resources)
        workspace = Workspace.create(self.root, lease.name, plan.workdir)
        surroundings = Surroundings(
            env=self._env(plan, workspace),
            shell=self.params.shell,
            limits=limits,
            lease_id=lease.id,
        )
        return HostSession(workspace, surroundings, self._keeper, self._files, self._control)

    def _env(self, plan: SandboxPlan, workspace: Workspace) -> dict[str, str]:
        """All that commands see: nothing of the host's environment that is not named here or by the user."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(workspace.work_dir),
            "TMPDIR": str(workspace.tmp_dir),
            "SHELL": self.params.shell,
            "TERM": "dumb",
            **{name: os.environ[name] for name in self.params.inherit_env if name in os.environ},
            **self.params.env_variables,
            **plan.env,
        }


def rlimits(resources: Resources) -> list[tuple[int, int]]:
    """Return the limits of each process (setrlimit(2)) that come nearest to what a sandbox may use.

    `pids` counts all processes of this user, as the kernel does, so those that there are now are added; the
    kernel does not apply it to root. `cpus` and `gpus` have no counterpart.
    """
    limits = [(resource.RLIMIT_CORE, 0)]
    if resources.memory_mb is not None:
        limits.append((resource.RLIMIT_AS, resources.memory_mb * MiB))
    if resources.storage_mb is not None:
        limits.append((resource.RLIMIT_FSIZE, resources.storage_mb * MiB))
    if resources.pids is not None:
        limits.append((resource.RLIMIT_NPROC, _own_processes() + resources.pids))
    return limits


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
