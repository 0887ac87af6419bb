"""Counts what the calls of one attempt use, whatever becomes of their answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import final

import attrs

from agentcompass.components.base import Account
from agentcompass.components.models.pricing import Price
from agentcompass.components.models.usage import normalise, unmetered
from agentcompass.records import JSON, Usage


@attrs.define(eq=False)
class MeteredTry:
    """One request to the endpoint, as far as it is known to have got."""

    is_at_work: bool = False
    """The endpoint has the request and may be working on it. Set back when it is known to have refused or failed."""
    is_answered: bool = False
    """It began to answer, and not with an error."""
    raw_usage: JSON = None
    """What the answer says it used."""
    usage: Usage | None = None
    """The same with its cost, once somebody has asked."""


@final
class Meter:
    """The sum for one attempt.

    Args:
        protocol: In whose form usage is reported.
        price: Of the model.
        account: Who pays; None: nobody keeps count.
    """

    def __init__(self, protocol: str, price: Price, account: Account | None = None) -> None:
        self._protocol = protocol
        self._price = price
        self._account = account
        self.usage = Usage()
        """Answers, and requests given up while the endpoint worked on them: these are unmetered."""
        self.answers = 0
        """Requests that the endpoint began to answer, errors apart."""
        self._n_calls = self._n_waiting = 0
        self._is_held = False

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Make a call in the block."""
        self._n_calls += 1
        self._tell()
        try:
            yield
        finally:
            self._n_calls -= 1
            self._tell()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let a call wait in the block, for a limit or for another try."""
        self._n_waiting += 1
        self._tell()
        try:
            yield
        finally:
            self._n_waiting -= 1
            self._tell()

    def _tell(self) -> None:
        is_held = 0 < self._n_calls == self._n_waiting
        if is_held != self._is_held:
            self._is_held = is_held
            if self._account is not None:
                self._account.hold(is_held)

    def check(self) -> None:
        """Refuse a call for which nothing is left; see `components.base.Account`."""
        if self._account is not None:
            self._account.check()

    @contextmanager
    def one_try(self) -> Iterator[MeteredTry]:
        """Count one request, however the block ends: returned, failed or cancelled."""
        started = MeteredTry()
        try:
            yield started
        finally:
            self._count(started)

    def price(self, raw_usage: JSON) -> Usage:
        """Return the usage of one answered request, with its cost."""
        return self._price.priced(normalise(self._protocol, raw_usage), raw_usage)

    def usage_of(self, answered: MeteredTry) -> Usage:
        """Return the same for a try whose answer has told what it used; it is computed once."""
        if answered.usage is None:
            answered.usage = self.price(answered.raw_usage)
        return answered.usage

    def _count(self, done: MeteredTry) -> None:
        self.answers += done.is_answered
        if done.is_answered or done.raw_usage is not None:
            used = self.usage_of(done)
        elif done.is_at_work:
            used = unmetered()
        else:
            return
        self.usage += used
        if self._account is not None:
            self._account.charge(used)
