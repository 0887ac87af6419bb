"""An open container: commands, files, and the certainty that nothing of a command is left running."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from shlex import join
from typing import Final, final

import attrs
import trio

from agentcompass.components.base import DEFAULT_MAX_OUTPUT, ExecResult, Inlet, Process, Session
from agentcompass.components.environments.capture import HeadTail
from agentcompass.components.environments.docker import namespace
from agentcompass.components.environments.docker.storage import StorageLimit
from agentcompass.components.environments.session import unspeakable
from agentcompass.components.environments.space import DiskSpace
from agentcompass.components.inlet import listening
from agentcompass.containers import archive, figures, life, processes
from agentcompass.containers.attach import ContainerCommand
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.containers.run import program, run
from agentcompass.containers.untouched import Waiting
from agentcompass.data import frozen
from agentcompass.errors import SandboxError, counted
from agentcompass.records import JSON

CANNOT_START: Final = 126
NOT_FOUND: Final = 127
END_SECONDS: Final = 30.0
"""For ending all that an agent has left running."""
NO_SPACE: Final = "No space left on device"
_PROBE_SECONDS: Final = 30.0
_REACHED: Final = 0.9
"""Of a limit of memory: whose peak is below that, was not killed for it."""


WAITER: Final = "sleep"
"""The main process of a sandbox that needs no other."""


def only_waits(state: life.ContainerState) -> bool:
    """Whether a container's main process only waits for its end: it may be started anew, and does nothing of its own."""
    return bool(state.details.get("Path") == WAITER)


@frozen(kw_only=True)
class Place:
    """An open container, as its session needs to know it."""

    name: str
    workdir: str
    user: str
    """Of commands; empty: root."""
    env: Mapping[str, str]
    """Of every command."""
    enter: Sequence[str]
    """The docker command with its options, before `exec`."""
    noted: Mapping[int, Waiting] = attrs.field(factory=dict, repr=False)
    """How the container's own processes wait, as of `processes.note`; nothing, if its main process is a service."""
    can_start_anew: bool = True
    """Whether what is set up for the container outlives its being started anew."""
    storage: StorageLimit | None = None
    """What it may write, if its engine does not see to that."""
    services: Callable[[], Awaitable[Mapping[str, JSON]]] | None = None
    """Tells how those beside it have ended that did not end well, by name; None: there are none."""


