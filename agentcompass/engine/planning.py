"""What is loaded and checked before a request leaves its first trace on disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import trio

from agentcompass.components.base import Benchmark, Harness, LoadContext, Task
from agentcompass.engine.foreign import call
from agentcompass.engine.parts import explained
from agentcompass.errors import ConfigurationError, EvaluationFailedError, PreflightError
from agentcompass.spec.resolved import Request, RuntimeConfig

MIN_FREE_BYTES: Final = 16 * 1024 * 1024
"""With less room than this a run is not begun."""
MAX_TASK_ID: Final = 512
"""Characters."""


def load_context(runtime: RuntimeConfig, note: Callable[[str], None]) -> LoadContext:
    """Return what the components of a request may use to get what they need; `note` tells people about it."""
    return LoadContext(
        data_dir=runtime.data_dir,
        auto_install_dependencies=runtime.auto_install_dependencies,
        note=note,
    )


async def load_tasks(
    benchmark: Benchmark[object], context: LoadContext, threads: trio.CapacityLimiter
) -> Sequence[Task]:
    """Load and check the tasks of a benchmark.

    Raises:
        ConfigurationError: What the user selected or wrote is wrong: an id that is there twice, or is no id.
        PreflightError: The data is not there.
        EvaluationFailedError: The benchmark failed, or has no task.
    """
    with explained(f"benchmark {benchmark.id!r} could not load its tasks"):
        loaded: Iterable[Task] = await call(benchmark.load_tasks, context, threads=threads)
        tasks = await trio.to_thread.run_sync(
            _drawn, loaded, abandon_on_cancel=True, limiter=threads
        )
    if not tasks:
        raise EvaluationFailedError(
            f"benchmark {benchmark.id!r} has no task to run",
            hint="Check its selection: limit, sample_ids, categories.",
        )
    _check_tasks(benchmark.id, tasks)
    return tasks


def _drawn(loaded: Iterable[Task]) -> Sequence[Task]:
    """Take the tasks out of whatever the benchmark gave, which may go on for ever; in a worker thread."""
    tasks = []
    for task in loaded:
        trio.from_thread.check_cancelled()
        tasks.append(task)
    return tasks


def _check_tasks(benchmark_id: str, tasks: Sequence[Task]) -> None:
    seen: set[str] = set()
    for task in tasks:
        if not isinstance(task, Task):
            raise EvaluationFailedError(
                f"benchmark {benchmark_id!r} gave a {type(task).__name__} instead of a Task"
            )
        if problem := _id_problem(task.id):
            raise ConfigurationError(f"benchmark {benchmark_id!r}: task id {task.id!r} {problem}")
        if problem := _field_problem(task):
            raise ConfigurationError(f"benchmark {benchmark_id!r}: task {task.id!r}: {problem}")
        if task.id in seen:
            raise ConfigurationError(
                f"benchmark {benchmark_id!r}: two tasks have the id {task.id!r}",
                hint="Every task needs an id of its own.",
            )
        seen.add(task.id)


def _field_problem(task: Task) -> str | None:
    category: object = task.category
    if not isinstance(category, str | None):
        return f"category is {type(category).__name__}, not text"
    for name in ("run_timeout_seconds", "evaluate_timeout_seconds"):
        seconds = getattr(task, name)
        if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 0):
            return f"{name} is {seconds!r}, not a number of seconds"
    return None


def _id_problem(task_id: object) -> str | None:
    if not isinstance(task_id, str) or not task_id.strip():
        return "is not a non-empty text"
    if len(task_id) > MAX_TASK_ID:
        return f"is longer than {MAX_TASK_ID} characters"
    if not task_id.isprintable():
        return "has control characters"
    if task_id.startswith("/") or ".." in task_id.replace("\\", "/").split("/"):
        return "looks like a path out of the run directory"
    return None


def check_model(request: Request, harness: Harness[object]) -> None:
    """Check that a harness that needs a model has an endpoint, or a local model.

    Raises:
        ConfigurationError: It has none.
    """
    model = request.model
    if harness.needs_model and not (model.base_url or model.local_weights):
        raise ConfigurationError(
            f"harness {harness.id!r} needs a model endpoint, and {model.id!r} has no base URL",
            hint="Give --model-base-url (model_base_url=...), for example https://api.example.com/v1.",
        )


def check_room(directory: Path) -> None:
    """Check that a directory, which may not exist yet, can be written and has room.

    Raises:
        PreflightError: It cannot, or has not.
    """
    nearest = directory.absolute()
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if not nearest.is_dir():
        raise PreflightError(f"results directory {directory}: {nearest} is not a directory")
    try:
        free = shutil.disk_usage(nearest).free
    except OSError as error:
        raise PreflightError(f"results directory {directory}: {error}") from error
    if free < MIN_FREE_BYTES:
        raise PreflightError(
            f"results directory {directory}: only {free // 1024} KiB are free",
            hint="Free some space, or choose another place with --results-dir.",
        )
