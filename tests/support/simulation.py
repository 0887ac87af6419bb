"""Many requests with many tasks on a virtual clock, and a referee who sees that slots are used and shared as promised.

Two levels. `run_scheduler` is scheduler and workers alone: no store, no components, so that a million tasks take
seconds. `run_engine` is the whole engine: components, sandboxes, records and events on disk, scores.
"""

from __future__ import annotations

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
from agentcompass.engine.durable import Flow
from agentcompass.engine.jobs import Job
from agentcompass.engine.limits import Limits
from agentcompass.engine.orchestrate import _Run
from agentcompass.engine.scheduler import Lane, Scheduler, Slots
from agentcompass.engine.workers import Crew
from agentcompass.errors import InfraError
from agentcompass.records import Metric
from agentcompass.spec.resolved import ComponentConfig
from agentcompass.store.writer import Writer
from support.ideal import Schedule, Stream
from support.requests import orchestration, request
from support.scripted import MemorySession, path
from support.virtual import VirtualThreads, VirtualWriter, Watch, run_virtually

FOR_EVER = 1e9
"""Seconds after which nothing will happen any more."""


class Referee:
    """Watches a scheduler from outside: what it finds wrong is in `problems`.

    Args:
        requests: How many there are. Once all have begun and have come up to each other, they stay so as long as
            each has tasks that were never started. Before and after, whoever comes late catches up as others end
            theirs: no running task is taken away. The same happens to who waits for an open rate again and again.
    """

    def __init__(self, requests):
        self.scheduler: Scheduler | None = None
        self.problems: list[str] = []
        self.starts = 0
        self.most_apart = 0
        """How many more tasks than one that waited for a slot another request ran at most."""
        self.slot_seconds: dict[str, float] = {}
        """By request; this and `most_apart` as long as all have tasks that were never started."""
        self._requests = requests
        self._are_level = False
        self._settled_at = 0.0

    def started(self, lane):
        """Each start goes to a request with the least share among those that could start."""
        self.starts += 1
        now, places = trio.current_time(), self.scheduler.slots.providers
        share = (lane.running - 1) / lane.weight
        for other in self.scheduler.lanes:
            place = places.get(other.provider)
            had_place = place is None or place.available_tokens or other.provider == lane.provider
            if other.due_at <= now and had_place and other.running / other.weight < share - 1e-9:
                self._problem(f"{lane.name} went before {other.name}, which had fewer running")

    def settled(self):
        """Nothing can start that waits; of those who wait for a slot, none has more than its share."""
        scheduler = self.scheduler
        if scheduler is None or scheduler.is_closed:
            return
        waiting = []
        for lane in scheduler.lanes:
            if lane.due_at <= trio.current_time():
                if scheduler.slots.is_free(lane.provider):
                    self._problem(f"{lane.name} waits while a slot is free")
                place = scheduler.slots.providers.get(lane.provider)
                if place is None or place.available_tokens:
                    waiting.append(lane)
        if len(scheduler.lanes) == self._requests and all(
            lane.fresh and lane.rate is None for lane in scheduler.lanes
        ):
            self._compare(waiting)
        self._settled_at = trio.current_time()

    def _compare(self, waiting):
        lanes = self.scheduler.lanes
        if waiting and is_shared_out(lanes, waiting):
            self._are_level = True
        elif waiting and self._are_level:
            self._problem("unequal: " + ", ".join(f"{lane.name} {lane.running}" for lane in lanes))
        if self._are_level and waiting:
            least = min(lane.running for lane in waiting)
            self.most_apart = max(self.most_apart, *(lane.running - least for lane in lanes))
        if self._are_level:
            for lane in lanes:
                spent = lane.running * (trio.current_time() - self._settled_at)
                self.slot_seconds[lane.name] = self.slot_seconds.get(lane.name, 0.0) + spent

    def _problem(self, text):
        self.problems.append(f"{trio.current_time():.3f} s: {text}")


