"""What an engine tells its caller, and the caller's function for it, made safe to call."""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable
from typing import TypeAlias, final

from agentcompass.progress.events import Event
from agentcompass.records import RequestOutcome

Message: TypeAlias = Event | RequestOutcome
"""What an engine tells its caller while it runs."""
Sink: TypeAlias = Callable[[Message], None]

_logger = logging.getLogger("agentcompass")


@final
class Callback:
    """Calls `function` with the context variables of whoever made this object, and logs what it raises.

    The first failure is logged with its traceback, later ones at debug level: a broken callback is called for
    every message of a long run. What is no `Exception` (`SystemExit`, an interrupt) passes.

    Args:
        function: None ignores all messages.
    """

    def __init__(self, function: Sink | None) -> None:
        self._function = function
        self._context = contextvars.copy_context()
        self._failures = 0

    def __call__(self, message: Message) -> None:
        """Hand a message to the caller's function."""
        if self._function is None:
            return
        try:
            self._context.run(self._function, message)
        except Exception:  # the caller's code; the run must not suffer from it
            self._failures += 1
            level = logging.ERROR if self._failures == 1 else logging.DEBUG
            what = type(message).__name__
            _logger.log(level, "the callback for %s failed; the run goes on", what, exc_info=True)
