"""Programs of every kind that may call an evaluation, and a small engine to be called."""

import asyncio
import contextlib
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import outcome
import trio
import uvloop

from agentcompass.bridge import import_trio_asyncio, run_async, run_sync
from agentcompass.engine.control import Control
from agentcompass.progress.events import Event, Notice

AIO_HOSTS = ("asyncio", "uvloop", "trio-asyncio", "trio-asyncio-sync")
ASYNC_HOSTS = ("trio", *AIO_HOSTS)
HOSTS = ("sync", *ASYNC_HOSTS)

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
"""Set by callers, read by engines and callbacks."""


def notice(text: str) -> Notice:
    return Notice(at=0.0, level="info", text=text)


@attrs.define
class Engine:
    """Works until it is cancelled, then cleans up, and tells what happened to it."""

    name: str = "engine"
    cleanup_seconds: float = 0.2
    work_seconds: float = 30.0
    control: Control | None = None
    is_cleaned: bool = False
    is_cut_short: bool = False

    async def __call__(self, control: Control, emit: Callable[[Event], None]) -> str:
        self.control = control
        emit(notice("started"))
        with control.soft:
            await trio.sleep(self.work_seconds)
        if control.reason is not None:
            with control.budget.shielded() as scope:
                await trio.sleep(self.cleanup_seconds)
                self.is_cleaned = True
            self.is_cut_short = scope.cancelled_caught
        return f"{self.name} ended by {control.reason}"


def call_from(
    host: str, main: Callable[[Control, Callable[[Event], None]], Awaitable[Any]], **options: Any
) -> Any:
    """Call `main` through the bridge once from a program of the named kind; return or raise what it gets.

    In that program `WHO` is "the caller".
    """
    options = {"grace_seconds": 5.0, **options}
    if host == "sync":
        context = contextvars.copy_context()
        context.run(WHO.set, "the caller")
        return context.run(lambda: run_sync(main, **options))

    async def app() -> Any:
        WHO.set("the caller")
        return await run_async(main, **options)

    return run_app(host, app)


def run_app(host: str, app: Callable[[], Awaitable[Any]]) -> Any:
    """Run a program: trio-flavoured for the host `trio`, asyncio-flavoured for all others."""
    if host == "trio":
        return trio.run(app)
    if host == "asyncio":
        return asyncio.run(app())
    if host == "uvloop":
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(app())
    trio_asyncio = import_trio_asyncio()
    if host == "trio-asyncio":

        async def captured() -> outcome.Outcome[
            Any
        ]:  # its nurseries would wrap what the app raises
            return await outcome.acapture(app)

        return trio_asyncio.run(trio_asyncio.aio_as_trio(captured)).unwrap()
    from trio_asyncio._sync import SyncTrioEventLoop

    with contextlib.closing(SyncTrioEventLoop()) as loop:
        return loop.run_until_complete(app())
