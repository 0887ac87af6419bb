"""What the model calls of an orchestration may use: whether one more attempt fits, and what each has used.

An attempt starts only if what it is expected to use fits beside what has been used and what the running ones are
still expected to. Expected is the mean of the finished attempts of the same request; before there is one, what the
running ones have used so far. Nothing is stopped in the middle, so that no work is paid for twice: what is used
exceeds a limit by no more than was in flight when it was reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, TypeAlias, final

import attrs
import trio

from agentcompass.components.base import Account
from agentcompass.errors import ModelError
from agentcompass.records import Usage

Currency: TypeAlias = Literal["cost", "tokens"]

OVER_BUDGET: Final = "over-budget"
"""Code of an attempt that was skipped because it did not fit."""
AMOUNT_OF: Final[Mapping[Currency, Callable[[Usage], float | None]]] = {
    "cost": lambda usage: usage.cost_usd,
    "tokens": lambda usage: None if usage.unmetered_calls else usage.total_tokens,
}
"""How much of it a usage is; None: that is not known."""


def in_words(currency: Currency, amount: float) -> str:
    """Return an amount as people read it."""
    return f"${amount:,.4g}" if currency == "cost" else f"{amount:,.0f} tokens"


@attrs.define(eq=False)
class _Running:
    """An attempt that runs."""

    request: str
    used: float = 0.0


@attrs.define(eq=False)
class _Finished:
    """The finished attempts of one request."""

    count: int = 0
    used: float = 0.0


@final
class Purse:
    """One limit.

    Args:
        currency: Of what.
        limit: US dollars or tokens, more than 0.
    """

    def __init__(self, currency: Currency, limit: float) -> None:
        self.currency, self.limit = currency, limit
        self._amount_of = AMOUNT_OF[currency]
        self._known = 0.0
        self._known_calls = self._unknown_calls = 0
        self._told: set[str] = set()
        """Requests of which a call has told what it used."""
        self._silent: set[str] = set()
        """Those of which one has not."""
        self._running: dict[object, _Running] = {}
        self._finished: dict[str, _Finished] = {}

    @property
    def used(self) -> float:
        """By all calls so far; one that told nothing counts as the mean of those that did."""
        if not self._known_calls:
            return 0.0
        return self._known * (1 + self._unknown_calls / self._known_calls)

    def is_unknown(self, request: str) -> bool:
        """Whether nothing is known of what the calls of a request use, though there were some."""
        return request in self._silent and request not in self._told

    def begin(self, who: object, request: str) -> None:
        """An attempt starts."""
        self._running[who] = _Running(request)

    def charge(self, who: object, usage: Usage) -> None:
        """One of its calls has used something."""
        amount, running = self._amount_of(usage), self._running[who]
        if amount is None:
            self._unknown_calls += 1
            self._silent.add(running.request)
            return
        self._known_calls += 1
        self._known += amount
        self._told.add(running.request)
        running.used += amount

    def end(self, who: object) -> None:
        """It is over."""
        running = self._running.pop(who)
        finished = self._finished.setdefault(running.request, _Finished())
        finished.count += 1
        finished.used += running.used

    def fits(self, request: str) -> bool:
        """Whether one more attempt of a request does."""
        if self.is_unknown(request):
            return False
        expected = {name: self._expected(name) for name in {request, *self._requests()}}
        open_bills = sum(
            max(0.0, expected[running.request] - running.used) for running in self._running.values()
        )
        used = self.used
        return used < self.limit and used + open_bills + expected[request] <= self.limit

    def _requests(self) -> Iterator[str]:
        return (running.request for running in self._running.values())

    def _expected(self, request: str) -> float:
        finished = self._finished.get(request)
        if finished is not None:
            return finished.used / finished.count
        used = (running.used for running in self._running.values() if running.request == request)
        return max(used, default=0.0)


@final
class Budget:
    """The limits of an orchestration.

    Args:
        max_cost: US dollars; None: no limit.
        max_tokens: Input and output together; None: no limit.
    """

    def __init__(self, max_cost: float | None, max_tokens: int | None) -> None:
        limits: dict[Currency, float | None] = {"cost": max_cost, "tokens": max_tokens}
        self.purses = [Purse(name, limit) for name, limit in limits.items() if limit is not None]

    def fits(self, request: str) -> bool:
        """Whether one more attempt of a request does."""
        return all(purse.fits(request) for purse in self.purses)

    def refusal(self, request: str) -> str:
        """Say why one more attempt does not fit."""
        purse = next(purse for purse in self.purses if not purse.fits(request))
        limit = in_words(purse.currency, purse.limit)
        if purse.is_unknown(request):
            return f"what calls use is not known, and no more than {limit} may be used"
        return f"{in_words(purse.currency, purse.used)} of {limit} are used: another attempt does not fit"


@final
class AttemptAccount:
    """What one execution uses (`components.base.Account`).

    Args:
        budget: Of the orchestration.
        request: Whose it is.
        limits: Its own; None: no limit.
    """

    def __init__(
        self, budget: Budget, request: str, limits: Mapping[Currency, float | None]
    ) -> None:
        self.purse = trio.CancelScope()
        """Around the agent's work: cancelled when its own limit is reached and it wants to go on."""
        self.hold: Callable[[bool], None] = lambda _is_held: None
        """Told when all calls of the attempt wait, and when they do no longer."""
        self._budget = budget
        own = [Purse(name, limit) for name, limit in limits.items() if limit is not None]
        self._own = own
        self._all = [*budget.purses, *own]
        for purse in self._all:
            purse.begin(self, request)

    @property
    def is_spent(self) -> bool:
        """Whether a call was refused."""
        return self.purse.cancel_called

    def check(self) -> None:
        """Refuse a call, and have the attempt ended, if its own limit is reached.

        Raises:
            ModelError: It is (code `budget-spent`).
        """
        for purse in self._own:
            if purse.used >= purse.limit:
                self.purse.cancel(reason="its budget is spent")
                limit = in_words(purse.currency, purse.limit)
                text = f"the attempt has used the {limit} that it may"
                raise ModelError(text, code="budget-spent", retryable=False)

    def charge(self, usage: Usage) -> None:
        """Take note of what a call used."""
        for purse in self._all:
            purse.charge(self, usage)

    def of_judge(self) -> Account:
        """Return an account for the judge of this attempt: the run pays, the agent's own limits do not bind it."""
        return _JudgeAccount(self._budget, self)

    def close(self) -> None:
        """The attempt uses nothing any more."""
        for purse in self._all:
            purse.end(self)


@final
class _JudgeAccount:
    def __init__(self, budget: Budget, attempt: AttemptAccount) -> None:
        self._budget, self._attempt = budget, attempt

    def check(self) -> None:
        """Let every call pass: what an agent has left is to be judged."""

    def hold(self, is_held: bool) -> None:
        """The judge's calls wait: the time of the evaluation does not run."""
        self._attempt.hold(is_held)

    def charge(self, usage: Usage) -> None:
        for purse in self._budget.purses:
            purse.charge(self._attempt, usage)
