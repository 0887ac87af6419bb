"""The phases of one execution: which one it is in, how long each took, and the deadline of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import final

import trio

from agentcompass.components.base import Benchmark, Harness, Task
from agentcompass.engine.verdict import StrayCancellation
from agentcompass.errors import InfraError
from agentcompass.records import Phase
from agentcompass.spec.resolved import ExecutionConfig


@final
class PhaseTimedOut(InfraError):  # noqa: N818  # it says what happened, as trio's TooSlow does not
    """A phase was not over at its deadline."""

    def __init__(self, phase: Phase, limit_seconds: float) -> None:
        super().__init__(
            f"the {phase} phase was not over after {limit_seconds:g} s", code=f"{phase}-timeout"
        )


@final
class Phases:
    """Where an execution is and what it has spent. Each moment belongs to exactly one phase, or to waiting.

    Args:
        on_enter: Told each phase as it begins, with what it waits for or an empty text.
    """

    def __init__(self, on_enter: Callable[[Phase, str], None]) -> None:
        self.seconds: dict[str, float] = {}
        """By phase; `wait` is time spent at limits and rates, which no deadline counts."""
        self._on_enter = on_enter
        self._current: Phase = "open"
        self._account = "wait"
        self._since = trio.current_time()
        self._failed_in: Phase | None = None
        self._scope: trio.CancelScope | None = None
        self._left_seconds: float | None = None
        """Of the present phase, while its clock stands still."""

    @property
    def blamed(self) -> Phase:
        """The phase that an error belongs to: where it first appeared, not the cleanup it passed through."""
        return self._failed_in or self._current

    def switch(self, phase: Phase, waits_for: str = "") -> None:
        """The execution is now in `phase`, or waits for something before it."""
        self.settle()
        self._current, self._account = phase, "wait" if waits_for else phase
        self._on_enter(phase, waits_for)

    def hold(self, is_held: bool) -> None:
        """Stop the clock of the present phase: it waits for a limit or a retry; or let it go on."""
        scope, now = self._scope, trio.current_time()
        if scope is None or is_held == (self._left_seconds is not None):
            return
        self.settle()
        if is_held:
            self._account, self._left_seconds = "wait", scope.deadline - now
            scope.deadline = math.inf
        else:
            assert self._left_seconds is not None
            self._account, scope.deadline = self._current, now + self._left_seconds
            self._left_seconds = None

    def forgive(self) -> None:
        """The last error was dealt with and is nobody's fault any more."""
        self._failed_in = None

    def settle(self) -> None:
        """Book the time since the last switch."""
        now = trio.current_time()
        self.seconds[self._account] = self.seconds.get(self._account, 0.0) + now - self._since
        self._since = now

    @contextmanager
    def enter(self, phase: Phase, limit_seconds: float) -> Iterator[None]:
        """Run the block as a phase. Its clock starts now: never while something is waited for.

        Args:
            phase: Which.
            limit_seconds: Its deadline; 0 means none.

        Raises:
            PhaseTimedOut: The deadline passed, also if the block turned its cancellation into another error.
        """
        self.switch(phase)
        scope = trio.CancelScope(deadline=trio.current_time() + (limit_seconds or math.inf))
        self._scope = scope
        try:
            with scope:
                yield
            if scope.cancelled_caught:
                raise PhaseTimedOut(phase, limit_seconds)
        except BaseException as error:
            self._failed_in = self._failed_in or phase
            if isinstance(error, Exception) and scope.cancel_called:
                raise PhaseTimedOut(phase, limit_seconds) from None
            if isinstance(error, trio.Cancelled) and trio.current_effective_deadline() > -math.inf:
                # nobody around cancels: left as it is, the next nursery would swallow it
                raise StrayCancellation from error
            raise
        finally:
            self._scope = self._left_seconds = None


def run_limit(config: ExecutionConfig, task: Task, harness: Harness[object]) -> float:
    """Return the seconds an agent has: the request's word, else the task's, else the harness's; 0 means none."""
    limit = _first(config.run_timeout_seconds, task.run_timeout_seconds)
    return config.timeout_multiplier * (harness.run_timeout_seconds if limit is None else limit)


def evaluate_limit(config: ExecutionConfig, task: Task, benchmark: Benchmark[object]) -> float:
    """Return the seconds an evaluation has: the request's word, else the task's, else the benchmark's; 0 means none."""
    limit = _first(config.evaluate_timeout_seconds, task.evaluate_timeout_seconds)
    seconds = benchmark.evaluate_timeout_seconds if limit is None else limit
    return config.timeout_multiplier * seconds


def _first(*limits: float | None) -> float | None:
    return next((limit for limit in limits if limit is not None), None)
