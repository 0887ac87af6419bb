"""How an engine run is hosted: called from a script, a notebook, a trio program or an asyncio program.

```
caller                                  where the engine runs                        module
script, thread without a loop           trio.run in the calling thread               native
trio task                               a child task of the caller's                 native
asyncio task, any loop                  trio.run in a thread of its own              threaded
asyncio task on a trio-asyncio loop     a task of the trio run that is there         foreign
notebook cell, synchronous              trio.run in a thread; the cell's thread      threaded
                                        runs the callbacks
```

Whatever the host, the engine sees one thing: a `Control` by which it is ended. Cancelling the caller asks the
control to end the run softly, waits for its cleanup, and then raises the caller's own cancellation exception.
`on_event` is called in the caller's thread, with the caller's context variables, in order, and for the last time
before the call returns.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from agentcompass.bridge.callbacks import Callback, Message, Sink
from agentcompass.bridge.detect import current_host, in_notebook
from agentcompass.bridge.quiet import import_trio_asyncio
from agentcompass.engine.control import Control
from agentcompass.errors import ConfigurationError, NestedLoopError

T = TypeVar("T")

Main: TypeAlias = Callable[[Control, Sink], Awaitable[T]]
"""The engine: a coroutine function, on trio."""

__all__ = [
    "Main",
    "Message",
    "Sink",
    "import_trio_asyncio",
    "require_no_loop",
    "run_apart",
    "run_async",
    "run_sync",
]


def run_sync(
    main: Main[T],
    *,
    grace_seconds: float,
    on_event: Sink | None = None,
    async_twin: str = "async_run_evaluation",
) -> T:
    """Run `main` to its end and return its result.

    Args:
        main: Called on trio with the control of this run and the function that takes its messages.
        grace_seconds: Time that cleanup may take once the run is ended from outside.
        on_event: Called in this thread with each message, an event or the outcome of a request; a failure in it is logged.
        async_twin: What the caller should have used inside an event loop, for the message.

    Raises:
        NestedLoopError: An event loop runs in this thread, and it is not a notebook's.
        KeyboardInterrupt: In a notebook, after the cleanup, when the kernel was interrupted.
        BaseException: Whatever `main` raised. A group loses its wrapping if it holds one exception; an interrupt
            anywhere in it comes out alone.
    """
    require_no_loop(async_twin)
    control, callback = Control(grace_seconds), Callback(on_event)
    if current_host() == "none":
        from agentcompass.bridge import native  # noqa: PLC0415  # each host loads its own modules

        return native.run(main, control, callback)
    from agentcompass.bridge import threaded  # noqa: PLC0415

    return threaded.run_pumping(main, control, callback)


async def run_async(main: Main[T], *, grace_seconds: float, on_event: Sink | None = None) -> T:
    """Run `main` to its end and return its result; await it on trio or asyncio.

    Several may be awaited at once. Arguments as for `run_sync`.

    Raises:
        ConfigurationError: Neither trio nor asyncio runs the caller.
        trio.Cancelled, asyncio.CancelledError: The caller was cancelled; cleanup is over.
        BaseException: As for `run_sync`.
    """
    control, callback = Control(grace_seconds), Callback(on_event)
    host = current_host()
    if host == "trio":
        from agentcompass.bridge import native  # noqa: PLC0415

        return await native.run_in_task(main, control, callback)
    if host == "asyncio":
        from agentcompass.bridge import threaded  # noqa: PLC0415

        return await threaded.run_beside(main, control, callback)
    if host == "trio-asyncio":
        from agentcompass.bridge import foreign  # noqa: PLC0415

        return await foreign.run_inside(main, control, callback)
    raise ConfigurationError("this can be awaited in a trio or an asyncio program only")


async def run_apart(function: Callable[..., T], *args: object) -> T:
    """Call a function that takes a while in a worker thread, so that the caller's event loop goes on.

    Raises:
        trio.Cancelled, asyncio.CancelledError: At once; the function goes on until it returns, to nobody.
    """
    host = current_host()
    if host == "trio":
        import trio  # noqa: PLC0415  # each host loads its own modules

        call = functools.partial(function, *args)
        return await trio.to_thread.run_sync(call, abandon_on_cancel=True)
    if host == "asyncio":
        import asyncio  # noqa: PLC0415  # as above

        return await asyncio.to_thread(function, *args)
    return function(*args)  # trio-asyncio: its loops are slow at threads, and rare


def require_no_loop(async_twin: str) -> None:
    """Check that a synchronous entry point may run here.

    Args:
        async_twin: The name of its asynchronous twin.

    Raises:
        NestedLoopError: An event loop runs in this thread, and it is not a notebook's.
    """
    host = current_host()
    if host == "none" or (host == "asyncio" and in_notebook()):
        return
    raise NestedLoopError(
        f"this thread already runs a {host} event loop, which would stand still until the evaluation is over",
        hint=f"use `await {async_twin}(...)` here: it takes the same arguments and returns the same value",
    )
