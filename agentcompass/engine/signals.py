"""Ctrl-C once, twice, three times; SIGTERM; a terminal that is closed.

The handler is a plain function, not a task: it also works while the event loop is stuck in somebody's
synchronous code, which is when people press the keys most.
"""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, Literal, TypeAlias, final

from agentcompass.engine.control import EXIT_CODES, CancelReason, Control

Step: TypeAlias = Literal["soft", "hard", "leave"]

BURST_SECONDS: Final = 0.1
"""Signals that come so close together are one: `timeout` of coreutils, for one, sends each to the process and to its group."""

REASONS: Final[dict[int, CancelReason]] = {
    signal.SIGINT: "sigint",
    signal.SIGTERM: "sigterm",
    signal.SIGHUP: "sighup",
}


def escalation(n: int) -> Step:
    """What the n-th signal means, n from 1: end softly, end cleanup too, leave the process."""
    if n <= 1:
        return "soft"
    return "hard" if n == 2 else "leave"


def free_signals() -> frozenset[signal.Signals]:
    """The signals that a library may take for the time of a call.

    None, unless this is the main thread and Ctrl-C still does what Python makes it do: otherwise the application
    has its own ideas about signals.
    """
    if threading.current_thread() is not threading.main_thread():
        return frozenset()
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return frozenset()
    others = {signal.SIGTERM, signal.SIGHUP}
    unhandled = {number for number in others if signal.getsignal(number) is signal.SIG_DFL}
    return frozenset({signal.SIGINT, *unhandled})


def ending_signals() -> frozenset[signal.Signals]:
    """The signals that end a process of ours, whatever handled them before; not SIGHUP under nohup."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    hang_up = frozenset() if ignored else frozenset({signal.SIGHUP})
    return frozenset({signal.SIGINT, signal.SIGTERM}) | hang_up


@contextmanager
def watch_signals(
    control: Control,
    numbers: Collection[signal.Signals],
    *,
    may_leave: bool = True,
    deaf_afterwards: bool = False,
    leave: Callable[[int], object] = os._exit,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Turn signals into requests to `control` while the block runs; does nothing outside the main thread.

    Args:
        control: Asked to end the run: softly by the first signal, at once by the second.
        numbers: Which signals; SIGINT and SIGTERM count together.
        may_leave: Whether a third one runs `control.sweep()` and ends the process. False where the process is
            not ours to end; it then changes nothing.
        deaf_afterwards: Ignore SIGINT when the block is over, without a moment in between, instead of putting the
            former handler back. For a process that is about to exit: an impatient Ctrl-C more would kill it with
            a traceback after everything went well.
        leave: Ends the process with an exit code.
        clock: Tells the time in seconds.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    control.owns_interrupts = signal.SIGINT in numbers
    handler = _Escalation(control, leave if may_leave else None, clock)
    former = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, previous in former.items():
            if deaf_afterwards and number == signal.SIGINT:
                signal.signal(number, signal.SIG_IGN)
            else:
                # None: whoever set it was not Python, and cannot be put back
                signal.signal(number, signal.SIG_DFL if previous is None else previous)


@final
class _Escalation:
    def __init__(
        self,
        control: Control,
        leave: Callable[[int], object] | None,
        clock: Callable[[], float],
    ) -> None:
        self._control = control
        self._leave, self._clock = leave, clock
        self._count = 0
        self._last_at = -math.inf

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        before, self._last_at = self._last_at, self._clock()
        if self._last_at - before < BURST_SECONDS:
            return
        self._count += 1
        if escalation(self._count) != "leave":
            self._control.request_cancel(REASONS[number])
        elif self._leave is not None:
            try:
                self._control.sweep()
            finally:
                reason = self._control.reason or REASONS[number]
                self._leave(EXIT_CODES.get(reason, EXIT_CODES["sigint"]))
