"""A way to a server that can be cut: whatever comes to a TCP port of 127.0.0.1 is handed to a Unix socket."""

from __future__ import annotations

import contextlib
import socket
import struct

import trio


class Relay:
    """Connections that go through one place.

    Attributes:
        url: Where it listens, as `tcp://`.
        n_connections: So far.
    """

    def __init__(self, path: str):
        self._path = path
        self._scopes: set[trio.CancelScope] = set()
        self._theirs: set[trio.SocketStream] = set()
        self.url = ""
        self.n_connections = 0

    @contextlib.asynccontextmanager
    async def open(self):
        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            self.url = f"tcp://127.0.0.1:{listener.socket.getsockname()[1]}"
            nursery.start_soon(trio.serve_listeners, self._serve, [listener])
            yield self
            nursery.cancel_scope.cancel()

    def cut(self):
        """Break every connection, as a network does."""
        for scope in self._scopes:
            scope.cancel()

    async def close_theirs(self):
        """Close every connection in good order, as a proxy does that is ended; new ones are taken."""
        for theirs in list(self._theirs):
            await theirs.send_eof()

    async def _serve(self, theirs):
        self.n_connections += 1
        self._theirs.add(theirs)
        with trio.CancelScope() as scope:
            self._scopes.add(scope)
            engine = await trio.open_unix_socket(self._path)
            async with engine, trio.open_nursery() as nursery:
                nursery.start_soon(self._copy, theirs, engine)
                nursery.start_soon(self._copy, engine, theirs)
        self._scopes.discard(scope)
        self._theirs.discard(theirs)
        if scope.cancelled_caught:
            # With nothing to linger for, closing resets the connection.
            theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    @staticmethod
    async def _copy(source, target):
        with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async for data in source:
                await target.send_all(data)
            await target.send_eof()
