"""How a run is ended from outside: by a signal, its own time limit, or whoever called it.

The first request is *soft*: no new work, running work is cancelled, cleanup has the grace. The second, if
somebody makes it, is *hard*: the grace ends now. The first cause is the one that is reported.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, TypeAlias, TypeVar, final

import trio

from agentcompass.engine.cleanup import CleanupBudget

T = TypeVar("T")

CancelReason: TypeAlias = Literal["sigint", "sigterm", "sighup", "timeout", "caller", "store"]

EXIT_CODES: Final[Mapping[str, int]] = {
    "sigint": 130,
    "sigterm": 143,
    "sighup": 129,
    "timeout": 124,
}
"""The process exit code that tells who ended a run early, by reason; other reasons have none of their own."""

_OWN: Final[frozenset[CancelReason]] = frozenset({"timeout", "store"})
"""Reasons of the run itself: they end it, and hurry nobody who is cleaning up already."""


@final
class Control:
    """The two handles of a run. Made before it starts; usable from any thread, at any time, also after its end.

    Nothing here takes a lock: a signal handler may interrupt any line of it and ask again.

    Args:
        grace_seconds: Total time for cleanup after the first request to end.
    """

    def __init__(self, grace_seconds: float) -> None:
        self.budget = CleanupBudget(grace_seconds)
        self.reason: CancelReason | None = None
        """Why the run is being ended; None while nobody asked."""
        self.on_cancel: Callable[[CancelReason], None] = lambda _reason: None
        """Told once, inside the run, when it begins to end."""
        self.sweep: Callable[[], object] = lambda: None
        """What must still happen, synchronously and quickly, when the process leaves without waiting for cleanup."""
        self.owns_interrupts = False
        """Whether SIGINT arrives here as a request: then a KeyboardInterrupt is some component's own doing."""
        self.soft = trio.CancelScope()
        """Everything that is work happens inside it."""
        self._requests: deque[CancelReason] = deque()
        self._token: trio.lowlevel.TrioToken | None = None

    @property
    def first_reason(self) -> CancelReason | None:
        """Why the run is to end, also while nobody has got to it."""
        waiting = tuple(self._requests)
        return self.reason or (waiting[0] if waiting else None)

    @property
    def was_asked(self) -> bool:
        """Whether somebody asked the run to end; may be read from any thread."""
        return self.first_reason is not None

    def request_cancel(self, reason: CancelReason) -> None:
        """Ask the run to end: softly the first time, at once the second."""
        self._requests.append(reason)
        # in this order: a run that starts in between has set its token before it looks at the requests
        token = self._token
        if token is not None:
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(self._take)

    def cancel_now(self, reason: CancelReason) -> None:
        """The same from inside the run, taking effect immediately."""
        self._requests.append(reason)
        self._take()

    async def run(self, main: Callable[[], Awaitable[T]]) -> T:
        """Run `main` so that requests reach it, those made before included."""
        self._token = trio.lowlevel.current_trio_token()
        if threading.current_thread() is not threading.main_thread():
            self.owns_interrupts = True  # Python raises real ones in the main thread only
        self._take()
        return await main()

    def _take(self) -> None:
        while self._requests:
            reason = self._requests.popleft()
            if self.reason is None:
                self.reason = reason
                self.budget.start()
                self.soft.cancel(reason=f"run ended by {reason}")
                self.on_cancel(reason)
            elif reason not in _OWN:
                self.budget.expire()
