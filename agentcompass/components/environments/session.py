"""An open sandbox of `host_process`: commands, files, and the certainty that nothing is left running."""

from __future__ import annotations

import math
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TypeVar, final

import trio
from trio.from_thread import check_cancelled

from agentcompass.components.base import DEFAULT_MAX_OUTPUT, ExecResult, Inlet, Process, Session
from agentcompass.components.environments import leftovers, pipes, removal, transfer
from agentcompass.components.environments.capture import HeadTail
from agentcompass.components.environments.interactive import Program
from agentcompass.components.environments.place import Place
from agentcompass.components.environments.space import DiskSpace
from agentcompass.components.environments.trees import Command, Tree
from agentcompass.components.environments.workspace import Workspace, disk_full
from agentcompass.components.inlet import listening
from agentcompass.data import frozen
from agentcompass.errors import SandboxError

T = TypeVar("T")

TIMED_OUT = 124
CANNOT_START = 126
FILE_TOO_LARGE = 128 + signal.SIGXFSZ
"""Exit code of a command that `storage_mb` has ended."""
DRAIN_SECONDS = 0.2
"""How long output is still awaited after a command's end, when something that it left holds its pipes."""
LAST_SECONDS = 3.0
"""For removal of the workspace when the task that closes it has been cancelled."""


@frozen(kw_only=True)
class Surroundings:
    """What every command of a session gets."""

    env: Mapping[str, str]
    shell: str
    limits: Sequence[tuple[int, int]]
    lease_id: str
    entry: str | None = None
    """What enters the sandbox when it is kept; None: its directory is all there is to it."""


