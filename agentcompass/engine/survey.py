"""What requests need and what of it is there, found out without a trace on disk: the way of `prepare` up to its first one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, final

import attrs
import trio

from agentcompass.components import model_clients
from agentcompass.components.base import Component, ImageSource, LoadContext, Task, Where
from agentcompass.components.dependencies import ensure_there, needs
from agentcompass.data import frozen
from agentcompass.engine.analysts import analysts_for
from agentcompass.engine.extras import check_harness, lacking
from agentcompass.engine.images import images_of, sizes_of
from agentcompass.engine.limits import Limits
from agentcompass.engine.parts import Parts, build, explained
from agentcompass.engine.planning import check_descriptors, check_model, load_context, load_tasks
from agentcompass.errors import AgentCompassError, PreflightError
from agentcompass.plan.reuse import Reusable, find_reusable
from agentcompass.secrets import Scrubber
from agentcompass.spec.resolved import Orchestration, Request

SURVEY_SECONDS: Final = 120.0
"""What takes longer is a problem: somebody waits for the answer."""


@frozen(kw_only=True)
class Survey:
    """What one request needs, and what of it is there. None: it could not be found out, and `problems` or `notes` say why."""

    request: str
    tasks: int | None = None
    attempts: int | None = None
    """Tasks times k."""
    sandboxed: int | None = None
    """Tasks that open a sandbox."""
    images: tuple[str, ...] | None = None
    """That the sandboxes start from, by name, sorted: of one that is only built, its Dockerfile."""
    missing_images: tuple[str, ...] | None = None
    """Those of them that would have to be brought first."""
    is_reusing: bool
    """Whether earlier results are to be taken over."""
    reused: int | None = None
    """Attempts that would be; 0 if nothing is to be reused, or there is nothing."""
    reused_from: str | None = None
    """The run that they would be taken from."""
    notes: tuple[str, ...] = ()
    """What components had to say."""
    problems: tuple[AgentCompassError, ...] = ()
    """What would keep it from running."""


async def survey(orchestration: Orchestration) -> tuple[Survey, ...]:
    """Look at all requests, side by side. Nothing is downloaded, installed, opened or written.

    Returns:
        A survey for each request, in order; what goes wrong with one is its own problem.
    """
    runtime = orchestration.runtime
    limits = Limits.create(runtime.env_open_qps, runtime.task_concurrency)
    surveyors = [_Surveyor(request, orchestration, limits) for request in orchestration.requests]
    async with trio.open_nursery() as nursery:
        for surveyor in surveyors:
            nursery.start_soon(surveyor.look)
    return tuple(surveyor.survey() for surveyor in surveyors)


@final
class _Surveyor:
    def __init__(self, request: Request, orchestration: Orchestration, limits: Limits) -> None:
        self._request, self._orchestration, self._limits = request, orchestration, limits
        self._notes: list[str] = []
        self._problems: list[AgentCompassError] = []
        self._found = Survey(request=request.name, is_reusing=request.reuse)

    def survey(self) -> Survey:
        return attrs.evolve(self._found, notes=tuple(self._notes), problems=tuple(self._problems))

    async def look(self) -> None:
        with trio.move_on_after(SURVEY_SECONDS) as scope, self._noting("could not be looked at"):
            await self._look()
        if scope.cancelled_caught:
            self._problems.append(
                PreflightError(
                    f"looking at it was not over after {SURVEY_SECONDS:g} seconds",
                    hint="Its benchmark may be downloading or its sandbox provider hanging: run it alone to see.",
                )
            )

    async def _look(self) -> None:
        parts = build(self._request, self._orchestration.runtime.recipe_dirs)
        with self._noting("the model could not be set up"):
            await self._check_model(parts)
        lacking = await self._check_extras(parts)
        if parts.harness not in lacking:
            with self._noting("the harness could not be set up"):
                await check_harness(parts, self._limits.component_threads)
        tasks: Sequence[Task] | None = None
        if parts.benchmark not in lacking:
            with self._noting("the tasks could not be loaded"):
                tasks = await self._load(parts)
        with self._noting(f"environment {self._request.environment.id!r} failed"):
            await self._check_environment(parts, tasks)
        if self._request.execution.enable_analysis:
            with self._noting("the analyzers could not be set up"):
                await self._check_analyzers()
        if tasks is not None:
            with self._noting("earlier runs could not be looked at"):
                await self._check_reuse(parts, tasks)

    async def _check_model(self, parts: Parts) -> None:
        check_model(self._request, parts.harness)
        if parts.harness.needs_model:
            client = model_clients.open_client(
                self._request.model,
                harness_protocols=parts.harness.protocols,
                prices=self._orchestration.prices,
            )
            await client.aclose()

    def _context(self) -> LoadContext:
        return attrs.evolve(
            load_context(self._orchestration.runtime, self._notes.append),
            auto_install_dependencies=False,
            may_download=False,
        )

    async def _check_extras(self, parts: Parts) -> list[Component[Any]]:
        """Return the components whose extra is not there; whether a run would install it, people are told."""
        found = lacking(parts)
        for kind, component in found:
            with self._noting("what it needs could not be found out"):
                if self._orchestration.runtime.auto_install_dependencies:
                    self._notes.append(f"{needs(kind, component)}: a run installs that first")
                else:
                    await ensure_there(kind, component, self._context())
        return [component for _, component in found]

    async def _load(self, parts: Parts) -> Sequence[Task]:
        context = self._context()
        tasks = await load_tasks(parts.benchmark, context, self._limits.component_threads)
        self._found = attrs.evolve(
            self._found,
            tasks=len(tasks),
            attempts=len(tasks) * self._request.execution.k,
            sandboxed=sum(map(parts.needs_sandbox, tasks)),
        )
        return tasks

    async def _check_environment(self, parts: Parts, tasks: Sequence[Task] | None) -> None:
        if tasks is None:
            # which tasks need a sandbox is not known
            if parts.harness.needs_sandbox or parts.benchmark.evaluates_in is not Where.NOWHERE:
                await parts.check_environment()
            return
        has_sandbox = bool(self._found.sandboxed)
        with self._noting("open files could not be counted"):
            check_descriptors(
                self._orchestration,
                self._request,
                len(tasks) * self._request.execution.k,
                has_model=parts.harness.needs_model,
                sandbox=parts.sandbox_descriptors if has_sandbox else 0,
            )
        sources: Sequence[ImageSource] | None = None
        with self._noting("the images could not be named"):
            sources = await self._name_images(parts, filter(parts.needs_sandbox, tasks))
        if has_sandbox:
            await parts.check_environment()
        if sources is not None:
            sizes = await sizes_of(parts, self._request, sources)
            missing = {source.name for source, size in sizes.items() if size is None}
            self._found = attrs.evolve(self._found, missing_images=tuple(sorted(missing)))

    async def _name_images(self, parts: Parts, tasks: Iterable[Task]) -> Sequence[ImageSource]:
        threads = self._limits.component_threads
        sources = await images_of(parts, self._request, tasks, threads)
        names = dict.fromkeys(source.name for source in sources)
        self._found = attrs.evolve(self._found, images=tuple(names))
        return sources

    async def _check_analyzers(self) -> None:
        """Construct the analyzers; one that cannot be is a note, here as in a run."""
        params = self._request.execution.analysis_params
        analysts = await trio.to_thread.run_sync(
            analysts_for, params, abandon_on_cancel=True, limiter=self._limits.component_threads
        )
        self._notes += analysts.notes

    async def _check_reuse(self, parts: Parts, tasks: Sequence[Task]) -> None:
        reusable = None
        if self._request.reuse:
            reusable = await trio.to_thread.run_sync(
                self._find_reusable, parts, tasks, limiter=self._limits.file_threads
            )
        self._found = attrs.evolve(
            self._found,
            reused=0 if reusable is None else len(reusable.graded),
            reused_from=None if reusable is None else reusable.run_id,
        )

    def _find_reusable(self, parts: Parts, tasks: Sequence[Task]) -> Reusable | None:
        request, orchestration = self._request, self._orchestration
        scrubber = Scrubber()
        scrubber.register(*orchestration.secrets)
        described = parts.identity(request, scrubber)
        reusable = find_reusable(
            orchestration.runtime.results_dir,
            request.run_name,
            request.name,
            described.fingerprint,
            described.written,
            reuse_run_id=request.reuse_run_id,
        )
        return reusable and reusable.limited_to(parts.run_plan(request, tasks))

    @contextlib.contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        """Make a failure of the block one of the request's problems."""
        try:
            with explained(what):
                yield
        except AgentCompassError as error:
            self._problems.append(error)
