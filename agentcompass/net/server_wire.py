"""One connection of a server, as bytes and as HTTP/1.1: strictly read, and bounded in bytes and in time.

Source: RFC 9110 and RFC 9112; their grammar is h11's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, final
from urllib.parse import unquote

import attrs
import h11
import trio

from agentcompass.data import frozen

TOO_LONG: Final = 413
_CHUNK: Final = 64 * 1024
_LINGER_SECONDS: Final = 2.0
_LINGER_BYTES: Final = 8 * 1024 * 1024
"""Of a request that was refused unread: so much is taken and thrown away, so that its client gets to read why."""


class ClientGoneError(Exception):
    """The client has closed or broken its connection, or has not read or written for too long."""


class RefusedError(Exception):
    """A request is answered with an error, and nothing else is done for it.

    Args:
        status: The HTTP status.
        body: For the client, JSON; None: what the service says of such a status.
        headers: Beside those of every answer.
    """

    def __init__(
        self, status: int, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"status {status}")
        self.status, self.body, self.headers = status, body, headers or {}


@frozen(kw_only=True)
class Bounds:
    """What a client may take of us."""

    max_body_bytes: int
    """Of one request."""
    max_head_bytes: int = 64 * 1024
    """Of one request, and of the frame of one chunk."""
    head_seconds: float = 30.0
    """For the rest of a head, once it has begun."""
    body_seconds: float = 60.0
    """The longest silence in the middle of a request's body."""
    idle_seconds: float = 300.0
    """The longest wait for the next request of a connection."""
    write_seconds: float = 60.0
    """The longest that a client may take to read one piece of its answer."""


@frozen(kw_only=True)
class Asked:
    """A request."""

    method: str
    path: str
    """Decoded, without the query."""
    query: str
    headers: Mapping[str, str] = attrs.field(repr=False)
    """Names in lower case; values of one name joined by commas."""
    body: bytes = attrs.field(default=b"", repr=False)


@final
class Wire:
    """The connection. Everything that reads or writes raises `ClientGoneError`.

    Args:
        stream: The caller closes it.
        bounds: What the client may take.
    """

    def __init__(self, stream: trio.abc.HalfCloseableStream, bounds: Bounds) -> None:
        self._stream, self._bounds = stream, bounds
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=bounds.max_head_bytes)
        self._wants_body = True
        """Whether the answer to the present request may have a body."""

    # --- in

    async def head(self) -> Asked | None:
        """Wait for a request; None if the client wants nothing more.

        Raises:
            h11.RemoteProtocolError: What came is no request.
        """
        event = self._http.next_event()
        if event is h11.NEED_DATA and not self._http.trailing_data[0]:
            await self._receive(self._bounds.idle_seconds)
            event = self._http.next_event()
        until = trio.current_time() + self._bounds.head_seconds
        while event is h11.NEED_DATA:
            await self._receive(until - trio.current_time())
            event = self._http.next_event()
        if not isinstance(event, h11.Request):
            return None
        self._wants_body = event.method != b"HEAD"
        return _asked(event)

    async def body(self, asked: Asked) -> bytes:
        """Read a request's body, asking for it if the client waits to be asked.

        Raises:
            RefusedError: It is too long (413).
            h11.RemoteProtocolError: It is not framed as it should be, or ends too early.
        """
        limit = self._bounds.max_body_bytes
        if int(asked.headers.get("content-length", "0")) > limit:
            raise RefusedError(TOO_LONG)
        if self._http.they_are_waiting_for_100_continue:
            await self.send(self.frame(h11.InformationalResponse(status_code=100, headers=[])))
        body = bytearray()
        while not isinstance(event := self._http.next_event(), h11.EndOfMessage):
            if isinstance(event, h11.Data):
                body += event.data
                if len(body) > limit:
                    raise RefusedError(TOO_LONG)
            else:
                await self._receive(self._bounds.body_seconds)
        return bytes(body)

    async def watch(self) -> None:
        """Keep what comes for later, until there is enough of it. Never returns."""
        with _as_gone():
            room = self._bounds.max_head_bytes
            while room > 0:
                data = bytes(await self._stream.receive_some(_CHUNK))
                self._http.receive_data(data)
                room -= len(data)
                if not data:  # it sends no more, and may read all the same
                    break
            await trio.sleep_forever()

    async def _receive(self, seconds: float) -> None:
        with trio.move_on_after(max(0.0, seconds)), _as_gone():
            self._http.receive_data(bytes(await self._stream.receive_some(_CHUNK)))
            return
        raise ClientGoneError

    def next_cycle(self) -> bool:
        """Be ready for the next request of this connection; False if there cannot be one."""
        if (self._http.our_state, self._http.their_state) != (h11.DONE, h11.DONE):
            return False
        self._http.start_next_cycle()
        return True

    # --- out

    def frame(self, event: h11.Event) -> bytes:
        """Return what is to be sent, as bytes; nothing for a body where the request allows none."""
        if isinstance(event, h11.Data) and not (self._wants_body and event.data):
            return b""
        return self._http.send(event) or b""

    async def send(self, data: bytes) -> None:
        """Hand bytes to the client."""
        with trio.move_on_after(self._bounds.write_seconds), _as_gone():
            await self._stream.send_all(data)
            return
        raise ClientGoneError

    async def refuse(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Answer a request that was not read to its end; the connection cannot be used after that."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        data = self.frame(head_of(status, {**headers, "Connection": "close"}, len(body)))
        data += self.frame(h11.Data(data=body))
        await self.send(data + self.frame(h11.EndOfMessage()))
        # Closing while there is something unread would break the connection, and with it the answer.
        with trio.move_on_after(_LINGER_SECONDS), _as_gone():
            await self._stream.send_eof()
            rest = _LINGER_BYTES
            while rest > 0 and (unread := await self._stream.receive_some(_CHUNK)):
                rest -= len(unread)


@contextmanager
def _as_gone() -> Iterator[None]:
    try:
        yield
    except (trio.BrokenResourceError, trio.ClosedResourceError, OSError) as error:
        raise ClientGoneError from error


def _asked(request: h11.Request) -> Asked:
    headers: dict[str, str] = {}
    for raw_name, raw_value in request.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    path, _, query = request.target.decode("latin-1").partition("?")
    return Asked(
        method=request.method.decode("ascii"), path=unquote(path), query=query, headers=headers
    )


def head_of(status: int, headers: Mapping[str, str], length: int | None) -> h11.Response:
    """Return the head of an answer.

    Args:
        status: The HTTP status.
        headers: By name; what is no Latin-1 becomes `?`.
        length: Of the body in bytes; None: not known beforehand.
    """
    pairs = [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()]
    if length is not None:
        pairs.append((b"Content-Length", str(length).encode()))
    return h11.Response(status_code=status, headers=pairs)
