"""Requests that go wrong in every way a case says, run by the whole engine in virtual time.

A case is plain data, so that a failing one shrinks and can be run again. Every component acts out its case and
notes in a `World` what really happened, which the engine cannot embellish.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import attrs
import trio

from agentcompass.components.base import (
    AgentOutcome,
    Benchmark,
    Environment,
    Evaluation,
    Harness,
    Task,
    TaskInput,
    Where,
)
from agentcompass.components.messages import Message
from agentcompass.engine.control import Control
from agentcompass.engine.orchestrate import _Run
from agentcompass.errors import InfraError, SandboxError
from agentcompass.records import Metric
from agentcompass.spec.resolved import ComponentConfig
from agentcompass.store.layout import RunPaths
from agentcompass.store.leases import LeaseBook
from support.requests import orchestration, request
from support.scripted import MemorySession, path
from support.virtual import DurableSizes, VirtualThreads, VirtualWriter, Watch, run_virtually

ENVIRONMENTS = ("a", "b")
LINGERS = 1.0
"""Seconds for which a lingering act ignores that it is cancelled."""


@attrs.frozen
class Act:
    """What a component does in a phase: `seconds` long, then `how`. 0 seconds are not even a checkpoint.

    `swallow`, `turn` and `linger` are fine unless they are cancelled: then they return as if nothing had happened,
    raise something else, or go on for a while.
    """

    seconds: float = 0.0
    how: str = "fine"


@attrs.frozen
class Script:
    """One execution: its acts by phase, and when each of its sandboxes dies (seconds after it opened)."""

    acts: dict[str, Act] = {}
    dies_after: float | None = None
    is_right: bool = True

    def act(self, phase):
        return self.acts.get(phase, Act())


@attrs.frozen(kw_only=True)
class RequestCase:
    tasks: int = 1
    scripts: tuple[Script, ...] = (Script(),)
    k: int = 1
    strategy: str = "avg"
    is_agent_boxed: bool = False
    where: Where = Where.NOWHERE
    environment: str = "a"
    limit_seconds: float = 3.5
    """Of every phase."""
    max_retries: int = 0
    delays: tuple[float, float] = (0.0, 0.0)
    patterns: tuple[str, ...] = ()
    weight: float = 1.0
    min_coverage: float = 1.0
    keep: bool = False
    load: Act = Act()

    @property
    def needs_sandbox(self):
        return self.is_agent_boxed or self.where is not Where.NOWHERE

    def script(self, task, attempt, execution):
        """Which script an execution follows: all of them get their turn."""
        at = int(task[1:]) * 7 + (attempt - 1) * 3 + execution - 1
        return self.scripts[at % len(self.scripts)]


@attrs.frozen
class Moment:
    """A number of steps of the scheduler, or of seconds."""

    count: float
    unit: str = "steps"


@attrs.frozen(kw_only=True)
class Case:
    requests: tuple[RequestCase, ...] = (RequestCase(),)
    task_concurrency: int = 2
    provider_limits: dict[str, int] = {}
    open_rates: dict[str, float] = {}
    timeout_seconds: float = 0.0
    grace_seconds: float = 10.0
    thread_delays: tuple[float, ...] = (0.0,)
    writer_delays: tuple[float, ...] = (0.0,)
    cancel: Moment | None = None
    cancel_again: Moment | None = None
    """After the first time."""
    reason: str = "sigint"
    seed: int = 0

    def uninterrupted(self):
        return attrs.evolve(self, cancel=None, cancel_again=None, timeout_seconds=0.0)


# --- the components

_execution: ContextVar[tuple[Any, ...]] = ContextVar("execution")


class World:
    """What really happened."""

    def __init__(self, case):
        self.case = case
        self.existing: dict[str, str] = {}
        """Sandboxes that a provider would show: name -> the run's request."""
        self.kept: set[str] = set()
        self.execution_of: dict[str, tuple[Any, ...]] = {}
        self.working: Counter[tuple[Any, ...]] = Counter()
        """Acts under way, by execution."""
        self.most_working = 0
        self.boxed = dict.fromkeys(ENVIRONMENTS, 0)
        self.most_boxed = dict(self.boxed)

    def script(self):
        name, *which = _execution.get()
        return self.case.requests[int(name[1:])].script(*which)

    async def act(self, phase):
        which = _execution.get()
        self.working[which] += 1
        self.most_working = max(self.most_working, len(+self.working))
        try:
            return await perform(self.script().act(phase))
        finally:
            self.working[which] -= 1


