"""One request to an engine, and what comes back: a body, or a connection that carries bytes both ways."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Final, final
from urllib.parse import quote, urlencode

import attrs
import httpcore
import httpx
import trio

from agentcompass.containers.errors import DockerError, as_docker_errors
from agentcompass.data import frozen
from agentcompass.net.lanes import as_httpx_errors

CONNECT_SECONDS: Final = 30.0
_READ_BYTES: Final = 128 * 1024


@final
@frozen(kw_only=True)
class Ask:
    """What is asked of an engine."""

    method: str = attrs.field(kw_only=False)
    """Of HTTP."""
    path: str = attrs.field(kw_only=False)
    """Without the API version; see `path_of`."""
    action: str = attrs.field(kw_only=False)
    """What it does, for messages: "create the container x"."""
    query: Mapping[str, object] = attrs.field(factory=dict)
    """True is sent as 1, None and False are left out, mappings and lists are sent as JSON."""
    body: object = attrs.field(default=None, repr=False)
    """Sent as JSON; None: nothing is sent."""
    content: httpx.AsyncByteStream | None = attrs.field(default=None, repr=False)
    """Sent as a tar stream, in place of `body`."""
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    seconds: float | None = None
    """For sending it and for the whole answer; of a stream, for its beginning. None: `Docker.call_seconds`."""
    silence_seconds: float | None = None
    """How long the engine may take nothing of the content, or send nothing of its answer."""

    def request(self, origin: str) -> httpx.Request:
        """Return it as HTTP has it."""
        # httpx adds a host only to bodies that it knows.
        headers = {"Host": httpx.URL(origin).netloc.decode("ascii"), "Accept-Encoding": "identity"}
        content = None
        if self.content is not None:
            headers |= {"Content-Type": "application/x-tar", "Transfer-Encoding": "chunked"}
        elif self.body is not None:
            content = json.dumps(self.body).encode()
            headers["Content-Type"] = "application/json"
        limits = {
            "connect": CONNECT_SECONDS,
            "read": self.silence_seconds,
            "write": self.silence_seconds,
        }
        return httpx.Request(
            self.method,
            f"{origin}{self.path}{self._encoded_query()}",
            headers={**headers, **self.headers},
            content=content,
            stream=self.content,
            extensions={"timeout": limits},
        )

    def _encoded_query(self) -> str:
        given = {
            name: _as_text(value)
            for name, value in self.query.items()
            if value is not None and value is not False
        }
        return f"?{urlencode(given)}" if given else ""


def path_of(*parts: str) -> str:
    """Return the path made of names, which may hold any character."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def _as_text(value: object) -> str:
    if isinstance(value, (dict, list)):
        return json.dumps(value)
    return "1" if value is True else str(value)


@final
class Body:
    """The bytes of an answer, as they come: an iterator over chunks.

    Args:
        response: Whose head has come.
        action: Of the request.
        where: The engine's address.

    Attributes:
        headers: Of the answer.
    """

    def __init__(self, response: httpx.Response, action: str, where: str) -> None:
        self.headers: Final[Mapping[str, str]] = response.headers
        self._response, self._action, self._where = response, action, where
        assert isinstance(response.stream, httpx.AsyncByteStream)  # the transport's
        self._chunks: AsyncIterator[bytes] = aiter(response.stream)
        self._is_over = False

    def __aiter__(self) -> Body:
        return self

    async def __anext__(self) -> bytes:
        with as_docker_errors(self._action, self._where):
            try:
                return await anext(self._chunks)
            except BaseException:
                self._is_over = True
                raise

    async def read(self, max_bytes: int) -> bytes:
        """Return all of it.

        Raises:
            DockerError: It is longer than `max_bytes`.
        """
        data = bytearray()
        async for chunk in self:
            data += chunk
            if len(data) > max_bytes:
                raise DockerError(f"the engine's answer is too long: it was to {self._action}")
        return bytes(data)

    async def aclose(self) -> None:
        """Release the connection, which is closed unless all was read."""
        # Left alone, the generators below would be ended by the garbage collector at some other time; cancelled in
        # a read, they end now.
        with trio.CancelScope() as scope, contextlib.suppress(DockerError):
            scope.cancel(reason="the rest of this answer is of no use")
            while not self._is_over:
                await anext(self, None)
        with contextlib.suppress(httpx.HTTPError):
            await self._response.aclose()


@final
class Duplex:
    """A connection that carries bytes both ways.

    Args:
        response: Whose head has come.
        action: Of the request.
        where: The engine's address.
    """

    def __init__(self, response: httpx.Response, action: str, where: str) -> None:
        self._response, self._action, self._where = response, action, where
        self._stream: httpcore.AsyncNetworkStream = response.extensions["network_stream"]

    async def receive(self) -> bytes:
        """Return the next bytes; empty at their end."""
        with as_docker_errors(self._action, self._where), as_httpx_errors():
            return await self._stream.read(_READ_BYTES)

    async def send(self, data: bytes) -> None:
        """Send all of `data`.

        Raises:
            DockerError: The other side takes no more.
        """
        with as_docker_errors(self._action, self._where), as_httpx_errors():
            await self._stream.write(data)

    def send_eof(self) -> None:
        """Tell the other side that no more comes, and go on receiving.

        On TLS too, without the formal goodbye: engines take the end of the connection between two records for it.
        """
        with contextlib.suppress(OSError):  # nobody is there any more
            self._stream.get_extra_info("socket").shutdown(socket.SHUT_WR)

    async def aclose(self) -> None:
        """Close the connection."""
        with contextlib.suppress(httpx.HTTPError):
            await self._response.aclose()
