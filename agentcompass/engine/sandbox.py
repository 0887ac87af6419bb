"""One sandbox of one attempt: lease, creation, use, removal, and proof of it.

The sandbox is held open by a task of its own, shielded from the run's cancellation, so that

* creation that is under way when the run is cancelled is awaited for a while, and undone, never forgotten;
* the environment may keep nurseries and scopes of its own open while harness and benchmark work;
* every way out leads through the same close, bounded by the close deadline and by the one grace of the run;
* a sandbox that breaks while it is used ends the work in it at once.

Whatever is not closed cleanly is removed by name, and stays in the ledger until that is confirmed.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, final

import trio

from agentcompass.components.base import Environment, SandboxPlan, Session
from agentcompass.data import frozen
from agentcompass.engine.cleanup import CleanupBudget
from agentcompass.engine.ledger import Ledger
from agentcompass.engine.verdict import SandboxBroke, has_interrupt, most_telling
from agentcompass.errors import InfraError, SandboxError, describe
from agentcompass.records import Lease

NOT_OPENED: Final = "open-failed"
"""Code of a `SandboxError`: the environment gave no reason of its own."""

OPENING_SECONDS: Final = 5.0
"""So long an opening goes on for which nobody waits any more: most end by then, and an end is undone with less doubt than a
cancellation."""
_OPENING_PART: Final = 0.25
"""It goes on for no more than this part of what is left of the grace: undoing takes time, too."""

_log = logging.getLogger("agentcompass.engine")


@final
@frozen(kw_only=True, eq=False)
class SandboxHouse:
    """How the sandboxes of one request are made and removed."""

    environment: Environment[object]
    ledger: Ledger
    budget: CleanupBudget
    open_timeout_seconds: float
    close_timeout_seconds: float
    keep: bool

    @asynccontextmanager
    async def open(
        self,
        plan: SandboxPlan,
        task_id: str,
        *,
        on_kept: Callable[[Lease, str], None],
        on_closing: Callable[[], None],
    ) -> AsyncIterator[Session]:
        """Open a sandbox for a block, and leave the block only when it is gone or reported.

        Args:
            plan: What it needs.
            task_id: Whose it is.
            on_kept: Told lease and entry hint of a sandbox that stays because people want to look into it.
            on_closing: Called when the block is left, before the sandbox closes.

        Raises:
            SandboxError: It could not be opened in time (`open-timeout`), or broke while it was used (`sandbox-died`, or
                the code of what its environment raised).
        """
        lease = await self.ledger.enter(self.environment, task_id, keep=self.keep)
        holder = _Holder(self, plan, lease, on_kept)
        try:
            # nothing was asked for yet: when the run is ending, ask for nothing
            await trio.lowlevel.checkpoint_if_cancelled()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(holder.hold)
                try:
                    session = await holder.opened(self.open_timeout_seconds)
                    try:
                        with holder.work:
                            yield session
                    finally:
                        on_closing()
                    if holder.is_broken:
                        raise await holder.why_it_broke()
                finally:
                    holder.let_go()
        finally:
            await self._settle(holder)

    async def _settle(self, holder: _Holder) -> None:
        """Remove the lease if the sandbox is gone; make it gone if it may not be."""
        lease = holder.lease
        if self.keep and holder.was_opened:
            self.ledger.hand_over(lease)
            return
        with self.budget.shielded(self.close_timeout_seconds or math.inf) as scope:
            try:
                if holder.was_asked and not holder.is_closed:
                    await self.environment.remove(lease)
                await self.ledger.leave(lease)
            except BaseException as error:  # a failing provider must not hide the attempt's verdict
                is_ours = isinstance(error, trio.Cancelled) and scope.cancel_called
                if is_ours or has_interrupt(error):
                    raise
                cause = describe(most_telling(error))
                _log.warning("sandbox %s could not be removed: %s", lease.name, cause)
        if scope.cancelled_caught:
            _log.warning("sandbox %s was not removed: %s", lease.name, self._why_not_removed())

    def _why_not_removed(self) -> str:
        budget = self.budget
        if budget.was_ended:
            return "cleanup was told to end at once"
        if trio.current_time() >= budget.deadline:
            return f"that took longer than the {budget.grace_seconds:g} s of all cleanup"
        return f"that took longer than {self.close_timeout_seconds:g} s"


@final
class _Holder:
    """The task that keeps a sandbox open."""

    def __init__(
        self,
        house: SandboxHouse,
        plan: SandboxPlan,
        lease: Lease,
        on_kept: Callable[[Lease, str], None],
    ) -> None:
        self.lease = lease
        self.work = trio.CancelScope()
        self.error: BaseException | None = None
        self.was_asked = False
        self.was_opened = False
        self.is_broken = False
        """Whether it came to its end before it was let go."""
        self.is_closed = False
        self._house, self._plan, self._on_kept = house, plan, on_kept
        self._ready = trio.Event()
        self._release = trio.Event()
        self._over = trio.Event()
        self._scope: trio.CancelScope | None = None
        self._session: Session | None = None

    async def hold(self) -> None:
        """Open, wait until let go, close."""
        house = self._house
        self.was_asked = True
        try:
            with house.budget.shielded() as self._scope:
                async with house.environment.open(self._plan, self.lease) as session:
                    self._session, self.was_opened = session, True
                    self._ready.set()
                    try:
                        await self._until_let_go()
                    finally:
                        if house.keep:
                            self._on_kept(self.lease, session.entry_hint())
                self.is_closed = True
        except BaseException as error:  # what a provider raises is this attempt's, not the run's
            if isinstance(error, trio.Cancelled) or has_interrupt(error):
                raise
            self.error = error
            if self._release.is_set() and not self.is_broken:
                cause = describe(most_telling(error))
                _log.warning("closing sandbox %s failed: %s", self.lease.name, cause)
        finally:
            self._ready.set()
            self._over.set()

    async def _until_let_go(self) -> None:
        try:
            await self._release.wait()
        except trio.Cancelled:
            # by a nursery of the environment: the work ends before the closing begins
            self.is_broken = True
            self.work.cancel(reason="the sandbox broke")
            raise

    async def why_it_broke(self) -> SandboxBroke:
        """Wait until the broken sandbox is closed; return what is to be raised."""
        self.let_go()
        await self._over.wait()
        error = SandboxBroke(most_telling(self.error) if self.error else None)
        error.__cause__ = self.error
        return error

    async def opened(self, timeout_seconds: float) -> Session:
        """Wait until the sandbox is open."""
        with trio.move_on_after(timeout_seconds or math.inf) as waiting:
            await self._ready.wait()
        if waiting.cancelled_caught:
            if self._scope is not None:
                self._scope.cancel(reason="the sandbox took too long to open")
            raise SandboxError(
                f"the sandbox was not open after {timeout_seconds:g} s", code="open-timeout"
            )
        if self._session is None:
            raise self._why_it_did_not_open() from self.error
        return self._session

    def _why_it_did_not_open(self) -> InfraError:
        if self.error is None:
            return SandboxError(
                "the sandbox could not be opened: it was cut short", code=NOT_OPENED
            )
        cause = most_telling(self.error)
        if isinstance(cause, InfraError):
            return cause
        text = f"the sandbox could not be opened: {describe(cause)}"
        return SandboxError(text, code=NOT_OPENED)

    def let_go(self) -> None:
        """Let the sandbox close, within the close deadline."""
        self._release.set()
        if self._scope is None:
            return
        limit, now = self._house.close_timeout_seconds or math.inf, trio.current_time()
        if not self._ready.is_set():
            limit = min(limit, OPENING_SECONDS, _OPENING_PART * (self._scope.deadline - now))
        self._scope.deadline = min(self._scope.deadline, now + limit)
