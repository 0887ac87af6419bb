"""Copying files and directories into a workspace and out of it, by the rules of `copying`. Blocking functions."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import final

from agentcompass.components.environments.workspace import (
    CHUNK,
    Workspace,
    disk_errors,
    outside,
    too_large,
    write_all,
)
from agentcompass.copying import ENTRY_BYTES, kept_link, parts


def upload(space: Workspace, source: Path, target: str, check: Callable[[], None]) -> None:
    """Copy a file or directory of this machine to a path of the workspace.

    Args:
        space: Where to.
        source: What; directories are merged into one that is there.
        target: The copy's own name, not that of a directory to put it into.
        check: Called often; may raise to stop.

    Raises:
        FileNotFoundError: There is no `source`.
        SandboxError: The disk is full (code `disk-full`), or `target` leads outside (`path-outside`).
    """
    for part in parts(source, check):
        copy = str(PurePosixPath(target, part.name))
        if part.link is not None:
            space.link(copy, part.link)
        elif part.is_dir:
            space.make_dir(copy)
        else:
            _upload_file(space, part.source, copy, check)


def _upload_file(space: Workspace, source: Path, target: str, check: Callable[[], None]) -> None:
    with source.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o777
        space.write(target, mode, iter(lambda: file.read(CHUNK), b""), check)


def download(
    space: Workspace, source: str, target: Path, max_bytes: int | None, check: Callable[[], None]
) -> None:
    """Copy a file or directory of the workspace to this machine.

    Args:
        space: Where from.
        source: What.
        target: The copy's own path; its parents are made.
        max_bytes: Of all files together; None sets no limit.
        check: Called often; may raise to stop.

    Raises:
        FileNotFoundError: There is no `source`, or it is neither file nor directory.
        SandboxError: More than `max_bytes` (code `artifact-too-large`), `source` leads outside (`path-outside`),
            or the disk is full (`disk-full`).
    """
    try:
        with disk_errors():
            target.parent.mkdir(parents=True, exist_ok=True)
            _Download(space, source, max_bytes, check).run(target)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        raise too_large(source, os.pathconf("/", "PC_PATH_MAX")) from error


@final
class _Download:
    def __init__(
        self, space: Workspace, source: str, max_bytes: int | None, check: Callable[[], None]
    ) -> None:
        self.space, self.source, self.max_bytes, self.check = space, source, max_bytes, check
        self.left = max_bytes
        self.links: list[tuple[Path, str]] = []

    def run(self, target: Path) -> None:
        base = self.space.locate(self.source)
        waiting = [(base, target)]
        while waiting:
            path, copy = waiting.pop()
            try:
                waiting += self._copy(base, path, copy)
            except (FileNotFoundError, PermissionError):
                if path == base:  # anything else was made, and may go, without our being asked
                    raise
        # At the end, so that no file can be written through one of them.
        for copy, to in self.links:
            copy.unlink(missing_ok=True)
            copy.symlink_to(to)

    def _copy(self, base: str, path: str, copy: Path) -> list[tuple[str, Path]]:
        """Copy a file, make a directory, remember a link; return what is in it, each with its copy's name."""
        self._count(ENTRY_BYTES)
        # lstat, since what was a directory a moment ago may be a link now.
        mode = os.lstat(path).st_mode
        if stat.S_ISREG(mode):
            self._file(path, copy)
        elif stat.S_ISLNK(mode):
            self._link(base, path, copy)
        elif stat.S_ISDIR(mode):
            names = self._names(path)
            copy.mkdir(exist_ok=True)
            return [(f"{path}/{name}", copy / name) for name in names]
        elif path == base:
            raise FileNotFoundError(f"{self.source!r} is neither a file nor a directory")
        return []

    def _names(self, path: str) -> list[str]:
        fd = self.space.open_located(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return os.listdir(fd)  # noqa: PTH208 - of a descriptor
        finally:
            os.close(fd)

    def _link(self, base: str, path: str, copy: Path) -> None:
        to = os.readlink(path)  # noqa: PTH115 - text is what is wanted
        parent = str(PurePosixPath(path).parent)
        absolute = self.space.unseen(os.path.normpath(to)) if to.startswith("/") else to
        if absolute is None:
            return
        kept = kept_link(base, parent, absolute)
        if kept is not None:
            self.links.append((copy, kept))

    def _file(self, path: str, copy: Path) -> None:
        fd = self.space.open_located(path, os.O_RDONLY)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise outside(path)  # exchanged meanwhile
            copy.unlink(missing_ok=True)
            with copy.open("xb", buffering=0) as file:
                while data := os.read(fd, CHUNK):
                    self._count(len(data))
                    write_all(file.fileno(), data)
                os.fchmod(file.fileno(), stat.S_IMODE(status.st_mode) & 0o777)
        finally:
            os.close(fd)

    def _count(self, size: int) -> None:
        self.check()
        if self.left is not None and self.max_bytes is not None:
            self.left -= size
            if self.left < 0:
                raise too_large(self.source, self.max_bytes)
