"""Calling components that may be plain functions: these run in a worker thread.

A thread cannot be ended from outside. When its phase is over, a hanging call is left behind with its thread and
its place at the limiter; whatever it does then with session or model raises.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

import trio

from agentcompass.engine.blocking import conversion

T = TypeVar("T")


async def call(
    function: Callable[..., Awaitable[T]], *args: object, threads: trio.CapacityLimiter
) -> T:
    """Call a component's method, `async` or plain, and return its result.

    Args:
        function: The method.
        args: Its arguments; a `Session` or model is handed to a plain function with blocking methods.
        threads: Where plain functions get their threads.

    Raises:
        trio.Cancelled: At once; a plain function goes on in its thread until it returns.
    """
    if inspect.iscoroutinefunction(inspect.unwrap(function)):
        return await function(*args)
    plain = cast("Callable[..., object]", function)
    async with conversion() as converted:
        blocking = [converted(arg) for arg in args]

        def boxed() -> tuple[object]:
            return (plain(*blocking),)  # in a box, since trio refuses a bare coroutine

        (result,) = await trio.to_thread.run_sync(boxed, abandon_on_cancel=True, limiter=threads)
    if inspect.iscoroutine(result):
        result.close()
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{name} is no async function but returns a coroutine: use functools.wraps")
    return cast("T", result)
