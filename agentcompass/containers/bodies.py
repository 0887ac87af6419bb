"""Bodies of requests that are longer than should be in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import TypeVar, final

import httpx
import trio

from agentcompass.containers.client import Docker
from agentcompass.containers.settle import beside

T = TypeVar("T")


async def made_meanwhile(
    docker: Docker,
    make: Callable[[Callable[[bytes], object], Callable[[], None]], None],
    send: Callable[[httpx.AsyncByteStream], Awaitable[T]],
) -> T:
    """Send a request whose body is made meanwhile by a blocking function in a thread; return what `send` returns.

    Args:
        docker: Has the threads.
        make: Calls its first argument with each piece; its second often, to be stopped.
        send: Is given the body.

    Raises:
        OSError: As of `make`.
        DockerError: As of `send`.
    """
    give, take = trio.open_memory_channel[bytes](0)
    failures: list[Exception] = []

    def work() -> None:
        make(lambda piece: trio.from_thread.run(give.send, piece), trio.from_thread.check_cancelled)

    async def produce() -> None:
        with give:
            try:
                await trio.to_thread.run_sync(work, limiter=docker.threads)
            except trio.BrokenResourceError:
                pass  # the engine wants no more, and its answer says why
            except Exception as error:  # noqa: BLE001  # raised below, in place of what the sender makes of it
                failures.append(error)

    async def request() -> T:
        with take:
            return await send(_Made(take, failures))

    try:
        return await beside(request, produce)
    except _UnmadeError:
        raise failures[0] from None


class _UnmadeError(Exception):
    """A body that could not be made: neither httpx nor the network knows this one, so it comes through as it is."""


@final
class _Made(httpx.AsyncByteStream):
    """A body that comes from a channel."""

    def __init__(
        self, channel: trio.MemoryReceiveChannel[bytes], failures: Sequence[Exception]
    ) -> None:
        self._channel, self._failures = channel, failures

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self._channel.receive()
        except trio.EndOfChannel:
            if self._failures:
                raise _UnmadeError from None
            raise StopAsyncIteration from None


@final
class Pieces(httpx.AsyncByteStream):
    """A body that is given in pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for piece in self._pieces:
            return piece
        raise StopAsyncIteration
