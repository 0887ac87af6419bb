"""Connections to servers: a stack of idle ones, and nothing shared.

A *lane* is one keep-alive connection. It belongs to one request from the first byte to the last and then goes back
on the stack of its server. There is no pool that assigns connections to waiting requests, so there is nothing to walk
through (constant work per request) and nothing to race for; how many requests run at once is the caller's business.
"""

from __future__ import annotations

import functools
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, cast, final

import httpcore
import httpx
import trio

IDLE_EXPIRY_SECONDS: Final = 50.0
"""An idle lane older than this is not used again: load balancers commonly drop silent connections after 60 s."""

_CLOSE_SECONDS: Final = 2.0
"""Closing takes no time, unless something is wrong: then it may not hold up whoever is being cancelled."""

_Server: TypeAlias = tuple[bytes, bytes, int]
_Option: TypeAlias = tuple[int, int, int]

_DEFAULT_PORTS: Final = {b"http": 80, b"https": 443}


@functools.cache
def ssl_context() -> ssl.SSLContext:
    """Return the one TLS context of this process: verifying, made on first use (it takes 80 ms)."""
    return httpx.create_ssl_context()


def _keepalive_options() -> tuple[_Option, ...]:
    """Socket options by which a peer that vanished is noticed within two minutes, however long it may think."""
    options: list[_Option] = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, name):  # not every platform has all of them
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    return tuple(options)


_SOCKET_OPTIONS: Final = _keepalive_options()


