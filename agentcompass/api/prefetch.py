"""Data and images of a benchmark, brought ahead of time; what `agentcompass prefetch` does. Importing this loads the engine."""

from __future__ import annotations

import contextlib

import trio

from agentcompass import bridge
from agentcompass.bridge import Sink
from agentcompass.data import frozen
from agentcompass.engine.clock import wall_clock
from agentcompass.engine.control import EXIT_CODES, CancelReason, Control
from agentcompass.engine.prefetch import Prefetch, Prefetched
from agentcompass.engine.signals import ending_signals, watch_signals
from agentcompass.progress.display import open_display
from agentcompass.progress.events import Notice
from agentcompass.progress.logs import attach_display
from agentcompass.secrets import Scrubber
from agentcompass.spec.resolved import Orchestration, Progress


@frozen(kw_only=True)
class PrefetchResult:
    """What was brought, and what ended it."""

    found: Prefetched
    ended_by: CancelReason | None
    """None: it came to its end."""

    @property
    def exit_code(self) -> int:
        """Of the command."""
        if self.ended_by is not None:
            return EXIT_CODES.get(self.ended_by, 1)
        return 0 if self.found.is_complete else 1


def run(orchestration: Orchestration, *, at_once: int) -> PrefetchResult:
    """Bring what the only request of an orchestration needs, in this thread and with this process's signals.

    Args:
        orchestration: Of one request.
        at_once: Images that are brought side by side.

    Raises:
        AgentCompassError: As of `Prefetch.run`.
    """
    runtime = orchestration.runtime

    async def main(control: Control, _send: Sink) -> PrefetchResult:
        scrubber = Scrubber()
        scrubber.register(*orchestration.secrets)
        with contextlib.ExitStack() as stack:
            stack.enter_context(watch_signals(control, ending_signals(), deaf_afterwards=True))
            # There is no run to draw.
            mode: Progress = "plain" if runtime.progress == "auto" else runtime.progress
            display = stack.enter_context(open_display(mode, scrubber=scrubber))
            stack.enter_context(attach_display(display, runtime.log_level))

            def tell(text: str) -> None:
                display.handle(Notice(at=wall_clock(), level="info", text=text))

            work = Prefetch(orchestration, tell, at_once=at_once)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_end_in_time, control, runtime.timeout_seconds)
                with control.soft:
                    await work.run()
                nursery.cancel_scope.cancel(reason="all is there, or the run was ended")
            return PrefetchResult(found=work.found, ended_by=control.reason)

    return bridge.run_sync(main, grace_seconds=runtime.cleanup_grace_seconds)


async def _end_in_time(control: Control, seconds: float) -> None:
    if seconds > 0:
        await trio.sleep(seconds)
        control.cancel_now("timeout")
