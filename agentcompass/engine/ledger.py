"""What must not outlive the run: every sandbox that may exist, from before it is asked for until it is confirmed gone."""

from __future__ import annotations

import secrets as chance
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, final

import trio

from agentcompass.components.base import Environment
from agentcompass.records import Lease
from agentcompass.store.identity import this_process
from agentcompass.store.leases import LeaseBook

LIFETIME: Final = timedelta(days=7)
"""After this, a sandbox is expired whatever its owner does: longer than any run's default time limit."""


@final
class Ledger:
    """The sandboxes of one run that may exist, in memory and under `leases/`.

    Args:
        book: Where leases are written.
        run_id: Of the run.
        environment_id: As the request names it, which may be an import path: how a later process finds who can remove.
        threads: For the file work.
    """

    def __init__(
        self, book: LeaseBook, run_id: str, environment_id: str, threads: trio.CapacityLimiter
    ) -> None:
        self._book, self._run_id, self._environment_id = book, run_id, environment_id
        self._threads = threads
        self._owner = this_process()
        self.live: dict[str, Lease] = {}

    async def enter(self, environment: Environment[object], task_id: str, *, keep: bool) -> Lease:
        """Write a lease, before the provider is asked for anything.

        Raises:
            StoreError: It could not be written; then no sandbox may be made.
        """
        now = datetime.now(UTC)
        lease_id = chance.token_hex(8)
        lease = Lease(
            id=lease_id,
            run_id=self._run_id,
            task_id=task_id,
            environment=self._environment_id,
            name=f"agentcompass-{lease_id}",
            created_at=now.isoformat(timespec="milliseconds"),
            expires_at=(now + LIFETIME).isoformat(timespec="seconds"),
            owner=self._owner,
            details=dict(environment.lease_details()),
            keep=keep,
        )
        await self._in_thread(self._book.write, lease)
        self.live[lease.id] = lease
        return lease

    async def leave(self, lease: Lease) -> None:
        """The sandbox is confirmed gone."""
        await self._in_thread(self._book.remove, lease.id)
        self.live.pop(lease.id, None)

    def hand_over(self, lease: Lease) -> None:
        """The sandbox stays because people asked for it: its lease on disk is theirs now."""
        self.live.pop(lease.id, None)

    async def _in_thread(self, function: Callable[..., object], *args: object) -> None:
        await trio.to_thread.run_sync(function, *args, limiter=self._threads)
