"""POST requests to one server, with every failure one of four.

```
NetworkError
├── ConnectFailedError     no connection: nothing was sent
├── ConnectionBrokenError  the connection broke, or what came was not HTTP
├── StalledError           the server fell silent in the middle of an answer
└── BodyTooLargeError      the answer is longer than the limit
```
"""

from __future__ import annotations

import math
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from typing import Final, cast, final

import httpx
import trio

from agentcompass.net.address import Address
from agentcompass.net.proxies import open_transport

CONNECT_SECONDS: Final = 30.0
"""Long, because a busy event loop makes its own connects look slow."""

_TAIL_SECONDS: Final = 1.0
"""How long the formal end of an answer is waited for once all that matters has come; then the connection is closed."""


class NetworkError(Exception):
    """A request got no complete answer. The text holds neither headers nor bodies."""


class ConnectFailedError(NetworkError):
    """There is no connection to the server; nothing was sent."""


class ConnectionBrokenError(NetworkError):
    """The connection broke before the answer was complete, or what came was not HTTP."""


class StalledError(NetworkError):
    """Nothing came for too long in the middle of an answer."""


class BodyTooLargeError(NetworkError):
    """The answer is longer than the limit."""


@final
class Answer:
    """An answer whose head has come.

    Attributes:
        status: The HTTP status code.
        headers: By name, in any case.
    """

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers

    @property
    def raw_headers(self) -> Sequence[tuple[bytes, bytes]]:
        """Names as they came, and values; quicker to look through than `headers`."""
        return self._response.headers.raw

    async def read(
        self, take: Callable[[bytes], bool], *, idle_seconds: float, max_bytes: int
    ) -> None:
        """Hand the body to `take`, chunk by chunk and decompressed, to its end.

        The wait for the first chunk is not limited here: a model may think for as long as the caller's own time allows.

        Args:
            take: Returns whether it wants more. After False the end of the answer is awaited for a moment, so that
                the connection can be used again. What it raises is raised here.
            idle_seconds: The longest silence between two chunks.
            max_bytes: Limit of the whole body.

        Raises:
            StalledError: A silence was longer than `idle_seconds`.
            BodyTooLargeError: More than `max_bytes` came.
            ConnectionBrokenError: The body ended too early.
        """
        reading = _Reading(idle_seconds=idle_seconds, max_bytes=max_bytes)
        with reading.scope:
            try:
                with _as_network_errors():
                    async for chunk in self._source():
                        if reading.accepts(chunk) and reading.wants_more:
                            try:
                                reading.proceed(take(chunk))
                            except Exception as error:  # noqa: BLE001  # raised once the generators have ended
                                reading.fail(error)
            except ConnectionBrokenError:
                if reading.wants_more:  # else all that matters was there before it broke
                    raise
        reading.check()

    async def relay(
        self, take: Callable[[bytes], Awaitable[bool]], *, idle_seconds: float, max_bytes: int
    ) -> None:
        """Do the same with a `take` that hands the chunks on, which may take its time: nothing more is read meanwhile.

        It gets all that comes, also what follows after it has returned that it wants no more.
        """
        reading = _Reading(idle_seconds=idle_seconds, max_bytes=max_bytes)
        with reading.scope:
            try:
                with _as_network_errors():
                    async for chunk in self._source():
                        if reading.accepts(chunk):
                            reading.pause()
                            try:
                                reading.proceed(await take(chunk))
                            except Exception as error:  # noqa: BLE001  # as above
                                reading.fail(error)
            except ConnectionBrokenError:
                if reading.wants_more:
                    raise
        reading.check()

    def _source(self) -> AsyncIterable[bytes]:
        if "content-encoding" in self.headers:
            return self._response.aiter_bytes()
        return cast("AsyncIterable[bytes]", self._response.stream)


