"""What a container has written: measured, where its engine cannot limit it, and bounded by ending the container."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, final

import trio

from agentcompass.components.base import MiB
from agentcompass.containers import life
from agentcompass.containers.cgroups import Cgroups
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.containers.processes import visible_cgroups
from agentcompass.containers.wire import Ask, path_of
from agentcompass.errors import SandboxError

PAUSE_SECONDS: Final = 5.0
"""Between two looks: a program writes some gigabytes in that time, so this spares the disk, not the last byte."""
MAX_FILES: Final = 20_000
"""Open files of a container that are looked at, so that many of them do not keep this machine busy."""
_MEASURE_SECONDS: Final = 60.0
_BLOCK: Final = 512
"""Bytes of a block, as stat(2) counts them."""


def is_unsupported(error: DockerError) -> bool:
    """Whether an engine refused to make a container since its storage cannot be limited."""
    return "storage-opt" in error.message.lower() or "storageopt" in error.message.lower()


@final
class StorageLimit:
    """How much a container may write, looked after from outside.

    Args:
        docker: The engine.
        state: Of the container.
        limit_mb: In MiB.
    """

    def __init__(self, docker: Docker, state: life.ContainerState, limit_mb: int) -> None:
        self._docker, self._state, self._limit_mb = docker, state, limit_mb

    async def watch(self) -> None:
        """Look every `PAUSE_SECONDS`; never returns.

        Raises:
            SandboxError: As of `check`.
        """
        while True:
            await trio.sleep(PAUSE_SECONDS)
            await self.check()

    async def check(self) -> None:
        """Look now. An engine that does not tell, or fails, is met by whoever uses the container.

        Raises:
            SandboxError: It has written more (code `storage-exceeded`).
        """
        try:
            size = await written(self._docker, self._state)
        except DockerError:
            return
        if size is not None and size > self._limit_mb * MiB:
            raise SandboxError(
                f"it has written {size // MiB} MiB, more than storage_mb {self._limit_mb}",
                code="storage-exceeded",
                retryable=False,
            )


async def written(docker: Docker, state: life.ContainerState) -> int | None:
    """Return the bytes that a container has in files beside those of its image; None if the engine cannot tell.

    On the engine's own machine, files that are deleted and still open count, too.
    """
    ask = Ask(
        "GET",
        path_of("containers", state.id, "json"),
        f"measure the container {state.name}",
        query={"size": True},
        seconds=_MEASURE_SECONDS,
    )
    size = (await docker.call(ask)).get("SizeRw")
    if not isinstance(size, int):
        return None
    groups = await visible_cgroups(docker, state.id, state.pid)
    if groups is None:
        return size
    return size + await trio.to_thread.run_sync(
        _deleted, groups, trio.from_thread.check_cancelled, limiter=docker.threads
    )


def _deleted(groups: Cgroups, check: Callable[[], None]) -> int:
    """Return the bytes of a container's files that are deleted and open, apart from those in memory."""
    sizes: dict[tuple[int, int], int] = {}
    n_seen = 0
    for pid in groups.pids():
        process = Path(f"/proc/{pid}")
        try:
            device = (process / "root").stat().st_dev
            files = list(os.scandir(process / "fd"))
        except OSError:
            continue  # it has ended
        for file in files:
            check()
            n_seen += 1
            if n_seen > MAX_FILES:
                return sum(sizes.values())
            try:
                found = Path(file.path).stat()
            except OSError:
                continue  # closed meanwhile
            if stat.S_ISREG(found.st_mode) and not found.st_nlink and found.st_dev == device:
                sizes[found.st_dev, found.st_ino] = found.st_blocks * _BLOCK
    return sum(sizes.values())
