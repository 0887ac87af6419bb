"""The workers of an orchestration: each pulls a job, makes one execution of it, and pulls again."""

from __future__ import annotations

from typing import Protocol, final

import trio

from agentcompass.engine.durable import Flow
from agentcompass.engine.jobs import Job
from agentcompass.engine.scheduler import Lane, Scheduler


class Work(Protocol):
    """What a lane's jobs are for: implemented by a request's run."""

    lane: Lane[Job]

    async def execute(self, job: Job) -> None:
        """Make one execution and see to its record and its retry."""


@final
class Crew:
    """Workers, as many as there is work for and never more than task slots.

    Args:
        nursery: Where they live.
        scheduler: Who gives them jobs.
        flow: Where they wait while the disk is behind.
        size: Task slots.
    """

    def __init__(
        self, nursery: trio.Nursery, scheduler: Scheduler[Job], flow: Flow, size: int
    ) -> None:
        self._nursery, self._scheduler, self._flow, self._size = nursery, scheduler, flow, size
        self._work: dict[int, Work] = {}
        self._hired = 0

    def take_on(self, work: Work) -> None:
        """Start on a lane."""
        self._work[id(work.lane)] = work
        wanted = min(self._size, self._hired + work.lane.waiting)
        for _ in range(wanted - self._hired):
            self._nursery.start_soon(self._pull)
        self._hired = max(self._hired, wanted)
        self._scheduler.add(work.lane)

    def finish(self, work: Work) -> None:
        """Forget a lane that has ended."""
        self._scheduler.remove(work.lane)
        del self._work[id(work.lane)]

    async def _pull(self) -> None:
        while (assignment := await self._scheduler.next()) is not None:
            try:
                await self._work[id(assignment.lane)].execute(assignment.job)
            finally:
                self._scheduler.done(assignment)
            await self._flow.wait()
