"""What the events of a run add up to. Pure: events and the time go in, state comes out.

Memory grows with what is active at the moment and with the number of requests, never with the number of tasks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from functools import singledispatchmethod
from typing import Final, TypeAlias, final

from agentcompass.progress import events
from agentcompass.progress.state import ActiveAttempt, RequestState
from agentcompass.records import JSON, Usage

_RATE_WINDOW: Final = 256
"""Finished attempts over which the rate is taken."""
_RETRY_WINDOW: Final = 1024
_MAX_KEPT: Final = 20

AttemptKey: TypeAlias = tuple[str, str, int]
"""Request, task, attempt."""


@final
class Tracker:
    """Everything a display shows about an orchestration.

    Attributes:
        requests: By name, in the order in which they were first heard of.
        active: Attempts that run now.
        model_retries: Model calls tried again, so far.
        cleanup: The notice with which cleanup began; None while the run goes on.
        sandboxes: Those that may exist, as last heard.
        endpoints: Model endpoints at which calls wait, as last heard; see `LimitsChanged`.
        left: Names of sandboxes that could not be confirmed gone.
        kept: The first few sandboxes that were left on purpose; `n_kept` counts all.
    """

    def __init__(self) -> None:
        self.requests: dict[str, RequestState] = {}
        self.active: dict[AttemptKey, ActiveAttempt] = {}
        self.model_retries = 0
        self.started_at: float | None = None
        self.cleanup: events.CleanupStarted | None = None
        self.sandboxes = 0
        self.endpoints: Mapping[str, Mapping[str, JSON]] = {}
        self.left: tuple[str, ...] = ()
        self.kept: list[events.SandboxKept] = []
        self.n_kept = 0
        self._waiting: dict[str, Mapping[str, int]] = {}
        self._finishes: deque[float] = deque(maxlen=_RATE_WINDOW)
        self._began_at: float | None = None
        """When there was something to do first: attempts are counted per second from then on."""
        self._retries: deque[tuple[float, str]] = deque(maxlen=_RETRY_WINDOW)

    def apply(self, event: events.Event) -> None:
        """Take one event into account; unknown ones change nothing."""
        if self.started_at is None:
            self.started_at = event.at
        self._take(event)

    def request(self, name: str) -> RequestState:
        """Return the state of a request, made when it is first heard of."""
        return self.requests.setdefault(name, RequestState(name=name))

    # --- sums

    @property
    def planned(self) -> int:
        """Attempts of all requests prepared so far."""
        return sum(state.planned for state in self.requests.values())

    @property
    def done(self) -> int:
        """Attempts with a verdict, over all requests."""
        return sum(state.done for state in self.requests.values())

    @property
    def usage(self) -> Usage:
        """Tokens and money of every execution so far."""
        return sum((state.usage for state in self.requests.values()), Usage())

    def waiting(self) -> dict[str, int]:
        """Attempts that wait, by the limit they wait for, most first."""
        whole = self._waiting.get("")
        parts = [whole] if whole is not None else list(self._waiting.values())
        sums: dict[str, int] = {}
        for part in parts:
            for limit, n in part.items():
                if n > 0:
                    sums[limit] = sums.get(limit, 0) + n
        return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))

    def phases(self) -> dict[str, int]:
        """Active attempts by phase, most first."""
        sums: dict[str, int] = {}
        for attempt in self.active.values():
            sums[attempt.phase] = sums.get(attempt.phase, 0) + 1
        return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))

    def grace_left(self, now: float) -> float | None:
        """Seconds that cleanup may still take, 0 when they are over; None while the run goes on."""
        if self.cleanup is None:
            return None
        return max(0.0, self.cleanup.at + self.cleanup.grace_seconds - now)

    # --- speed

    def rate(self, now: float) -> float | None:
        """Attempts finished per second over the last few hundred; None while nothing is finished."""
        n = len(self._finishes)
        begin = self._began_at
        if n == _RATE_WINDOW:
            n, begin = n - 1, self._finishes[0]
        if not n or begin is None or now <= begin:
            return None
        return n / (now - begin)

    def eta_seconds(self, now: float) -> float | None:
        """Seconds until all that is planned is done, at the present rate; None while that is a guess."""
        rate = self.rate(now)
        if rate is None or len(self._finishes) < 3:
            return None
        return max(0, self.planned - self.done) / rate

    def recent_retries(self, now: float, window_seconds: float = 60.0) -> dict[str, int]:
        """Model calls tried again lately, by cause, most first."""
        sums: dict[str, int] = {}
        for at, code in reversed(self._retries):
            if at < now - window_seconds:
                break
            sums[code] = sums.get(code, 0) + 1
        return dict(sorted(sums.items(), key=lambda item: (-item[1], item[0])))

    # --- one method an event

    @singledispatchmethod
    def _take(self, event: events.Event) -> None:
        """Events without a method change nothing."""

    @_take.register
    def _(self, event: events.RunPrepared) -> None:
        state = self.request(event.request)
        state.run_id, state.run_dir = event.run_id, event.run_dir
        state.planned, state.reused, state.metric = event.planned, event.reused, event.metric
        if self._began_at is None:
            self._began_at = event.at
        if event.reused_score is not None:
            state.running_score.add_mean(event.reused_score, event.reused)

    @_take.register
    def _(self, event: events.AttemptStarted) -> None:
        if self._began_at is None:
            self._began_at = event.at
        self.active[event.request, event.task, event.attempt] = ActiveAttempt(
            request=event.request,
            task=event.task,
            attempt=event.attempt,
            execution=event.execution,
            started_at=event.at,
            phase_started_at=event.at,
        )

    @_take.register
    def _(self, event: events.PhaseStarted) -> None:
        # A late phase of an attempt that is over must not bring it back: it would stay for ever.
        attempt = self.active.get((event.request, event.task, event.attempt))
        if attempt is not None:
            if attempt.phase != event.phase:
                attempt.phase_started_at = event.at
            attempt.phase, attempt.detail = event.phase, event.detail

    @_take.register
    def _(self, event: events.ModelRetried) -> None:
        self.model_retries += 1
        self._retries.append((event.at, event.code))
        attempt = self.active.get((event.request, event.task, event.attempt))
        if attempt is not None:
            attempt.model_retries += 1

    @_take.register
    def _(self, event: events.AttemptFinished) -> None:
        self.active.pop((event.request, event.task, event.attempt), None)
        state = self.request(event.request)
        state.usage += event.usage
        if event.verdict == "infra":
            state.count_failure(event.code or "unknown", event.task, event.message or "")
        if event.will_retry:
            state.retried += 1
            return
        state.verdicts[event.verdict] += 1
        self._finishes.append(event.at)
        if event.score is not None and math.isfinite(event.score):
            state.running_score.add(event.score)

    @_take.register
    def _(self, event: events.RequestFinished) -> None:
        self.request(event.request).status = event.status
        self._waiting.pop(event.request, None)

    @_take.register
    def _(self, event: events.LimitsChanged) -> None:
        self._waiting[event.request] = event.waiting
        self.sandboxes = event.sandboxes
        self.endpoints = event.endpoints

    @_take.register
    def _(self, event: events.CleanupStarted) -> None:
        if self.cleanup is None:
            self.cleanup, self.sandboxes = event, event.sandboxes

    @_take.register
    def _(self, event: events.SandboxesLeft) -> None:
        self.left = event.names

    @_take.register
    def _(self, event: events.SandboxKept) -> None:
        self.n_kept += 1
        if len(self.kept) < _MAX_KEPT:
            self.kept.append(event)
