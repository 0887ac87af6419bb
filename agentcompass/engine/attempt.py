"""One execution of one attempt: open, prepare, run, collect, evaluate, close. Ends in exactly one record.

Harness and benchmark borrow sandbox and model from here. Whatever they raise, return or let hang becomes this
execution's record: here is the one place where any exception is caught.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, cast, final

import attrs
import trio

from agentcompass.components.base import (
    AgentOutcome,
    AttemptModel,
    Benchmark,
    Evaluation,
    ModelRetry,
    SandboxPlan,
    Session,
    TaskInput,
    Where,
)
from agentcompass.engine.budget import AttemptAccount
from agentcompass.engine.foreign import call
from agentcompass.engine.jobs import Job
from agentcompass.engine.kept import KeptFiles
from agentcompass.engine.lent import Keeper, NoModel, no_answer
from agentcompass.engine.phases import Phases, PhaseTimedOut, evaluate_limit, run_limit
from agentcompass.engine.verdict import (
    checked,
    checked_outcome,
    failure_from,
    has_interrupt,
    is_sandbox_death,
    with_causes,
)
from agentcompass.engine.workshop import Workshop
from agentcompass.errors import InfraError, ModelError, StoreError, describe, is_safe
from agentcompass.plan.regrade import Earlier
from agentcompass.progress.events import (
    ModelRetried,
    PhaseStarted,
    SandboxKept,
)
from agentcompass.records import JSON, ExecutionRecord, Failure, Lease, Phase, Usage, Verdict
from agentcompass.store.jsonl import NotJSONError, plain, weight

INLINE_BYTES: Final = 64 * 1024
"""What is encoded on the event loop's thread; bigger values go to a worker thread."""
USAGE_SECONDS: Final = 5.0
"""For asking a sandbox what it has used; then the record goes without it."""

_log = logging.getLogger("agentcompass.engine")


