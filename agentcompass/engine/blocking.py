"""What components that are plain functions get in their worker thread: sessions, models and `Emit` with blocking methods."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, TypeAlias, final

import trio

from agentcompass.components.base import Session

Convert: TypeAlias = Callable[[object], object]


@asynccontextmanager
async def conversion() -> AsyncIterator[Convert]:
    """Give what turns an argument into what a plain function can use; what it has open after the block is closed."""
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        try:
            yield _Home(nursery).converted
        except trio.Cancelled:
            raise
        except BaseException as error:  # noqa: BLE001  # raised below, in no group
            failure = error
        nursery.cancel_scope.cancel(reason="the function is over")
    if failure is not None:
        raise failure


@final
class _Home:
    """Where the context managers live that a thread has entered.

    Args:
        nursery: Around the call of the plain function.
    """

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self._callbacks = trio.CapacityLimiter(1)
        """One at a time; and not in the place of a plain function, all of which may wait for a callback."""

    def converted(self, arg: object) -> object:
        """Return a session or model with blocking methods, an async function as a blocking one, the rest as it is."""
        if isinstance(arg, Session) or hasattr(arg, "revoke") or _is_called_async(arg):
            return _Blocking(arg, self)
        if inspect.iscoroutinefunction(arg):
            return functools.partial(trio.from_thread.run, arg)
        return arg

    def returned(self, arg: object) -> object:
        """Return what a plain function hands back in the form in which it would be without threads."""
        if isinstance(arg, _Blocking):
            return arg.target
        if inspect.isroutine(arg) and not inspect.iscoroutinefunction(arg):
            return functools.partial(self._call_back, arg)
        return arg

    async def _call_back(self, function: Callable[..., object], *args: object) -> object:
        call = functools.partial(function, *args)
        return await trio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self._callbacks)


def _is_called_async(arg: object) -> bool:
    method = type(arg).__call__ if callable(arg) else None
    return inspect.iscoroutinefunction(method)


@final
class _Blocking:
    """Something whose `async` methods, and context managers, can be used from a worker thread."""

    def __init__(self, target: Any, home: _Home) -> None:
        self.target, self._home = target, home

    def __call__(self, *args: object) -> object:
        """Call the target itself."""
        return trio.from_thread.run(self.target, *args)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.target, name)
        if not callable(value):
            return value
        is_async = inspect.iscoroutinefunction(value)

        @functools.wraps(value)
        def method(*args: object, **kwargs: object) -> object:
            if is_async:
                return trio.from_thread.run(functools.partial(value, *args, **kwargs))
            given = {name: self._home.returned(arg) for name, arg in kwargs.items()}
            result = value(*map(self._home.returned, args), **given)
            if isinstance(result, AbstractAsyncContextManager):
                return _BlockingContext(result, self._home)
            return result

        return method


@final
class _BlockingContext:
    """An async context manager that a worker thread enters and leaves, while a task of the event loop is inside."""

    def __init__(self, manager: AbstractAsyncContextManager[object], home: _Home) -> None:
        self._manager, self._home = manager, home
        self._over, self._closed = trio.Event(), trio.Event()
        self._error: BaseException | None = None
        """Of the block."""
        self._failure: Exception | None = None
        """Of leaving it."""

    def __enter__(self) -> object:
        start: Callable[..., Awaitable[object]] = self._home.nursery.start
        return _Blocking(trio.from_thread.run(start, self._stay), self._home)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Leave; an error of a block that had been ended from outside says nothing but that, and is dropped."""
        return trio.from_thread.run(self._leave, error)

    async def _stay(self, task_status: trio.TaskStatus[object]) -> None:
        is_inside = False
        try:
            async with self._manager as value:
                is_inside = True
                task_status.started(value)
                await self._over.wait()
                if self._error is not None:
                    raise self._error
        except Exception as error:
            if not is_inside:  # `start` raises it
                raise
            self._failure = error
        finally:
            self._closed.set()

    async def _leave(self, error: BaseException | None) -> bool:
        self._error = error
        self._over.set()
        await self._closed.wait()
        if self._failure is not None and self._failure is not error:
            raise self._failure
        return self._failure is None and isinstance(error, Exception)
