"""Endpoints that allow only so much, in virtual time, and callers that go by a limiter."""

import math
import random

import attrs
import trio


@attrs.define
class TokenBucketServer:
    """Takes `rate` calls a second and bursts of `burst`; says with each refusal when it would take another."""

    rate: float
    burst: int
    hint: str = "seconds"
    """`exact`, `seconds` (whole ones, as most send), or `none`."""
    level: float = attrs.field(init=False)
    at: float = -math.inf

    def __attrs_post_init__(self):
        self.level = self.burst

    def admits(self):
        """Return None, or the wait that is asked for; -1 if none is named."""
        now = trio.current_time()
        self.level = min(self.burst, self.level + (now - self.at) * self.rate)
        self.at = now
        if self.level >= 1 - 1e-9:
            self.level -= 1
            return None
        wait = (1 - self.level) / self.rate
        return {"exact": wait, "seconds": math.ceil(wait), "none": -1}[self.hint]

    def done(self):
        """A call has ended."""


@attrs.define
class FixedMinuteServer:
    """Takes so many calls in each minute by the clock."""

    per_minute: int
    hint: str = "seconds"
    minute: int = -1
    used: int = 0

    def admits(self):
        minute = int(trio.current_time() // 60)
        if minute != self.minute:
            self.minute, self.used = minute, 0
        self.used += 1
        if self.used <= self.per_minute:
            return None
        return -1 if self.hint == "none" else math.ceil(60 * (minute + 1) - trio.current_time())

    def done(self):
        pass


@attrs.define
class ConcurrencyServer:
    """Takes so many calls at once, and names no time."""

    places: int
    in_use: int = 0

    def admits(self):
        if self.in_use >= self.places:
            return -1
        self.in_use += 1
        return None

    def done(self):
        self.in_use -= 1


@attrs.define
class CrowdedServer:
    """Refuses a part of all calls, however many there are, since it has other customers; names no time."""

    part: float
    chance: random.Random = attrs.field(factory=lambda: random.Random(1))

    def admits(self):
        return -1 if self.chance.random() < self.part else None

    def done(self):
        pass


@attrs.define
class Outcome:
    """What came of all calls of a user."""

    done: int = 0
    refusals: int = 0
    counted: int = 0
    """The most refusals of one call that counted against it."""
    last_at: float = 0.0


async def call(limiter, server, seconds, outcome):
    """Make one call, however often it is refused."""
    turn, counted = limiter.turn(), 0
    while True:
        async with limiter.place(turn) as place:
            await trio.sleep(0.001)
            asked = server.admits()
            if asked is None:
                await trio.sleep(seconds)
                server.done()
                place.succeeded()
                outcome.done += 1
                outcome.last_at = trio.current_time()
                return
            outcome.refusals += 1
            counted += place.refused(None if asked < 0 else asked)
            outcome.counted = max(outcome.counted, counted)
        await trio.sleep(limiter.pause_seconds)


async def work(limiter, server, outcome, *, calls, at_once, mean_seconds=1.0, seed=1):
    """Make many calls, so many at once."""
    chance = random.Random(seed)
    durations = iter([mean_seconds * chance.lognormvariate(-0.125, 0.5) for _ in range(calls)])

    async def worker():
        for seconds in durations:
            await call(limiter, server, seconds, outcome)

    async with trio.open_nursery() as nursery:
        for _ in range(at_once):
            nursery.start_soon(worker)
