"""Who may call an endpoint now: one queue, in order of arrival, before everything that limits its calls.

What limits them: the window, which is found out by trying (`net.window`); a pause that the endpoint asked for, or that
a refusal makes (`net.pauses`); requests and tokens per minute, for those who know theirs (`net.rates`); and the shares
of others who use the same endpoint (`net.shares`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import final

import trio

from agentcompass.net.endpoint_limits import Cause, Limits, Use
from agentcompass.net.pauses import Pauses
from agentcompass.net.rates import Rates
from agentcompass.net.shares import Company, Standing
from agentcompass.net.turns import Entry, Line, PauseTooLongError, Place, Turn, Waiter, Waiting
from agentcompass.net.window import Window


@final
class EndpointLimiter:
    """Lets callers in, first come first served, as many at once and per minute as the endpoint takes.

    Args:
        limits: What is known beforehand.
        pauses: How long all callers wait after a refusal; None: as usual.
        on_change: Called when something changed that others should know, with whether they should know it at once.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        pauses: Pauses | None = None,
        on_change: Callable[[bool], None] = lambda _is_urgent: None,
    ) -> None:
        if limits.cap < 1:
            raise ValueError(f"at least one call must be allowed, not {limits.cap}")
        self.limits = limits
        self._on_change = on_change
        self._window = Window(limits.cap)
        self._pauses = pauses or Pauses()
        self._rates = Rates(limits.rpm, limits.tpm)
        self._company = Company()
        self._inside: dict[int, Entry] = {}
        """By number, the oldest first."""
        self._line = Line()
        self._count = itertools.count()
        self._binds: Cause | None = None
        self._next_at = -math.inf
        self._taken = 0
        self._is_held = False

    # --- what is seen from outside

    @property
    def limit(self) -> int:
        """Calls that may be in flight here at once, 1..cap: the window, or this user's share of it."""
        return min(self.limits.cap, self._company.share(self._window.size, self.limits.cap))

    @property
    def in_use(self) -> int:
        """Calls in flight."""
        return len(self._inside)

    @property
    def waiting(self) -> int:
        """Callers in the queue."""
        return len(self._line)

    @property
    def is_idle(self) -> bool:
        """Whether nobody here calls the endpoint, or wants to."""
        return not self._inside and not self._line

    @property
    def is_alone(self) -> bool:
        """Whether nobody else uses the endpoint, as far as is known."""
        return not self._company.others

    @property
    def pause_seconds(self) -> float:
        """How long nobody will be let in; 0 when there is no pause."""
        return self._pauses.left_seconds(trio.current_time())

    @property
    def use(self) -> Use:
        """How the endpoint is used now."""
        return Use(
            in_use=self.in_use,
            limit=self.limit,
            cap=self.limits.cap,
            rpm=self.limits.rpm,
            tpm=self.limits.tpm,
            waiting=len(self._line),
            binds=self._binds if self._line else None,
            pause_seconds=math.ceil(self.pause_seconds),
            others=len(self._company.others),
        )

    def turn(self) -> Turn:
        """Return a place in the order of arrival, for a call that may need several tries."""
        return Turn(next(self._count), self._taken_by_all)

    def place(
        self,
        turn: Turn | None = None,
        *,
        tokens: float = 0.0,
        patience_seconds: float = math.inf,
        waiting: Waiting = nullcontext,
    ) -> Place:
        """Return a place for one try, to be taken with `async with`.

        Args:
            turn: Of the call; None: it has only this try.
            tokens: What it will use, as far as can be told.
            waiting: What is entered as long as the caller has to wait.
            patience_seconds: The longest pause, as asked by the endpoint, that is worth waiting for. Waiting for
                other callers is not limited by it.

        Raises:
            PauseTooLongError: On entering: the endpoint asked for a longer pause.
            trio.Cancelled: On entering: no place was taken, and nothing used.
        """
        return Place(self, turn or self.turn(), tokens, patience_seconds, waiting)

    # --- what others know, and what they are told

    def narrow(self, limits: Limits) -> None:
        """Hold to further limits, beside those there are."""
        if (both := self.limits.both(limits)) != self.limits:
            self.limits = both
            now, used = trio.current_time(), self._rates
            self._rates = Rates(both.rpm, both.tpm)
            for times in (used.settled_at(now, 0.0), self._company.settled_at):
                self._rates.settle_at(times, now)
            self._divide(is_new=True)
            self._on_change(True)
            self._settle()

    def hold(self) -> None:
        """Let nobody in until `heed` is called: it is not known yet what others do."""
        self._is_held = True

    def standing(self, unseen_seconds: float = 0.0) -> Standing:
        """Return how this user stands, for the others. Times are trio's.

        Args:
            unseen_seconds: How long nothing may be heard of this user.
        """
        now = trio.current_time()
        requests, tokens = self._rates.wanted(now, self._waits_for(is_new=self._is_held))
        requests_settled_at, tokens_settled_at = self._rates.settled_at(now, unseen_seconds)
        return Standing(
            cap=self.limits.cap,
            in_use=self.in_use,
            waiting=len(self._line),
            taken=self._taken,
            findings=self._window.findings,
            resume_at=self._pauses.resume_at,
            wants_requests=requests,
            wants_tokens=tokens,
            requests_settled_at=requests_settled_at,
            tokens_settled_at=tokens_settled_at,
        )

    def heed(self, company: Company) -> bool:
        """Take into account how the others stand now; their times are trio's.

        Returns:
            Whether they should be looked at again soon: what may be done here has changed, or calls wait for them.
        """
        before, is_eager = self._may_do, self._pauses.is_refused
        if company.taken > self._company.taken:
            self._pauses.succeeded()
        if self._is_held:  # those who go later had their share beside this one's
            self._rates.settle_at(company.settled_at, trio.current_time())
        is_new, self._is_held = self._is_held, False
        self._company = company
        self._window.learn(other.findings for other in company.others)
        is_eager |= self._divide(is_new=is_new)
        self._pause_until(company.resume_at)
        self._settle()
        is_eager |= bool(self._line) and self._binds == "others"
        return is_eager or self._may_do != before

    @property
    def _may_do(self) -> tuple[float, ...]:
        return self.limit, self._window.cuts, self._pauses.resume_at

    def _waits_for(self, *, is_new: bool) -> Cause | None:
        """What holds up those who wait; who is new here may have many that are not there yet."""
        if is_new:
            return "start"
        return self._binds if self._line else None

    def _divide(self, *, is_new: bool = False) -> bool:
        """Take one's own part of what is to be divided; return whether that changed one's rates much."""
        now = trio.current_time()
        self._window.cap = self.limits.cap + self._company.cap
        wants = [self._rates.wanted(now, self._waits_for(is_new=is_new))]
        wants += [(other.wants_requests, other.wants_tokens) for other in self._company.others]
        return self._rates.share(wants, now, is_new=is_new)

    # --- the queue

    async def enter(
        self, turn: Turn, tokens: float, patience_seconds: float, waiting: Waiting = nullcontext
    ) -> Entry:
        """Wait for a place; see `place`, which gives it back too."""
        await trio.lowlevel.checkpoint_if_cancelled()
        now = trio.current_time()
        if not self._line and self._opening(tokens, now)[0] <= now:
            self._tell_if_idle()
            return self._let_in(tokens, now)
        if self.pause_seconds > patience_seconds:
            raise PauseTooLongError(self.pause_seconds)
        self._tell_if_idle()
        waiter = Waiter(tokens=tokens, patience_seconds=patience_seconds)
        self._line.join(turn, waiter)
        try:
            with waiting():
                while not waiter.wake.is_set():
                    with trio.CancelScope() as waiter.alarm:
                        self._settle()  # whoever is first in the queue wakes by itself when its time has come
                        await waiter.wake.wait()
                    self._settle()
        except BaseException:
            self._withdraw(waiter)
            raise
        if waiter.entry is None:
            raise waiter.refusal or AssertionError("woken for nothing")
        return waiter.entry

    def _tell_if_idle(self) -> None:
        if self.is_idle:
            self._on_change(False)

    def _withdraw(self, waiter: Waiter) -> None:
        if waiter.entry is not None:  # let in, and cancelled before it could know
            self._rates.take(trio.current_time(), requests=-1.0, tokens=-waiter.tokens)
            self.leave(waiter.entry)
        elif waiter.refusal is None:
            self._line.leave(waiter)
            self._settle()

    def _settle(self) -> None:
        """Let in whom the limits allow; the first of those who stay wakes up when time alone may let it in."""
        while (waiter := self._line.first()) is not None:
            now = trio.current_time()
            opens_at, self._binds = self._opening(waiter.tokens, now)
            if opens_at > now:
                waiter.alarm.deadline = opens_at
                return
            self._line.leave(waiter)
            waiter.entry = self._let_in(waiter.tokens, now)
            waiter.wake.set()

    def _opening(self, tokens: float, now: float) -> tuple[float, Cause | None]:
        """When the next try may go out, as far as time decides that, and what it waits for."""
        if self._is_held:
            return math.inf, "start"
        if now < self._pauses.resume_at:
            return self._pauses.resume_at, "pause"
        size, in_use, limit = self._window.size, self.in_use, self.limit
        if in_use >= limit:
            return math.inf, "limit" if limit >= min(self.limits.cap, size) else "others"
        if in_use and in_use + self._company.in_use >= size:  # one may always go out
            return math.inf, "others"
        if now < self._next_at:
            return self._next_at, "limit"
        return self._rates.opening(tokens, now)

    def _let_in(self, tokens: float, now: float) -> Entry:
        entry = Entry(next(self._count), self._window.cuts, self._pauses.number, now)
        self._inside[entry.number] = entry
        self._window.used(self.in_use + self._company.in_use)
        self._next_at = now + self._window.interval_seconds(self.limit, now - self._oldest_at())
        self._rates.take(now, requests=1.0, tokens=tokens)
        return entry

    def _oldest_at(self) -> float:
        """When the oldest try in flight began; there is one."""
        return next(iter(self._inside.values())).at

    @property
    def _taken_by_all(self) -> int:
        return self._taken + self._company.taken

    @property
    def _is_binding(self) -> bool:
        """Whether more calls would go out if the window were wider."""
        is_waited_for = bool(self._line) and self._binds in ("limit", "others")
        return is_waited_for or self.in_use >= self.limit

    # --- what becomes of a try

    def leave(self, entry: Entry) -> None:
        """Give a place back."""
        del self._inside[entry.number]
        self._settle()

    def correct(self, tokens: float) -> None:
        """A try used so many tokens more than was said, or fewer if negative."""
        self._rates.take(trio.current_time(), tokens=tokens)
        self._settle()

    def succeeded(self, entry: Entry) -> None:
        """The endpoint took the call: there may be room for more."""
        self._taken += 1
        self._pauses.succeeded()
        seconds = trio.current_time() - entry.at
        self._window.succeeded(entry.cuts, seconds, is_binding=self._is_binding)
        self._settle()

    def refused(self, entry: Entry, turn: Turn, asked_seconds: float | None) -> bool:
        """The endpoint said "too many": fewer from now on, and nobody for a while.

        Args:
            entry: The refused try.
            turn: Its call.
            asked_seconds: How long the endpoint wants to be left alone; None if it did not say.

        Returns:
            Whether the endpoint takes no one: since it last refused this call, or this call began, it has answered none,
            here or elsewhere, and it has none in flight that went out before this one.
        """
        now = trio.current_time()
        in_use = self.in_use + self._company.in_use
        if self._window.refused(entry.cuts, now, in_use=in_use, is_binding=self._is_binding):
            self._on_change(True)
        is_known = self._window.is_proven
        self.pause(self._pauses.refused(entry.pauses, asked_seconds, is_known=is_known))
        is_closed = turn.taken == self._taken_by_all and self._oldest_at() >= entry.at
        is_closed &= not self._window.is_loose or self._pauses.is_at_length
        turn.taken = self._taken_by_all
        return is_closed

    def pause(self, seconds: float) -> None:
        """Let nobody in for so long; refuse those in the queue for whom it is too long."""
        if self._pause_until(trio.current_time() + seconds):
            self._on_change(True)
        self._settle()

    def _pause_until(self, time: float) -> bool:
        """Let nobody in before a time; return whether that is news."""
        if not self._pauses.extend(time, trio.current_time()):
            return False
        seconds = self.pause_seconds
        for waiter in self._line:
            if waiter.patience_seconds < seconds:
                self._line.leave(waiter)
                waiter.refusal = PauseTooLongError(seconds)
                waiter.wake.set()
        return True
