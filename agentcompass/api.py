"""The entry points. One request or many, awaited or not: all are one path, resolve -> bridge -> engine.

What the engine tells goes to the display in the engine's thread, and to the caller's callbacks through the
bridge, in the caller's thread.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import secrets as chance
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from agentcompass.errors import (
    ConfigurationError,
    EvaluationFailedError,
    EvaluationTimeoutError,
    PreflightError,
)
from agentcompass.options import LaunchOptions, RunOptions, RuntimeOptions
from agentcompass.records import JSON, OrchestrationResult, RequestOutcome
from agentcompass.signature import takes, takes_after_first
from agentcompass.spec.resolved import Orchestration
from agentcompass.spec.written import OrchestrationSpec

if TYPE_CHECKING:
    from signal import Signals

    from agentcompass.bridge import Main, Message, Sink
    from agentcompass.engine.control import Control
    from agentcompass.progress.events import Event, EventSink

Finished: TypeAlias = Callable[[RequestOutcome], object]


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
        SystemExit: SIGTERM, after the cleanup, with code 143.
    """
    _refuse_nesting("async_run_evaluation")
    orchestration = _resolve_run(options)
    result = run_orchestration(orchestration, on_event=_progress(options))
    return _single_result(result)


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
    orchestration = _resolve_run(options)
    return _single_result(await _run_async(orchestration, _progress(options), None))


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
        SystemExit: SIGTERM, after the cleanup, with code 143.
    """
    _refuse_nesting("async_launch")
    resolved = _resolve_launch(orchestration, options)
    result = run_orchestration(
        resolved, on_event=_progress(options), on_request_finished=_finished(options)
    )
    _raise_signal(result)
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
    resolved = _resolve_launch(orchestration, options)
    return await _run_async(resolved, _progress(options), _finished(options))


def run_orchestration(
    orchestration: Orchestration,
    *,
    on_event: EventSink | None = None,
    on_request_finished: Finished | None = None,
    handle_signals: bool = False,
) -> OrchestrationResult:
    """Run what `plan.resolve` gave, in this thread; what all synchronous entry points and the command line do.

    Args:
        orchestration: What to run.
        on_event: Called in this thread with each event.
        on_request_finished: Called in this thread with each outcome.
        handle_signals: This process is ours: SIGINT and SIGTERM end the run whatever handled them before, and SIGINT
            is ignored from its end on. Otherwise they are taken only where nobody else handles them, and given back.

    Returns:
        How it ended; `ended_by` tells of a signal.

    Raises:
        NestedLoopError: An event loop runs in this thread.
    """
    import signal  # noqa: PLC0415  # as below: errors in arguments are told before anything heavy is loaded

    from agentcompass import bridge  # noqa: PLC0415
    from agentcompass.engine.signals import free_signals  # noqa: PLC0415

    signals = {signal.SIGINT, signal.SIGTERM} if handle_signals else free_signals()
    return bridge.run_sync(
        _engine(
            orchestration, on_event, on_request_finished, signals, is_process_ours=handle_signals
        ),
        grace_seconds=orchestration.runtime.cleanup_grace_seconds,
        on_event=_receiver(on_event, on_request_finished),
        async_twin="async_run_evaluation" if orchestration.is_single else "async_launch",
    )


def exit_code(result: OrchestrationResult) -> int:
    """Return the process exit code for a result: 0 only if every request completed.

    Who ended the run early comes first (124, 130, 143); then, if all requests failed for one kind of reason, the
    code of that (2, 3); else 1.
    """
    from agentcompass.engine.control import EXIT_CODES  # noqa: PLC0415

    if result.ended_by is not None and result.ended_by in EXIT_CODES:
        return EXIT_CODES[result.ended_by]
    codes = {_outcome_code(outcome) for outcome in result.requests.values()}
    return codes.pop() if len(codes) == 1 else 1


def _outcome_code(outcome: RequestOutcome) -> int:
    if outcome.status == "completed":
        return 0
    if outcome.status == "timed_out":
        return EvaluationTimeoutError.exit_code
    return getattr(outcome.exception, "exit_code", 1)


# --- resolving


def _resolve_run(options: RunOptions) -> Orchestration:
    from agentcompass.plan.resolve import resolve_run  # noqa: PLC0415

    return resolve_run(options, **surroundings())


def _resolve_launch(
    orchestration: OrchestrationSpec | Orchestration, options: LaunchOptions
) -> Orchestration:
    from agentcompass.plan.resolve import override_runtime, resolve_launch  # noqa: PLC0415

    if isinstance(orchestration, Orchestration):
        return override_runtime(orchestration, options, cwd=Path.cwd(), environ=os.environ)
    if isinstance(orchestration, OrchestrationSpec):
        return resolve_launch(orchestration, options, **surroundings())
    raise ConfigurationError(
        f"the orchestration must be an OrchestrationSpec, not {type(orchestration).__name__}",
        hint="files are for the command line: agentcompass launch FILE",
    )


def surroundings() -> dict[str, Any]:
    """Return what resolving takes from the process: directory, environment, time and chance."""
    return {
        "cwd": Path.cwd(),
        "environ": os.environ,
        "now": datetime.now(UTC),
        "random_suffix": chance.token_hex(3),
    }


def _refuse_nesting(async_twin: str) -> None:
    from agentcompass.bridge import require_no_loop  # noqa: PLC0415

    require_no_loop(async_twin)


# --- running


async def _run_async(
    orchestration: Orchestration, on_event: EventSink | None, on_request_finished: Finished | None
) -> OrchestrationResult:
    from agentcompass import bridge  # noqa: PLC0415

    return await bridge.run_async(
        _engine(orchestration, on_event, on_request_finished, (), is_process_ours=False),
        grace_seconds=orchestration.runtime.cleanup_grace_seconds,
        on_event=_receiver(on_event, on_request_finished),
    )


def _engine(
    orchestration: Orchestration,
    on_event: EventSink | None,
    on_request_finished: Finished | None,
    signals: Collection[Signals],
    *,
    is_process_ours: bool,
) -> Main[OrchestrationResult]:
    """The engine with its display, logs and signals around it, as the bridge runs it."""
    from agentcompass.engine.orchestrate import orchestrate  # noqa: PLC0415
    from agentcompass.engine.signals import watch_signals  # noqa: PLC0415
    from agentcompass.progress.display import open_display  # noqa: PLC0415
    from agentcompass.progress.logs import (  # noqa: PLC0415
        attach_display,
        current_orchestration,
        open_log_file,
    )
    from agentcompass.secrets import Scrubber  # noqa: PLC0415

    runtime = orchestration.runtime

    async def main(control: Control, send: Sink) -> OrchestrationResult:
        current_orchestration.set(orchestration.id)
        scrubber = Scrubber()
        scrubber.register(*orchestration.secrets)
        with contextlib.ExitStack() as stack:
            stack.enter_context(watch_signals(control, signals, deaf_afterwards=is_process_ours))
            display = stack.enter_context(
                open_display(runtime.progress, scrubber=scrubber, title=orchestration.name)
            )
            stack.enter_context(attach_display(display, runtime.log_level))
            if runtime.log_file is not None:
                try:
                    log = open_log_file(runtime.log_file, runtime.file_log_level, scrubber)
                except OSError as error:
                    raise PreflightError(f"log_file cannot be written: {error}") from error
                stack.enter_context(log)

            def emit(event: Event) -> None:
                display.handle(event)
                if on_event is not None:
                    send(event)

            def tell(outcome: RequestOutcome) -> None:
                if on_request_finished is not None:
                    send(outcome)

            return await orchestrate(orchestration, control, emit, tell)

    return main


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


def _receiver(on_event: EventSink | None, on_request_finished: Finished | None) -> Sink | None:
    """What takes all messages of an engine in the caller's thread."""
    if on_event is None and on_request_finished is None:
        return None

    def receive(message: Message) -> None:
        if isinstance(message, RequestOutcome):
            if on_request_finished is not None:
                on_request_finished(message)
        elif on_event is not None:
            on_event(message)

    return receive


# --- endings


def _single_result(result: OrchestrationResult) -> dict[str, JSON]:
    """Return what `run_evaluation` returns, or raise what it raises."""
    _raise_signal(result)
    (outcome,) = result.requests.values()
    if outcome.status == "completed":
        return dict(outcome.result or {})
    if outcome.exception is not None:
        raise outcome.exception
    kind = EvaluationTimeoutError if outcome.status == "timed_out" else EvaluationFailedError
    raise kind(
        outcome.error or f"the evaluation was {outcome.status}",
        result=outcome.result,
        paths=outcome.paths,
    )


def _raise_signal(result: OrchestrationResult) -> None:
    from agentcompass.engine.control import EXIT_CODES  # noqa: PLC0415

    if result.ended_by == "sigint":
        raise KeyboardInterrupt
    if result.ended_by == "sigterm":
        raise SystemExit(EXIT_CODES["sigterm"])
