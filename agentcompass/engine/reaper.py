"""Removes what dead processes left: sandboxes whose lease stands under a results root and whose owner is gone."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import trio

from agentcompass.components import registry
from agentcompass.components.base import Environment
from agentcompass.records import Lease
from agentcompass.store.identity import is_alive
from agentcompass.store.layout import RunPaths
from agentcompass.store.leases import LeaseBook, find_leases
from agentcompass.store.lock import is_held

AT_ONCE: Final = 16
"""Sandboxes that are removed at a time."""

_log = logging.getLogger("agentcompass.engine")


def orphans(results_dir: Path) -> Iterator[tuple[LeaseBook, Lease]]:
    """Yield the leases below a directory that nobody looks after: the owner is dead, and nobody asked to keep them.

    A run whose lock is held is looked after, though its owner may look dead from here: it may live in another
    container, or on another machine that shares the directory.
    """
    for file, lease in find_leases(results_dir):
        if not lease.keep and not is_alive(lease.owner):
            lock = RunPaths(file.parent.parent).lock_file
            if not is_held(lock):
                yield LeaseBook(file.parent), lease


async def remove_lease(book: LeaseBook, lease: Lease) -> None:
    """Remove a sandbox by its lease, and then the lease.

    Raises:
        UnknownComponentError: Its environment is not installed here.
        SandboxError: It could not be removed; the lease stays.
    """
    cls: Any = registry.load("environment", lease.environment)
    environment: Environment[object] = cls(cls.Params())
    await environment.remove(lease)
    await trio.to_thread.run_sync(book.remove, lease.id)


async def reap(results_dir: Path, threads: trio.CapacityLimiter) -> int:
    """Remove every orphan below a results root, quietly; returns how many were removed."""
    found = await trio.to_thread.run_sync(
        lambda: list(orphans(results_dir)), abandon_on_cancel=True, limiter=threads
    )
    removed = 0
    places = trio.CapacityLimiter(AT_ONCE)

    async def remove(book: LeaseBook, lease: Lease) -> None:
        nonlocal removed
        async with places:
            try:
                await remove_lease(book, lease)
                removed += 1
            except Exception as error:  # noqa: BLE001  # an old sandbox must not hurt this run; `env close` shows the cause
                _log.info("sandbox %s of a dead process stays: %s", lease.name, error)

    async with trio.open_nursery() as nursery:
        for book, lease in found:
            nursery.start_soon(remove, book, lease)
    if removed:
        _log.info("removed %d sandboxes that a dead process had left", removed)
    return removed