async def perform(act):
    """Act; return whether it was done to its end."""
    try:
        if act.how == "hang":
            await trio.sleep_forever()
        if act.seconds:
            await trio.sleep(act.seconds)
    except trio.Cancelled:
        if act.how == "swallow":
            return False
        if act.how == "turn":
            raise ValueError("turned") from None
        if act.how == "linger":
            with trio.CancelScope(shield=True):
                await trio.sleep(LINGERS)
        raise
    fail(act.how)
    if act.how == "stray":
        raise await _stray()
    return True


def fail(how):
    match how:
        case "raise":
            raise ValueError("boom")
        case "exit":
            raise SystemExit(3)
        case "group":
            raise ExceptionGroup("several", [KeyError("x")])
        case "quota":
            raise SandboxError("no room", code="quota")
        case "hopeless":
            raise InfraError("no hope", code="hopeless", retryable=False)


async def _stray():
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            return cancelled
    raise AssertionError


@attrs.frozen(kw_only=True)
class Params:
    world: World
    case: RequestCase


class ChaosBenchmark(Benchmark[Params]):
    id = "chaosbenchmark"
    Params = Params
    metrics = (Metric(name="pass", primary=True),)

    def __init__(self, params):
        super().__init__(params)
        self.world, self.case = params.world, params.case
        self.evaluates_in = self.case.where

    async def load_tasks(self, ctx):
        await perform(self.case.load)
        return [Task(id=f"t{n}", category=["even", "odd"][n % 2]) for n in range(self.case.tasks)]

    def plan(self, task, plan):
        fail(self.world.script().act("plan").how)
        return plan

    async def prepare(self, task, session):
        await self.world.act("prepare")
        return TaskInput(messages=(Message(role="user", content=task.id),))

    async def evaluate(self, task, outcome, session):
        is_whole = await self.world.act("evaluate")
        how = self.world.script().act("evaluate").how
        value = float("nan") if how == "nan" else is_whole and outcome.answer == "right"
        return None if how == "junk" else Evaluation(metrics={"pass": value})


class ChaosHarness(Harness[Params]):
    id = "chaosharness"
    Params = Params
    needs_model = False

    def __init__(self, params):
        super().__init__(params)
        self.world, self.needs_sandbox = params.world, params.case.is_agent_boxed

    async def run(self, task_input, session, model, emit):
        await emit({"type": "note", "task": task_input.prompt})
        is_whole = await self.world.act("run")
        script = self.world.script()
        if script.act("run").how == "junk":
            return "junk"
        return AgentOutcome(answer="right" if is_whole and script.is_right else "wrong")


class ChaosSession(MemorySession):
    async def end_processes(self):
        await self.environment.world.act("collect")
        return 0


class ChaosEnvironment(Environment[Params]):
    Params = Params
    letter = ""

    def __init__(self, params):
        super().__init__(params)
        self.world = params.world

    @asynccontextmanager
    async def open(self, plan, lease):
        world, letter = self.world, self.letter
        assert lease.name not in world.existing
        world.existing[lease.name] = _execution.get()[0]
        world.execution_of[lease.name] = _execution.get()
        world.boxed[letter] += 1
        world.most_boxed[letter] = max(world.most_boxed[letter], world.boxed[letter])
        try:
            await world.act("open")
            if lease.keep:
                world.kept.add(lease.name)
            try:
                async with trio.open_nursery() as nursery:
                    if (seconds := world.script().dies_after) is not None:
                        nursery.start_soon(_die, seconds)
                    yield ChaosSession(self, lease)
                    nursery.cancel_scope.cancel()
            finally:
                await world.act("close")
        finally:
            world.boxed[letter] -= 1
        if not lease.keep:
            del world.existing[lease.name]

    async def remove(self, lease):
        await self.world.act("remove")
        self.world.existing.pop(lease.name, None)


