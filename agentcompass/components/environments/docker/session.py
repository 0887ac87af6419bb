"""An open container: commands, files, and the certainty that nothing of a command is left running."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from shlex import join
from typing import Final, final

import trio

from agentcompass.components.base import DEFAULT_MAX_OUTPUT, ExecResult, Process, Session
from agentcompass.components.environments.capture import HeadTail
from agentcompass.components.environments.session import unspeakable
from agentcompass.components.environments.space import DiskSpace
from agentcompass.containers import archive, figures, life, processes
from agentcompass.containers.attach import ContainerCommand
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.containers.run import program, run
from agentcompass.data import frozen
from agentcompass.errors import SandboxError
from agentcompass.records import JSON

CANNOT_START: Final = 126
NOT_FOUND: Final = 127
END_SECONDS: Final = 30.0
"""For ending all that an agent has left running."""
NO_SPACE: Final = "No space left on device"
_PROBE_SECONDS: Final = 30.0
_PROBE_OUTPUT: Final = 4096


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
        self._owner: tuple[int, int] | None = None
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
            SandboxError: The container died (code `container-died`), the engine failed, something could not be killed
                (`processes-left`); or it failed, and the engine's disk was full while it ran (`disk-full`).
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
        await life.running(self._docker, self._place.name)
        if result.returncode != 0 and await self._was_full(result, started):
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
        """Kill whatever runs in the container but its own main process; see `Session`.

        Raises:
            SandboxError: Something could not be killed (code `processes-left`), the container died
                (`container-died`), or a command was cancelled while the engine's disk was full (`disk-full`).
        """
        count = await processes.end_all(self._docker, self._place.name, seconds=END_SECONDS)
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
