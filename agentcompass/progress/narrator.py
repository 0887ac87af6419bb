"""What a run says in words: the lines that a person should read, once each. Pure: events and the time in, lines out.

The live display shows some of it in its frame all the time, and so asks for `brief`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import singledispatchmethod
from typing import Final, Literal, TypeAlias, final

from agentcompass.data import frozen
from agentcompass.errors import counted
from agentcompass.progress import events, text
from agentcompass.progress.state import ActiveAttempt, RequestState
from agentcompass.progress.tracker import Tracker
from agentcompass.records import JSON

Level: TypeAlias = Literal["info", "warning", "error"]

_STATUS_EVERY_SECONDS: Final = 60.0
_STEP_EVERY_SECONDS: Final = 2.0
_COUNTDOWN_EVERY_SECONDS: Final = 5.0
_COUNTDOWN_LINES: Final = 12
"""Of one cleanup, at most about so many."""
_STEPS: Final = 10
"""A line each time another one of so many parts of a request is done."""
_STORM: Final = 20
"""Model retries within a minute that are worth a line."""
_MESSAGE_LIMIT: Final = 300
_MAX_NAMES: Final = 20
_MAX_SLOWEST: Final = 3


@frozen
class Line:
    """One line for people, clean."""

    text: str
    level: Level = "info"


@final
class Narrator:
    """Turns events into lines, given what they add up to.

    Args:
        tracker: Fed with each event before the narrator is.
        clean: For the untrusted parts: names, messages, notices.
        glyphs: What may stand between the parts of a line.
        brief: Leave out what the live display shows all the time: steps, retry storms, the line each minute.
    """

    def __init__(
        self,
        tracker: Tracker,
        clean: text.Clean,
        glyphs: text.Glyphs = text.ASCII,
        *,
        brief: bool = False,
    ) -> None:
        self._tracker = tracker
        self._clean = clean
        self._brief = brief
        self._between = f" {glyphs.dot} "
        self._steps: dict[str, int] = {}
        self._last_status: float | None = None
        self._last_storm: float | None = None

    def tell(self, event: events.Event) -> list[Line]:
        """Return the lines that an event is worth."""
        return [Line(self._clean(line.text), line.level) for line in self._lines(event)]

    def tick(self, now: float) -> list[Line]:
        """Return what is due because time has passed: a line a minute, and the countdown of cleanup."""
        if self._last_status is None:
            self._last_status = now
        cleanup = self._tracker.cleanup
        every = _STATUS_EVERY_SECONDS if cleanup is None else _countdown_every(cleanup)
        if self._brief or now - self._last_status < every:
            return []
        said = self._whole_status(now) if cleanup is None else self._countdown(now)
        if not said:
            return []
        self._last_status = now
        return [Line(self._clean(said))]

    # --- lines by event

    @singledispatchmethod
    def _lines(self, event: events.Event) -> Iterator[Line]:
        yield from ()

    @_lines.register
    def _(self, event: events.RunPrepared) -> Iterator[Line]:
        reused = f", {event.reused} of them reused" if event.reused else ""
        yield Line(f"{_named(event.request)}: {counted(event.planned, 'attempt')} planned{reused}")
        yield Line(f"{_named(event.request)}: results in {event.run_dir}")
        self._last_status = event.at

    @_lines.register
    def _(self, event: events.AttemptFinished) -> Iterator[Line]:
        state = self._tracker.request(event.request)
        if event.verdict == "infra":
            yield from self._failure(event, state)
        if not event.will_retry and not self._brief:
            yield from self._step(state, event.at)

    def _failure(self, event: events.AttemptFinished, state: RequestState) -> Iterator[Line]:
        cause = state.causes.get(event.code or "unknown")
        if cause is None or not _is_power_of_ten(cause.count):
            return
        then = ", will be retried" if event.will_retry else ""
        if cause.count == 1:
            said = text.shortened(self._clean(event.message or "no message"), _MESSAGE_LIMIT)
            yield Line(
                f"{_named(event.request)}: first {_named(cause.code)} (task {_named(event.task)}){then}: {said}",
                "warning",
            )
        else:
            yield Line(
                f"{_named(event.request)}: {_named(cause.code)} for the {cause.count}th time",
                "warning",
            )

    def _step(self, state: RequestState, now: float) -> Iterator[Line]:
        at_start = int(state.reused / max(1, state.planned) * _STEPS)
        step = int(state.fraction * _STEPS)
        # A run that is over in a moment is told by its end alone.
        is_quiet = self._last_status is None or now - self._last_status >= _STEP_EVERY_SECONDS
        if step > self._steps.get(state.name, at_start) and is_quiet:
            self._steps[state.name] = step
            self._last_status = now
            yield Line(self._request_status(state, now))

    @_lines.register
    def _(self, event: events.ModelRetried) -> Iterator[Line]:
        if self._brief or (self._last_storm is not None and event.at - self._last_storm < 60):
            return
        recent = self._tracker.recent_retries(event.at)
        if sum(recent.values()) >= _STORM:
            self._last_storm = event.at
            causes = ", ".join(f"{n} {code}" for code, n in list(recent.items())[:3])
            yield Line(f"many model calls are tried again: {causes} within a minute", "warning")

    @_lines.register
    def _(self, event: events.RequestFinished) -> Iterator[Line]:
        is_alone = len(self._tracker.requests) == 1
        state = self._tracker.request(event.request)
        head = f"{_named(event.request)}: {event.status.replace('_', ' ')}"
        if event.run_dir is None:
            # There is nothing to tell of it but why, and that is told once, by whoever asked for it.
            if not is_alone:
                yield Line(f"{head} before its first attempt", "warning")
            return
        parts = [
            head,
            f"{state.metric} {text.score(event.score, event.ci95)}",
            f"coverage {event.coverage:.1%}",
        ]
        yield Line(self._between.join(parts), "info" if event.status == "completed" else "warning")
        # The error of a request that is alone is told by whoever asked for it.
        if event.error and not is_alone:
            yield Line(f"{_named(event.request)}: {event.error}", "error")

    @_lines.register
    def _(self, event: events.CleanupStarted) -> Iterator[Line]:
        self._last_status = event.at
        active = len(self._tracker.active)
        cancelled = f"cancelling {counted(active, 'attempt')}, " if active else ""
        yield Line(
            f"ending the run ({event.reason}): {cancelled}removing"
            f" {counted(event.sandboxes, 'sandbox', 'sandboxes')},"
            f" for at most {event.grace_seconds:g} s; Ctrl-C again ends this now",
            "warning",
        )

    @_lines.register
    def _(self, event: events.SandboxesLeft) -> Iterator[Line]:
        if not event.names:
            return
        count = counted(len(event.names), "sandbox", "sandboxes")
        yield Line(f"{count} could not be confirmed gone:", "error")
        for name in event.names[:_MAX_NAMES]:
            yield Line(f"  {name}", "error")
        if len(event.names) > _MAX_NAMES:
            yield Line(f"  and {len(event.names) - _MAX_NAMES} more", "error")
        yield Line(event.hint, "error")

    @_lines.register
    def _(self, event: events.SandboxKept) -> Iterator[Line]:
        if self._tracker.n_kept <= len(self._tracker.kept):
            yield Line(
                f"kept sandbox {_named(event.name)} (task {_named(event.task)}): {event.hint}"
            )
        elif _is_power_of_ten(self._tracker.n_kept):
            yield Line(
                f"{self._tracker.n_kept} sandboxes are kept; `agentcompass env list` shows all"
            )

    @_lines.register
    def _(self, event: events.Notice) -> Iterator[Line]:
        level: Level = "info"
        if event.level in ("warning", "error"):
            level = "warning" if event.level == "warning" else "error"
        who = f"{_named(event.request)}: " if event.request else ""
        yield Line(f"{who}{event.text}", level)

    # --- status lines

    def _request_status(self, state: RequestState, now: float) -> str:
        running = state.running_score
        parts = [
            f"{_named(state.name)}: {state.fraction:.0%}, {state.done}/{state.planned} done",
            f"{state.metric} {text.score(running.mean, running.interval)}" if running.n else "",
            verdicts(state),
            *self._speed(now),
        ]
        return self._between.join(filter(None, parts))

    def _whole_status(self, now: float) -> str:
        tracker = self._tracker
        waiting = ", ".join(f"{n} for {limit}" for limit, n in tracker.waiting().items())
        tail = [
            f"{len(tracker.active)} active" if tracker.active else "",
            f"waiting: {waiting}" if waiting else "",
            *held_calls(tracker),
            self._oldest(now),
        ]
        unfinished = [state for state in tracker.requests.values() if state.status is None]
        if len(tracker.requests) == 1 and unfinished:
            head = self._request_status(unfinished[0], now)
        else:
            n_done = len(tracker.requests) - len(unfinished)
            counts = f"{tracker.done}/{counted(tracker.planned, 'attempt')} done"
            head = self._between.join(
                [
                    f"{n_done}/{counted(len(tracker.requests), 'request')} finished",
                    counts,
                    *self._speed(now),
                ]
            )
        return self._between.join(filter(None, [head, *tail]))

    def _countdown(self, now: float) -> str:
        """What cleanup is still busy with; empty when it is over, or its time is."""
        tracker, left = self._tracker, self._tracker.grace_left(now)
        if not left or not (tracker.active or tracker.sandboxes):
            return ""
        slowest = sorted(tracker.active.values(), key=lambda attempt: attempt.phase_started_at)
        named = [
            f"{_named(attempt.task)} in {attempt.phase or 'start'} for"
            f" {text.duration(now - attempt.phase_started_at)}"
            for attempt in slowest[:_MAX_SLOWEST]
        ]
        more = len(slowest) - len(named)
        named += [f"{more} more"] if more else []
        what = f"cleaning up: {to_be_removed(tracker)}, {text.duration(left)} left"
        return self._between.join(filter(None, [what, ", ".join(named)]))

    def _speed(self, now: float) -> Iterator[str]:
        tracker = self._tracker
        rate, eta = tracker.rate(now), tracker.eta_seconds(now)
        if rate:
            yield text.pace(rate)
        if eta and eta >= 1:
            yield f"{text.duration(eta)} left"
        yield spent(tracker)

    def _oldest(self, now: float) -> str:
        attempt = oldest(self._tracker.active.values())
        if attempt is None or now - attempt.phase_started_at < _STATUS_EVERY_SECONDS:
            return ""
        age = text.duration(now - attempt.phase_started_at)
        return f"longest: {attempt.task} in {attempt.phase or 'start'} for {age}"


def to_be_removed(tracker: Tracker) -> str:
    """Return how many sandboxes may still be there, of how many when cleanup began: `2 of 5 sandboxes`."""
    then, now = tracker.cleanup.sandboxes if tracker.cleanup else 0, tracker.sandboxes
    all_ = counted(max(then, now), "sandbox", "sandboxes")
    return f"{now} of {all_}" if now < then else all_


def verdicts(state: RequestState) -> str:
    """Return a request's verdicts as `118 graded, 2 infra`; empty while there are none."""
    counts: dict[str, int] = {"reused": state.reused}
    counts.update({str(verdict): n for verdict, n in state.verdicts.items()})
    shown = [f"{n} {verdict}" for verdict, n in counts.items() if n]
    if state.retried:
        shown.append(counted(state.retried, "retry", "retries"))
    return ", ".join(shown)


