"""A request's way to its first attempt: components, tasks, checks, reuse, and only then a directory."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeVar, final

import attrs
import trio

from agentcompass._version import __version__
from agentcompass.components.base import LoadContext, ModelClient, Task, Where
from agentcompass.data import frozen
from agentcompass.engine.analysis import Analysis
from agentcompass.engine.analysts import Analysts, analysts_for
from agentcompass.engine.clock import timestamp, wall_clock
from agentcompass.engine.extras import get_ready
from agentcompass.engine.images import images_of, sizes_of
from agentcompass.engine.ledger import Ledger
from agentcompass.engine.limits import Limits, TokenBucket
from agentcompass.engine.parts import Parts, build, explained
from agentcompass.engine.planning import (
    check_budget,
    check_descriptors,
    check_model,
    check_room,
    load_context,
    load_tasks,
)
from agentcompass.engine.request import RequestRun
from agentcompass.engine.sandbox import SandboxHouse
from agentcompass.engine.shared import Shared
from agentcompass.engine.workshop import Workshop
from agentcompass.errors import ConfigurationError, PreflightError, StoreError, counted
from agentcompass.metrics.finite import mean
from agentcompass.plan.regrade import Regradable, find_regradable
from agentcompass.plan.reuse import Reusable, find_reusable
from agentcompass.progress.events import Event, EventSink, Notice, RunPrepared
from agentcompass.progress.logs import open_run_log
from agentcompass.spec.protocols import CHAT_PROTOCOLS
from agentcompass.spec.resolved import Request
from agentcompass.store import layout
from agentcompass.store.identity import this_process
from agentcompass.store.leases import LeaseBook
from agentcompass.store.request import written_request
from agentcompass.store.run import RunInfo, RunPlan, RunStore

T = TypeVar("T")
_MAX_BROKEN: Final = 3
"""Tasks that cannot have a sandbox whose reasons are told beforehand."""


async def prepare(request: Request, shared: Shared) -> RequestRun:
    """Make a request ready to run.

    Everything that can be wrong is looked at before the first trace on disk.

    Raises:
        ConfigurationError: The user's words or data are wrong.
        PreflightError: Something is not there: the sandbox provider, data, a local model, a directory that can be
            written.
        EvaluationFailedError: The benchmark could not load, or a component could not be set up.
    """
    runtime, limits = shared.orchestration.runtime, shared.limits
    parts = build(request, runtime.recipe_dirs)
    is_regrading = request.regrade_of is not None
    if not is_regrading:
        check_model(request, parts.harness)
    client = None if is_regrading else _client(request, shared, parts)
    await _in_thread(shared, check_room, runtime.results_dir)
    judge = _judge(shared, parts)
    if (client or judge) and shared.clients.recorder is not None:
        await _in_thread(shared, shared.clients.recorder.check)
    note = _Note(shared.emit, request.name)
    context = load_context(runtime, note)
    await get_ready(parts, context, limits.component_threads)
    tasks = await load_tasks(parts.benchmark, context, limits.component_threads)
    has_sandbox = any(parts.needs_sandbox(task) for task in tasks)
    check_descriptors(
        shared.orchestration,
        request,
        len(tasks) * request.execution.k,
        has_model=bool(client or judge),
        sandbox=parts.sandbox_descriptors if has_sandbox else 0,
    )
    if has_sandbox:
        await parts.check_environment()
        await _check_images(parts, request, shared, tasks, note)
    info = _info(request, shared, parts)
    plan = parts.run_plan(request, tasks)
    reusable = await _find_reusable(request, shared, info, plan, note)
    if reusable is not None:
        info = attrs.evolve(info, reused_from=reusable.run_id)
    graded = reusable.graded if reusable is not None else {}
    regradable = await _find_regradable(request, shared, parts, plan, note)
    if regradable is not None:
        info = attrs.evolve(info, regraded_from=regradable.run_id)
        graded = regradable.others
    planned = len(tasks) * plan.k
    for model in (client, judge):
        if model is not None and len(graded) < planned:
            serves = model is client and parts.serves_model
            await _make_ready(model, request, shared, context, serves=serves, judge=judge)
    analysts = await _analysts(request, shared)
    store = await _open_store(request, shared, info, plan)
    rate = _rate(request, shared, parts, tasks)
    limits = shared.limits if rate is None else attrs.evolve(shared.limits, open_rates={})
    shop = _workshop(
        request, shared, parts, (client, judge), store, limits=limits, has_sandbox=has_sandbox
    )
    if regradable is not None:
        shop = attrs.evolve(shop, earlier=regradable.earlier)
    run = RequestRun(
        shop,
        info,
        tasks=tasks,
        reused=graded,
        rate=rate,
        shared=shared,
        analysis=None if analysts is None else Analysis(analysts, store.paths, store, shop.warn),
    )
    run.resources.enter_context(
        open_run_log(store.paths.log_file, runtime.file_log_level, shared.scrubber, request.name)
    )
    scores = [record.metrics[run.primary.name] for record in graded.values() if record.metrics]
    run.shop.tell(
        RunPrepared,
        run_id=info.run_id,
        run_dir=str(store.paths.run_dir),
        planned=planned,
        reused=len(graded),
        metric=run.primary.name,
        reused_score=mean(scores),
    )
    return run


async def _make_ready(
    model: ModelClient,
    request: Request,
    shared: Shared,
    context: LoadContext,
    *,
    serves: bool,
    judge: ModelClient | None,
) -> None:
    """Make sure that a model can be called, by programs in sandboxes too if it `serves` them."""
    await model.ready(context)
    if serves:
        await model.check_serving()
    whose = f"the model {request.model.id!r}" if model is not judge else "the judge"
    check_budget(shared.orchestration, request, model, whose)


async def _check_images(
    parts: Parts, request: Request, shared: Shared, tasks: Sequence[Task], note: _Note
) -> None:
    """Say how many images must be brought before sandboxes can start from them, and which tasks can have none.

    Raises:
        PreflightError: There are images that cannot be had.
    """
    sandboxed = [task for task in tasks if parts.needs_sandbox(task)]
    threads = shared.limits.component_threads
    broken: list[str] = []

    def take_broken(task: Task, reason: str) -> None:
        broken.append(f"{task.id}: {reason}")

    sources = await images_of(parts, request, sandboxed, threads, on_broken=take_broken)
    if broken:
        what = counted(len(broken), "task")
        listed = "; ".join(broken[:_MAX_BROKEN]) + ("; ..." if len(broken) > _MAX_BROKEN else "")
        note(f"{what} cannot have a sandbox and will fail: {listed}", "warning")
    sizes = await sizes_of(parts, request, sources)
    missing = sum(size is None for size in sizes.values())
    if missing:
        note(f"{missing} of {counted(len(sizes), 'image')} must be pulled or built first")


def _info(request: Request, shared: Shared, parts: Parts) -> RunInfo:
    described = parts.identity(request, shared.scrubber)
    return RunInfo(
        run_id=request.run_id,
        name=request.name,
        status="running",
        started_at=timestamp(),
        owner=this_process(),
        fingerprint=described.fingerprint,
        identity=described.written,
        request=written_request(request, shared.orchestration),
        versions={
            "agentcompass": __version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "components": parts.versions(),
        },
    )


async def _find_reusable(
    request: Request, shared: Shared, info: RunInfo, plan: RunPlan, note: _Note
) -> Reusable | None:
    """The run to reuse with those of its attempts that are planned now: it may have had more tasks."""
    if not request.reuse:
        return None
    reusable = await _in_thread(
        shared,
        lambda: find_reusable(
            shared.orchestration.runtime.results_dir,
            request.run_name,
            request.name,
            info.fingerprint,
            info.identity,
            reuse_run_id=request.reuse_run_id,
        ),
    )
    if reusable is None:
        note(
            "no earlier run with the same settings has anything to reuse; every attempt is executed"
        )
        return None
    reusable = reusable.limited_to(plan)
    number = len(reusable.graded)
    what = "1 graded attempt is" if number == 1 else f"{number} graded attempts are"
    note(f"{what} taken over from run {reusable.run_id}")
    return reusable


async def _find_regradable(
    request: Request, shared: Shared, parts: Parts, plan: RunPlan, note: _Note
) -> Regradable | None:
    """What is evaluated again of those attempts that are planned now.

    Raises:
        ConfigurationError: There is nothing, or the sandboxes that would have to be looked at are gone.
    """
    if request.regrade_of is None:
        return None
    if parts.benchmark.evaluates_in is Where.REUSE:
        raise ConfigurationError(
            f"{request.benchmark.id} evaluates in the sandbox where the agent worked, and that is gone",
            hint="Only what is evaluated without a sandbox, or in a fresh one, can be regraded.",
        )
    found = await _in_thread(shared, find_regradable, request.regrade_of)
    regradable = found.limited_to(plan)
    rest = f", {len(regradable.others)} as they are" if regradable.others else ""
    note(
        f"{counted(len(regradable.earlier), 'attempt')} of run {found.run_id} evaluated again{rest}"
    )
    return regradable


async def _open_store(request: Request, shared: Shared, info: RunInfo, plan: RunPlan) -> RunStore:
    results_dir = shared.orchestration.runtime.results_dir
    run_dir = layout.run_dir(results_dir, request.run_name, request.name, request.run_id)
    paths = layout.RunPaths(run_dir.absolute())
    try:
        return await _in_thread(
            shared, RunStore.create, shared.writer, paths, info, plan, shared.scrubber
        )
    except StoreError as error:
        hint = error.hint or "Choose another place with --results-dir, or another --run-id."
        raise PreflightError(error.message, hint=hint) from error


def _rate(
    request: Request, shared: Shared, parts: Parts, tasks: Sequence[Task]
) -> TokenBucket | None:
    """The rate at which attempts may start, where the first thing they do is open their only sandbox.

    They wait for their turn before they have a slot; others wait within, when they get there.
    """
    opens_first = not parts.environment.capabilities.images and all(  # else the image comes first
        parts.agent_needs_sandbox(task) and parts.where(task) is not Where.FRESH for task in tasks
    )
    return shared.limits.open_rates.get(request.environment.id) if opens_first else None


def _workshop(
    request: Request,
    shared: Shared,
    parts: Parts,
    models: tuple[ModelClient | None, ModelClient | None],
    store: RunStore,
    *,
    limits: Limits,
    has_sandbox: bool,
) -> Workshop:
    config = request.execution
    parts.environment.close_timeout_seconds = config.close_timeout_seconds
    leases = LeaseBook(store.paths.leases_dir)
    return Workshop(
        request=request,
        parts=parts,
        client=models[0],
        judge=models[1],
        house=SandboxHouse(
            environment=parts.environment,
            ledger=Ledger(
                leases, request.run_id, request.environment.id, shared.limits.file_threads
            ),
            budget=shared.control.budget,
            open_timeout_seconds=config.open_timeout_seconds,
            close_timeout_seconds=config.close_timeout_seconds,
            keep=config.keep_environment,
        ),
        provider=request.environment.id if has_sandbox else None,
        store=store,
        limits=limits,
        control=shared.control,
        flow=shared.flow,
        emit=_Recorded(shared.emit, store),
    )


async def _analysts(request: Request, shared: Shared) -> Analysts | None:
    config = request.execution
    if not config.enable_analysis:
        return None
    return await _in_thread(shared, analysts_for, config.analysis_params)


def _client(request: Request, shared: Shared, parts: Parts) -> ModelClient | None:
    if not parts.harness.needs_model:
        return None
    with explained(f"harness {parts.harness.id!r} failed"):
        varying = tuple(parts.harness.varying())
    return shared.clients.get(request.model, parts.harness.protocols, varying)


def _judge(shared: Shared, parts: Parts) -> ModelClient | None:
    with explained("the judge could not be set up"):
        config = parts.benchmark.judge_model()
    return None if config is None else shared.clients.get(config, CHAT_PROTOCOLS)


async def _in_thread(shared: Shared, function: Callable[..., T], *args: Any) -> T:
    return await trio.to_thread.run_sync(function, *args, limiter=shared.limits.file_threads)


@final
@frozen
class _Note:
    """Tells people something about a request that has no directory yet."""

    emit: EventSink
    request: str

    def __call__(self, text: str, level: Literal["info", "warning"] = "info") -> None:
        self.emit(Notice(at=wall_clock(), request=self.request, level=level, text=text))


@final
@frozen
class _Recorded:
    """Events go to whoever watches, and to the run's `events.jsonl`."""

    emit: EventSink
    store: RunStore

    def __call__(self, event: Event) -> None:
        self.store.event(event.as_dict())
        self.emit(event)
