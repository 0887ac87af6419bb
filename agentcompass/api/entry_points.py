"""The entry points for programs. One request or many, awaited or not: all are one path, resolve -> bridge -> engine.

Errors in arguments are told before anything heavy is loaded, which is why functions import what they run.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from agentcompass.api import run_orchestration, surroundings
from agentcompass.api.endings import raise_signal, single_result
from agentcompass.api.signature import takes, takes_after_first
from agentcompass.errors import ConfigurationError
from agentcompass.options import LaunchOptions, RegradeOptions, RunOptions, RuntimeOptions
from agentcompass.records import JSON, OrchestrationResult
from agentcompass.spec.resolved import Orchestration
from agentcompass.spec.written import OrchestrationSpec

if TYPE_CHECKING:
    from agentcompass.api.running import Finished
    from agentcompass.progress.events import Event, EventSink


@takes(RunOptions)
def run_evaluation(options: RunOptions) -> dict[str, JSON]:
    """Evaluate one model in one harness on one benchmark in one environment.

    Args:
        options: Each is a keyword argument.

    Returns:
        A JSON object with `metadata`, `metrics`, `summary` and `paths`. What is in it about single attempts stands
        in the files that `paths` names.

    Raises:
        ConfigurationError: An argument or a file is wrong; nothing has run.
        NestedLoopError: An event loop runs in this thread: use `async_run_evaluation`.
        PreflightError: Something that the run needs is not there.
        EvaluationFailedError: The run ended, but its score cannot be trusted; has `result` and `paths`.
        EvaluationTimeoutError: `timeout_seconds` is over; has `result` and `paths`.
        KeyboardInterrupt: Ctrl-C, after the cleanup.
        SystemExit: SIGTERM or SIGHUP, after the cleanup, with code 143 or 129.
    """
    _refuse_nesting("async_run_evaluation")
    orchestration = _resolve_run(options)
    result = run_orchestration(orchestration, on_event=_progress(options))
    return single_result(result)


@takes(RunOptions)
async def async_run_evaluation(options: RunOptions) -> dict[str, JSON]:
    """Evaluate like `run_evaluation`; await it in a trio or an asyncio program.

    Cancelling the awaiting task cancels this evaluation, waits for its cleanup, and raises the task's own cancellation.
    Several may be awaited at once.

    Args:
        options: Each is a keyword argument.

    Returns:
        What `run_evaluation` returns.

    Raises:
        AgentCompassError: As for `run_evaluation`.
    """
    orchestration = await _apart(_resolve_run, options)
    return single_result(await _run_async(orchestration, _progress(options), None))


@takes_after_first(LaunchOptions)
def launch(
    orchestration: OrchestrationSpec | Orchestration, options: LaunchOptions
) -> OrchestrationResult:
    """Run several evaluations under shared limits.

    Args:
        orchestration: The requests, as written (`OrchestrationSpec`) or already resolved.
        options: Each is a keyword argument.

    Returns:
        How each request ended, in order. A request that failed is an outcome, not an exception.

    Raises:
        ConfigurationError: An argument, the specification or a file is wrong; nothing has run.
        NestedLoopError: An event loop runs in this thread: use `async_launch`.
        KeyboardInterrupt: Ctrl-C, after the cleanup.
        SystemExit: SIGTERM or SIGHUP, after the cleanup, with code 143 or 129.
    """
    _refuse_nesting("async_launch")
    resolved = _resolve_launch(orchestration, options)
    result = run_orchestration(
        resolved, on_event=_progress(options), on_request_finished=_finished(options)
    )
    raise_signal(result)
    return result


@takes_after_first(LaunchOptions)
async def async_launch(
    orchestration: OrchestrationSpec | Orchestration, options: LaunchOptions
) -> OrchestrationResult:
    """Run several evaluations like `launch`; await it in a trio or an asyncio program.

    Args:
        orchestration: The requests, as written (`OrchestrationSpec`) or already resolved.
        options: Each is a keyword argument.

    Returns:
        How each request ended, in order.

    Raises:
        ConfigurationError: As for `launch`.
    """
    resolved = await _apart(_resolve_launch, orchestration, options)
    return await _run_async(resolved, _progress(options), _finished(options))


@takes_after_first(RegradeOptions)
def regrade(run_dir: str | os.PathLike[str], options: RegradeOptions) -> dict[str, JSON]:
    """Evaluate again what the agents of an earlier run left; no agent works, no model is asked.

    For a benchmark whose evaluation was mended or is to be another, or after evaluators failed. It makes a new run;
    the usage of the agents is taken over.

    Args:
        run_dir: Directory of the earlier run, complete or not.
        options: Each is a keyword argument.

    Returns:
        What `run_evaluation` returns.

    Raises:
        ConfigurationError: It has nothing to evaluate, or its benchmark evaluates in the sandboxes of the agents, which
            are gone; nothing has run.
        AgentCompassError: As for `run_evaluation`.
    """
    _refuse_nesting("async_regrade")
    orchestration = _resolve_regrade(run_dir, options)
    result = run_orchestration(orchestration, on_event=_progress(options))
    return single_result(result)


@takes_after_first(RegradeOptions)
async def async_regrade(
    run_dir: str | os.PathLike[str], options: RegradeOptions
) -> dict[str, JSON]:
    """Evaluate again like `regrade`; await it in a trio or an asyncio program.

    Args:
        run_dir: Directory of the earlier run, complete or not.
        options: Each is a keyword argument.

    Returns:
        What `run_evaluation` returns.

    Raises:
        AgentCompassError: As for `regrade`.
    """
    orchestration = await _apart(_resolve_regrade, run_dir, options)
    return single_result(await _run_async(orchestration, _progress(options), None))


async def _run_async(
    orchestration: Orchestration, on_event: EventSink | None, on_request_finished: Finished | None
) -> OrchestrationResult:
    from agentcompass.api import running  # noqa: PLC0415

    return await running.run_async(orchestration, on_event, on_request_finished)


# --- resolving


def _resolve_run(options: RunOptions) -> Orchestration:
    from agentcompass.plan.resolve import resolve_run  # noqa: PLC0415

    return resolve_run(options, **surroundings())


def _resolve_regrade(run_dir: str | os.PathLike[str], options: RegradeOptions) -> Orchestration:
    from agentcompass.plan.regrade_request import resolve_regrade  # noqa: PLC0415

    return resolve_regrade(Path(run_dir), options, **surroundings())


def _resolve_launch(
    orchestration: OrchestrationSpec | Orchestration, options: LaunchOptions
) -> Orchestration:
    from agentcompass.plan.resolve import override_runtime, resolve_launch  # noqa: PLC0415
    from agentcompass.plan.surroundings import working_directory  # noqa: PLC0415

    if isinstance(orchestration, Orchestration):
        return override_runtime(orchestration, options, cwd=working_directory(), environ=os.environ)
    if isinstance(orchestration, OrchestrationSpec):
        return resolve_launch(orchestration, options, **surroundings())
    raise ConfigurationError(
        f"the orchestration must be an OrchestrationSpec, not {type(orchestration).__name__}",
        hint="files are for the command line: agentcompass launch FILE",
    )


async def _apart(resolve: Callable[..., Orchestration], *args: object) -> Orchestration:
    """Resolve without holding up the caller's event loop: plug-ins may take seconds to import."""
    from agentcompass import bridge  # noqa: PLC0415  # as above

    return await bridge.run_apart(resolve, *args)


def _refuse_nesting(async_twin: str) -> None:
    from agentcompass.bridge import require_no_loop  # noqa: PLC0415

    require_no_loop(async_twin)


# --- callbacks


def _progress(options: RuntimeOptions) -> EventSink | None:
    function = options.on_progress
    if function is None:
        return None
    _require_plain("on_progress", function)

    def tell(event: Event) -> None:
        function(event.as_dict())

    return tell


def _finished(options: LaunchOptions) -> Finished | None:
    _require_plain("on_request_finished", options.on_request_finished)
    return options.on_request_finished


def _require_plain(name: str, function: object) -> None:
    if function is not None and not callable(function):
        raise ConfigurationError(f"{name} must be a function, not {type(function).__name__}")
    if inspect.iscoroutinefunction(function):
        raise ConfigurationError(
            f"{name} must be a plain function: nobody would await it",
            hint="start a task from it, or put what it is given into a queue",
        )
