"""Serving one HTTP/1.1 connection: requests one after the other, each answered by a service.

A client may be slow to read, half close its connection, send the next request before it has its answer, or go away in the
middle: the last ends the work that is done for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, final

import attrs
import h11
import trio

from agentcompass.net.server_wire import (
    Asked,
    Bounds,
    ClientGoneError,
    RefusedError,
    Wire,
    head_of,
)

__all__ = ["Answering", "Asked", "Bounds", "ClientGoneError", "RefusedError", "Service", "serve"]


@final
class Answering:
    """The answer to one request: `whole`, or `begin`, `send` and `finish`. All raise `ClientGoneError`."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.is_begun = self.is_finished = False

    async def whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Answer in one piece; where the method allows no body, with its length only."""
        self.is_begun = True
        data = self._wire.frame(head_of(status, headers, len(body)))
        data += self._wire.frame(h11.Data(data=body))
        self.is_finished = True
        await self._wire.send(data + self._wire.frame(h11.EndOfMessage()))

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Send the head of an answer whose length is not known."""
        self.is_begun = True
        await self._wire.send(self._wire.frame(head_of(status, headers, None)))

    async def send(self, piece: bytes) -> None:
        """Send a piece of it, at once."""
        if framed := self._wire.frame(h11.Data(data=piece)):
            await self._wire.send(framed)

    async def finish(self) -> None:
        """Say that it is whole."""
        self.is_finished = True
        await self._wire.send(self._wire.frame(h11.EndOfMessage()))


class Service(Protocol):
    """What answers requests."""

    def admit(self, asked: Asked) -> None:
        """Look at the head of a request, whose body has not been read yet.

        Raises:
            RefusedError: It is not worth reading.
        """

    async def answer(self, asked: Asked, out: Answering) -> None:
        """Answer a request. Cancelled when the client goes away.

        If this returns before the answer is finished the connection is cut, by which a client sees that it is not whole.

        Raises:
            RefusedError: It is answered with an error; only as long as `out.is_begun` is False.
        """

    def explain(self, status: int) -> tuple[Mapping[str, str], bytes]:
        """Return headers and body of a refusal that has no body of its own."""
        ...


async def serve(stream: trio.abc.HalfCloseableStream, service: Service, bounds: Bounds) -> None:
    """Serve a connection until its client or the protocol ends it; the caller closes the stream.

    Never raises what a client has caused.
    """
    wire = Wire(stream, bounds)
    try:
        while await _serve_one(wire, service):
            pass
    except ClientGoneError:
        pass


async def _serve_one(wire: Wire, service: Service) -> bool:
    """Serve one request; return whether there may be another."""
    try:
        asked = await wire.head()
        if asked is None:
            return False
        service.admit(asked)
        asked = attrs.evolve(asked, body=await wire.body(asked))
    except (h11.RemoteProtocolError, RefusedError) as error:
        await wire.refuse(*_refusal(error, service))
        return False
    out = Answering(wire)
    refused = await _answered(wire, service, asked, out)
    if refused is not None:
        await out.whole(*_refusal(refused, service))
    return out.is_finished and wire.next_cycle()


async def _answered(
    wire: Wire, service: Service, asked: Asked, out: Answering
) -> RefusedError | None:
    """Have a request answered while its client is there; return with what it is refused, if it is.

    Raises:
        ClientGoneError: The client has gone.
    """
    refused: RefusedError | None = None
    gone: ClientGoneError | None = None
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            nonlocal gone
            try:
                await wire.watch()
            except ClientGoneError as error:
                gone = error
                nursery.cancel_scope.cancel(reason="the client has gone")

        nursery.start_soon(watch)
        try:
            await service.answer(asked, out)
        except RefusedError as error:
            refused = error
        except ClientGoneError as error:
            gone = error
        nursery.cancel_scope.cancel(reason="the answer is over")
    if gone is not None:
        raise gone
    return refused


def _refusal(
    error: h11.RemoteProtocolError | RefusedError, service: Service
) -> tuple[int, Mapping[str, str], bytes]:
    if isinstance(error, h11.RemoteProtocolError):
        error = RefusedError(error.error_status_hint)
    headers, body = service.explain(error.status)
    return error.status, {**headers, **error.headers}, body if error.body is None else error.body