@final
class Execution:
    """One walk through the phases.

    Args:
        shop: What the request's attempts share.
        job: Which execution this is.
        account: Who pays for its model calls.
    """

    def __init__(self, shop: Workshop, job: Job, account: AttemptAccount) -> None:
        self.shop, self.parts, self.job = shop, shop.parts, job
        self._account = account
        self._phases = Phases(self._on_phase)
        account.hold = self._phases.hold
        self._started_at = datetime.now(UTC)
        self._started = trio.current_time()
        self._model: AttemptModel | None = None
        self._judge: AttemptModel | None = None
        self._outcome = AgentOutcome()
        self._evaluation: Evaluation | None = None
        self._usage = Usage()
        """Of an earlier run's agent."""
        self._files = KeptFiles(shop.store, job, shop.limits.file_threads)
        self._used: dict[str, Mapping[str, JSON]] = {}
        self._trajectory = shop.store.trajectory(job.task.id, job.attempt, job.execution)
        self._agent_is_done = False

    async def execute(self) -> ExecutionRecord:
        """Walk through the phases and say how it ended.

        Nothing a component raises gets out. When the run is being cancelled the record says `cancelled`; the
        cancellation itself reaches the caller at its next checkpoint.
        """
        try:
            await self._walk()
        except BaseException as error:  # the one place: see the module's docstring
            self._agent_is_done = True
            if has_interrupt(error) and not self.shop.control.owns_interrupts:
                raise
            if self._evaluation is None or is_sandbox_death(error):
                return self._ended_by(error)
            _log.info("task %s: after its grade: %s", self.job.task.id, describe(error))
        finally:
            self._trajectory.close()
        return self._graded()

    # --- the walk

    async def _walk(self) -> None:
        task = self.job.task
        where = self.parts.where(task)
        plan = self.parts.sandbox_plan(self.shop.request, task)
        if self.shop.earlier is None:
            await self._work_and_collect(plan, where)
        else:
            await self._recall(self.shop.earlier[task.id, self.job.attempt])
        if where is Where.NOWHERE:
            await self._evaluate(None)
        elif where is Where.FRESH:
            async with self._sandbox(plan, "evaluation") as fresh:
                await self._files.deliver(fresh)
                await self._evaluate(fresh)

    async def _work_and_collect(self, plan: SandboxPlan, where: Where) -> None:
        """Let the agent work, and evaluate what can only be evaluated where it did."""
        async with AsyncExitStack() as agent_sandbox:
            session = None
            if self.parts.agent_needs_sandbox(self.job.task):
                equipped = self.parts.harness.equip(plan)
                session = await agent_sandbox.enter_async_context(self._sandbox(equipped, "agent"))
            await self._let_agent_work(session)
            if session is not None and not self._keeps_processes(where):
                await self._collect(session, plan, to_evaluator=where is Where.FRESH)
            if where is Where.REUSE:
                await self._evaluate(session)

    async def _recall(self, earlier: Earlier) -> None:
        """Take what an agent left in an earlier run for what it left in this one."""
        self._agent_is_done = True
        with self._phases.enter("collect", self.shop.request.execution.collect_timeout_seconds):
            self._outcome = await self._files.recall(earlier)
        if self.job.execution == 1:  # once, however often its evaluator has to be asked
            self._usage = earlier.record.usage

    def _keeps_processes(self, where: Where) -> bool:
        return where is Where.REUSE and self.parts.benchmark.keeps_processes

    @asynccontextmanager
    async def _sandbox(self, plan: SandboxPlan, role: str) -> AsyncIterator[Session]:
        shop, phases = self.shop, self._phases
        if shop.parts.environment.capabilities.images:
            phases.switch("open", waits_for="its image")
            await self._call(shop.parts.environment.fetch, plan, shop.inform)
        rate = shop.limits.open_rates.get(shop.request.environment.id)
        if rate is not None:
            phases.switch("open", waits_for="the open rate")
            await rate.take()
        phases.switch("open")
        async with shop.house.open(
            plan,
            self.job.task.id,
            on_kept=self._on_kept,
            on_closing=functools.partial(phases.switch, "close"),
        ) as session:
            try:
                yield session
            finally:
                await self._take_usage(session, role)

    async def _take_usage(self, session: Session, role: str) -> None:
        """Ask a sandbox what it has used; whatever becomes of that, it changes no verdict."""
        try:
            with trio.move_on_after(USAGE_SECONDS):
                if used := plain(await session.usage()):
                    self._used[role] = cast("Mapping[str, JSON]", used)
        except Exception as error:  # noqa: BLE001  # a provider's
            _log.debug("task %s: no figures of its sandbox: %s", self.job.task.id, describe(error))

    async def _let_agent_work(self, session: Session | None) -> None:
        """Prepare and run; afterwards the agent has no model and no process any more."""
        benchmark, harness, task = self.parts.benchmark, self.parts.harness, self.job.task
        config = self.shop.request.execution
        with self._phases.enter("prepare", config.prepare_timeout_seconds):
            task_input = await self._call(benchmark.prepare, task, session)
        await self._still_wanted()
        if harness.uses_reference:
            solve = functools.partial(self._call, benchmark.solve, task, session)
            task_input = attrs.evolve(task_input, solve=solve)
        client = self.shop.client
        account = self._account
        model = self._model = client.lend(self._on_retry, account) if client else NoModel()
        try:
            with self._phases.enter("run", run_limit(config, task, harness)), account.purse:
                self._outcome = await self._run_agent(task_input, session, model)
        except PhaseTimedOut:
            self._phases.forgive()
            self._outcome = AgentOutcome(stopped_by="timeout")
        except Exception:
            if not account.is_spent:
                raise
            self._phases.forgive()
        finally:
            self._agent_is_done = True
            model.revoke()
            await self._scrub_agent_folder()
        if account.is_spent:
            self._outcome = AgentOutcome(stopped_by="budget")
        await self._still_wanted()
        if harness.needs_model and model.replies == 0 and self._outcome.stopped_by != "context":
            raise no_answer(model, self._outcome)

    async def _scrub_agent_folder(self) -> None:
        try:
            await self._files.scrub_agent_folder()
        except StoreError as error:
            self.shop.warn(f"task {self.job.task.id}: secrets may be left: {error}")

    async def _run_agent(
        self, task_input: TaskInput, session: Session | None, model: AttemptModel
    ) -> AgentOutcome:
        emit = Keeper(self._emit, self._files.agent_folder)
        run = self.parts.harness.run
        outcome = checked_outcome(await self._call(run, task_input, session, model, emit))
        return attrs.evolve(outcome, details=await self._snapshot(outcome.details))

    async def _collect(self, session: Session, plan: SandboxPlan, *, to_evaluator: bool) -> None:
        """End what the agent left running; fetch what goes to the evaluator's sandbox."""
        with self._phases.enter("collect", self.shop.request.execution.collect_timeout_seconds):
            left = await session.end_processes()
            if left:
                _log.info("task %s: ended %d processes the agent had left", self.job.task.id, left)
            if not to_evaluator:
                return
            await self._call(self.parts.benchmark.collect, self.job.task, session)
            await self._files.collect(session, plan.artifacts)

    async def _evaluate(self, session: Session | None) -> None:
        benchmark, task = self.parts.benchmark, self.job.task
        limit = evaluate_limit(self.shop.request.execution, task, benchmark)
        with self._phases.enter("evaluate", limit):
            given = await self._judged(benchmark, session)
            evaluation = checked(given, benchmark.metrics)
            details = await self._snapshot(evaluation.details)
            evaluation = attrs.evolve(evaluation, details=details)
            await self._files.keep(evaluation.files)
        await self._still_wanted()
        self._evaluation = evaluation

    async def _judged(self, benchmark: Benchmark[object], session: Session | None) -> Any:
        """What the benchmark says, with the help of a model where it has one."""
        if self.shop.judge is None:
            return await self._call(benchmark.evaluate, self.job.task, self._outcome, session)
        judge = self._judge = self.shop.judge.lend(self._on_retry, self._account.of_judge())
        try:
            return await self._call(benchmark.judge, self.job.task, self._outcome, session, judge)
        finally:
            judge.revoke()

    @staticmethod
    async def _still_wanted() -> None:
        """Let nothing pass that a component gave us after it swallowed its cancellation: it was cut short.

        Also let others have a turn: with hundreds of attempts ready at once, long steps are the event loop's lag.
        """
        await trio.lowlevel.checkpoint()

    # --- what is lent

    async def _call(self, function: Callable[..., Any], *args: object) -> Any:
        try:
            return await call(function, *args, threads=self.shop.limits.component_threads)
        except Exception as error:
            if is_safe(error):
                raise
            raise InfraError(describe(error), code="unspeakable-error", retryable=False) from None

    async def _emit(self, step: Mapping[str, JSON]) -> None:
        if self._agent_is_done:
            raise ModelError("the attempt is over", code="model-revoked", retryable=False)
        seconds = round(trio.current_time() - self._started, 3)
        await self._apart(step, self._trajectory.write, {**step, "at_seconds": seconds})
        await self.shop.flow.wait()

    async def _apart(self, what: JSON, function: Callable[..., Any], *args: object) -> Any:
        """Call a function here, or in a thread if what it works on is big enough to hold up the event loop."""
        if weight(what) <= INLINE_BYTES:
            return function(*args)
        threads = self.shop.limits.file_threads
        return await trio.to_thread.run_sync(function, *args, limiter=threads)

    async def _snapshot(self, details: Mapping[str, JSON]) -> Mapping[str, JSON]:
        """A copy in plain JSON, since a component may go on using what it gave.

        Raises:
            InfraError: It is no JSON (`unwritable-record`).
        """
        try:
            return cast("Mapping[str, JSON]", await self._apart(details, plain, details))
        except NotJSONError as error:
            raise InfraError(
                f"details that are not JSON at {error}", code="unwritable-record", retryable=False
            ) from None

    def _on_phase(self, phase: Phase, waits_for: str) -> None:
        job = self.job
        self.shop.tell(
            PhaseStarted, task=job.task.id, attempt=job.attempt, phase=phase, detail=waits_for
        )

    def _on_kept(self, lease: Lease, hint: str) -> None:
        job = self.job
        self.shop.tell(
            SandboxKept, task=job.task.id, attempt=job.attempt, name=lease.name, hint=hint
        )

    def _on_retry(self, retry: ModelRetry) -> None:
        self.shop.tell(
            ModelRetried,
            task=self.job.task.id,
            attempt=self.job.attempt,
            code=retry.code,
            message=retry.message,
            wait_seconds=retry.wait_seconds,
        )

    # --- the record

    def _ended_by(self, error: BaseException) -> ExecutionRecord:
        control = self.shop.control
        if control.reason is not None and trio.current_effective_deadline() == -math.inf:
            text = f"ended by {control.reason} in the {self._phases.blamed} phase"
            failure = Failure(
                phase=self._phases.blamed, code=control.reason, message=text, retryable=True
            )
            return self._record(verdict="cancelled", failure=failure)
        failure = with_causes(failure_from(error, self._phases.blamed), self._used)
        _log.debug(  # people are told by the event, and told less often than this happens
            "task %s, attempt %d: %s in the %s phase: %s",
            self.job.task.id, self.job.attempt, failure.code, failure.phase, failure.message,
        )  # fmt: skip
        if not isinstance(error, InfraError):
            _log.debug("traceback of task %s", self.job.task.id, exc_info=error)
        return self._record(verdict="infra", failure=failure)

    def _graded(self) -> ExecutionRecord:
        assert self._evaluation is not None
        return self._record(
            metrics=self._evaluation.metrics,
            stopped_by=self._outcome.stopped_by,
            details={**self._outcome.details, **self._evaluation.details},
        )

    def _record(self, *, verdict: Verdict = "graded", **fields: Any) -> ExecutionRecord:
        self._phases.settle()
        job = self.job
        return ExecutionRecord(
            task_id=job.task.id,
            category=job.task.category,
            attempt=job.attempt,
            execution=job.execution,
            verdict=verdict,
            answer=self._outcome.answer,
            is_completion=self._outcome.is_completion,
            artifacts=self._files.artifacts(),
            usage=self._model.usage if self._model is not None else self._usage,
            judge_usage=self._judge.usage if self._judge is not None else Usage(),
            sandbox=dict(self._used),
            phase_seconds={name: round(s, 6) for name, s in self._phases.seconds.items() if s > 0},
            started_at=self._started_at.isoformat(timespec="milliseconds"),
            finished_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            wall_seconds=round(trio.current_time() - self._started, 6),
            **fields,
        )
