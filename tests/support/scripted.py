"""Components that do what a test tells them, on the real extension points, and a way to run the engine on them.

The scripts are plain or `async` functions, so that a test can make any phase return, raise, hang or misbehave.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import attrs
import trio

from agentcompass.components.base import (
    AgentOutcome,
    Benchmark,
    Capabilities,
    Environment,
    Evaluation,
    Harness,
    ImageSource,
    Session,
    Task,
    TaskInput,
    Where,
)
from agentcompass.components.messages import Message
from agentcompass.engine.control import Control
from agentcompass.engine.orchestrate import orchestrate
from agentcompass.records import Metric
from agentcompass.spec.resolved import ComponentConfig
from agentcompass.store.reader import read_run
from support.requests import orchestration, request


async def obey(script, *args):
    """Call a script, plain or async."""
    result = script(*args)
    return await result if inspect.isawaitable(result) else result


def tasks(count):
    """Tasks t0, t1, ..."""
    return [Task(id=f"t{number}") for number in range(count)]


@attrs.frozen(kw_only=True)
class BenchmarkScript:
    load: Callable[..., Any] = lambda: tasks(3)
    plan: Callable[..., Any] = lambda _task, plan: plan
    prepare: Callable[..., Any] = lambda task: TaskInput(
        messages=(Message(role="user", content=task.id),)
    )
    evaluate: Callable[..., Any] = lambda _task, outcome, _session: Evaluation(
        metrics={"pass": outcome.answer == "right"}
    )
    where: Where = Where.NOWHERE


class ScriptedBenchmark(Benchmark[BenchmarkScript]):
    id = "scriptedbenchmark"
    Params = BenchmarkScript
    metrics = (Metric(name="pass", primary=True),)

    def __init__(self, params):
        super().__init__(params)
        self.evaluates_in = params.where

    async def load_tasks(self, ctx):
        return await obey(self.params.load)

    def plan(self, task, plan):
        return self.params.plan(task, plan)

    async def prepare(self, task, session):
        return await obey(self.params.prepare, task)

    async def evaluate(self, task, outcome, session):
        return await obey(self.params.evaluate, task, outcome, session)


@attrs.frozen(kw_only=True)
class HarnessScript:
    run: Callable[..., Any] = lambda _task_input, _session, _model, _emit: AgentOutcome(
        answer="right"
    )
    sandbox: bool = False
    model: bool = False
    limit: float = 60.0


class ScriptedHarness(Harness[HarnessScript]):
    id = "scriptedharness"
    Params = HarnessScript

    def __init__(self, params):
        super().__init__(params)
        self.needs_sandbox, self.needs_model = params.sandbox, params.model
        self.run_timeout_seconds = params.limit

    async def run(self, task_input, session, model, emit):
        return await obey(self.params.run, task_input, session, model, emit)


class SyncHarness(ScriptedHarness):
    """The same with a plain function: the engine runs it in a thread."""

    id = "syncharness"

    def run(self, task_input, session, model, emit):
        return self.params.run(task_input, session, model, emit)


class MemorySession(Session):
    """A sandbox that holds files in memory and runs nothing."""

    workdir = "/work"

    def __init__(self, environment, lease):
        self.environment, self.lease = environment, lease
        self.files: dict[str, bytes] = {}

    async def exec(self, command, **_options):
        raise AssertionError("no test of the engine executes anything here")

    process = exec

    async def read_bytes(self, path, *, max_bytes=None):
        return self.files[path]

    async def write_bytes(self, path, data, *, mode=0o644):
        self.files[path] = data

    async def upload(self, source, target):
        self.files[target] = source.read_bytes()

    async def download(self, source, target, *, max_bytes=None):
        if source not in self.files:
            raise FileNotFoundError(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self.files[source])

    async def end_processes(self):
        self.environment.log.append(("ended", self.lease.name))
        return await obey(self.environment.params.end)

    async def usage(self):
        return await obey(self.environment.params.usage)


@attrs.frozen(kw_only=True)
class EnvironmentScript:
    preflight: Callable[..., Any] = lambda: None
    opening: Callable[..., Any] = lambda: None
    using: Callable[..., Any] | None = None
    """Runs beside the sandbox's use, in a nursery of the environment."""
    closing: Callable[..., Any] = lambda: None
    removing: Callable[..., Any] = lambda: None
    end: Callable[..., Any] = lambda: 0
    usage: Callable[..., Any] = dict


