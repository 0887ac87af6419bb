"""Sandboxes that break: an environment around a real one, with what goes wrong at providers, reproducibly."""

from __future__ import annotations

import collections
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, TypeAlias, final, get_args

import attrs
import trio

from agentcompass.components import registry
from agentcompass.components.base import (
    DEFAULT_MAX_OUTPUT,
    Environment,
    ExecResult,
    Inlet,
    Process,
    SandboxPlan,
    Session,
)
from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError, SandboxError
from agentcompass.records import JSON, Lease
from agentcompass.spec.ranges import NonNegativeFloat, Range

Share: TypeAlias = Annotated[float, Range(minimum=0, maximum=1)]
Fault: TypeAlias = Literal[
    "open_fails",
    "open_hangs",
    "open_is_slow",
    "command_fails",
    "command_hangs",
    "memory_runs_out",
    "disk_is_full",
    "sandbox_dies",
    "close_fails",
    "close_hangs",
    "remove_fails",
]

FAULTS: Final[tuple[Fault, ...]] = get_args(Fault)
KILLED: Final = 137
"""Exit code of a command that the kernel has ended for want of memory."""


@frozen(kw_only=True)
class FaultySandboxesParams:
    """Parameters of `agentcompass.testing.sandboxes:FaultySandboxes`."""

    seed: int = 0
    """Another seed, other faults. The same task has the same fault whenever it is run for the n-th time."""
    shares: Mapping[str, Share] = attrs.field(factory=dict)
    """By fault, the part of sandboxes, 0 to 1, that it happens to; together no more than 1."""
    after_seconds: NonNegativeFloat = 0.1
    """How long `sandbox_dies` waits, and `open_is_slow` takes."""
    root: str | None = None
    """Where sandboxes are; as for `host_process`."""


@final
class FaultySandboxes(Environment[FaultySandboxesParams]):
    """Sandboxes of `host_process` that fail now and then.

    `open_fails`, `open_hangs`, `open_is_slow`; `command_fails` (the provider does not carry out a command),
    `command_hangs` (and never gives an answer), `memory_runs_out` (a command is killed, and the figures say so), `disk_is_full`
    (nothing can be written), `sandbox_dies` (in the middle of its use); `close_fails`, `close_hangs`, `remove_fails` (the
    first time).
    """

    id = "faulty_sandboxes"
    description = "Sandboxes of this machine that fail as those of real providers do"
    Params: ClassVar[type] = FaultySandboxesParams

    def __init__(self, params: FaultySandboxesParams) -> None:
        super().__init__(params)
        unknown = sorted(set(params.shares) - set(FAULTS))
        if unknown:
            raise ConfigurationError(
                f"there is no fault {unknown[0]!r}; there are {', '.join(FAULTS)}"
            )
        if sum(params.shares.values()) > 1:
            raise ConfigurationError("the shares of all faults are together no more than 1")
        cls = registry.load("environment", "host_process")
        self._real = cls(cls.Params(root=params.root))
        self._opened: collections.Counter[str] = collections.Counter()
        self._not_removed: set[str] = set()
        self.happened: collections.Counter[str] = collections.Counter()
        """How often each fault has happened."""

    def lease_details(self) -> Mapping[str, str]:
        """What the real environment needs."""
        return self._real.lease_details()

    async def preflight(self) -> None:
        """Check the real environment."""
        await self._real.preflight()

    async def check_listening(self) -> None:
        """Check that programs of the real environment can be given a way to this process."""
        await self._real.check_listening()

    @asynccontextmanager
    async def open(self, plan: SandboxPlan, lease: Lease) -> AsyncIterator[Session]:
        """Open a real sandbox, and let happen to it what is to happen.

        Raises:
            SandboxError: As it is to.
        """
        fault = self._drawn(lease.task_id)
        if fault is not None:
            self.happened[fault] += 1
        if fault == "open_fails":
            raise SandboxError("the provider has no sandbox to give", code="open-failed")
        if fault == "open_hangs":
            await trio.sleep_forever()
        if fault == "open_is_slow":
            await trio.sleep(self.params.after_seconds)
        async with self._real.open(plan, lease) as session, trio.open_nursery() as nursery:
            if fault == "sandbox_dies":
                nursery.start_soon(self._die)
            yield FaultySession(session, fault)
            nursery.cancel_scope.cancel(reason="the sandbox closes")
            if fault == "close_hangs":
                await trio.sleep_forever()
            if fault in ("close_fails", "remove_fails"):
                if fault == "remove_fails":
                    self._not_removed.add(lease.name)
                raise SandboxError("the provider does not answer", code="close-failed")

    async def _die(self) -> None:
        await trio.sleep(self.params.after_seconds)
        raise SandboxError("the machine of the sandbox is gone", code="sandbox-died")

    async def remove(self, lease: Lease) -> None:
        """Remove a sandbox, though not always at once.

        Raises:
            SandboxError: The first time, where that is to happen.
        """
        if lease.name in self._not_removed:
            self._not_removed.discard(lease.name)
            raise SandboxError("the provider does not answer", code="remove-failed")
        await self._real.remove(lease)

    def _drawn(self, task_id: str) -> str | None:
        number = random.Random(  # no secret
            f"{self.params.seed}:{task_id}:{self._opened[task_id]}"
        ).random()
        self._opened[task_id] += 1
        for fault, share in self.params.shares.items():
            number -= share
            if number < 0:
                return fault
        return None