@final
class HostSession(Session):
    """A workspace and the process trees that were started in it."""

    def __init__(
        self,
        workspace: Workspace,
        surroundings: Surroundings,
        place: Place,
        file_limiter: trio.CapacityLimiter,
        control_limiter: trio.CapacityLimiter,
        *,
        space: DiskSpace,
    ) -> None:
        self.workdir = workspace.seen(workspace.work_dir)
        self._workspace = workspace
        self._surroundings = surroundings
        self._place = place
        self._file_limiter, self._control_limiter = file_limiter, control_limiter
        self._space = space
        self._trees: set[Tree] = set()
        self._was_cut_while_full = False
        """A command was cancelled that may have missed space: what it left is no evidence."""
        self._is_wounded = False
        """A guard was killed: the place is swept before anything is called clean."""

    async def open(self) -> None:
        """Be ready for commands.

        Raises:
            SandboxError: Namespaces were asked for and cannot be made (code `isolation-failed`).
        """
        await self._place.open()

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

        What a command leaves running in the background stays, until `end_processes` or the session's end; its output is
        read for `DRAIN_SECONDS` more and then discarded. After a timeout or cancellation nothing of this command
        is left, its daemons included; what earlier commands left is not touched.

        Raises:
            SandboxError: `user` is given (code `unsupported-user`); the sandbox's keeper was killed (`sandbox-died`);
                something could not be killed (`processes-left`); it failed, and the file system had no space left while
                it ran (`disk-full`; see `space`).
        """
        self._check_past()
        if user is not None:
            raise SandboxError(
                "host_process runs commands as its own user only",
                code="unsupported-user",
                retryable=False,
            )
        started = trio.current_time()
        argv = [self._surroundings.shell, "-c", command] if isinstance(command, str) else command
        if problem := unspeakable(argv, env or {}, cwd):
            return ExecResult(returncode=CANNOT_START, stdout="", stderr=problem)
        data = to_bytes(stdin) if isinstance(stdin, str) else stdin or b""
        outputs = (HeadTail(max_output), HeadTail(max_output))
        streams = pipes.for_exec(data)
        is_cut = True
        try:
            code, timed_out = await self._run(
                self._command(argv, cwd, env), streams, outputs, timeout
            )
            is_cut = False
        finally:
            streams.close()
            if is_cut and self._space.seen_full_since(started):
                self._was_cut_while_full = True
        if code not in (0, FILE_TOO_LARGE) and await self._space.was_full_since(started):
            raise disk_full(f"the disk was full while a command ran that failed (exit code {code})")
        return ExecResult(
            returncode=code,
            stdout=outputs[0].text(),
            stderr=outputs[1].text(),
            timed_out=timed_out,
            truncated=any(output.is_truncated for output in outputs),
            duration=trio.current_time() - started,
        )

    async def _run(
        self,
        command: Command,
        streams: pipes.Streams,
        outputs: Sequence[HeadTail],
        timeout: float | None,
    ) -> tuple[int, bool]:
        async with self._tree(command, streams) as tree:
            async with trio.open_nursery() as readers:
                for fd, output in zip((streams.stdout, streams.stderr), outputs, strict=True):
                    readers.start_soon(_collect, fd, output)
                limit = math.inf if timeout is None else max(0.0, timeout)
                with self._space.watched(readers), trio.move_on_after(limit):
                    await tree.ended()
                timed_out = tree.is_running
                if timed_out:
                    await tree.end()
                readers.cancel_scope.deadline = trio.current_time() + DRAIN_SECONDS
            if readers.cancel_scope.cancelled_caught:
                tree.hand_over([streams.stdout, streams.stderr])
            if timed_out:
                await self._kill(tree)
                return TIMED_OUT, True
            return await tree.wait(), False

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
            SandboxError: The sandbox's keeper was killed (code `sandbox-died`).
            ValueError: An argument cannot be one of a program.
        """
        if problem := unspeakable(argv, env or {}, cwd):
            raise ValueError(problem)
        if tty:
            env = {"TERM": "xterm-256color", **(env or {})}
        streams = pipes.for_terminal(*await self._place.terminal()) if tty else pipes.for_program()
        try:
            async with self._tree(self._command(argv, cwd, env, streams.tty), streams) as tree:
                try:
                    yield Program(tree, streams)
                finally:
                    await self._end(tree)
        finally:
            streams.close()

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[Inlet]:
        """Accept connections of the sandbox's programs; see `Session.listen`.

        In a sandbox without a network of its own, those of every other program of this machine that knows the port too.
        """
        async with listening(await self._place.listen()) as inlet:
            yield inlet

    async def read_bytes(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Return a regular file's content; FileNotFoundError for anything else, a link that leads outside included."""
        return await self._in_thread(self._workspace.read, path, max_bytes, check_cancelled)

    async def write_bytes(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file, whole or not at all; see `Workspace.write`."""
        await self._in_thread(self._workspace.write, path, mode, iter((data,)), check_cancelled)

    async def upload(self, source: Path, target: str) -> None:
        """Copy into the workspace; see `transfer.upload`."""
        await self._in_thread(transfer.upload, self._workspace, source, target, check_cancelled)

    async def download(self, source: str, target: Path, *, max_bytes: int | None = None) -> None:
        """Copy out of the workspace; see `transfer.download`."""
        await self._in_thread(
            transfer.download, self._workspace, source, target, max_bytes, check_cancelled
        )

    async def exists(self, path: str) -> bool:
        """Whether a path exists, as a command in the sandbox sees it."""
        if self._place.is_sealed:
            return await super().exists(path)
        return await self._in_thread((Path(self.workdir) / path).exists)

    async def end_processes(self) -> int:
        """Kill whatever runs in the sandbox, commands that are still awaited included; see `Session`.

        Raises:
            SandboxError: Something could not be killed (code `processes-left`), or a command was cancelled while the
                file system had no space left (`disk-full`).
        """
        count = await self._end_all()
        self._check_past()
        return count

    async def _end_all(self) -> int:
        trees = list(self._trees)
        async with trio.open_nursery() as nursery:
            for tree in trees:
                nursery.start_soon(tree.end)
        count = 0
        for tree in trees:
            count += await self._end(tree)
        if self._is_wounded:
            count += await self._place.sweep()
        return count

    def entry_hint(self) -> str:
        """The command that enters the sandbox, or just its workspace."""
        return self._surroundings.entry or f"cd {quote(self.workdir)}"

    async def close(self, *, keep: bool) -> None:
        """End every process and, unless `keep`, remove the workspace; under cancellation within `LAST_SECONDS`.

        Raises:
            SandboxError: Something is left.
        """
        try:
            await self._close(keep)
        except trio.Cancelled:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + LAST_SECONDS):
                await self._close(keep)
            raise

    async def _close(self, keep: bool) -> None:
        try:
            try:
                await self._end_all()
            finally:
                await self._place.close()
        finally:
            if not keep:
                await trio.to_thread.run_sync(
                    removal.remove_tree,
                    self._workspace.dir,
                    check_cancelled,
                    limiter=self._control_limiter,
                )

    def _check_past(self) -> None:
        if self._was_cut_while_full:
            raise disk_full("the disk was full while a command ran that was then cancelled")

    async def _in_thread(self, function: Callable[..., T], *args: object) -> T:
        return await trio.to_thread.run_sync(partial(function, *args), limiter=self._file_limiter)

    def _command(
        self,
        argv: Sequence[str],
        cwd: str | None,
        env: Mapping[str, str] | None,
        tty: bytes | None = None,
    ) -> Command:
        variables = {
            **self._surroundings.env,
            **(env or {}),
            leftovers.MARK: self._surroundings.lease_id,
        }
        return Command(
            argv=[to_bytes(word) for word in argv],
            env={to_bytes(name): to_bytes(value) for name, value in variables.items()},
            cwd=to_bytes(str(Path(self.workdir, cwd or ""))),
            # The place's own tree holds the lock if it is sealed, and nothing inside could.
            workspace=None if self._place.is_sealed else to_bytes(str(self._workspace.dir)),
            limits=self._surroundings.limits,
            tty=tty,
        )

    @asynccontextmanager
    async def _tree(self, command: Command, streams: pipes.Streams) -> AsyncIterator[Tree]:
        """Start a command; whatever goes wrong inside, its tree is dead afterwards."""
        self._forget_ended()
        tree = Tree()
        self._trees.add(tree)
        try:
            await self._place.start(tree, command, streams.child)
            streams.close_child()
            yield tree
        except BaseException:
            # What cannot be killed now must not hide why: the session is wounded, and its end reports it.
            with suppress(SandboxError):
                await self._end(tree)
            raise
        if tree.poll():
            self._forget(tree)

    async def _end(self, tree: Tree) -> int:
        """Kill a tree and let go of it; a guard that was killed itself has its processes searched for."""
        try:
            return await self._kill(tree)
        finally:
            self._is_wounded = self._is_wounded or not tree.is_over
            self._forget(tree)

    async def _kill(self, tree: Tree) -> int:
        try:
            return await tree.kill()
        except SandboxError:
            # A guard that something inside keeps from its work: then the whole place ends.
            if not self._place.is_sealed:
                raise
            return await self._place.sweep()

    def _forget_ended(self) -> None:
        """Let go of trees whose background processes have ended by themselves."""
        for tree in list(self._trees):
            if tree.returncode is not None and tree.poll():
                self._forget(tree)

    def _forget(self, tree: Tree) -> None:
        tree.close()
        self._trees.discard(tree)


async def _collect(fd: int, output: HeadTail) -> None:
    while data := await pipes.read(fd):
        output.add(data)


def to_bytes(text: str) -> bytes:
    """Encode as file names are; lone surrogates that stand for no byte become `?`."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="replace")


def unspeakable(argv: Sequence[str], env: Mapping[str, str], cwd: str | None) -> str | None:
    """Say why the operating system could not even be asked to start this; None if it can."""
    if not argv:
        return "no command"
    if any("\0" in text for text in (*argv, *env, *env.values(), cwd or "")):
        return "a NUL character in the command, its directory or its environment"
    if any(not name or "=" in name for name in env):
        return "a variable without a name, or with = in its name"
    return None
