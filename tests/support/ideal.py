"""What tasks of made-up length take at best: the list schedule, by a heap, without any code of the engine.

A list schedule starts whatever may start as soon as there is room for it, between requests by their shares. No
scheduler that cannot look into the future and interrupts nobody does better by more than chance.
"""

from __future__ import annotations

import heapq
import itertools
import math

import attrs


@attrs.frozen(kw_only=True)
class Stream:
    """The tasks of one request, as numbers: a million cost no memory."""

    name: str = "r"
    tasks: int = 100
    mean_seconds: float = 60.0
    """Of one execution; each takes its own time, always the same."""
    step_seconds: float = 0.0
    """Times are multiples of this: many then end at the same moment. 0: no two do."""
    failing: float = 0.0
    """The part of all executions that fail."""
    retries: int = 0
    delay_seconds: float = 5.0
    """From a failure to its retry."""
    provider: str | None = None
    """Where each execution needs a place."""
    weight: float = 1.0
    loads_for: float = 0.0
    """Seconds until its tasks are there."""
    seed: int = 0

    def seconds(self, task: int, execution: int) -> float:
        """How long an execution takes: mostly less than the mean, sometimes three times as long."""
        chance = self._chance(task, execution)
        seconds, step = self.mean_seconds * 3 * chance * chance, self.step_seconds
        return round(seconds / step) * step if step else seconds

    def fails(self, task: int, execution: int) -> bool:
        """Whether an execution fails."""
        return self._chance(task, -execution) < self.failing

    def is_retried(self, task: int, execution: int) -> bool:
        """Whether another one follows it."""
        return execution <= self.retries and self.fails(task, execution)

    def _chance(self, *key: int) -> float:
        mixed = self.seed * 0x9E3779B97F4A7C15 + 1
        for number in key:
            mixed = ((mixed ^ (number & 0xFFFF_FFFF)) * 0xBF58476D1CE4E5B9) & 0xFFFF_FFFF_FFFF_FFFF
            mixed ^= mixed >> 29
        return (mixed >> 11) / 2**53


@attrs.frozen(kw_only=True)
class Schedule:
    """What came of it."""

    makespan: float
    """Seconds until the last execution ended."""
    busy_seconds: float
    """Of all slots together."""
    executions: int

    def utilisation(self, slots: int) -> float:
        """The part of all slots' time in which they worked."""
        return self.busy_seconds / (slots * self.makespan)


class _Provider:
    def __init__(self, places: int, rate: float) -> None:
        self.free, self.rate, self.opens_at = places or math.inf, rate, -math.inf

    def takes_one(self, now: float) -> bool:
        return self.free > 0 and now >= self.opens_at

    def take(self, now: float) -> None:
        self.free -= 1
        if self.rate:
            self.opens_at = now + 1 / self.rate


class _Line:
    def __init__(self, stream: Stream) -> None:
        self.stream, self.running, self.next_task = stream, 0, 0
        self.is_there = False
        self.due: list[tuple[int, int, int]] = []

    def has_work(self) -> bool:
        return bool(self.due or (self.is_there and self.next_task < self.stream.tasks))

    def start(self) -> tuple[int, int]:
        self.running += 1
        if self.due:
            _, task, execution = heapq.heappop(self.due)
            return task, execution
        self.next_task += 1
        return self.next_task - 1, 1


def list_schedule(
    streams: list[Stream], slots: int, places: dict[str, int], rates: dict[str, float]
) -> Schedule:
    """Work out the list schedule of requests that share slots, places at providers and their rates of opening.

    Args:
        streams: Of those that are equal, who was there first goes first.
        slots: Executions at once.
        places: Executions at once by provider; 0 or absent: any number.
        rates: Starts a second by provider; 0 or absent: any number.
    """
    names = {stream.provider for stream in streams}
    at = {name: _Provider(places.get(name, 0), rates.get(name, 0.0)) for name in names}
    lines = [_Line(stream) for stream in sorted(streams, key=lambda stream: stream.loads_for)]
    order = itertools.count()
    happens = [(line.stream.loads_for, next(order), line, (-1, 0), "loaded") for line in lines]
    heapq.heapify(happens)
    now, ended_at, busy, executions = 0.0, 0.0, 0.0, 0
    while happens:
        now = happens[0][0]
        while happens and happens[0][0] == now:
            _, _, line, (task, execution), what = heapq.heappop(happens)
            if what == "loaded":
                line.is_there = True
            elif what == "due":
                heapq.heappush(line.due, (next(order), task, execution))
            elif what == "ends":
                line.running, slots, ended_at = line.running - 1, slots + 1, now
                at[line.stream.provider].free += 1
                if line.stream.is_retried(task, execution):
                    again = (
                        now + line.stream.delay_seconds,
                        next(order),
                        line,
                        (task, execution + 1),
                        "due",
                    )
                    heapq.heappush(happens, again)
        while slots and (
            ready := [
                line
                for line in lines
                if line.has_work() and at[line.stream.provider].takes_one(now)
            ]
        ):
            line = min(ready, key=lambda line: line.running / line.stream.weight)
            which, provider = line.start(), at[line.stream.provider]
            lasts = line.stream.seconds(*which)
            slots -= 1
            provider.take(now)
            heapq.heappush(happens, (now + lasts, next(order), line, which, "ends"))
            if provider.opens_at > now:
                heapq.heappush(happens, (provider.opens_at, next(order), line, which, "open again"))
            busy, executions = busy + lasts, executions + 1
    return Schedule(makespan=ended_at, busy_seconds=busy, executions=executions)
