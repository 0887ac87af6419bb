"""The package's logger while runs are open: as wide as they need, and to the application as it was before."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final, final

PACKAGE_LOGGER: Final = "agentcompass"


class Upward(logging.Handler):
    """Passes on to the application's handlers what they would have got without us."""

    def __init__(self, level: int, parent: logging.Logger) -> None:
        super().__init__(level)
        self._parent = parent

    def emit(self, record: logging.LogRecord) -> None:
        """Hand a record to the parent's handlers, if there are any."""
        if self._parent.hasHandlers():
            self._parent.callHandlers(record)


@final
class Tap:
    """Opens the package's logger as wide as the widest handler needs, and puts it back when the last one goes.

    The logger is the process's, so is this; it holds nothing but handlers of runs that are open.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._handlers: list[logging.Handler] = []
        self._own_level = logging.NOTSET
        self._restore: Callable[[], None] = lambda: None

    def add(self, handler: logging.Handler) -> None:
        """Let a handler hear the package."""
        logger = logging.getLogger(PACKAGE_LOGGER)
        with self._lock:
            if not self._handlers:
                self._take_over(logger)
            self._handlers.append(handler)
            logger.addHandler(handler)
            self._set_level(logger)

    def remove(self, handler: logging.Handler) -> None:
        """Let it go; a handler that is not there is ignored."""
        logger = logging.getLogger(PACKAGE_LOGGER)
        with self._lock:
            logger.removeHandler(handler)
            if handler in self._handlers:
                self._handlers.remove(handler)
            if self._handlers:
                self._set_level(logger)
            else:
                self._restore()

    def _take_over(self, logger: logging.Logger) -> None:
        level, propagates = logger.level, logger.propagate
        self._own_level = logger.getEffectiveLevel()
        upward = None
        if propagates and logger.parent is not None:
            upward = Upward(self._own_level, logger.parent)
            logger.addHandler(upward)
            logger.propagate = False

        def restore() -> None:
            if upward is not None:
                logger.removeHandler(upward)
            logger.setLevel(level)
            logger.propagate = propagates

        self._restore = restore

    def _set_level(self, logger: logging.Logger) -> None:
        logger.setLevel(min(self._own_level, *(handler.level for handler in self._handlers)))


TAP: Final = Tap()
