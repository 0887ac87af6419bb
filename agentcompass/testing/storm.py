"""Faults mixed into the answers of an endpoint, reproducibly: what becomes of a request depends on its words, on how often it was asked and on a seed, and not on what else goes on."""

from __future__ import annotations

import collections
import hashlib
import random
import threading
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias, final, get_args

from agentcompass.testing.reactions import (
    Behaviour,
    Reaction,
    Seen,
    anthropic_error,
    as_function,
    error,
    no_answer,
    rate_limited,
)

Fault: TypeAlias = Literal[
    "rate_limited",
    "rate_limited_for_long",
    "overloaded",
    "server_error",
    "bad_gateway",
    "reset",
    "reset_midway",
    "closed",
    "truncated",
    "stalled",
    "silent",
    "slow",
]

FAULTS: Final[tuple[Fault, ...]] = get_args(Fault)
LONG_SECONDS: Final = 3600
"""What `rate_limited_for_long` asks for."""


@final
class Storm:
    """A behaviour that answers as another one does, and now and then with a fault.

    Args:
        behaviour: What is answered otherwise.
        seed: Another seed, other faults.
        slow_seconds: How long `slow` takes.
        shares: By fault, the part of requests, 0 to 1, that it happens to; together no more than 1. `rate_limited` (429,
            at once again), `rate_limited_for_long` (429 with an hour of Retry-After), `overloaded` (529), `server_error` (500),
            `bad_gateway` (502, no JSON), `reset` and `closed` (the connection ends without an answer), `reset_midway`
            and `truncated` (it ends within the answer), `stalled` (it stays open within the answer), `silent` (it stays open without
            an answer), `slow`.
    """

    def __init__(
        self,
        behaviour: Behaviour,
        *,
        seed: int = 0,
        slow_seconds: float = 1.0,
        **shares: float,
    ) -> None:
        unknown = sorted(set(shares) - set(FAULTS))
        if unknown:
            raise ValueError(f"there is no fault {unknown[0]!r}; there are {', '.join(FAULTS)}")
        if min(shares.values(), default=0) < 0 or sum(shares.values()) > 1:
            raise ValueError("shares of faults are parts of all requests, together no more than 1")
        self._answer = as_function(behaviour)
        self._seed, self._shares, self._slow_seconds = seed, shares, slow_seconds
        self._lock = threading.Lock()
        self._asked: collections.Counter[str] = collections.Counter()
        self.happened: collections.Counter[str] = collections.Counter()
        """How often each fault has happened."""

    def __call__(self, seen: Seen) -> Reaction:
        """React to a request."""
        words = hashlib.sha256(seen.body).hexdigest()
        with self._lock:
            number = self._asked[words]
            self._asked[words] += 1
            chance = random.Random(f"{self._seed}:{words}:{number}")  # no secret
            fault = self._drawn(chance.random())
            if fault is not None:
                self.happened[fault] += 1
        if fault is None:
            return self._answer(seen)
        return _MADE[fault](self, seen)

    def _drawn(self, number: float) -> str | None:
        for fault, share in self._shares.items():
            number -= share
            if number < 0:
                return fault
        return None

    def whole(self, seen: Seen) -> Reaction:
        """Return what would be answered without a fault."""
        return self._answer(seen)

    def slow(self, seen: Seen) -> Reaction:
        """Return the same, late."""
        return self._answer(seen).but(delay_seconds=self._slow_seconds)


def _half(reaction: Reaction) -> int:
    return sum(map(len, reaction.wire())) // 2


def _broken(then: Literal["reset", "close", "stall"]) -> Callable[[Storm, Seen], Reaction]:
    def make(storm: Storm, seen: Seen) -> Reaction:
        answer = storm.whole(seen)
        return answer.but(send_bytes=_half(answer), then=then)

    return make


_MADE: Final[Mapping[str, Callable[[Storm, Seen], Reaction]]] = {
    "rate_limited": lambda _storm, _seen: rate_limited("0"),
    "rate_limited_for_long": lambda _storm, _seen: rate_limited(str(LONG_SECONDS)),
    "overloaded": lambda _storm, _seen: anthropic_error(529, "Overloaded", type="overloaded_error"),
    "server_error": lambda _storm, _seen: error(500, "internal error"),
    "bad_gateway": lambda _storm, _seen: Reaction(
        status=502, headers={"content-type": "text/html"}, body=b"<html>bad gateway</html>"
    ),
    "reset": lambda _storm, _seen: no_answer("reset"),
    "closed": lambda _storm, _seen: no_answer("close"),
    "silent": lambda _storm, _seen: no_answer("stall"),
    "reset_midway": _broken("reset"),
    "truncated": _broken("close"),
    "stalled": _broken("stall"),
    "slow": Storm.slow,
}
