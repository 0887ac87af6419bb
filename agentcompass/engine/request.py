"""One request from its spec to its scores: prepare, hand out jobs, keep their records, sum up."""

from __future__ import annotations

import functools
import logging
import math
import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final, final

import attrs
import trio

from agentcompass.components.base import Task
from agentcompass.engine.analysis import CATCH_UP_SECONDS, Analysis
from agentcompass.engine.attempt import Execution
from agentcompass.engine.budget import OVER_BUDGET, AttemptAccount
from agentcompass.engine.clock import timestamp
from agentcompass.engine.durable import Journal
from agentcompass.engine.jobs import Job, plan_jobs
from agentcompass.engine.limits import TokenBucket
from agentcompass.engine.outcome import Share, outcome, outcome_without_summary, verdict
from agentcompass.engine.retry import retry_delay, should_retry
from agentcompass.engine.scheduler import Lane
from agentcompass.engine.shared import Shared
from agentcompass.engine.workshop import Workshop
from agentcompass.errors import StoreError, counted
from agentcompass.metrics.scores import is_success
from agentcompass.progress.events import AttemptFinished, AttemptStarted
from agentcompass.progress.logs import current_request
from agentcompass.records import ExecutionRecord, Failure, Lease, RequestOutcome, RequestStatus
from agentcompass.store.run import RunInfo
from agentcompass.store.summary import result_dict, summarize, write_report

AT_ONCE: Final = 200
"""Records that are taken over before others have their turn."""

_log = logging.getLogger("agentcompass.engine")


