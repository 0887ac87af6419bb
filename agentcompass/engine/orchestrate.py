"""The top of the nursery tree: an orchestration, its requests side by side, and the workers they share.

```
watchers   time limit, signals' effects, due retries, reaper: never contain work
└─ soft    cancelled when the run is to end; everything that is work
   ├─ a task for each request: prepare, wait for its lane, sum up
   └─ workers, shared by all requests
```

After the soft scope, whatever has not been summed up is, within the one grace for cleanup.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import final

import trio

from agentcompass.engine import heap
from agentcompass.engine.budget import Budget
from agentcompass.engine.clock import timestamp, wall_clock
from agentcompass.engine.control import CancelReason, Control
from agentcompass.engine.durable import Flow
from agentcompass.engine.jobs import Job
from agentcompass.engine.limits import Limits
from agentcompass.engine.overview import Overview
from agentcompass.engine.prepare import prepare
from agentcompass.engine.reaper import reap
from agentcompass.engine.request import RequestRun
from agentcompass.engine.reserve import Reserve
from agentcompass.engine.scheduler import Scheduler, Slots
from agentcompass.engine.shared import Clients, Shared
from agentcompass.engine.verdict import has_interrupt
from agentcompass.engine.workers import Crew
from agentcompass.errors import AgentCompassError, EvaluationFailedError, StoreError, describe
from agentcompass.progress.events import (
    CleanupStarted,
    EventSink,
    LimitsChanged,
    RequestFinished,
    SandboxesLeft,
)
from agentcompass.records import (
    OrchestrationResult,
    OrchestrationStatus,
    RequestOutcome,
    RequestStatus,
)
from agentcompass.secrets import Scrubber
from agentcompass.spec.resolved import Orchestration, Request
from agentcompass.store.writer import Writer

WRITER_CLOSE_SECONDS = 10.0
"""How long the last writes may take at the end, when nobody is in a hurry."""
SUM_UP_SECONDS = 2.0
"""For scores and the last state of a run that was ended, beyond the grace that cleanup has."""
REAP_SECONDS = 30.0
"""How long a run that is over still waits for the removal of what dead processes left."""
LAST_SECONDS = 1.0
"""The same when the run was cancelled: what is to be kept has been waited for within the grace."""

_log = logging.getLogger("agentcompass.engine")

ENDED_STATUS: dict[CancelReason, RequestStatus] = {
    "timeout": "timed_out",
    "sigint": "cancelled",
    "sigterm": "cancelled",
    "sighup": "cancelled",
    "caller": "cancelled",
    "store": "failed",
}


async def orchestrate(
    orchestration: Orchestration,
    control: Control,
    emit: EventSink,
    on_request_finished: Callable[[RequestOutcome], None] = lambda _outcome: None,
) -> OrchestrationResult:
    """Run every request of an orchestration.

    Args:
        orchestration: What to do.
        control: How it is ended from outside.
        emit: Gets every event, in this thread; must not block.
        on_request_finished: Gets each outcome as soon as it is there, in this thread.

    Returns:
        How each request ended. What goes wrong in a request is in its outcome; nothing is raised for it.
    """
    with heap.set_aside():
        return await _Run(orchestration, control, emit, on_request_finished, Writer()).run()


@final
class _Run:
    def __init__(
        self,
        orchestration: Orchestration,
        control: Control,
        emit: EventSink,
        on_request_finished: Callable[[RequestOutcome], None],
        writer: Writer,
    ) -> None:
        runtime = orchestration.runtime
        self.orchestration, self.control, self.emit = orchestration, control, emit
        self.on_request_finished = on_request_finished
        self.budget = Budget(runtime.max_cost, runtime.max_tokens)
        self._is_refusing = trio.Event()
        self.scheduler: Scheduler[Job] = Scheduler(
            Slots(runtime.task_concurrency, runtime.provider_limits),
            admits=lambda lane: not lane.is_charged or self.budget.fits(lane.name),
            on_refused=self._refuse,
        )
        self.writer = writer
        scrubber = Scrubber()
        scrubber.register(*orchestration.secrets)
        self.shared = Shared(
            orchestration=orchestration,
            control=control,
            emit=emit,
            limits=Limits.create(runtime.env_open_qps, runtime.task_concurrency),
            writer=self.writer,
            flow=Flow(self.writer),
            scrubber=scrubber,
            clients=Clients(orchestration, scrubber),
            scheduler=self.scheduler,
            budget=self.budget,
            on_store_error=self._store_failed,
        )
        self.runs: dict[str, RequestRun] = {}
        self.outcomes: dict[str, RequestOutcome] = {}
        self.store_error: StoreError | None = None
        self.started_at = self.finished_at = timestamp()
        self.overview = Overview(orchestration, self.started_at, writer, scrubber)
        self.reserve = Reserve()
        self._reaped = trio.Event()

    async def run(self) -> OrchestrationResult:
        self.control.on_cancel = self._tell_cleanup
        self.control.sweep = self._sweep
        self.writer.start()
        try:
            async with trio.open_nursery() as watchers:
                self.shared.clients.beside = watchers.start_soon
                for watcher in (
                    self._end_in_time,
                    self._tell_limits,
                    self.scheduler.ring,
                    self._skip_what_does_not_fit,
                    self._reap,
                ):
                    watchers.start_soon(watcher)
                try:
                    with self.control.soft:
                        await self._work()
                        with trio.move_on_after(REAP_SECONDS):
                            await self._reaped.wait()
                finally:
                    await self._finish_rest()
                    watchers.cancel_scope.cancel(reason="the work is over")
        finally:
            await self._close()
        return OrchestrationResult(
            id=self.orchestration.id,
            name=self.orchestration.name,
            status=self._status(),
            started_at=self.started_at,
            finished_at=self.finished_at,
            requests={r.name: self.outcomes[r.name] for r in self.orchestration.requests},
            ended_by=self.control.reason,
        )

    # --- work

    async def _work(self) -> None:
        size = self.orchestration.runtime.task_concurrency
        async with trio.open_nursery() as nursery:
            crew = Crew(nursery, self.scheduler, self.shared.flow, size)
            async with trio.open_nursery() as serving:
                for request in self.orchestration.requests:
                    serving.start_soon(self._serve, request, crew)
            self.scheduler.close()

    async def _serve(self, request: Request, crew: Crew) -> None:
        try:
            run = await prepare(request, self.shared)
        except BaseException as error:
            # a request that cannot start fails alone, whatever a component raised
            if trio.current_effective_deadline() == -math.inf:
                return  # the run is ending: `_finish_rest` says so for every request that has not begun
            if has_interrupt(error) and not self.control.owns_interrupts:
                raise
            self._conclude(_failed_to_start(request, error))
            return
        heap.set_loaded_aside()
        self.runs[request.name] = run
        self.overview.running(request.name, run.shop.store.paths, run.primary.name)
        crew.take_on(run)
        async with trio.open_nursery() as beside:
            beside.start_soon(run.analyse)
            await run.take_over()
            await run.finished.wait()
            await self._finish(run, None)
            beside.cancel_scope.cancel(reason="the request is over")
        crew.finish(run)

    async def _finish(self, run: RequestRun, ended: RequestStatus | None) -> None:
        """Sum a request up; also when cleanup has used up the grace."""
        with (
            self.reserve.lent(),
            self.control.budget.shielded(spare_seconds=SUM_UP_SECONDS) as scope,
        ):
            self._conclude(await run.finish(ended, self.store_error))
        if scope.cancelled_caught:
            self._conclude(run.unfinished_outcome(ended or "cancelled"))

    async def _finish_rest(self) -> None:
        """Sum up what the end of the run has overtaken."""
        reason = self.control.reason
        rest = [r for r in self.orchestration.requests if r.name not in self.outcomes]
        if rest:
            self.control.budget.start()
        ended = ENDED_STATUS[reason or "caller"]
        with trio.CancelScope(shield=True):  # `_finish` bounds itself
            async with trio.open_nursery() as nursery:
                for request in rest:
                    if request.name in self.runs:
                        nursery.start_soon(self._finish, self.runs[request.name], ended)
                    else:
                        self._conclude(_never_began(request, ended, reason or "caller"))

    def _conclude(self, outcome: RequestOutcome) -> None:
        self.outcomes[outcome.name] = outcome
        self.overview.concluded(outcome)
        summary = outcome.result["summary"] if outcome.result is not None else {}
        ci95 = summary.get("ci95")
        self.emit(
            RequestFinished(
                at=wall_clock(),
                request=outcome.name,
                status=outcome.status,
                score=summary.get("score"),
                ci95=(ci95[0], ci95[1]) if ci95 else None,
                coverage=summary.get("coverage", 0.0),
                error=outcome.error,
                run_dir=outcome.paths.get("run_dir"),
            )
        )
        try:
            self.on_request_finished(outcome)
        except Exception:  # noqa: BLE001  # a callback never hurts the run
            _log.exception("on_request_finished failed")

    # --- watchers

    async def _end_in_time(self) -> None:
        limit = self.orchestration.runtime.timeout_seconds
        if limit > 0:
            await trio.sleep(limit)
            self.control.cancel_now("timeout")

    def _refuse(self) -> None:
        self._is_refusing.set()

    async def _skip_what_does_not_fit(self) -> None:
        """When attempts could start and none fits into the budget, end the requests they belong to."""
        while True:
            await self._is_refusing.wait()
            self._is_refusing = trio.Event()
            for run in tuple(self.runs.values()):
                if run.lane.waiting and not self.scheduler.admits(run.lane):
                    await run.skip_rest(self.budget.refusal(run.lane.name))

    async def _tell_limits(self) -> None:
        """Once a second, if it has changed: how many run, what the others and the calls wait for, how many sandboxes are."""
        told: dict[str, object] = {}
        while True:
            await trio.sleep(1)
            now = LimitsChanged(
                at=wall_clock(),
                running=self.scheduler.running,
                waiting=self._waiting(),
                sandboxes=len(self._live()),
                endpoints=self.shared.clients.binding(),
            )
            if (new := now.as_dict() | {"at": 0}) != told:
                told = new
                self.emit(now)

    def _waiting(self) -> dict[str, int]:
        """Attempts that do not run, by what binds them now."""
        waiting: dict[str, int] = {}
        slots = self.scheduler.slots
        for lane in self.scheduler.lanes:
            later = lane.postponed
            now = lane.waiting - later
            binds = "task_concurrency"
            if slots.is_free(None) and not slots.is_free(lane.provider):
                binds = f"provider:{lane.provider}"
            elif slots.is_free(None) and lane.rate is not None:
                binds = f"open rate:{lane.provider}"
            for cause, count in (("retry", later), (binds, now)):
                if count:
                    waiting[cause] = waiting.get(cause, 0) + count
        return waiting

    async def _reap(self) -> None:
        try:
            await reap(self.orchestration.runtime.results_dir, self.shared.limits.file_threads)
        except Exception as error:  # noqa: BLE001  # what others left must not hurt this run
            _log.info("looking for sandboxes of dead processes failed: %s", error)
        finally:
            self._reaped.set()

    # --- the end

    def _store_failed(self, error: StoreError) -> None:
        if self.store_error is None:
            self.store_error = error
            self.control.cancel_now("store")

    def _live(self) -> list[str]:
        return [lease.name for run in self.runs.values() for lease in run.live_leases()]

    def _tell_cleanup(self, reason: CancelReason) -> None:
        grace = self.control.budget.grace_seconds
        live = len(self._live())
        event = CleanupStarted(at=wall_clock(), reason=reason, sandboxes=live, grace_seconds=grace)
        for name, run in self.runs.items():
            if name not in self.outcomes:
                run.shop.store.event(event.as_dict())
        self.emit(event)

    async def _close(self) -> None:
        self.reserve.close()
        self.finished_at = timestamp()
        is_complete = len(self.outcomes) == len(self.orchestration.requests)
        status = self._status() if is_complete else "failed"
        self.overview.ended(status, self.finished_at, self.control.reason)
        left = self._live()
        if left:
            hint = f"agentcompass env close {self.orchestration.runtime.results_dir}"
            self.emit(SandboxesLeft(at=wall_clock(), names=tuple(left), hint=hint))
        budget = self.control.budget
        with budget.shielded(WRITER_CLOSE_SECONDS):
            await self.shared.clients.aclose()
        # also when the grace is over: a caller may live on, with threads and locks that nobody gave up
        seconds = LAST_SECONDS if budget.is_started else WRITER_CLOSE_SECONDS
        with trio.move_on_after(seconds, shield=True):
            await trio.to_thread.run_sync(self._let_go, abandon_on_cancel=True)

    def _let_go(self) -> None:
        for run in self.runs.values():
            run.close()
        self.writer.close(WRITER_CLOSE_SECONDS)

    def _sweep(self) -> None:
        """The process leaves now: give what is already queued a moment."""
        self.writer.close(1.0)

    def _status(self) -> OrchestrationStatus:
        statuses: Sequence[RequestStatus] = [outcome.status for outcome in self.outcomes.values()]
        if all(status == "completed" for status in statuses):
            return "completed"
        if "timed_out" in statuses:
            return "timed_out"
        if "cancelled" in statuses:
            return "cancelled"
        return "failed" if all(status == "failed" for status in statuses) else "partial_failure"


def _never_began(request: Request, ended: RequestStatus, reason: CancelReason) -> RequestOutcome:
    text = f"the run was ended ({reason}) before its first task began"
    return RequestOutcome(name=request.name, status=ended, error=text)


def _failed_to_start(request: Request, error: BaseException) -> RequestOutcome:
    if not isinstance(error, AgentCompassError):
        _log.debug("request %s", request.name, exc_info=error)
        error = EvaluationFailedError(describe(error))
    return RequestOutcome(name=request.name, status="failed", error=str(error), exception=error)
