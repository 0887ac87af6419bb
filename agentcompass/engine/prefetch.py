"""What a run needs before it can begin, brought ahead of time: the benchmark's data, the harness's program, images of tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal, final

import trio

from agentcompass.components.base import Harness, ImageSource, LoadContext, Task
from agentcompass.data import frozen
from agentcompass.engine.extras import ensure_extras, fetch_harness
from agentcompass.engine.images import images_of
from agentcompass.engine.limits import Limits
from agentcompass.engine.parts import Parts, build, explained
from agentcompass.engine.planning import load_context, load_tasks
from agentcompass.errors import AgentCompassError, PreflightError, counted, describe
from agentcompass.spec.resolved import Orchestration

Tell = Callable[[str], None]


@frozen(kw_only=True)
class Fetched:
    """What has become of one image, or of the program of a harness."""

    name: str
    status: Literal["there", "brought", "failed", "missing"]
    """`there`: it was, or of a program: it is now. `missing`: the end came before it was brought."""
    size_bytes: int | None = None
    """None: there is none, or the environment does not say."""
    error: AgentCompassError | None = None


@frozen(kw_only=True)
class Prefetched:
    """What was brought."""

    tasks: int
    program: Fetched | None = None
    """By the id of its harness; None: that brings nothing, or it was not come to."""
    images: tuple[Fetched, ...] = ()
    """By name."""
    broken: tuple[tuple[str, str], ...] = ()
    """Tasks whose images could not be found out, by id, with the reason."""

    @property
    def is_complete(self) -> bool:
        """Whether everything is there."""
        program = () if self.program is None else (self.program,)
        return not self.broken and all(
            one.status in ("there", "brought") for one in (*program, *self.images)
        )


@final
class Prefetch:
    """Brings what a request needs; what of it is done by now is in `found`.

    Args:
        orchestration: Of one request, whose model does not matter.
        tell: Takes a line for people.
        at_once: Images that are brought side by side.
    """

    def __init__(self, orchestration: Orchestration, tell: Tell, *, at_once: int) -> None:
        self._orchestration, self._tell, self._at_once = orchestration, tell, at_once
        self._images: dict[ImageSource, Fetched] = {}
        self._broken: list[tuple[str, str]] = []
        self._program: Fetched | None = None
        self._tasks = 0

    @property
    def found(self) -> Prefetched:
        """What has become of everything by now."""
        images = sorted(self._images.values(), key=lambda one: one.name)
        return Prefetched(
            tasks=self._tasks,
            program=self._program,
            images=tuple(images),
            broken=tuple(self._broken),
        )

    async def run(self) -> None:
        """Load the data, then bring the program and the images; what of them cannot be had is a result like any other.

        Raises:
            ConfigurationError: The user's words or data are wrong.
            PreflightError: The data cannot be had, or an extra, or the environment is not ready.
            EvaluationFailedError: A component failed.
        """
        (request,) = self._orchestration.requests
        runtime = self._orchestration.runtime
        threads = Limits.create({}, runtime.task_concurrency).component_threads
        parts = build(request, runtime.recipe_dirs)
        context = load_context(runtime, self._tell)
        await ensure_extras(parts, context, threads)
        tasks = await load_tasks(parts.benchmark, context, threads)
        self._tasks = len(tasks)
        await self._bring_program(parts, context, threads)
        sources = await images_of(parts, request, tasks, threads, on_broken=self._take_broken)
        if not sources:
            return
        with explained(f"environment {request.environment.id!r} failed"):
            await parts.environment.preflight()
            await self._bring_all(parts, sources)

    def _take_broken(self, task: Task, reason: str) -> None:
        self._broken.append((task.id, reason))

    async def _bring_program(
        self, parts: Parts, context: LoadContext, threads: trio.CapacityLimiter
    ) -> None:
        name = parts.harness.id
        if type(parts.harness).fetch is Harness.fetch:
            return
        self._program = Fetched(name=name, status="missing")
        try:
            await fetch_harness(parts, context, threads)
        except AgentCompassError as error:
            self._program = Fetched(name=name, status="failed", error=error)
        else:
            self._program = Fetched(name=name, status="there")

    async def _bring_all(self, parts: Parts, sources: Collection[ImageSource]) -> None:
        sizes: Mapping[ImageSource, int | None]
        try:
            sizes = await parts.environment.check_images(sources)
        except PreflightError:
            sizes = {}  # each says so itself
        for source in sources:
            size = sizes.get(source)
            status: Literal["there", "missing"] = "missing" if size is None else "there"
            self._images[source] = Fetched(name=source.name, status=status, size_bytes=size)
        missing = [source for source in sources if sizes.get(source) is None]
        if missing:
            self._tell(f"{counted(len(missing), 'image')} of {len(sources)} to pull or build")
        places = trio.CapacityLimiter(self._at_once)
        async with trio.open_nursery() as nursery:
            for source in missing:
                nursery.start_soon(self._bring, parts, source, places)

    async def _bring(self, parts: Parts, source: ImageSource, places: trio.CapacityLimiter) -> None:
        environment = parts.environment
        async with places:
            try:
                await environment.fetch_image(source, self._tell)
                size = (await environment.check_images([source])).get(source)
                result = Fetched(name=source.name, status="brought", size_bytes=size or 0)
            except Exception as error:  # noqa: BLE001  # a component's; the other images are brought all the same
                if not isinstance(error, AgentCompassError):
                    error = AgentCompassError(describe(error))
                result = Fetched(name=source.name, status="failed", error=error)
        self._images[source] = result
        waiting = sum(one.status == "missing" for one in self._images.values())
        done = "failed" if result.error is not None else f"{(result.size_bytes or 0) / 1e6:.0f} MB"
        self._tell(f"{source.name}: {done}; {waiting} left")