@final
class DockerSession(Session):
    """Commands and files of one container.

    Args:
        docker: The engine.
        place: The container.
        space: The file system of the engine's containers; None if it is not on this machine.
        nursery: Open as long as the session.
    """

    def __init__(
        self, docker: Docker, place: Place, space: DiskSpace | None, nursery: trio.Nursery
    ) -> None:
        self.workdir = place.workdir
        self._docker, self._place = docker, place
        self._space, self._nursery = space, nursery
        self._noted = place.noted
        self._owner: tuple[int, int] | None = None
        self._n_oom_kills = 0
        self._was_cut_while_full = False
        """A command was cancelled that may have missed space: what it left is no evidence."""

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
        """Run a command to its end; see `Session.exec`.

        What it leaves running in the background stays, until `end_processes` or the session's end. After a timeout
        or cancellation nothing of this command is left, its daemons included.

        Raises:
            SandboxError: The container died (codes `container-died`, `ended-from-inside`, `memory-exceeded`), the engine
                failed, something could not be killed (`processes-left`); or it failed, and meanwhile the engine's
                machine had no disk space (`disk-full`) or memory left (`machine-out-of-memory`).
        """
        self._check_past()
        argv = ["sh", "-c", command] if isinstance(command, str) else list(command)
        if problem := unspeakable(argv, env or {}, cwd):
            return ExecResult(returncode=CANNOT_START, stdout="", stderr=problem)
        started = trio.current_time()
        asked = ContainerCommand(
            argv=argv,
            env={**self._place.env, **(env or {})},
            user=self._place.user if user is None else user,
            workdir=self._absolute(cwd or ""),
            stdin=stdin.encode(errors="replace") if isinstance(stdin, str) else stdin or b"",
        )
        result = await self._run(asked, timeout, max_output, started)
        # Whatever it says, one that was started anew meanwhile is no longer the agent's.
        state = await life.running(self._docker, self._place.name)
        if result.returncode != 0:
            await self._check_machine(state)
            if await self._was_full(result, started):
                raise disk_full(
                    f"the disk was full while a command ran that failed (exit code {result.returncode})"
                )
        return result

    async def _run(
        self, command: ContainerCommand, timeout: float | None, max_output: int, started: float
    ) -> ExecResult:
        stdout, stderr = HeadTail(max_output), HeadTail(max_output)
        is_cut = True
        try:
            with self._watched():
                ended = await run(
                    self._docker,
                    self._place.name,
                    command,
                    stdout=stdout.add,
                    stderr=stderr.add,
                    timeout=timeout,
                )
            is_cut = False
        finally:
            if is_cut and self._space is not None and self._space.seen_full_since(started):
                self._was_cut_while_full = True
        duration = trio.current_time() - started
        if not ended.is_started:
            words = f"{stdout.text()}{stderr.text()}"
            code = NOT_FOUND if _is_missing(words) else CANNOT_START
            return ExecResult(returncode=code, stdout="", stderr=words, duration=duration)
        return ExecResult(
            returncode=ended.exit_code,
            stdout=stdout.text(),
            stderr=stderr.text(),
            timed_out=ended.timed_out,
            truncated=stdout.is_truncated or stderr.is_truncated,
            duration=duration,
        )

    @asynccontextmanager
    async def process(
        self,
        argv: Sequence[str],
        *,
        tty: bool = False,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Process]:
        """Start an interactive program; see `Session.process`. Without a tty its stderr is discarded.

        Raises:
            SandboxError: As of `exec`.
            ValueError: An argument cannot be one of a program.
        """
        if problem := unspeakable(argv, env or {}, cwd):
            raise ValueError(problem)
        terminal = {"TERM": "xterm-256color"} if tty else {}
        command = ContainerCommand(
            argv=argv,
            env={**terminal, **self._place.env, **(env or {})},
            user=self._place.user,
            workdir=self._absolute(cwd or ""),
            tty=tty,
        )
        async with program(self._docker, self._place.name, command) as running:
            yield running

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[Inlet]:
        """Accept connections of the container's programs, on its own loopback device; see `Session.listen`.

        Raises:
            SandboxError: The engine is on another machine, or this user is not root (code `cannot-listen`).
        """
        made = await namespace.listen_inside(self._docker, self._place.name)
        async with listening(made) as inlet:
            yield inlet

    async def read_bytes(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Return a file's content; FileNotFoundError for what is no regular file."""
        return await archive.read(
            self._docker, self._place.name, self._absolute(path), max_bytes=max_bytes
        )

    async def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file, as the user of commands; see `Session`."""
        owner = await self._owned_by()
        await archive.write(
            self._docker, self._place.name, self._absolute(path), data, mode=mode, owner=owner
        )

    async def upload(self, source: Path, target: str) -> None:
        """Copy into the container, as the user of commands; see `containers.archive.upload`."""
        owner = await self._owned_by()
        await archive.upload(
            self._docker, self._place.name, source, self._absolute(target), owner=owner
        )

    async def download(self, source: str, target: Path, *, max_bytes: int | None = None) -> None:
        """Copy out of the container; see `containers.archive.download`."""
        await archive.download(
            self._docker, self._place.name, self._absolute(source), target, max_bytes=max_bytes
        )

    async def exists(self, path: str) -> bool:
        """Whether a path exists, as a command in the container sees it."""
        absolute = self._absolute(path)
        if "\0" in absolute:
            return False
        found = await archive.stat(self._docker, self._place.name, absolute)
        if found is not None and found.link is None:
            return True
        # A link may lead nowhere; and what is mounted in memory is seen from inside only.
        return await super().exists(absolute)

    async def end_processes(self) -> int:
        """Kill whatever runs in the container but its own main process, and make sure of that; see `processes.end_all`.

        Raises:
            SandboxError: Something could not be killed (code `processes-left`), the main process may have been taken
                over and cannot be started anew (`taken-over`), the container died (as of `exec`) or wrote too much
                (`storage-exceeded`), or a command was cancelled while the engine's disk was full (`disk-full`).
        """
        if self._place.storage is not None:
            await self._place.storage.check()  # before files that are deleted and open are gone
        docker, name = self._docker, self._place.name
        try:
            count = await processes.end_all(docker, name, seconds=END_SECONDS, noted=self._noted)
        except DockerError as error:
            if error.code != "taken-over" or not self._place.can_start_anew:
                raise
            self._noted = await processes.start_anew(docker, name, self._noted, seconds=END_SECONDS)
            count = 1
        self._check_past()
        return count

    async def usage(self) -> Mapping[str, JSON]:
        """Return the container's figures since its start; of one that has ended, how it did."""
        state = await life.inspect(self._docker, self._place.name)
        if state is None:
            return {"ended": "removed by somebody else"}
        if not state.is_running:
            cause = "out of memory" if state.is_oom_killed else state.error
            return {
                "ended": state.status,
                "exit_code": state.exit_code,
                **({"cause": cause} if cause else {}),
            }
        found = await figures.read(self._docker, self._place.name)
        used: dict[str, JSON] = {
            "memory_peak_bytes": found.memory_peak_bytes,
            "memory_limit_bytes": found.memory_limit_bytes,
            "cpu_seconds": found.cpu_seconds,
            "throttled_seconds": found.throttled_seconds,
            "oom_kills": found.oom_kills,
            "refused_forks": found.refused_forks,
        }
        if self._place.services is not None and (ended := await self._place.services()):
            used["services_ended"] = ended
        return {name: value for name, value in used.items() if value is not None}

    def entry_hint(self) -> str:
        """The command that opens a shell in the container."""
        options = ["-w", self.workdir] + (["-u", self._place.user] if self._place.user else [])
        return join([*self._place.enter, "exec", "-it", *options, self._place.name, "sh"])

    # --- below

    def _absolute(self, path: str) -> str:
        return posixpath.join(self.workdir, path)

    async def _owned_by(self) -> tuple[int, int]:
        """Uid and gid of the user of commands, asked for once."""
        if self._owner is None:
            self._owner = (0, 0)
            if self._place.user not in ("", "0", "root", "0:0", "root:root"):
                told = await self.exec("id -u && id -g", timeout=_PROBE_SECONDS)
                words = told.stdout.split()
                if len(words) == 2 and all(word.isdecimal() for word in words):
                    self._owner = int(words[0]), int(words[1])
        return self._owner

    def _watched(self) -> AbstractContextManager[None]:
        return (
            contextlib.nullcontext() if self._space is None else self._space.watched(self._nursery)
        )

    async def _was_full(self, result: ExecResult, started: float) -> bool:
        if self._space is not None:
            return await self._space.was_full_since(started)
        if NO_SPACE not in result.stdout and NO_SPACE not in result.stderr:
            return False
        # The engine is elsewhere: only the container itself can tell.
        output = bytearray()
        command = ContainerCommand(argv=["stat", "-f", "-c", "%a", self.workdir])
        try:
            await run(
                self._docker,
                self._place.name,
                command,
                stdout=output.extend,
                stderr=lambda _data: None,
                timeout=_PROBE_SECONDS,
            )
        except DockerError:
            return False
        return output.strip() == b"0"

    async def _check_machine(self, state: life.ContainerState) -> None:
        """Tell if a process may have been killed since the whole machine had no memory left."""
        found = await figures.seen_from_outside(self._docker, state)
        if found is None or found.oom_kills is None:
            return
        n_new, self._n_oom_kills = found.oom_kills - self._n_oom_kills, found.oom_kills
        if n_new <= 0:
            return
        limit, peak = found.memory_limit_bytes, found.memory_peak_bytes
        if limit is None or (peak is not None and peak < _REACHED * limit):
            raise SandboxError(
                "the engine's machine had no memory left while a command ran that failed, and killed "
                f"{counted(n_new, 'process', 'processes')} of the sandbox",
                code="machine-out-of-memory",
                hint="Run fewer tasks at once, or limit each with memory_mb.",
            )

    def _check_past(self) -> None:
        if self._was_cut_while_full:
            raise disk_full("the disk was full while a command ran that was then cancelled")


def disk_full(message: str) -> SandboxError:
    """Return the error for a full disk of the engine."""
    return SandboxError(
        message,
        code="disk-full",
        hint="Free space where the engine keeps its data: `docker system df` tells what uses it.",
    )


def _is_missing(words: str) -> bool:
    """Whether an engine could not start a program since there is none; some say 126 to that."""
    return 'exec: "' in words and any(
        reason in words for reason in ("executable file not found", "no such file or directory")
    )