class ScriptedEnvironment(Environment[EnvironmentScript]):
    """A provider whose sandboxes are entries of a set: `existing` is what a real one would show."""

    id = "scriptedenvironment"
    Params = EnvironmentScript
    capabilities = Capabilities()
    existing: ClassVar[set[str]] = set()
    most: ClassVar[list[int]] = [0]
    log: ClassVar[list[tuple[str, str]]] = []

    @classmethod
    def reset(cls):
        cls.existing.clear()
        cls.log.clear()
        cls.most[0] = 0

    async def preflight(self):
        await obey(self.params.preflight)

    @asynccontextmanager
    async def open(self, plan, lease):
        self.log.append(("open", lease.name))
        with trio.CancelScope(
            shield=True
        ):  # as a provider that goes on creating when the caller has gone
            self.existing.add(lease.name)
        await obey(self.params.opening)
        self.most[0] = max(self.most[0], len(self.existing))
        try:
            async with trio.open_nursery() as nursery:
                if self.params.using is not None:
                    nursery.start_soon(self.params.using)
                yield MemorySession(self, lease)
                nursery.cancel_scope.cancel()
        finally:
            await obey(self.params.closing)
        if not lease.keep:
            self.existing.discard(lease.name)
            self.log.append(("closed", lease.name))

    async def remove(self, lease):
        await obey(self.params.removing)
        self.existing.discard(lease.name)
        self.log.append(("removed", lease.name))


class ImagedEnvironment(ScriptedEnvironment):
    """The same with images: that of a task, else `own`."""

    id = "imagedenvironment"
    capabilities = Capabilities(images=True)

    def images_of(self, plan):
        return [ImageSource(image=plan.image or "own")]


def path(cls):
    """The import path by which a class is named."""
    return f"{cls.__module__}:{cls.__name__}"


def scripted(cls, **script):
    """The configuration of a scripted component."""
    return ComponentConfig(id=path(cls), params=cls.Params(**script), written={})


_numbers = itertools.count(1)


def scripted_request(
    benchmark=None, harness=None, environment=None, *, harness_class=ScriptedHarness, **fields
):
    """A request of scripted components; `fields` are execution settings, `name`, `model`."""
    made = request(
        scripted(ScriptedBenchmark, **(benchmark or {})),
        scripted(harness_class, **(harness or {})),
        scripted(ScriptedEnvironment, **(environment or {})),
        **({"max_retries": 0} | fields),
    )
    return attrs.evolve(made, run_id=f"run-{next(_numbers)}")


@attrs.define
class Ran:
    """What a run of the engine gave."""

    result: Any
    events: list[Any]
    results_dir: Any
    requests: Any

    def outcome(self, index=0):
        return self.result.requests[self.requests[index].name]

    def run_dir(self, index=0):
        made = self.requests[index]
        return self.results_dir / made.name / made.run_id

    def records(self, index=0):
        return list(read_run(self.run_dir(index)).records())

    def record(self, index=0):
        (only,) = self.records(index)
        return only

    def leases(self, index=0):
        return list((self.run_dir(index) / "leases").glob("*.json"))

    def of(self, kind):
        return [event for event in self.events if event.kind == kind]


async def run(tmp_path, *requests, control=None, beside=None, grace=2.0, **runtime):
    """Run the engine on requests, with `beside(control)` running beside it."""
    ScriptedEnvironment.reset()
    control = control or Control(grace)
    events = []
    plan = orchestration(tmp_path, *requests, cleanup_grace_seconds=grace, **runtime)
    result = None

    async def engine():
        nonlocal result
        result = await control.run(lambda: orchestrate(plan, control, events.append))

    async with trio.open_nursery() as nursery:
        if beside is not None:
            nursery.start_soon(beside, control)
        await engine()
        nursery.cancel_scope.cancel()
    return Ran(result, events, tmp_path, requests)
