"""The directory of one sandbox: its name, its files, its removal. Blocking functions, for worker threads.

What lies in a workspace is the agent's work, so each name is taken for hostile: a link may lead anywhere, a file
may be a pipe without a writer, a directory may be unreadable or deeper than a path can say.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final

from agentcompass.components.base import MiB
from agentcompass.data import frozen
from agentcompass.errors import SandboxError

DIR_PREFIX = "agentcompass-"
"""Begins the name of every directory that this environment makes, and of nothing else it removes."""
READ_LIMIT = 1024 * MiB
"""Bytes read of a file by who names no limit."""
CHUNK = MiB
SANDBOX_WORK: Final = "/workspace"
SANDBOX_TMP: Final = "/tmp"
"""Where commands in namespaces of their own see the two directories of their workspace."""
MAX_LINKS: Final = 40
"""As many as the kernel follows."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@frozen(kw_only=True)
class Workspace:
    """The directories of a sandbox."""

    dir: Path
    """The whole of it, without links; removed at the end."""
    work_dir: Path
    """Where commands run."""
    tmp_dir: Path
    """TMPDIR of the commands."""
    mounts: tuple[tuple[str, Path], ...] = ()
    """What commands see of it, as pairs of a path inside and a directory here; empty: the machine, as it is."""

    @classmethod
    def create(
        cls, root: Path, name: str, workdir: str | None, *, is_enclosed: bool = False
    ) -> Workspace:
        """Make the directories of a new sandbox.

        Args:
            root: Where sandboxes go; made if it is not there.
            name: The lease's.
            workdir: Of the plan: None, or a path below the work directory.
            is_enclosed: Commands see it at `SANDBOX_WORK` and `SANDBOX_TMP`.

        Raises:
            SandboxError: The name or `workdir` cannot be used, something of that name is there, or the disk is full.
        """
        if workdir is not None and (Path(workdir).is_absolute() or ".." in Path(workdir).parts):
            raise SandboxError(
                f"host_process cannot offer the work directory {workdir!r}",
                code="unsupported-workdir",
                retryable=False,
                hint="Use an environment with images, or a relative path.",
            )
        base = directory_of(root.resolve(), name)
        work, tmp = base / "work", base / "tmp"
        space = cls(
            dir=base,
            work_dir=work / (workdir or ""),
            tmp_dir=tmp,
            mounts=((SANDBOX_WORK, work), (SANDBOX_TMP, tmp)) if is_enclosed else (),
        )
        try:
            with disk_errors():
                root.mkdir(parents=True, exist_ok=True)
                base.mkdir(mode=0o700)
                with undone_on_error(base):
                    space.work_dir.mkdir(parents=True)
                    space.tmp_dir.mkdir()
        except OSError as error:
            raise SandboxError(
                f"the sandbox's directory cannot be made: {error}", code="workspace-failed"
            ) from error
        return space

    def locate(self, path: str) -> str:
        """Follow every link of a path, relative to the work directory, and return where it leads.

        Raises:
            SandboxError: That is outside the workspace (code `path-outside`).
        """
        if "\0" in path:
            raise FileNotFoundError(errno.ENOENT, "a NUL in the path", path)
        found = self._follow(path) if self.mounts else os.path.realpath(self.work_dir / path)
        if found is None or not self.contains(found):
            raise outside(path)
        return found

    def contains(self, path: str) -> bool:
        """Whether a path without links lies in what commands can reach of the workspace."""
        places = [place for _name, place in self.mounts] or [self.dir]
        return any(Path(path).is_relative_to(place) for place in places)

    def seen(self, place: Path) -> str:
        """Return the path by which commands see a directory of the workspace."""
        for name, base in self.mounts:
            if place.is_relative_to(base):
                return str(PurePosixPath(name, place.relative_to(base)))
        return str(place)

    def unseen(self, path: str) -> str | None:
        """Return where a normal, absolute path of the commands lies here; None if that is not in the workspace."""
        for name, place in self.mounts:
            if PurePosixPath(path).is_relative_to(name):
                return str(place / PurePosixPath(path).relative_to(name))
        return None if self.mounts else path

    def _follow(self, path: str) -> str | None:
        """Follow links as the kernel does inside, where absolute ones start at the sandbox's own root."""
        todo = list(reversed(PurePosixPath(self.seen(self.work_dir), path).parts))
        found, links = PurePosixPath("/"), 0
        while todo:
            part = todo.pop()
            if part == "..":
                found = found.parent
                continue
            # A part "/" begins anew.
            here = self.unseen(str(found / part))
            if here is None or not Path(here).is_symlink():
                found /= part
                continue
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            todo += reversed(PurePosixPath(os.readlink(here)).parts)  # noqa: PTH115 - text is wanted
        return self.unseen(str(found))

    def open(self, path: str, flags: int) -> int:
        """Open what a path leads to, never waiting for a pipe or device, never outside."""
        return self.open_located(self.locate(path), flags)

    def open_located(self, path: str, flags: int) -> int:
        """Do the same with what `locate` has given.

        The links were followed then; that it is still the same place is checked on what has been opened.

        Raises:
            FileNotFoundError: There is nothing, or a link has taken its place.
            SandboxError: What has taken its place leads outside (code `path-outside`).
        """
        try:
            fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise FileNotFoundError(errno.ENOENT, "now a link", path) from error
        if not self.contains(os.readlink(f"/proc/self/fd/{fd}")):  # noqa: PTH115 - not a file's link
            os.close(fd)
            raise outside(path)
        return fd

    def read(self, path: str, max_bytes: int | None, check: Callable[[], None]) -> bytes:
        """Return the first `max_bytes` of a regular file.

        Raises:
            FileNotFoundError: There is no regular file, or it cannot be read, or a link leads outside.
            SandboxError: No limit was named and the file is larger than `READ_LIMIT` (code `artifact-too-large`).
        """
        with self._reading(path) as fd:
            left = READ_LIMIT + 1 if max_bytes is None else max(0, max_bytes)
            parts = []
            while left and (part := os.read(fd, min(left, CHUNK))):
                check()
                parts.append(part)
                left -= len(part)
        if max_bytes is None and not left:
            raise too_large(path, READ_LIMIT)
        return b"".join(parts)

    @contextlib.contextmanager
    def _reading(self, path: str) -> Iterator[int]:
        try:
            fd = self.open(path, os.O_RDONLY)
        except (OSError, SandboxError) as error:
            # Whatever the agent put there, it is not a file that could be read.
            raise FileNotFoundError(errno.ENOENT, f"no readable file ({error})", path) from error
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise FileNotFoundError(errno.ENOENT, "not a regular file", path)
            yield fd
        finally:
            os.close(fd)

    def write(
        self, path: str, mode: int, chunks: Iterator[bytes], check: Callable[[], None]
    ) -> None:
        """Write a file, whole or not at all; its parents are made, and what had that name is replaced.

        Raises:
            SandboxError: The disk is full (code `disk-full`), or the path leads outside (`path-outside`).
            OSError: The name is a directory's, too long, or otherwise impossible.
        """
        with disk_errors(), self.parent(path) as (parent, name):
            temporary = f".{DIR_PREFIX}{os.urandom(8).hex()}"
            fd = os.open(
                temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent
            )
            try:
                with os.fdopen(fd, "wb", buffering=0) as file:
                    for chunk in chunks:
                        check()
                        write_all(file.fileno(), chunk)
                    os.fchmod(file.fileno(), mode)
                os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=parent)
                raise

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link, replacing a file or link of that name."""
        with disk_errors(), self.parent(path, follow=False) as (parent, name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=parent)
            os.symlink(target, name, dir_fd=parent)

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents, if they are not there."""
        with disk_errors():
            os.close(self._open_made(self.locate(path)))

    @contextlib.contextmanager
    def parent(self, path: str, *, follow: bool = True) -> Iterator[tuple[int, str]]:
        """Open the directory that a path's last name is in, made if need be; gives it and that name."""
        try:
            found = Path(self.locate(path) if follow else self.locate(str(Path(path).parent)))
        except FileNotFoundError as error:
            raise SandboxError(str(error), code="bad-path", retryable=False) from error
        directory = found.parent if follow else found
        if not self.contains(str(directory)):
            raise outside(path)
        fd = self._open_made(str(directory))
        try:
            yield fd, found.name if follow else Path(path).name
        finally:
            os.close(fd)

    def _open_made(self, directory: str) -> int:
        """Open a directory by its path without links, making what is not there.

        Name by name, so that a link that a command puts in the place of one meanwhile leads nowhere.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self.dir, flags)
        for name in Path(directory).relative_to(self.dir).parts:
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=fd)
                below = os.open(name, flags, dir_fd=fd)
            finally:
                os.close(fd)
            fd = below
        return fd


@contextlib.contextmanager
def undone_on_error(base: Path) -> Iterator[None]:
    """Remove a directory that was just made if something fails."""
    try:
        yield
    except BaseException:
        shutil.rmtree(base, ignore_errors=True)
        raise


def directory_of(root: Path, name: str) -> Path:
    """Return the directory of the sandbox `name` below `root`.

    Raises:
        SandboxError: The name cannot be a directory's.
    """
    if not _NAME.fullmatch(name) or not root.is_absolute():
        raise SandboxError(
            f"{name!r} below {str(root)!r} names no sandbox", code="bad-lease", retryable=False
        )
    return root / (name if name.startswith(DIR_PREFIX) else DIR_PREFIX + name)


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
    """Report a full disk under its own name.

    Raises:
        SandboxError: No space or no quota is left (code `disk-full`).
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(str(error)) from error
        raise


def disk_full(detail: str) -> SandboxError:
    """The error for a file system that has no space left."""
    return SandboxError(
        f"no space is left for sandboxes: {detail}",
        code="disk-full",
        hint="Free some, or choose another disk by the parameter root.",
    )


def too_large(path: str, limit: int) -> SandboxError:
    """The error for something of the agent's that is larger than it may be."""
    return SandboxError(
        f"{path!r} is larger than {limit} bytes", code="artifact-too-large", retryable=False
    )


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def outside(path: str) -> SandboxError:
    """The error for a path that leads out of the workspace."""
    return SandboxError(
        f"{path!r} leads out of the sandbox",
        code="path-outside",
        retryable=False,
        hint="host_process reads and writes files in its own directory only; use relative paths.",
    )
