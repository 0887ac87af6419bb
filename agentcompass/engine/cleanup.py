"""One grace for all cleanup of a run.

A shielded scope cannot be broken from outside, so whoever bounds cleanup must know every shield. All cleanup
runs inside `CleanupBudget.shielded(...)`; when the run is cancelled, `start()` sets one deadline for all of
them, those still to come included, and `expire()` ends them at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import trio


@final
class CleanupBudget:
    """The time that cleanup may take, shared by a whole run.

    Args:
        grace_seconds: Total time for cleanup once the run is cancelled.
    """

    def __init__(self, grace_seconds: float) -> None:
        self.grace_seconds = grace_seconds
        self.deadline = math.inf
        self.was_ended = False
        """Whether somebody asked for the grace to end before its time."""
        self._live: dict[trio.CancelScope, float] = {}

    @property
    def is_started(self) -> bool:
        """Whether the run is being cancelled."""
        return self.deadline < math.inf

    @contextmanager
    def shielded(
        self, limit_seconds: float = math.inf, *, spare_seconds: float = 0.0
    ) -> Iterator[trio.CancelScope]:
        """Protect the block from cancellation, for at most `limit_seconds` and never beyond the grace.

        Afterwards `scope.cancelled_caught` tells whether the block was cut short: report that by name.

        Args:
            limit_seconds: Of this block.
            spare_seconds: Goes on so much longer than the grace: for what must follow cleanup that used it all up.
        """
        deadline = min(trio.current_time() + limit_seconds, self.deadline + spare_seconds)
        with trio.CancelScope(shield=True, deadline=deadline) as scope:
            self._live[scope] = spare_seconds
            try:
                yield scope
            finally:
                del self._live[scope]

    def start(self) -> None:
        """The run is cancelled: from now on, all cleanup together has the grace. Later calls change nothing."""
        if not self.is_started:
            self._shorten(trio.current_time() + self.grace_seconds)

    def expire(self) -> None:
        """End all cleanup now; the ledger still tells what is left."""
        self.was_ended = self.was_ended or trio.current_time() < self.deadline
        self._shorten(trio.current_time())

    def _shorten(self, deadline: float) -> None:
        self.deadline = min(self.deadline, deadline)
        for scope, spare_seconds in self._live.items():
            scope.deadline = min(scope.deadline, self.deadline + spare_seconds)
