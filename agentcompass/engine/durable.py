"""Between the run's thread and the writer's: what is durable comes back in order, and producers wait while the disk is behind."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable
from typing import Final, final

import trio

from agentcompass.errors import StoreError
from agentcompass.records import ExecutionRecord
from agentcompass.store.run import RunStore
from agentcompass.store.writer import Writer

BACKLOG_BYTES: Final = 64 * 1024 * 1024
"""What may wait to be written before producers wait too: bounds memory when the disk is slow."""


@final
class Flow:
    """Holds producers back while more than `BACKLOG_BYTES` wait to be written."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def wait(self) -> None:
        """Return when the writer can take more; also a checkpoint."""
        await trio.lowlevel.checkpoint()
        while self._writer.pending_bytes > BACKLOG_BYTES:  # noqa: ASYNC110  # rare, and the writer knows no event loop
            await trio.sleep(0.02)


@final
class Journal:
    """Appends records and reports each, in the run's thread, once it is durable.

    Args:
        store: Where the records go.
        on_durable: Told each record as it was written, which may be an `infra` one in place of one that could not be.
        on_error: Told once when the store cannot go on.
    """

    def __init__(
        self,
        store: RunStore,
        on_durable: Callable[[ExecutionRecord], None],
        on_error: Callable[[StoreError], None],
    ) -> None:
        self._store, self._on_durable, self._on_error = store, on_durable, on_error
        self._token = trio.lowlevel.current_trio_token()
        self._arrived: collections.deque[tuple[StoreError | None, ExecutionRecord]] = (
            collections.deque()
        )
        self._pending = 0
        self._settled = trio.Event()
        self._settled.set()

    def append(self, record: ExecutionRecord) -> None:
        """Hand a record to the writer; never blocks."""
        if self._pending == 0:
            self._settled = trio.Event()
        self._pending += 1
        self._store.append(record, self._done)

    async def settle(self) -> None:
        """Wait until everything appended is durable or has failed."""
        await self._settled.wait()

    def _done(self, error: StoreError | None, record: ExecutionRecord) -> None:
        self._arrived.append((error, record))
        with contextlib.suppress(trio.RunFinishedError):
            self._token.run_sync_soon(self._drain, idempotent=True)

    def _drain(self) -> None:
        while self._arrived:
            error, record = self._arrived.popleft()
            self._pending -= 1
            if error is None:
                self._on_durable(record)
            else:
                self._on_error(error)
        if self._pending == 0:
            self._settled.set()