@final
class _Reading:
    """The state of one `Answer.read` or `Answer.relay`.

    It stops early by cancelling its own scope, never by leaving the loop: that would abandon the async generators
    below, and they would be ended by the garbage collector at some other time.
    """

    def __init__(self, *, idle_seconds: float, max_bytes: int) -> None:
        self.scope = trio.CancelScope()
        self._idle_seconds = idle_seconds
        self._max_bytes = max_bytes
        self._size = 0
        self.wants_more = True
        self._failure: Exception | None = None

    def accepts(self, chunk: bytes) -> bool:
        """Count a chunk; whether it is still to be looked at."""
        self._size += len(chunk)
        if self._failure is None and self.wants_more and self._size > self._max_bytes:
            self.fail(BodyTooLargeError(f"the answer has more than {self._max_bytes} bytes"))
        return self._failure is None

    def pause(self) -> None:
        """Somebody else is waited for."""
        self.scope.deadline = math.inf

    def proceed(self, wants_more: bool) -> None:
        """The server is waited for: for more of its answer, or only for its formal end."""
        self.wants_more = self.wants_more and wants_more
        limit = self._idle_seconds if self.wants_more else _TAIL_SECONDS
        self.scope.deadline = trio.current_time() + limit

    def fail(self, error: Exception) -> None:
        """Stop; `check` raises it."""
        self._failure = error
        self.scope.cancel(reason="the rest of this answer is of no use")

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self.scope.cancelled_caught and self.wants_more:
            raise StalledError(f"nothing came for {self._idle_seconds:.0f} s")


@final
class HttpClient:
    """Sends requests to one server.

    Args:
        address: Any address of the server; it decides about proxies.
        write_seconds: Limit for handing a whole body to the network.

    Raises:
        ValueError: The environment names a proxy that cannot be used.
    """

    def __init__(self, address: Address, *, write_seconds: float) -> None:
        self._transport = open_transport(address.url)
        self._timeout = {
            "connect": CONNECT_SECONDS,
            "write": write_seconds,
            "read": None,  # whoever reads has a limit that knows what is being waited for
            "pool": None,
        }

    @asynccontextmanager
    async def post(
        self, address: Address, *, headers: Mapping[str, str], body: RequestBody
    ) -> AsyncIterator[Answer]:
        """Send a request and give the answer's head. Redirects are not followed.

        Args:
            address: Where; a user that it names is authenticated in place of an Authorization header.
            headers: Beside those that HTTP itself needs.
            body: What.

        Raises:
            ConnectFailedError: There is no connection.
            ConnectionBrokenError: It broke before the head was there.
        """
        own = {
            "Host": address.url.netloc.decode("ascii"),
            "Content-Length": str(len(body)),
            # a compressed stream arrives in lumps, and a small answer could unpack to any size
            "Accept-Encoding": "identity",
        }
        if address.authorization is not None:
            own["Authorization"] = address.authorization
        request = httpx.Request(
            "POST",
            address.url,
            headers={**headers, **own},
            stream=body,
            extensions={"timeout": self._timeout},
        )
        with _as_network_errors():
            response = await self._transport.handle_async_request(request)
        try:
            yield Answer(response)
        finally:
            with _as_network_errors():
                await response.aclose()

    async def aclose(self) -> None:
        """Close all connections that are not in use; those in use follow when they are released."""
        await self._transport.aclose()


@final
class RequestBody(httpx.AsyncByteStream):
    """The bytes of a request, which know whether they were asked for."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.is_sent = False
        """The head of a request with this body has been sent, and the body at least begun."""

    def __len__(self) -> int:
        return len(self._content)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Once(self)

    def hand_over(self) -> bytes:
        """Return the bytes, which are now sent."""
        self.is_sent = True
        return self._content


@final
class _Once:
    """An iterator over one body; a generator would be left to the collector by a cancelled request."""

    def __init__(self, body: RequestBody) -> None:
        self._body: RequestBody | None = body

    def __aiter__(self) -> _Once:
        return self

    async def __anext__(self) -> bytes:
        body, self._body = self._body, None
        if body is None:
            raise StopAsyncIteration
        return body.hand_over()


@contextmanager
def _as_network_errors() -> Iterator[None]:
    """Turn httpx's exceptions into ours."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
        raise ConnectFailedError(_words(error)) from error
    except httpx.HTTPError as error:
        raise ConnectionBrokenError(_words(error)) from error


def _words(error: httpx.HTTPError) -> str:
    text, name = str(error), type(error).__name__
    return name if not text or text == name else f"{name}: {text}"
