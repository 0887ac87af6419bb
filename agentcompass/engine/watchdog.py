"""The last resort of a process that is ours: it leaves when a run that was to end has not.

A component that blocks the event loop, or that shields itself without a bound, would keep the process for ever:
no cancellation reaches it. A thread looks from outside. It takes no lock, since a signal handler may have been
interrupted anywhere.
"""

from __future__ import annotations

import contextvars
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from agentcompass.engine.control import EXIT_CODES, Control

SPARE_SECONDS: Final = 4.0
"""After the grace, for summing up and the last writes; grace plus 5 s is what users are promised."""
LOOK_SECONDS: Final = 0.25
TELL_SECONDS: Final = 0.5
"""For the message to reach the terminal."""

_log = logging.getLogger("agentcompass.engine")


@contextmanager
def watchdog(
    control: Control, timeout_seconds: float, *, leave: Callable[[int], object] = os._exit
) -> Iterator[None]:
    """Watch the block from a thread; end the process when it has outlived its end.

    Args:
        control: Of the run in the block.
        timeout_seconds: The run's own time limit, after which it should have asked for its end itself; 0 for none.
        leave: Ends the process with an exit code.
    """
    over = threading.Event()
    here = contextvars.copy_context()  # by which the log knows whose message it is
    args = (_watch, control, timeout_seconds or math.inf, over, leave)
    name = "agentcompass-watchdog"
    threading.Thread(target=here.run, args=args, name=name, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _watch(
    control: Control, limit: float, over: threading.Event, leave: Callable[[int], object]
) -> None:
    started, ends_at = time.monotonic(), math.inf
    while not over.wait(LOOK_SECONDS):
        now = time.monotonic()
        if ends_at == math.inf and (control.was_asked or now > started + limit + SPARE_SECONDS):
            ends_at = now + control.budget.grace_seconds + SPARE_SECONDS
        if now > ends_at:
            _log.error(
                "something does not react to the end of the run; the process leaves without it. "
                "Finished attempts are on disk; `agentcompass env list` shows sandboxes that may be left."
            )
            over.wait(TELL_SECONDS)
            control.sweep()
            leave(EXIT_CODES.get(control.first_reason or "timeout", 1))
            return
