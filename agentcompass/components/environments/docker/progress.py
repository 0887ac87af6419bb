"""Tells people how far a pull or build is: at once, and then now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

import trio

PAUSE_SECONDS: Final = 15.0
_LENGTH: Final = 120
"""Characters of a line of a build's output."""


@final
class Told:
    """Takes every small step and passes on few.

    Args:
        what: Is being done.
        tell: Takes a line for people.
    """

    def __init__(self, what: str, tell: Callable[[str], None]) -> None:
        self._what, self._tell = what, tell
        self._next: float | None = None

    def __call__(self, step: str) -> None:
        """Take a step."""
        now = trio.current_time()
        if self._next is None:
            self._tell(self._what)
        elif now >= self._next and step.strip():
            self._tell(f"{self._what}: {step.strip()[:_LENGTH]}")
        else:
            return
        self._next = now + PAUSE_SECONDS
