"""Hosting beside an event loop that is not trio's: the engine runs in a thread of its own.

The host's loop is never blocked, and evaluations do not block each other. The thread is no daemon: an
interpreter that exits waits for the cleanup instead of killing it, and the engine notices that it should end.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import queue
import signal
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar, final

import outcome
import trio

from agentcompass.bridge.callbacks import Message, Sink
from agentcompass.bridge.endings import result_of
from agentcompass.bridge.native import HEARTBEAT_SECONDS, run_in_task
from agentcompass.engine.control import Control
from agentcompass.engine.signals import watch_signals

if TYPE_CHECKING:
    from agentcompass.bridge import Main

T = TypeVar("T")

REPEAT_SECONDS: Final = 0.1
"""A cancellation this soon after the one before is the same one: some frameworks repeat theirs at every tick."""
REPEAT_TICKS: Final = 5
"""And so is one before the loop has come round so often: a loop that stands still makes repeating slow."""

_logger = logging.getLogger("agentcompass")


@final
class EngineThread(Generic[T]):
    """A thread that runs one engine, started at once, with the context variables of whoever made it.

    Args:
        main: The engine.
        control: By which it is ended.
        emit: Takes its events, in this thread.
        is_host_gone: Whether nobody waits for it any more.
        on_end: Called in this thread when `ending` is set, as the last thing.
    """

    def __init__(
        self,
        main: Main[T],
        control: Control,
        *,
        emit: Sink,
        is_host_gone: Callable[[], bool],
        on_end: Callable[[], None],
    ) -> None:
        self.ending: outcome.Outcome[T] | None = None
        self._engine = functools.partial(run_in_task, main, control, emit, is_host_gone)
        self._on_end = on_end
        body = functools.partial(contextvars.copy_context().run, self._body)
        self._thread = threading.Thread(target=body, name="agentcompass-engine", daemon=False)
        self._thread.start()

    def _body(self) -> None:
        self.ending = outcome.capture(trio.run, self._engine)
        self._on_end()

    @property
    def is_alive(self) -> bool:
        """Whether the engine, or its last word to the host, is still on its way."""
        return self._thread.is_alive()

    def join(self) -> outcome.Outcome[T]:
        """Wait for the thread, which is at its very end, and return how the engine ended."""
        self._thread.join()
        assert self.ending is not None  # `_body` sets it, whatever the engine does
        return self.ending


async def run_beside(main: Main[T], control: Control, on_event: Sink) -> T:
    """Run the engine beside the running asyncio loop, whatever its kind.

    Args:
        main: The engine.
        control: Told when this asyncio task is cancelled.
        on_event: Called by the loop.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    is_interpreter_ending = _interpreter_watch()

    def is_host_gone() -> bool:
        return loop.is_closed() or is_interpreter_ending()

    def tell(function: Callable[..., object], *args: object) -> None:
        try:
            loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            _logger.debug("the event loop was closed while an evaluation ran on it")

    engine = EngineThread(
        main,
        control,
        emit=functools.partial(tell, on_event),
        is_host_gone=is_host_gone,
        on_end=functools.partial(tell, _settle, done),
    )
    cancelled = await cancellation_while(done, control)
    ending = engine.join()
    if cancelled is not None:
        raise cancelled from (ending.error if isinstance(ending, outcome.Error) else None)
    return result_of(ending)


async def cancellation_while(
    done: asyncio.Future[T], control: Control
) -> asyncio.CancelledError | None:
    """Wait for `done`, passing cancellations of this task on to `control`.

    Returns:
        The cancellation, which the caller must raise whatever the engine's end: swallowing it would break
        `asyncio.timeout` and task groups. None if there was none.
    """
    cancelled: asyncio.CancelledError | None = None
    quiet = _Quiet(asyncio.get_running_loop())
    while not done.done():
        try:
            # the time limit is a heartbeat: a Jupyter kernel cancels this task from a signal handler without
            # waking its loop
            await asyncio.wait([done], timeout=HEARTBEAT_SECONDS)
        except asyncio.CancelledError as error:
            if cancelled is None or quiet.is_over:
                control.request_cancel("caller")
            cancelled = error
            quiet.begin()
        except BaseException:  # the loop is torn down around this coroutine
            control.request_cancel("caller")
            raise
    quiet.end()
    return cancelled


@final
class _Quiet:
    """Tells whether a loop has gone on undisturbed for a while, in time and in ticks."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        return self._left == 0

    def begin(self) -> None:
        """Wait from now on."""
        self.end()
        self._left = REPEAT_TICKS
        self._wait()

    def end(self) -> None:
        """Stop waiting."""
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        self._timer = self._loop.call_later(REPEAT_SECONDS / REPEAT_TICKS, self._tick)

    def _tick(self) -> None:
        self._left -= 1
        if not self.is_over:
            self._wait()


def run_pumping(main: Main[T], control: Control, on_event: Sink) -> T:
    """Run the engine in a thread and the callbacks in this one, which is a notebook cell's.

    Interrupting the kernel asks `control` to end the run.

    Raises:
        KeyboardInterrupt: After the cleanup, when the kernel was interrupted.
    """
    messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    escaped: BaseException | None = None
    with watch_signals(control, {signal.SIGINT}, may_leave=False):
        engine = EngineThread(
            main,
            control,
            emit=messages.put,
            is_host_gone=_interpreter_watch(),
            on_end=functools.partial(messages.put, None),
        )
        while (message := _next(messages, engine)) is not None:
            try:
                on_event(message)
            except BaseException as error:  # noqa: BLE001  # `sys.exit()` in a callback; raised below
                if escaped is None:
                    control.request_cancel("caller")
                    escaped = error
        ending = engine.join()
    if control.reason == "sigint":
        raise KeyboardInterrupt
    if escaped is not None:
        raise escaped
    return result_of(ending)


def _next(messages: queue.SimpleQueue[Message | None], engine: EngineThread[T]) -> Message | None:
    """Return the next message, or None when the engine has ended and all are read."""
    while True:
        try:
            return messages.get(timeout=HEARTBEAT_SECONDS)
        except queue.Empty:
            if not engine.is_alive:
                return None


def _settle(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


def _interpreter_watch() -> Callable[[], bool]:
    """Return what tells whether the interpreter is ending: it then waits for this thread, unless it is a daemon.

    A caller in a thread of its own, which the interpreter waits for, goes on after the main thread's code.
    """
    caller = threading.current_thread()
    if caller is not threading.main_thread() and not caller.daemon:
        return lambda: False
    return lambda: not threading.main_thread().is_alive()