@final
class FaultySession(Session):
    """A real session with a fault."""

    def __init__(self, real: Session, fault: str | None) -> None:
        self._real, self._fault = real, fault
        self.workdir = real.workdir

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout: float | None = None,
        stdin: bytes | str | None = None,
        max_output: int = DEFAULT_MAX_OUTPUT,
    ) -> ExecResult:
        """Run a command, if it is to be."""
        if self._fault == "command_hangs":
            await trio.sleep_forever()
        if self._fault == "command_fails":
            raise SandboxError("the provider lost the command", code="exec-failed")
        if self._fault == "memory_runs_out":
            return ExecResult(returncode=KILLED, stdout="", stderr="Killed")
        return await self._real.exec(
            command,
            cwd=cwd,
            env=env,
            user=user,
            timeout=timeout,
            stdin=stdin,
            max_output=max_output,
        )

    def process(
        self,
        argv: Sequence[str],
        *,
        tty: bool = False,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> AbstractAsyncContextManager[Process]:
        """Start an interactive program."""
        return self._real.process(argv, tty=tty, cwd=cwd, env=env)

    def listen(self) -> AbstractAsyncContextManager[Inlet]:
        """Accept connections from programs in the sandbox."""
        return self._real.listen()

    async def read_bytes(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Read a file."""
        return await self._real.read_bytes(path, max_bytes=max_bytes)

    async def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file, if there is room."""
        self._need_room()
        await self._real.write_bytes(path, data, mode=mode)

    async def upload(self, source: Path, target: str) -> None:
        """Copy into the sandbox, if there is room."""
        self._need_room()
        await self._real.upload(source, target)

    async def download(self, source: str, target: Path, *, max_bytes: int | None = None) -> None:
        """Copy out of the sandbox."""
        await self._real.download(source, target, max_bytes=max_bytes)

    async def end_processes(self) -> int:
        """End what is left."""
        return await self._real.end_processes()

    async def usage(self) -> Mapping[str, JSON]:
        """Tell the real figures, and a kill for want of memory if there was one."""
        figures = dict(await self._real.usage())
        return figures | ({"oom_kills": 1} if self._fault == "memory_runs_out" else {})

    def entry_hint(self) -> str:
        """How a person enters."""
        return self._real.entry_hint()

    def _need_room(self) -> None:
        if self._fault == "disk_is_full":
            raise SandboxError("no space left on the sandbox's disk", code="disk-full")