@contextmanager
def as_httpx_errors() -> Iterator[None]:
    """Turn what httpcore and the network raise into the httpx exceptions that a transport owes."""
    try:
        yield
    except (OSError, UnicodeError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
        raise httpx.ConnectError(
            str(error)
        ) from error  # an unusable host name, a socket lost while closing
    except Exception as error:
        # both packages name their exceptions alike; anything else is a fault of ours and stays what it is
        name = type(error).__name__
        if getattr(httpcore, name, None) is not type(error):
            raise
        mapped = getattr(httpx, name, httpx.TransportError)
        raise mapped(_words(error)) from error


def _words(error: BaseException) -> str:
    """What an error says, or the first of its causes that says anything, as a rejected certificate does."""
    cause: BaseException | None = error
    while cause is not None and not str(cause):
        cause = cause.__cause__
    return str(cause) if cause is not None else type(error).__name__


@final
class StackTransport(httpx.AsyncBaseTransport):
    """Sends requests over lanes; the most recently used idle one first, so that surplus ones grow old and go.

    Args:
        socket_path: A Unix socket to which all connections go, whatever host a URL names.
        tls: For https in place of the process's own context.
        resends: False for requests that must not be carried out twice: see `handle_async_request`.
    """

    def __init__(
        self,
        *,
        socket_path: str | None = None,
        tls: ssl.SSLContext | None = None,
        resends: bool = True,
    ) -> None:
        self._socket_path, self._tls, self._resends = socket_path, tls, resends
        self._idle: dict[_Server, deque[_Lane]] = {}
        self._is_closed = False

    @property
    def n_idle(self) -> int:
        """Connections that wait for a request."""
        return sum(map(len, self._idle.values()))

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; the lane is free again when the response's stream is closed.

        A server may close an idle connection at the very moment we use it. When a used lane fails before a single
        byte of the answer came, the request goes out once more on a fresh one, unless `resends` forbids it.

        Raises:
            httpx.TransportError: As of httpx's own transport.
        """
        url = request.url
        scheme = url.raw_scheme
        server = (scheme, url.raw_host, url.port or _DEFAULT_PORTS.get(scheme, 0))
        core_request = httpcore.Request(
            request.method,
            httpcore.URL(scheme=scheme, host=server[1], port=url.port, target=url.raw_path),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        lane = await self._idle_lane(server)
        if lane is not None:
            try:
                return await self._send(server, lane, core_request)
            except (httpx.RemoteProtocolError, httpx.NetworkError):
                if lane.is_answered or not self._resends:
                    raise
        fresh = _Lane(core_request.url.origin, self._socket_path, self._tls)
        return await self._send(server, fresh, core_request)

    async def aclose(self) -> None:
        """Close all idle lanes now, and those in use when they come back."""
        self._is_closed = True
        for stack in self._idle.values():
            while stack:
                await stack.pop().close()

    async def _idle_lane(self, server: _Server) -> _Lane | None:
        stack = self._idle.get(server)
        while stack:
            lane = stack.pop()
            if lane.is_usable():
                return lane
            await lane.close()
        return None

    async def _send(
        self, server: _Server, lane: _Lane, request: httpcore.Request
    ) -> httpx.Response:
        try:
            with as_httpx_errors():
                response = await lane.send(request)
        except BaseException:
            await lane.close()
            raise
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_LaneStream(self, server, lane, response),
            extensions=response.extensions,
        )

    async def take_back(self, server: _Server, lane: _Lane) -> None:
        """Put a lane on the stack, or close it if it is of no more use; and one that has grown too old below."""
        if self._is_closed or not lane.is_usable():
            await lane.close()
            return
        stack = self._idle.setdefault(server, deque())
        stack.append(lane)
        if not stack[0].is_usable():
            await stack.popleft().close()


@final
class _LaneStream(httpx.AsyncByteStream):
    """The body of an answer; closing it gives the lane back."""

    def __init__(
        self, transport: StackTransport, server: _Server, lane: _Lane, response: httpcore.Response
    ) -> None:
        self._transport, self._server, self._lane = transport, server, lane
        self._response = response
        self._chunks = aiter(cast("AsyncIterable[bytes]", response.stream))
        self._is_open = True

    # an iterator, not a generator: one layer less for every chunk, and nothing left to the garbage collector
    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        with as_httpx_errors():
            return await anext(self._chunks)

    async def aclose(self) -> None:
        if self._is_open:
            self._is_open = False
            with trio.move_on_after(_CLOSE_SECONDS, shield=True):
                with as_httpx_errors():
                    await self._response.aclose()
            await self._transport.take_back(self._server, self._lane)


@final
class _Lane:
    """One connection, and what httpcore does not tell about it."""

    def __init__(
        self, origin: httpcore.Origin, socket_path: str | None, tls: ssl.SSLContext | None
    ) -> None:
        self._wire = _Wire()
        self._connection = httpcore.AsyncHTTPConnection(
            origin,
            ssl_context=(tls or ssl_context()) if origin.scheme == b"https" else None,
            keepalive_expiry=IDLE_EXPIRY_SECONDS,
            uds=socket_path,
            network_backend=self._wire,
            socket_options=_SOCKET_OPTIONS if socket_path is None else None,
        )

    @property
    def is_answered(self) -> bool:
        """Whether a byte came back for the present request."""
        return self._wire.has_heard

    def is_usable(self) -> bool:
        """Whether it is idle, not too old, and not closed by the server."""
        return self._connection.is_available() and not self._connection.has_expired()

    async def send(self, request: httpcore.Request) -> httpcore.Response:
        self._wire.has_heard = False
        return await self._connection.handle_async_request(request)

    async def close(self) -> None:
        with trio.move_on_after(_CLOSE_SECONDS, shield=True):
            await self._wire.close()


@final
class _Wire(httpcore.AsyncNetworkBackend):
    """Opens the socket of one lane and keeps hold of it.

    httpcore loses the socket when it is cancelled during a TLS handshake, and does not tell whether a connection broke
    before or after the answer began.
    """

    def __init__(self) -> None:
        self._backend = httpcore.TrioBackend()
        self._socket: httpcore.AsyncNetworkStream | None = None
        self.has_heard = False

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        # As bytes, which trio takes too: a name in text is encoded, although it is ASCII, by tables that take 6 ms to load.
        name = cast("str", host.encode("ascii"))
        self._socket = await self._backend.connect_tcp(
            name, port, timeout, local_address, socket_options
        )
        return _WatchedStream(self, self._socket)

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.AsyncNetworkStream:
        self._socket = await self._backend.connect_unix_socket(path, timeout, socket_options)
        return _WatchedStream(self, self._socket)

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.aclose()


@final
class _WatchedStream(httpcore.AsyncNetworkStream):
    """A byte stream that tells its wire when something was received."""

    def __init__(self, wire: _Wire, stream: httpcore.AsyncNetworkStream) -> None:
        self._wire, self._stream = wire, stream

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._stream.read(max_bytes, timeout)
        if data:
            self._wire.has_heard = True
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        stream = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return _WatchedStream(self._wire, stream)
