"""Who runs next: lanes of work, slots, and workers that pull.

Each request is a *lane*. A worker asks for its next job and gets one when a task slot, the place at the provider
that the job needs and its token of the open rate are there together: nobody holds one while waiting for another, so
a busy or slow provider never blocks work that does not need it. Between lanes the one with the fewest running jobs
for its weight goes first, ties in the order of joining; within a lane the order is kept, retries that are due first.

Everything happens in one trio thread between checkpoints, so there are no locks and no races. Idle workers are
woken one at a time, each waking the next while there is work: constant work per job, however many workers wait.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar, final

import trio

from agentcompass.data import frozen
from agentcompass.engine.limits import TokenBucket

J = TypeVar("J")


@final
class Slots:
    """Task slots and provider places, taken together or not at all.

    Args:
        task_concurrency: Jobs in flight over all lanes.
        provider_limits: Places by provider; 0 or absent means no limit.
    """

    def __init__(self, task_concurrency: int, provider_limits: Mapping[str, int]) -> None:
        self.tasks = trio.CapacityLimiter(task_concurrency)
        self.providers = {
            name: trio.CapacityLimiter(limit) for name, limit in provider_limits.items() if limit
        }

    def is_free(self, provider: str | None) -> bool:
        """Whether a job at `provider` (None: at none) could start now."""
        return self.tasks.available_tokens >= 1 and provider not in self.full_providers()

    def full_providers(self) -> set[str | None]:
        """Those that have no place left."""
        return {name for name, places in self.providers.items() if places.available_tokens < 1}

    def take(self, borrower: object, provider: str | None) -> None:
        """Take what a job needs; only after `is_free` said so, without a checkpoint between."""
        self.tasks.acquire_on_behalf_of_nowait(borrower)
        if provider in self.providers:
            self.providers[provider].acquire_on_behalf_of_nowait(borrower)

    def give_back(self, borrower: object, provider: str | None) -> None:
        """Give back what `take` took."""
        if provider in self.providers:
            self.providers[provider].release_on_behalf_of(borrower)
        self.tasks.release_on_behalf_of(borrower)


@final
class Lane(Generic[J]):
    """The work of one request, in order, with what must be tried again later.

    Args:
        name: For people.
        jobs: In order; pulled one at a time, so that a million cost no memory.
        size: How many `jobs` has.
        provider: The environment whose places its jobs need; None if they need none.
        rate: Each job takes a token of it when it starts, and does not start before there is one; None: any time.
        weight: Share of slots relative to other lanes, greater than 0.
        is_charged: Whether its jobs use what a budget limits.
    """

    def __init__(
        self,
        name: str,
        jobs: Iterable[J],
        *,
        size: int,
        provider: str | None = None,
        rate: TokenBucket | None = None,
        weight: float = 1.0,
        is_charged: bool = False,
    ) -> None:
        self.name, self.provider, self.rate, self.weight = name, provider, rate, weight
        self.is_charged = is_charged
        self.running = 0
        self.fresh = size
        """Jobs not yet pulled for the first time."""
        self._jobs: Iterator[J] = iter(jobs)
        self._later: list[tuple[float, int, J]] = []
        self._order = itertools.count()

    @property
    def waiting(self) -> int:
        """Jobs that are not running: fresh ones and those to be tried again."""
        return self.fresh + len(self._later)

    @property
    def due_at(self) -> float:
        """When the next job may start, in trio time: -inf for now, inf for never."""
        if not self.fresh and not self._later:
            return math.inf
        job_at = -math.inf if self.fresh else self._later[0][0]
        return job_at if self.rate is None else max(job_at, self.rate.ready_at)

    @property
    def postponed(self) -> int:
        """Jobs that wait for their time."""
        now = trio.current_time()
        return sum(1 for not_before, _, _ in self._later if not_before > now)

    def put_back(self, job: J, not_before: float = -math.inf) -> None:
        """Add a job that may start at `not_before` (trio time); it goes before fresh ones then."""
        heapq.heappush(self._later, (not_before, next(self._order), job))

    def pull(self) -> J:
        """Return the next job; only when `due_at` has come."""
        if self.rate is not None:
            self.rate.take_now()
        if self._later and self._later[0][0] <= trio.current_time():
            return heapq.heappop(self._later)[2]
        self.fresh -= 1
        return next(self._jobs)

    def drain(self) -> Iterator[J]:
        """Yield and forget every job that is not running, whatever its time."""
        while self._later:
            yield heapq.heappop(self._later)[2]
        while self.fresh:
            self.fresh -= 1
            yield next(self._jobs)


def pick_fair(
    lanes: Iterable[Lane[J]],
    slots: Slots,
    now: float,
    admits: Callable[[Lane[J]], bool] = lambda _lane: True,
) -> Lane[J] | None:
    """Return the lane whose next job starts: the fewest running for its weight among those that can start one now."""
    if not slots.is_free(None):
        return None
    best: Lane[J] | None = None
    best_share = math.inf
    full = slots.full_providers()
    for lane in lanes:
        if lane.due_at <= now and lane.provider not in full:
            share = lane.running / lane.weight
            if share < best_share and admits(lane):
                best, best_share = lane, share
    return best


@final
@frozen(eq=False)
class Assignment(Generic[J]):
    """A job with its places, from `Scheduler.next` until `Scheduler.done`."""

    lane: Lane[J]
    job: J


@final
class Scheduler(Generic[J]):
    """Hands jobs to workers.

    Args:
        slots: What limits how many run at once.
        admits: Whether one more job of a lane may start, beside its places; asked again when a job is done.
        on_refused: Called when jobs could start, none is running, and none is admitted.
    """

    def __init__(
        self,
        slots: Slots,
        admits: Callable[[Lane[J]], bool] = lambda _lane: True,
        on_refused: Callable[[], None] = lambda: None,
    ) -> None:
        self.slots, self.admits, self._on_refused = slots, admits, on_refused
        self.lanes: list[Lane[J]] = []
        self.is_closed = False
        self._idle = trio.lowlevel.ParkingLot()
        self._bell = trio.CancelScope()
        """Ends when something may start that had to wait for its time."""

    @property
    def running(self) -> int:
        """Jobs in flight."""
        return sum(lane.running for lane in self.lanes)

    def add(self, lane: Lane[J]) -> None:
        """Add a lane; its jobs may start at once."""
        self.lanes.append(lane)
        self.wake()

    def remove(self, lane: Lane[J]) -> None:
        """Forget a lane that has ended."""
        self.lanes.remove(lane)

    def close(self) -> None:
        """Send the workers home: every lane has ended and none will be added."""
        self.is_closed = True
        self._idle.unpark_all()

    def wake(self) -> None:
        """Something changed: let one idle worker look, who wakes the next."""
        self._idle.unpark()

    def put_back(self, lane: Lane[J], job: J, not_before: float) -> None:
        """Run a job of a lane again, not before a time (trio time); meanwhile it holds nothing."""
        lane.put_back(job, not_before)
        self._ring_at(not_before)

    async def next(self) -> Assignment[J] | None:
        """Wait for a job and its places; None when there will be none.

        Raises:
            trio.Cancelled: Nothing was taken.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not self.is_closed:
            lane = self._pick()
            if lane is not None:
                return self._assign(lane)
            await self._idle.park()
        return None

    def done(self, assignment: Assignment[J]) -> None:
        """Give the places back; whoever does so looks for a next job itself, which may be any lane's."""
        assignment.lane.running -= 1
        self.slots.give_back(assignment, assignment.lane.provider)

    async def ring(self) -> None:
        """Wake a worker whenever a job that had to wait may start; runs beside the workers until cancelled."""
        while True:
            with self._bell:
                await trio.sleep_forever()
            self._bell = trio.CancelScope()
            self.wake()

    def _ring_at(self, time: float) -> None:
        self._bell.deadline = min(self._bell.deadline, time)

    def _pick(self) -> Lane[J] | None:
        """The lane whose next job can start; if only time is in the way, the bell rings when it has come."""
        now = trio.current_time()
        lane = pick_fair(self.lanes, self.slots, now, self.admits)
        if lane is None and self.slots.is_free(None):
            if not self.running and any(each.due_at <= now for each in self.lanes):
                self._on_refused()
            self._ring_at(
                min((at for each in self.lanes if (at := each.due_at) > now), default=math.inf)
            )
        return lane

    def _assign(self, lane: Lane[J]) -> Assignment[J]:
        assignment = Assignment(lane, lane.pull())
        self.slots.take(assignment, lane.provider)
        lane.running += 1
        if self._idle and self._pick() is not None:
            self.wake()
        return assignment