def is_shared_out(lanes, waiting):
    """Whether nobody has more by a whole task than one who waits has for its weight: if equal, by at most one."""
    most = max((lane.running - 1) / lane.weight for lane in lanes)
    return most <= 1e-9 + min(lane.running / lane.weight for lane in waiting)


def _watched(main, referee, seed, threads):
    watch = None if referee is None else Watch(on_idle=referee.settled)

    async def bounded():
        with trio.fail_after(FOR_EVER):
            return await main()

    return run_virtually(bounded, seed=seed, threads=threads, watch=watch)


# --- scheduler and workers alone


class _Work:
    """What a `RequestRun` is to the workers."""

    def __init__(self, stream, world):
        self.stream, self.world = stream, world
        jobs = (Job(Task(id=f"t{number}", data=number), 1) for number in range(stream.tasks))
        self.lane = Lane(
            stream.name,
            jobs,
            size=stream.tasks,
            provider=stream.provider,
            rate=world.rates.get(stream.provider),
            weight=stream.weight,
        )
        self.left = stream.tasks
        self.finished = trio.Event()

    async def execute(self, job):
        world, stream, which = self.world, self.stream, (job.task.data, job.execution)
        if world.referee is not None:
            world.referee.started(self.lane)
        seconds = stream.seconds(*which)
        await trio.sleep(seconds)
        world.note(seconds)
        if stream.is_retried(*which):  # it is on disk a little later than the worker is free
            again = attrs.evolve(job, execution=job.execution + 1)
            due = trio.current_time() + stream.delay_seconds
            trio.lowlevel.current_trio_token().run_sync_soon(
                world.scheduler.put_back, self.lane, again, due
            )
            return
        self.left -= 1
        if self.left == 0:
            self.finished.set()


class _World:
    def __init__(self, slots, places, rates, referee):
        self.scheduler, self.referee, self.slots = Scheduler(Slots(slots, places)), referee, slots
        self.rates = Limits.create(rates, slots).open_rates
        if referee is not None:
            referee.scheduler = self.scheduler
        self.busy_seconds, self.executions = 0.0, 0

    def note(self, seconds):
        self.busy_seconds += seconds
        self.executions += 1

    async def run(self, streams):
        async with trio.open_nursery() as watchers:
            watchers.start_soon(self.scheduler.ring)
            async with trio.open_nursery() as nursery:
                crew = Crew(nursery, self.scheduler, Flow(Writer()), self.slots)
                async with trio.open_nursery() as serving:
                    for stream in streams:
                        serving.start_soon(self._serve, stream, crew)
                self.scheduler.close()
            watchers.cancel_scope.cancel()

    async def _serve(self, stream, crew):
        await trio.sleep(stream.loads_for)
        work = _Work(stream, self)
        crew.take_on(work)
        await work.finished.wait()
        crew.finish(work)


def run_scheduler(streams, slots, places, rates, *, referee=None, seed=0):
    """Run requests through scheduler and workers alone; returns a `Schedule`."""

    async def main():
        world = _World(slots, places, rates, referee)
        await world.run(streams)
        return Schedule(
            makespan=trio.current_time(),
            busy_seconds=world.busy_seconds,
            executions=world.executions,
        )

    return _watched(main, referee, seed, VirtualThreads())


# --- the whole engine

_execution: ContextVar[tuple[int, int]] = ContextVar("execution")


@attrs.frozen(kw_only=True)
class Params:
    stream: Stream


class SimulatedBenchmark(Benchmark[Params]):
    id = "simulated"
    Params = Params
    metrics = (Metric(name="pass", primary=True),)
    evaluates_in = Where.NOWHERE

    async def load_tasks(self, ctx):
        await trio.sleep(self.params.stream.loads_for)
        return (Task(id=f"t{number}") for number in range(self.params.stream.tasks))

    async def prepare(self, task, session):
        return TaskInput(messages=(Message(role="user", content=task.id),))

    async def evaluate(self, task, outcome, session):
        return Evaluation(metrics={"pass": 1.0})