async def _die(seconds):
    await trio.sleep(seconds)
    raise OSError("the sandbox is gone")


class ChaosA(ChaosEnvironment):
    id = "chaosa"
    letter = "a"


class ChaosB(ChaosEnvironment):
    id = "chaosb"
    letter = "b"


PROVIDERS = {"a": path(ChaosA), "b": path(ChaosB)}
_CLASSES = {"a": ChaosA, "b": ChaosB}


# --- running a case


@attrs.define(kw_only=True)
class Observed:
    """What a run did, seen from outside."""

    case: Case
    world: World
    requests: Any
    results_dir: Any
    result: Any = None
    events: list[Any] = attrs.field(factory=list)
    engine: Any = None
    cancelled_at: float | None = None
    hurried_at: float | None = None
    ended_at: float = 0.0
    problems: list[str] = attrs.field(factory=list)
    opened_at: dict[str, list[float]] = attrs.field(factory=lambda: {e: [] for e in ENVIRONMENTS})
    """When sandboxes were asked for, by environment."""

    def paths(self, at):
        made = self.requests[at]
        return RunPaths(self.results_dir / made.name / made.run_id)

    def of(self, kind, at=None):
        return [
            event
            for event in self.events
            if event.kind == kind and (at is None or event.request == f"r{at}")
        ]

    @property
    def is_cut(self):
        """Whether the time for cleanup was over before everything was done."""
        late = self.cancelled_at is not None
        return self.hurried_at is not None or (
            late and self.ended_at >= self.cancelled_at + self.case.grace_seconds
        )

    def history(self):
        """The run, without what is different every time."""
        random = {"at", "wall_seconds", "name", "names", "run_dir", "hint", "error"}
        return [
            {key: value for key, value in event.as_dict().items() if key not in random}
            for event in self.events
        ]


def _requests(case, world, run_id, reuse):
    for at, it in enumerate(case.requests):
        params = Params(world=world, case=it)
        cls = _CLASSES[it.environment]
        made = request(
            *(
                ComponentConfig(id=path(part), params=params, written={})
                for part in (ChaosBenchmark, ChaosHarness, cls)
            ),
            name=f"r{at}",
            k=it.k,
            attempt_strategy=it.strategy,
            max_retries=it.max_retries,
            retry_pattern_list=it.patterns,
            retry_min_delay_seconds=it.delays[0],
            retry_max_delay_seconds=it.delays[1],
            min_coverage=it.min_coverage,
            keep_environment=it.keep,
            **{
                f"{phase}_timeout_seconds": it.limit_seconds
                for phase in ("open", "prepare", "run", "collect", "evaluate", "close")
            },
        )
        yield attrs.evolve(made, weight=it.weight, run_id=run_id, reuse=reuse)


def run_case(case, results_dir, *, run_id="first", reuse=False, also=lambda _event: None):
    """Run a case with the whole engine; what is broken on the way is in `problems`.

    `also` gets every event.
    """
    world, control = World(case), Control(case.grace_seconds)
    seen = Observed(
        case=case,
        world=world,
        requests=tuple(_requests(case, world, run_id, reuse)),
        results_dir=results_dir,
    )
    plan = orchestration(
        results_dir,
        *seen.requests,
        task_concurrency=case.task_concurrency,
        timeout_seconds=case.timeout_seconds,
        cleanup_grace_seconds=case.grace_seconds,
        provider_limits={PROVIDERS[name]: n for name, n in case.provider_limits.items()},
        env_open_qps={PROVIDERS[name]: rate for name, rate in case.open_rates.items()},
        file_log_level="CRITICAL",
    )
    threads, durable = VirtualThreads(case.thread_delays), DurableSizes()
    observer = _Observer(seen, control, durable, also)
    watch = Watch(observer.on_step, observer.on_idle)

    async def main():
        with trio.fail_after(100_000):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(observer.cancel_in_time)
                nursery.start_soon(observer.cancel_again_in_time)
                seen.engine = _Run(
                    plan,
                    control,
                    observer.emit,
                    lambda _outcome: None,
                    VirtualWriter(threads, case.writer_delays),
                )
                seen.result = await control.run(seen.engine.run)
                seen.ended_at = trio.current_time()
                if seen.result.ended_by is None:
                    seen.cancelled_at = None  # too late to matter
                elif seen.cancelled_at is None:
                    seen.cancelled_at = 0.0  # before there was anybody to be told
                nursery.cancel_scope.cancel()

    with durable.installed():
        run_virtually(main, seed=case.seed, threads=threads, watch=watch)
    return seen


