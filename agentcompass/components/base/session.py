"""An open sandbox, as harness and benchmark borrow it."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from agentcompass.data import frozen
from agentcompass.errors import SandboxError
from agentcompass.records import JSON

if TYPE_CHECKING:
    import trio

KiB = 1024
MiB = 1024 * KiB
DEFAULT_MAX_OUTPUT = MiB
"""Bytes kept of each output stream of a command, head and tail together."""


@frozen(kw_only=True)
class ExecResult:
    """What a command did. Output is decoded once, as UTF-8 with replacement characters."""

    returncode: int
    """Exit code; 124 after a timeout, 128 + n when ended by signal n."""
    stdout: str
    stderr: str
    timed_out: bool = False
    truncated: bool = False
    """Output beyond `max_output` was dropped from the middle of a stream."""
    duration: float = 0.0
    """Seconds."""


class Process(Protocol):
    """An interactive program in a sandbox. Leaving its context kills its whole process tree."""

    async def send(self, data: bytes) -> None:
        """Write to its standard input."""

    async def close_stdin(self) -> None:
        """Send end-of-file."""

    async def receive(self, max_bytes: int = 64 * KiB) -> bytes:
        """Return the next output (stdout and stderr as one with a tty); empty at its end."""

    async def resize(self, rows: int, columns: int) -> None:
        """Change the size of its terminal, if it has one."""

    async def wait(self) -> int:
        """Wait for its end; return the exit code as in `ExecResult`."""


@frozen(kw_only=True)
class Inlet:
    """A place in a sandbox where its programs connect to, and this process accepts them."""

    host: str
    """As programs in the sandbox reach it: an address of their own loopback device."""
    port: int
    listener: trio.abc.Listener[trio.abc.HalfCloseableStream]


class Session(abc.ABC):
    """An open sandbox, borrowed by harness and benchmark. Paths are the sandbox's; relative ones start at `workdir`."""

    workdir: str
    """Absolute path, in the sandbox, of the directory where commands run."""

    @abc.abstractmethod
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
        """Run a command to its end.

        Args:
            command: A program with arguments, or a line for `sh -c`.
            cwd: Where; default `workdir`.
            env: Added to the sandbox's environment.
            user: As whom, if the environment can; default its own choice.
            timeout: Seconds; then the whole process tree is killed and the output so far returned (124, `timed_out`).
            stdin: What the command reads; nothing by default.
            max_output: Bytes kept of each stream, head and tail.

        Returns:
            How it ended. A command that cannot be started gives 126 or 127, as in a shell.

        Raises:
            SandboxError: The sandbox failed, not the command.
        """

    @abc.abstractmethod
    def process(
        self,
        argv: Sequence[str],
        *,
        tty: bool = False,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> AbstractAsyncContextManager[Process]:
        """Start an interactive program; use with `async with`."""

    def listen(self) -> AbstractAsyncContextManager[Inlet]:
        """Accept connections from programs in the sandbox during the block, and from nobody else, as far as that can be.

        It makes nothing else of this machine reachable, and works in sandboxes without a network too.

        Raises:
            SandboxError: It cannot be done (code `cannot-listen`); here always, since an environment need not be able to:
                see `Environment.check_listening`.
        """
        raise SandboxError(
            "programs in this sandbox cannot be given a way to this process",
            code="cannot-listen",
            retryable=False,
        )

    @abc.abstractmethod
    async def read_bytes(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Return a file's content, at most its first `max_bytes`; FileNotFoundError if there is none."""

    @abc.abstractmethod
    async def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file, making its parent directories."""

    async def read_text(self, path: str, *, max_bytes: int | None = None) -> str:
        """Return a file's content as UTF-8 with replacement characters."""
        return (await self.read_bytes(path, max_bytes=max_bytes)).decode(errors="replace")

    async def write_text(self, path: str, text: str, *, mode: int = 0o644) -> None:
        """Write a file as UTF-8, making its parent directories; lone surrogates become `?`."""
        await self.write_bytes(path, text.encode(errors="replace"), mode=mode)

    @abc.abstractmethod
    async def upload(self, source: Path, target: str) -> None:
        """Copy a file or a directory of this machine into the sandbox."""

    @abc.abstractmethod
    async def download(self, source: str, target: Path, *, max_bytes: int | None = None) -> None:
        """Copy a file or a directory of the sandbox to this machine, never outside `target`.

        Raises:
            SandboxError: More than `max_bytes` in all (code `artifact-too-large`), or a path that would lead outside.
        """

    async def exists(self, path: str) -> bool:
        """Whether a path exists."""
        result = await self.exec(["test", "-e", path])
        return result.returncode == 0

    @abc.abstractmethod
    async def end_processes(self) -> int:
        """Kill whatever still runs in the sandbox, check that nothing is left, and return how many there were.

        Called between the agent's end and the evaluation.

        Raises:
            SandboxError: Something could not be ended.
        """

    async def usage(self) -> Mapping[str, JSON]:
        """What the sandbox has used and been refused so far, for the record; empty if the environment does not know.

        Names are the same in all environments: `memory_peak_bytes`, `memory_limit_bytes`, `cpu_seconds`,
        `throttled_seconds`, `oom_kills`, `refused_forks`; of a sandbox that has ended, `ended` and why.
        """
        return {}

    def entry_hint(self) -> str:
        """How a person enters the sandbox, for `keep_environment`."""
        return self.workdir
