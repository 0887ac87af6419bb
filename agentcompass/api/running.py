"""An orchestration run through the bridge, with its display, its logs and its signals around it.

What the engine tells goes to the display in the engine's thread, and to the caller's callbacks through the bridge,
in the caller's thread. Importing this loads the engine.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Collection
from typing import TypeAlias

from agentcompass import bridge
from agentcompass.bridge import Main, Message, Sink
from agentcompass.engine.control import Control
from agentcompass.engine.orchestrate import orchestrate
from agentcompass.engine.signals import ending_signals, free_signals, watch_signals
from agentcompass.engine.watchdog import watchdog
from agentcompass.errors import PreflightError
from agentcompass.progress.display import open_display
from agentcompass.progress.events import Event, EventSink
from agentcompass.progress.logs import attach_display, current_orchestration, open_log_file
from agentcompass.records import OrchestrationResult, RequestOutcome
from agentcompass.secrets import Scrubber
from agentcompass.spec.resolved import Orchestration

Finished: TypeAlias = Callable[[RequestOutcome], object]


def run(
    orchestration: Orchestration,
    on_event: EventSink | None,
    on_request_finished: Finished | None,
    *,
    handle_signals: bool,
) -> OrchestrationResult:
    """Run in this thread; see `api.run_orchestration`."""
    signals = ending_signals() if handle_signals else free_signals()
    return bridge.run_sync(
        _engine(
            orchestration, on_event, on_request_finished, signals, is_process_ours=handle_signals
        ),
        grace_seconds=orchestration.runtime.cleanup_grace_seconds,
        on_event=_receiver(on_event, on_request_finished),
        async_twin="async_run_evaluation" if orchestration.is_single else "async_launch",
    )


async def run_async(
    orchestration: Orchestration, on_event: EventSink | None, on_request_finished: Finished | None
) -> OrchestrationResult:
    """Run for a task of the caller's event loop, whose process keeps its signals."""
    return await bridge.run_async(
        _engine(orchestration, on_event, on_request_finished, (), is_process_ours=False),
        grace_seconds=orchestration.runtime.cleanup_grace_seconds,
        on_event=_receiver(on_event, on_request_finished),
    )


def _engine(
    orchestration: Orchestration,
    on_event: EventSink | None,
    on_request_finished: Finished | None,
    signals: Collection[signal.Signals],
    *,
    is_process_ours: bool,
) -> Main[OrchestrationResult]:
    runtime = orchestration.runtime

    async def main(control: Control, send: Sink) -> OrchestrationResult:
        current_orchestration.set(orchestration.id)
        scrubber = Scrubber()
        scrubber.register(*orchestration.secrets)
        with contextlib.ExitStack() as stack:
            stack.enter_context(watch_signals(control, signals, deaf_afterwards=is_process_ours))
            if is_process_ours:
                stack.enter_context(watchdog(control, runtime.timeout_seconds))
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