class _Observer:
    def __init__(self, seen, control, durable, also):
        self.seen, self.control, self.durable, self.also = seen, control, durable, also
        self.steps, self.soft_step = 0, None
        self.is_soft = trio.Event()

    def emit(self, event):
        self.seen.events.append(event)
        self.also(event)
        if event.kind == "attempt_started":
            _execution.set((event.request, event.task, event.attempt, event.execution))
        elif event.kind == "phase_started" and event.phase == "open" and not event.detail:
            it = self.seen.case.requests[int(event.request[1:])]
            self.seen.opened_at[it.environment].append(trio.current_time())
        elif event.kind == "attempt_finished":
            self.check_durable(event)
        elif event.kind == "cleanup_started" and self.seen.result is None:
            self.seen.cancelled_at = trio.current_time()
            self.soft_step = self.steps
            self.is_soft.set()

    def check_durable(self, event):
        file = self.seen.paths(int(event.request[1:])).journal_file
        size = self.durable.sizes.get(str(file), 0)
        lines = [json.loads(line) for line in file.read_bytes()[:size].splitlines()]
        which = (event.task, event.attempt, event.execution, event.verdict)
        found = [(r["task_id"], r["attempt"], r["execution"], r["verdict"]) for r in lines]
        if found.count(which) != 1:
            self.seen.problems.append(f"{which} was announced, durable is {found}")

    # --- cancelling

    def on_step(self, step):
        self.steps = step
        cancel, again = self.seen.case.cancel, self.seen.case.cancel_again
        if cancel is not None and cancel.unit == "steps" and step == cancel.count:
            self.ask(self.seen.case.reason)
        if (
            again is not None
            and again.unit == "steps"
            and self.soft_step is not None
            and step == self.soft_step + again.count
        ):
            self.ask("sigint")

    async def cancel_in_time(self):
        cancel = self.seen.case.cancel
        if cancel is not None and cancel.unit == "seconds":
            await trio.sleep(cancel.count)
            self.ask(self.seen.case.reason)

    async def cancel_again_in_time(self):
        again = self.seen.case.cancel_again
        if again is not None and again.unit == "seconds":
            await self.is_soft.wait()
            await trio.sleep(again.count)
            self.ask("sigint")

    def ask(self, reason):
        if self.control.reason is not None and self.seen.hurried_at is None:
            self.seen.hurried_at = trio.current_time()
        self.control.request_cancel(reason)

    # --- looking

    def on_idle(self):
        engine, world = self.seen.engine, self.seen.world
        if engine is None:
            return
        names = {lease.name for lease in leases(self.seen)}
        if lost := set(world.existing) - names:
            self.seen.problems.append(f"sandboxes without a lease: {lost}")
        scheduler = engine.scheduler
        if self.control.reason is not None or scheduler.is_closed:
            return
        for lane in scheduler.lanes:
            if lane.due_at <= trio.current_time() and scheduler.slots.is_free(lane.provider):
                self.seen.problems.append(f"lane {lane.name} has work and places, and waits")


def leases(seen):
    """Every lease on disk."""
    found = []
    for at in range(len(seen.requests)):
        with contextlib.suppress(FileNotFoundError):
            found += LeaseBook(seen.paths(at).leases_dir).list()
    return found
