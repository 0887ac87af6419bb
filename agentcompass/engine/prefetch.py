"""What a benchmark needs before it can run, brought ahead of time: its data, and the images of its tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Literal, final

import trio

from agentcompass.components.base import ImageSource, Task
from agentcompass.data import frozen
from agentcompass.engine.extras import get_ready
from agentcompass.engine.images import images_of
from agentcompass.engine.limits import Limits
from agentcompass.engine.parts import Parts, build, explained
from agentcompass.engine.planning import load_context, load_tasks
from agentcompass.errors import AgentCompassError, PreflightError, counted, describe
from agentcompass.spec.resolved import Orchestration

Tell = Callable[[str], None]


@frozen(kw_only=True)
class Fetched:
    """What has become of one image."""

    name: str
    status: Literal["there", "brought", "failed", "not begun"]
    """`there`: it was."""
    size_bytes: int | None = None
    """None: there is none, or the environment does not say."""
    error: AgentCompassError | None = None


@frozen(kw_only=True)
class Prefetched:
    """What was brought."""

    tasks: int
    images: tuple[Fetched, ...] = ()
    """By name."""
    broken: tuple[tuple[str, str], ...] = ()
    """Tasks whose images could not be found out, by id, with the reason."""

    @property
    def is_complete(self) -> bool:
        """Whether everything is there."""
        return not self.broken and all(one.size_bytes is not None for one in self.images)


@final
class Prefetch:
    """Brings what a request needs; what of it is done by now is in `found`.

    Args:
        orchestration: Of one request, whose harness and model do not matter.
        tell: Takes a line for people.
        at_once: Images that are brought side by side.
    """

    def __init__(self, orchestration: Orchestration, tell: Tell, *, at_once: int) -> None:
        self._orchestration, self._tell, self._at_once = orchestration, tell, at_once
        self._images: dict[ImageSource, Fetched] = {}
        self._broken: list[tuple[str, str]] = []
        self._tasks = 0

    @property
    def found(self) -> Prefetched:
        """What has become of everything by now."""
        images = sorted(self._images.values(), key=lambda one: one.name)
        return Prefetched(tasks=self._tasks, images=tuple(images), broken=tuple(self._broken))

    async def run(self) -> None:
        """Load the data, then bring the images; one that cannot be had is a result like any other.

        Raises:
            ConfigurationError: The user's words or data are wrong.
            PreflightError: The data cannot be had, or the environment is not ready.
            EvaluationFailedError: A component failed.
        """
        (request,) = self._orchestration.requests
        runtime = self._orchestration.runtime
        threads = Limits.create({}, runtime.task_concurrency).component_threads
        parts = build(request, runtime.recipe_dirs)
        context = load_context(runtime, self._tell)
        await get_ready(parts, context, threads)
        tasks = await load_tasks(parts.benchmark, context, threads)
        self._tasks = len(tasks)
        sources = await images_of(parts, request, tasks, threads, on_broken=self._take_broken)
        if not sources:
            return
        with explained(f"environment {request.environment.id!r} failed"):
            await parts.environment.preflight()
            await self._bring_all(parts, sources)

    def _take_broken(self, task: Task, error: BaseException) -> None:
        text = error.message if isinstance(error, AgentCompassError) else describe(error)
        self._broken.append((task.id, text))

    async def _bring_all(self, parts: Parts, sources: Collection[ImageSource]) -> None:
        sizes: Mapping[ImageSource, int | None]
        try:
            sizes = await parts.environment.check_images(sources)
        except PreflightError:
            sizes = {}  # each says so itself
        for source in sources:
            size = sizes.get(source)
            status: Literal["there", "not begun"] = "not begun" if size is None else "there"
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
        waiting = sum(one.status == "not begun" for one in self._images.values())
        done = "failed" if result.error is not None else f"{(result.size_bytes or 0) / 1e6:.0f} MB"
        self._tell(f"{source.name}: {done}; {waiting} left")
