"""What several users of one endpoint tell each other, and what each may have of it. Pure.

Everybody computes all shares from the same figures, so that no one has to hand them out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, final

import attrs

from agentcompass.data import frozen
from agentcompass.net.window import Findings

_COUNTS: Final = ("cap", "in_use", "waiting", "taken", "cuts", "grown", "loose")
_MOST: Final = 2**53
_TIMES: Final = ("resume_at", "requests_settled_at", "tokens_settled_at")
_INFINITE: Final = ("base", "ceiling", "wants_requests", "wants_tokens")
"""Fields that may be infinite, which JSON has no word for."""


@final
@frozen(kw_only=True)
class Standing:
    """How one user of an endpoint stands. Times are seconds of a clock that all of them have in common."""

    cap: int
    """Calls that it may have in flight at once, whatever the endpoint takes."""
    in_use: int = 0
    """Calls that it has in flight."""
    waiting: int = 0
    """Calls that it would like to make."""
    taken: int = 0
    """Calls of it that the endpoint has answered so far."""
    findings: Findings = Findings()
    resume_at: float = -math.inf
    """When calls may go out again; in the past if there is no pause."""
    wants_requests: float = 0.0
    """Requests per minute that it could do with; infinite while it has to wait for them."""
    wants_tokens: float = 0.0
    """Tokens per minute, likewise."""
    requests_settled_at: float = -math.inf
    """When what it may have used of the requests per minute does not count any more, if nothing more is heard of it."""
    tokens_settled_at: float = -math.inf
    """The same for the tokens per minute."""

    @property
    def wanted(self) -> int:
        """Calls that it would have in flight if it could."""
        return min(self.cap, self.in_use + self.waiting)

    def on_clock(self, ahead_seconds: float) -> Standing:
        """Return the same with its times on another clock, which is so much ahead."""
        times = {name: getattr(self, name) + ahead_seconds for name in _TIMES}
        return attrs.evolve(self, **times)

    @property
    def settled_at(self) -> float:
        """When it can be forgotten, if it has gone."""
        return max(self.requests_settled_at, self.tokens_settled_at)

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        data = {f.name: getattr(self, f.name) for f in attrs.fields(Standing)}
        data |= attrs.asdict(data.pop("findings"))
        return {key: value for key, value in data.items() if not math.isinf(value)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Standing:
        """Read a JSON object; fields of later versions are ignored.

        Raises:
            ValueError: It is none, or a number in it makes no sense.
        """
        found = _numbers(Findings, data)
        own = _numbers(cls, data)
        try:
            return cls(findings=Findings(**found), **own)
        except TypeError as error:
            raise ValueError(str(error)) from error


def _numbers(cls: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a class that an object has, all of them numbers; what is left out of the infinite ones is so."""
    names = [field.name for field in attrs.fields(cls) if field.name != "findings"]
    numbers: dict[str, Any] = {name: math.inf for name in names if name in _INFINITE}
    for name in names:
        value = data.get(name, 0)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or math.isnan(value) or (name in _COUNTS and not 0 <= value < _MOST):
            raise ValueError(f"{name} is no number that makes sense")
        if name in data:
            numbers[name] = value
    return numbers


@final
@frozen(kw_only=True)
class Company:
    """The others who use an endpoint, as they stand now."""

    others: tuple[Standing, ...] = ()
    rank: int = 0
    """Where among them the one who looks belongs: everybody has to divide in the same order."""
    gone: tuple[Standing, ...] = ()
    """Those who use it no more, as they stood last, as long as what they have used counts."""

    def share(self, size: int, wanted: int) -> int:
        """Return the places of a window that belong to the one who looks, >= 1, given how many that one wants."""
        if not self.others:
            return size
        wants = [other.wanted for other in self.others]
        wants.insert(self.rank, wanted)
        return max(1, fair_places(size, wants)[self.rank])

    def on_clock(self, ahead_seconds: float) -> Company:
        """Return the same with all times on another clock, which is so much ahead."""
        others, gone = (
            tuple(each.on_clock(ahead_seconds) for each in all_of)
            for all_of in (self.others, self.gone)
        )
        return attrs.evolve(self, others=others, gone=gone)

    @property
    def cap(self) -> int:
        """Calls that they may have in flight, together."""
        return sum(other.cap for other in self.others)

    @property
    def in_use(self) -> int:
        """Calls that they have in flight, together."""
        return sum(other.in_use for other in self.others)

    @property
    def taken(self) -> int:
        """Calls of theirs that were answered so far, together."""
        return sum(other.taken for other in self.others)

    @property
    def resume_at(self) -> float:
        """When the last of their pauses ends."""
        return max((other.resume_at for other in self.others), default=-math.inf)

    @property
    def settled_at(self) -> tuple[float, float]:
        """When nothing counts any more of the requests and of the tokens that those have used who have gone."""
        return (
            max((each.requests_settled_at for each in self.gone), default=-math.inf),
            max((each.tokens_settled_at for each in self.gone), default=-math.inf),
        )


def fair_shares(total: float, wants: Sequence[float]) -> list[float]:
    """Divide a total so that nobody gets more than they want, and whoever gets less gets no less than others.

    Args:
        total: What there is, >= 0.
        wants: What each wants, >= 0; may be infinite.

    Returns:
        A share for each, in order; together at most `total`.

    Source: D. Bertsekas, R. Gallager, "Data networks", 6.5.2 (max-min fairness).
    """
    shares = [0.0] * len(wants)
    left = total
    in_order = sorted(range(len(wants)), key=wants.__getitem__)
    for position, at in enumerate(in_order):
        shares[at] = min(wants[at], left / (len(wants) - position))
        left -= shares[at]
    return shares


def fair_places(total: int, wants: Sequence[int]) -> list[int]:
    """Divide places, which are whole: what is left over goes to the first ones that want more.

    Whoever wants any gets at least one, so that together they may have more than there are.
    """
    places = [int(share) for share in fair_shares(total, wants)]
    left = min(total, sum(wants)) - sum(places)
    for at, want in enumerate(wants):
        if left > 0 and places[at] < want:
            places[at] += 1
            left -= 1
        if want:
            places[at] = max(1, places[at])
    return places
