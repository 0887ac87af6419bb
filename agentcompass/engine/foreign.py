"""Calling components that may be plain functions: these run in a worker thread.

A thread cannot be ended from outside. When its phase is over, a hanging call is left behind with its thread and
its place at the limiter; whatever it does then with session or model raises.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast, final

import trio

from agentcompass.components.base import Session

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
    blocking = [_blocking(arg) for arg in args]

    def boxed() -> tuple[object]:
        return (plain(*blocking),)  # in a box, since trio refuses a bare coroutine

    (result,) = await trio.to_thread.run_sync(boxed, abandon_on_cancel=True, limiter=threads)
    if inspect.iscoroutine(result):
        result.close()
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{name} is no async function but returns a coroutine: use functools.wraps")
    return cast("T", result)


def _blocking(arg: object) -> object:
    if isinstance(arg, Session) or hasattr(arg, "revoke") or _is_called_async(arg):
        return Blocking(arg)
    if inspect.iscoroutinefunction(arg):
        return functools.partial(trio.from_thread.run, arg)
    return arg


def _is_called_async(arg: object) -> bool:
    method = type(arg).__call__ if callable(arg) else None
    return inspect.iscoroutinefunction(method)


@final
class Blocking:
    """A session, model or `Emit` whose `async` methods can be called from a worker thread."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __call__(self, *args: object) -> object:
        """Call the target itself."""
        return trio.from_thread.run(self._target, *args)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not inspect.iscoroutinefunction(value):
            return value

        @functools.wraps(value)
        def method(*args: object, **kwargs: object) -> object:
            return trio.from_thread.run(functools.partial(value, *args, **kwargs))

        return method
