"""What the entry points and the command line have in common: what a run takes from the process, and running it.

Importing this loads hardly anything; the entry points themselves are in `entry_points`.
"""

from __future__ import annotations

import os
import secrets as chance
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentcompass.api.endings import exit_code
from agentcompass.records import OrchestrationResult

if TYPE_CHECKING:
    from agentcompass.api.running import Finished
    from agentcompass.progress.events import EventSink
    from agentcompass.spec.resolved import Orchestration

__all__ = ["exit_code", "run_orchestration", "surroundings"]


def surroundings() -> dict[str, Any]:
    """Return what resolving takes from the process: directory, environment, time and chance.

    Raises:
        PreflightError: The working directory is gone.
    """
    from agentcompass.plan.surroundings import working_directory  # noqa: PLC0415

    return {
        "cwd": working_directory(),
        "environ": os.environ,
        "now": datetime.now(UTC),
        "random_suffix": chance.token_hex(3),
    }


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
        handle_signals: This process is ours: SIGINT, SIGTERM and SIGHUP end the run whatever handled them before, and SIGINT
            is ignored from its end on. Otherwise they are taken only where nobody else handles them, and given back.

    Returns:
        How it ended; `ended_by` tells of a signal.

    Raises:
        NestedLoopError: An event loop runs in this thread.
    """
    from agentcompass.api import running  # noqa: PLC0415

    return running.run(orchestration, on_event, on_request_finished, handle_signals=handle_signals)
