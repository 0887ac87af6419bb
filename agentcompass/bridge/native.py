"""Hosting on trio: a run of our own, or a child task of the caller's.

The engine runs shielded from the caller's scopes, beside a watcher that is not. When the caller is cancelled the
watcher tells the control, so that the engine sees the same soft cancellation, with the same reason and grace,
as under any other host; what it does after that (summing up, writing) is not cut off half way. Being a child
task also keeps the caller's interrupt out of it: trio raises that in the main task.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

import attrs
import outcome
import trio

from agentcompass.bridge.callbacks import Message, Sink
from agentcompass.bridge.endings import bare, result_of
from agentcompass.engine.control import Control

if TYPE_CHECKING:
    from agentcompass.bridge import Main

T = TypeVar("T")

HEARTBEAT_SECONDS: Final = 0.5
"""How often a host that may vanish without a word is looked at."""


def run(main: Main[T], control: Control, on_event: Sink) -> T:
    """Run the engine in this thread, which has no event loop."""
    engine = functools.partial(run_in_task, main, control, on_event)
    return result_of(outcome.capture(lambda: trio.run(engine)))


async def run_in_task(
    main: Main[T],
    control: Control,
    on_event: Sink,
    is_host_gone: Callable[[], bool] | None = None,
) -> T:
    """Run the engine in a child of this trio task.

    Args:
        main: The engine.
        control: Told when this task is cancelled.
        on_event: Called in place. What it raises ends the run softly and is raised here after the cleanup.
        is_host_gone: Looked at twice a second; once true, the run ends as if it had been cancelled. None: the
            caller cannot go away unnoticed.
    """
    hosted = _Hosted(main, control, on_event, is_host_gone)
    interrupt: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hosted.watch_caller)
            nursery.start_soon(hosted.run_engine, nursery.cancel_scope)
    except BaseExceptionGroup as group:
        interrupt = bare(group)  # a KeyboardInterrupt, or the watcher's Cancelled
    if isinstance(interrupt, KeyboardInterrupt):
        raise interrupt
    return await hosted.conclude()


@final
@attrs.define(eq=False)
class _Hosted(Generic[T]):
    """One engine in one nursery, and what has become of it."""

    main: Main[T]
    control: Control
    on_event: Sink
    is_host_gone: Callable[[], bool] | None
    ending: outcome.Outcome[T] | None = None
    escaped: BaseException | None = None
    """What the caller's callback raised that is no mere failure: `sys.exit()`."""

    async def run_engine(self, around: trio.CancelScope) -> None:
        engine = functools.partial(self.main, self.control, self._emit)
        with trio.CancelScope(shield=True):
            self.ending = await outcome.acapture(self.control.run, engine)
        around.cancel(reason="the engine has ended")

    async def watch_caller(self) -> None:
        try:
            if self.is_host_gone is None:
                await trio.sleep_forever()
            while not self.is_host_gone():  # noqa: ASYNC110  # a loop that is closed tells nobody
                await trio.sleep(HEARTBEAT_SECONDS)
        finally:
            if self.ending is None:
                self.control.cancel_now("caller")

    async def conclude(self) -> T:
        """Raise what comes first of: the caller's cancellation, its callback's exit, the engine's error."""
        assert self.ending is not None  # the nursery has waited for it
        failure = self.ending.error if isinstance(self.ending, outcome.Error) else None
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
        except trio.Cancelled as cancelled:
            raise cancelled from failure
        if self.escaped is not None:
            raise self.escaped
        return result_of(self.ending)

    def _emit(self, message: Message) -> None:
        try:
            self.on_event(message)
        except BaseException as error:  # noqa: BLE001  # raised when the engine has cleaned up
            if self.escaped is None:
                self.escaped = error
                self.control.cancel_now("caller")