class SimulatedHarness(Harness[Params]):
    id = "simulated"
    Params = Params
    needs_model = False

    def __init__(self, params):
        super().__init__(params)
        self.needs_sandbox = params.stream.provider is not None

    async def run(self, task_input, session, model, emit):
        stream, which = self.params.stream, _execution.get()
        await trio.sleep(stream.seconds(*which))
        if stream.fails(*which):
            raise InfraError("made up", code="made-up")
        return AgentOutcome(answer="right")


class _Session(MemorySession):
    async def end_processes(self):
        return 0


class _Boxes(Environment[Params]):
    Params = Params

    @asynccontextmanager
    async def open(self, plan, lease):
        yield _Session(self, lease)

    async def remove(self, lease):
        pass


class BoxesA(_Boxes):
    id = "boxesa"


class BoxesB(_Boxes):
    id = "boxesb"


PROVIDERS = {"a": path(BoxesA), "b": path(BoxesB)}


def request_of(stream, *, benchmark=SimulatedBenchmark, environment=None):
    """The request for a stream, with other components if they are given."""
    parts = (
        path(benchmark),
        path(SimulatedHarness),
        path(environment) if environment else PROVIDERS[stream.provider or "a"],
    )
    params = Params(stream=stream)
    made = request(
        *(ComponentConfig(id=part, params=params, written={}) for part in parts),
        name=stream.name,
        max_retries=stream.retries,
        retry_min_delay_seconds=stream.delay_seconds,
        retry_max_delay_seconds=stream.delay_seconds,
        run_timeout_seconds=0.0,
        min_coverage=0.0,
    )
    return attrs.evolve(made, weight=stream.weight)


@attrs.define
class _Audience:
    """Takes note of what the engine tells, and keeps none of it."""

    streams: dict[str, Stream]
    referee: Referee | None
    listener: Any
    engine: _Run | None = None
    busy_seconds: float = 0.0
    executions: int = 0
    ended_at: float = 0.0

    def emit(self, event):
        if event.kind == "attempt_started":
            which = int(event.task[1:]), event.execution
            _execution.set(which)
            self.busy_seconds += self.streams[event.request].seconds(*which)
            self.executions += 1
            if self.referee is not None:
                lanes = {lane.name: lane for lane in self.engine.scheduler.lanes}
                self.referee.started(lanes[event.request])
        elif event.kind == "attempt_finished":
            self.ended_at = trio.current_time()
        self.listener(event)


def run_engine(
    streams,
    slots,
    places,
    rates,
    results_dir,
    *,
    also=(),
    referee=None,
    seed=0,
    listener=lambda _event: None,
    **runtime,
):
    """Run requests through the whole engine; returns its result and a `Schedule`.

    Args:
        also: Further requests, which come to no attempt.
        listener: Gets every event.
        runtime: Further runtime settings.
    """
    plan = orchestration(
        results_dir,
        *map(request_of, streams),
        *also,
        task_concurrency=slots,
        provider_limits={PROVIDERS[name]: limit for name, limit in places.items()},
        env_open_qps={PROVIDERS[name]: rate for name, rate in rates.items()},
        **({"file_log_level": "CRITICAL"} | runtime),
    )
    threads = VirtualThreads()

    async def main():
        control = Control(5.0)
        audience = _Audience({stream.name: stream for stream in streams}, referee, listener)
        writer = VirtualWriter(threads)
        audience.engine = _Run(plan, control, audience.emit, lambda _outcome: None, writer)
        if referee is not None:
            referee.scheduler = audience.engine.scheduler
        result = await control.run(audience.engine.run)
        return result, Schedule(
            makespan=audience.ended_at,
            busy_seconds=audience.busy_seconds,
            executions=audience.executions,
        )

    return _watched(main, referee, seed, threads)
