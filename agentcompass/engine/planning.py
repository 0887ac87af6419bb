"""What is loaded and checked before a request leaves its first trace on disk."""

from __future__ import annotations

import bisect
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import trio

from agentcompass import descriptors
from agentcompass.components.base import Benchmark, Harness, LoadContext, ModelClient, Task
from agentcompass.engine.foreign import call
from agentcompass.engine.parts import explained
from agentcompass.engine.reserve import SPARE
from agentcompass.errors import ConfigurationError, EvaluationFailedError, PreflightError
from agentcompass.metrics.board import UNCATEGORIZED
from agentcompass.secrets import MASK
from agentcompass.spec.resolved import Orchestration, Request, RuntimeConfig

MIN_FREE_BYTES: Final = 16 * 1024 * 1024
"""With less room than this a run is not begun."""
PROCESS_DESCRIPTORS: Final = 64
"""Open files beside attempts: the interpreter's, the terminal's, those of worker threads for a moment."""
REQUEST_DESCRIPTORS: Final = 6
"""Journal, lock, log and the like of a request."""
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
            _drawn, benchmark.id, loaded, abandon_on_cancel=True, limiter=threads
        )
    if not tasks:
        raise EvaluationFailedError(
            f"benchmark {benchmark.id!r} has no task to run",
            hint="Check its selection: limit, sample_ids, categories.",
        )
    return tasks


def _drawn(benchmark_id: str, loaded: Iterable[Task]) -> Sequence[Task]:
    """Take the tasks out of whatever the benchmark gave, which may go on for ever, and check them; in a worker thread."""
    tasks: list[Task] = []
    seen: set[str] = set()
    for task in loaded:
        trio.from_thread.check_cancelled()
        _check_task(benchmark_id, task)
        if task.id in seen:
            raise ConfigurationError(
                f"benchmark {benchmark_id!r}: two tasks have the id {task.id!r}",
                hint="Every task needs an id of its own.",
            )
        seen.add(task.id)
        tasks.append(task)
    return tasks


def _check_task(benchmark_id: str, task: Task) -> None:
    if not isinstance(task, Task):
        raise EvaluationFailedError(
            f"benchmark {benchmark_id!r} gave a {type(task).__name__} instead of a Task"
        )
    if problem := _id_problem(task.id):
        raise ConfigurationError(f"benchmark {benchmark_id!r}: task id {task.id!r} {problem}")
    if problem := _field_problem(task):
        raise ConfigurationError(f"benchmark {benchmark_id!r}: task {task.id!r}: {problem}")


def _field_problem(task: Task) -> str | None:
    category: object = task.category
    if not isinstance(category, str | None):
        return f"category is {type(category).__name__}, not text"
    if category == UNCATEGORIZED:
        return f"category {category!r} stands for tasks without one"
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
        ConfigurationError: It has none, or one whose secrets were masked when it was written down.
    """
    model = request.model
    key = model.api_key.reveal() if model.api_key else ""
    if harness.needs_model and MASK in f"{model.base_url} {key}":
        raise ConfigurationError(
            f"URL or key of the model {model.id!r} holds {MASK}, which stands for what is not written down",
            hint="Give the secret again, best as a reference ${NAME}.",
        )
    if harness.needs_model and not (model.base_url or model.served_version):
        raise ConfigurationError(
            f"harness {harness.id!r} needs a model endpoint, and {model.id!r} has no base URL",
            hint="Give --model-base-url (model_base_url=...), for example https://api.example.com/v1.",
        )


def check_descriptors(
    orchestration: Orchestration, request: Request, attempts: int, *, has_model: bool, sandbox: int
) -> None:
    """Check that this process may have as many files open as attempts at once need.

    Args:
        orchestration: Says how many attempts are in flight; only if it has one request, `attempts` bounds them too.
        request: Whose attempts they are.
        attempts: All that are planned.
        has_model: Whether each has a connection.
        sandbox: What each sandbox takes; 0 if there is none.

    Raises:
        PreflightError: It may not; the message names the concurrency that fits.
    """
    runtime = orchestration.runtime
    in_flight = runtime.task_concurrency
    if orchestration.is_single:
        in_flight = min(in_flight, attempts)
    connections = request.model.max_connections if has_model else 0
    places = runtime.provider_limits.get(request.environment.id) or in_flight
    own = PROCESS_DESCRIPTORS + REQUEST_DESCRIPTORS * len(orchestration.requests) + SPARE

    def needed(concurrency: int) -> int:
        return own + min(concurrency, connections) + min(concurrency, places) * sandbox

    limit = descriptors.limit()
    if needed(in_flight) <= limit:
        return
    fitting = bisect.bisect_right(range(in_flight), limit, key=needed) - 1
    raised = f"Raise the limit (`ulimit -n {needed(in_flight)}`)"
    raise PreflightError(
        f"task_concurrency {runtime.task_concurrency} needs some {needed(in_flight)} open files and sockets, "
        f"and this process may have {limit}",
        hint=f"{raised}, or set task_concurrency to {fitting} or less."
        if fitting > 0
        else f"{raised}.",
    )


def check_budget(
    orchestration: Orchestration, request: Request, client: ModelClient, whose: str
) -> None:
    """Check that a limit on costs can be kept.

    Raises:
        ConfigurationError: The price of the model is not known.
    """
    config = request.execution
    limits = {
        "max_cost": orchestration.runtime.max_cost,
        "attempt_max_cost": config.attempt_max_cost,
    }
    given = [name for name, limit in limits.items() if limit is not None]
    if given and not client.knows_price:
        raise ConfigurationError(
            f"{given[0]} needs the price of {whose}, which is not known",
            hint="Give it in a configuration file (`prices:`), or limit tokens instead.",
        )


def check_room(directory: Path) -> None:
    """Check that a directory, which may not exist yet, can be written and has room.

    Raises:
        PreflightError: It cannot, or has not.
    """
    try:
        nearest = directory.absolute()
        while not nearest.exists() and nearest != nearest.parent:
            nearest = nearest.parent
        if not nearest.is_dir():
            raise PreflightError(f"results directory {directory}: {nearest} is not a directory")
        free = shutil.disk_usage(nearest).free
    except OSError as error:
        raise PreflightError(f"results directory {directory}: {error.strerror or error}") from error
    if free < MIN_FREE_BYTES:
        raise PreflightError(
            f"results directory {directory}: only {free // 1024} KiB are free",
            hint="Free some space, or choose another place with --results-dir.",
        )
