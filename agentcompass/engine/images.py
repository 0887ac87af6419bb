"""The images that the sandboxes of a request start from: which they are, and which are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import trio

from agentcompass.components.base import ImageSource, Task
from agentcompass.engine.parts import Parts, explained
from agentcompass.errors import AgentCompassError, describe
from agentcompass.spec.resolved import Request


async def images_of(
    parts: Parts,
    request: Request,
    tasks: Iterable[Task],
    threads: trio.CapacityLimiter,
    *,
    on_broken: Callable[[Task, str], None] | None = None,
) -> Sequence[ImageSource]:
    """Return the images that the sandboxes of tasks start from, each once, by name; none where the environment has none.

    Args:
        parts: Of the request.
        request: Whose tasks they are.
        tasks: All that open a sandbox.
        threads: Where components are called.
        on_broken: Told of a task whose plan fails, and why, in a worker thread; None: that is raised.

    Raises:
        Exception: What a component raised about a plan.
    """
    if on_broken is not None and not parts.environment.capabilities.images:
        return ()  # there is nothing to be found out

    def named() -> set[ImageSource]:
        found: set[ImageSource] = set()
        for task in tasks:
            trio.from_thread.check_cancelled()
            try:
                found.update(parts.environment.images_of(parts.sandbox_plan(request, task)))
            except (Exception, SystemExit) as error:
                if on_broken is None:
                    raise
                on_broken(task, _reason(error))
        return found

    sources = await trio.to_thread.run_sync(named, abandon_on_cancel=True, limiter=threads)
    return sorted(sources, key=lambda source: source.name)


async def sizes_of(
    parts: Parts, request: Request, sources: Sequence[ImageSource]
) -> Mapping[ImageSource, int | None]:
    """Return the size of each image in bytes, None where it must be brought first; see `Environment.check_images`.

    Raises:
        PreflightError: There are some that cannot be had.
        EvaluationFailedError: The environment failed.
    """
    if not sources:
        return {}
    with explained(f"environment {request.environment.id!r} could not look at its images"):
        return await parts.environment.check_images(sources)


def _reason(error: BaseException) -> str:
    return error.message if isinstance(error, AgentCompassError) else describe(error)