def spent(tracker: Tracker) -> str:
    """Return tokens and money so far; empty while no model was called."""
    usage = tracker.usage
    if not usage.calls:
        return ""
    shown = text.tokens(usage)
    return f"{shown} {'token' if shown == '1' else 'tokens'}, {text.money(usage.cost_usd)}"


def held_calls(tracker: Tracker) -> list[str]:
    """Return what holds back model calls, as `20 calls at api.example.com: limit 12 of 256`; an item for each endpoint."""
    return [
        f"{counted(use['waiting'], 'call')} at {_named(host)}: {_binding(use)}"
        for host, use in tracker.endpoints.items()
    ]


def _binding(use: Mapping[str, JSON]) -> str:
    """What a caller in the queue of an endpoint waits for."""
    binds, others = use["binds"], use["others"]
    if use["pause_seconds"]:
        return f"paused {text.duration(use['pause_seconds'])}"
    if binds in ("rpm", "tpm"):
        said = f"{binds} {use[binds]}"
    elif binds == "start":
        said = "asking other runs"
    else:
        said = f"limit {use['limit']} of {use['cap']}"
    return f"{said}, shared with {counted(others, 'other run')}" if others else said


def oldest(attempts: Iterable[ActiveAttempt]) -> ActiveAttempt | None:
    """Return the attempt that has been in its phase for longest; None of none."""
    return min(attempts, key=lambda attempt: attempt.phase_started_at, default=None)


def _countdown_every(cleanup: events.CleanupStarted) -> float:
    return max(_COUNTDOWN_EVERY_SECONDS, cleanup.grace_seconds / _COUNTDOWN_LINES)


def _named(name: str) -> str:
    """A name as part of a line, of which it cannot eat what follows."""
    return text.printable(name)


def _is_power_of_ten(count: int) -> bool:
    return count > 0 and str(count).strip("0") == "1"