@final
class RequestRun:
    """A request whose tasks are loaded and whose directory is open.

    Args:
        shop: What its attempts share.
        info: What `run.json` says at the start.
        tasks: All of them, in order.
        reused: Graded attempts of an earlier run, which need no execution.
        rate: At which its attempts may start; None: any.
        shared: Has whoever gives its jobs to workers, and who is told when its records can no longer be written.
        analysis: Follows the journal; None if nothing is to be analysed.
    """

    def __init__(
        self,
        shop: Workshop,
        info: RunInfo,
        *,
        tasks: Sequence[Task],
        reused: Mapping[tuple[str, int], ExecutionRecord],
        rate: TokenBucket | None,
        shared: Shared,
        analysis: Analysis | None,
    ) -> None:
        self.shop, self.info = shop, info
        self.resources = ExitStack()
        """Closed with the run: its log."""
        self.finished = trio.Event()
        """Set when every planned attempt has its last record, on disk."""
        self._scheduler, self._budget, self._analysis = shared.scheduler, shared.budget, analysis
        self._journal = Journal(shop.store, self._on_durable, shared.on_store_error)
        self._under_way: dict[tuple[str, int], Task] = {}
        """Tasks by attempt, from its start until it is on disk."""
        self.primary = next(metric for metric in shop.parts.benchmark.metrics if metric.primary)
        config = shop.request.execution
        self._one_by_one = config.attempt_strategy == "pass"
        self._settled_keys = self._settled(reused)
        jobs = functools.partial(
            plan_jobs, tasks, config.k, one_by_one=self._one_by_one, skip=self._settled_keys
        )
        self._open = sum(1 for _ in jobs())
        self.lane: Lane[Job] = Lane(
            shop.request.name,
            jobs(),
            size=self._open,
            provider=shop.provider,
            rate=rate,
            weight=shop.request.weight,
            is_charged=bool(shop.client or shop.judge),
        )
        self._reused = iter(reused.values())
        if self._open == 0:
            self.finished.set()

    def _settled(
        self, reused: Mapping[tuple[str, int], ExecutionRecord]
    ) -> frozenset[tuple[str, int]]:
        """The attempts that need no execution: reused ones, and with `pass` all of a task that succeeded."""
        keys = set(reused)
        if self._one_by_one:
            solved = {record.task_id for record in reused.values() if self._succeeded(record)}
            k = self.shop.request.execution.k
            keys |= {(task_id, n) for task_id in solved for n in range(1, k + 1)}
        return frozenset(keys)

    async def execute(self, job: Job) -> None:
        """Make one execution and hand its record to the journal."""
        shop, config = self.shop, self.shop.request.execution
        current_request.set(shop.request.name)
        self._under_way[job.task.id, job.attempt] = job.task
        shop.tell(AttemptStarted, task=job.task.id, attempt=job.attempt, execution=job.execution)
        account = self._account()
        try:
            record = await Execution(shop, job, account).execute()
        finally:
            account.close()
        if should_retry(record.verdict, record.failure, job.execution, config):
            record = attrs.evolve(record, will_retry=True)
        self._journal.append(record)

    def _account(self) -> AttemptAccount:
        config = self.shop.request.execution
        return AttemptAccount(
            self._budget,
            self.shop.request.name,
            {"cost": config.attempt_max_cost, "tokens": config.attempt_max_tokens},
        )

    async def skip_rest(self, message: str) -> None:
        """Start none of the jobs that are left, for which the budget is not enough; each gets a record that says so."""
        failure = Failure(phase="open", code=OVER_BUDGET, message=message, retryable=False)
        number = 0
        for number, job in enumerate(self.lane.drain(), 1):
            self._under_way[job.task.id, job.attempt] = job.task
            self._journal.append(_skipped(job, failure))
            if number % AT_ONCE == 0:
                await self.shop.flow.wait()
        if number:
            self.shop.warn(f"{counted(number, 'attempt')} skipped: {message}")

    async def take_over(self) -> None:
        """Put what is reused into the journal, while others work; to be done before `finished` counts."""
        for number, record in enumerate(self._reused, 1):
            self._journal.append(record)
            if number % AT_ONCE == 0:
                await self.shop.flow.wait()

    async def analyse(self) -> None:
        """Look at attempts while others run, until `finish`; cancel it to stop at once."""
        if self._analysis is not None:
            await self._analysis.work()

    def live_leases(self) -> list[Lease]:
        """The sandboxes that may exist, without those that were kept for people."""
        return list(self.shop.house.ledger.live.values())

    async def finish(
        self, ended: RequestStatus | None, store_error: StoreError | None
    ) -> RequestOutcome:
        """Sum up, write the last state, close the directory.

        Args:
            ended: How the run was ended from outside; None when every attempt has its verdict.
            store_error: Why records could not be written any more, if that is so.
        """
        for record in (
            self._reused
        ):  # what `take_over` had no time for: else this run would hide the earlier one
            self._journal.append(record)
        await self._journal.settle()
        if self._analysis is not None and ended is None:
            await self._analysis.finish(CATCH_UP_SECONDS)
        return await trio.to_thread.run_sync(
            self._sum_up, ended, store_error, abandon_on_cancel=True
        )

    def close(self) -> None:
        """Close log and directory, in a worker thread; may be called again."""
        self.resources.close()
        self.shop.store.close()

    def unfinished_outcome(self, status: RequestStatus) -> RequestOutcome:
        """The outcome when the grace was over before the run was summed up."""
        name, paths = self.shop.request.name, self.shop.store.paths
        return outcome_without_summary(name, status, paths, "the time for cleanup was over")

    def _sum_up(
        self, ended: RequestStatus | None, store_error: StoreError | None
    ) -> RequestOutcome:
        store, request = self.shop.store, self.shop.request
        try:
            report = summarize(store.paths.run_dir, write=False)
            status, error = verdict(
                self.info,
                Share(
                    coverage=report.coverage,
                    min_coverage=request.execution.min_coverage,
                    is_any=report.counts["graded"] > 0,
                    is_over_budget=any(group.code == OVER_BUDGET for group in report.failures),
                ),
                ended,
                store_error,
                has_journal=store.paths.journal_file.exists(),
            )
            self.info = attrs.evolve(
                self.info,
                status=status,
                finished_at=timestamp(),
                counts=report.counts,
                error=str(error) if error is not None else None,
            )
            store.update(self.info)
            report = report.concluded(self.info)
            write_report(report)
            result = result_dict(store.paths.run_dir, report)
            return outcome(request.name, status, error, result)
        except Exception as failure:  # noqa: BLE001  # whatever it is, hours of records are on disk and can be summed up later
            _log.exception("summing up failed")
            why = str(store_error or failure)
            return outcome_without_summary(request.name, "failed", store.paths, why)
        finally:
            self.close()

    def _on_durable(self, record: ExecutionRecord) -> None:
        if self._analysis is not None:
            self._analysis.announce()
        if record.reused_from is not None:
            return
        follow_up = self._follow_up(record, self._under_way.pop(record.key))
        failure = record.failure
        self.shop.tell(
            AttemptFinished,
            task=record.task_id,
            attempt=record.attempt,
            execution=record.execution,
            verdict=record.verdict,
            score=record.metrics[self.primary.name] if record.metrics else None,
            code=failure.code if failure else None,
            message=failure.message if failure else None,
            stopped_by=record.stopped_by,
            will_retry=record.will_retry,
            usage=record.usage + record.judge_usage,
            wall_seconds=record.wall_seconds,
        )
        if follow_up is not None:
            self._scheduler.put_back(self.lane, *follow_up)
        elif record.verdict != "cancelled":
            self._open -= 1
            if self._open == 0:
                self.finished.set()

    def _follow_up(self, record: ExecutionRecord, task: Task) -> tuple[Job, float] | None:
        """The execution that a record asks for, and its earliest time: a retry, or the next attempt with `pass`."""
        config = self.shop.request.execution
        if record.will_retry:
            delay = retry_delay(record.execution, config, random.random)
            job = Job(task, record.attempt, record.execution + 1)
            return job, trio.current_time() + delay
        is_over = record.verdict in ("cancelled", "skipped")
        if self._one_by_one and not is_over and not self._succeeded(record):
            for attempt in range(record.attempt + 1, config.k + 1):
                if (task.id, attempt) not in self._settled_keys:
                    return Job(task, attempt), -math.inf
        return None

    def _succeeded(self, record: ExecutionRecord) -> bool:
        return record.metrics is not None and is_success(
            self.primary, record.metrics[self.primary.name]
        )


def _skipped(job: Job, failure: Failure) -> ExecutionRecord:
    now = timestamp()
    return ExecutionRecord(
        task_id=job.task.id,
        category=job.task.category,
        attempt=job.attempt,
        execution=job.execution,
        verdict="skipped",
        failure=failure,
        started_at=now,
        finished_at=now,
    )
