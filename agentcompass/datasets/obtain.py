"""Getting a data set once: what is there is used, what is missing is made by one process, and put in place at the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import trio

from agentcompass.datasets import git, hub, registry
from agentcompass.datasets.shelf import Obtained, Shelf
from agentcompass.datasets.sources import (
    GitSource,
    HubSource,
    RegistrySource,
    Source,
    folder_name,
)
from agentcompass.errors import PreflightError


async def obtain(
    source: Source,
    data_dir: Path,
    *,
    tell: Callable[[str], None],
    may_download: bool = True,
    wanted_by: str = "BENCHMARK",
) -> Obtained:
    """Return where a data set is on this machine, after getting it if it is not there.

    What is there is used without a request, also if its source named a branch that has moved on: remove its directory
    to get it anew. A file that is missing or has another size than it came with is got again. Whoever else wants the
    same waits meanwhile. After a failure, a cancellation or a crash, the next call goes on from what has come.

    Args:
        source: What is wanted.
        data_dir: The root of all downloads; made if it is not there.
        tell: Takes a line for people now and then.
        may_download: False to use what is there, or fail; nothing is written then.
        wanted_by: The benchmark's id, for the advice of a command.

    Raises:
        PreflightError: It cannot be had, may not be downloaded, is not what was published, or there is no room.
    """
    shelf = Shelf(data_dir, folder_name(source))
    if (found := await trio.to_thread.run_sync(shelf.found)) is not None:
        return found
    if not may_download:
        raise PreflightError(
            f"the data set {source} is not in {data_dir}",
            hint=f"Get it with `agentcompass prefetch {wanted_by}`.",
        )
    if isinstance(source, HubSource) and hub.is_offline():
        raise PreflightError(
            f"the data set {source} is not in {data_dir}, and HF_HUB_OFFLINE forbids to ask the hub",
            hint="Unset HF_HUB_OFFLINE for the first use, or copy the data directory from another machine.",
        )
    async with shelf.locked(lambda: tell(f"waiting for another process that gets {source}")):
        if (found := await trio.to_thread.run_sync(shelf.found)) is not None:
            return found
        tell(f"getting {source}")
        await trio.to_thread.run_sync(shelf.begin)
        revision = await _fill(source, shelf, tell)
        obtained = await trio.to_thread.run_sync(shelf.finish, str(source), revision)
    tell(f"got {source}")
    return obtained


async def _fill(source: Source, shelf: Shelf, tell: Callable[[str], None]) -> str:
    match source:
        case HubSource():
            return await hub.fill(source, shelf, tell)
        case GitSource():
            return await git.fill(source, shelf, tell)
        case RegistrySource():
            return await registry.fill(source, shelf, tell)
