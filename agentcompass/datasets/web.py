"""Requests for published data: redirects followed, passing failures tried again, tokens sent to one server only."""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, TypeVar, cast, final

import attrs
import httpx
import trio

from agentcompass._version import __version__
from agentcompass.data import frozen
from agentcompass.errors import PreflightError
from agentcompass.net.address import Address
from agentcompass.net.proxies import open_transport, proxy_for
from agentcompass.net.retry import asked_wait_seconds, backoff_seconds

TRIES: Final = 6
"""Failures in a row, without a byte of progress, after which it is given up."""
BACKOFF_SECONDS = 1.0
"""Longest wait after the first failure, if the server names none; doubles."""
MAX_WAIT_SECONDS: Final = 300.0
"""A server that asks for a longer wait is not waited for."""
MAX_ANSWER_BYTES: Final = 128 * 1024 * 1024
"""Of answers that are read whole: lists of files."""
_TIMEOUTS: Final = {"connect": 30.0, "read": 60.0, "write": 60.0, "pool": None}
"""Seconds; of `read`, without a byte."""
_MAX_REDIRECTS: Final = 10
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_WORDS: Final = 300

T = TypeVar("T")


class PassingError(Exception):
    """A failure that may not come again.

    Args:
        reason: What happened.
        wait_seconds: What the server asks to wait; None if it does not say.
        has_advanced: Whether it came after some progress.
    """

    def __init__(
        self, reason: str, *, wait_seconds: float | None = None, has_advanced: bool = False
    ) -> None:
        super().__init__(reason)
        self.wait_seconds, self.has_advanced = wait_seconds, has_advanced


@frozen(kw_only=True)
class Request:
    """What is asked for."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = attrs.field(factory=dict)
    private: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """Headers that only the server of `url` gets to see, not one that it redirects to."""
    body: bytes = b""


@frozen(kw_only=True)
class Reply:
    """An answer that was read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str
    """Where it came from in the end."""

    def json(self, what: str) -> object:
        """Return the body as JSON; PreflightError if it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise PreflightError(f"{what}: {self.url} answered what is no JSON") from None

    @property
    def words(self) -> str:
        """The beginning of the body, for a message."""
        return " ".join(self.body[:_WORDS].decode(errors="replace").split())


@final
class Web:
    """Sends requests to any server. Close it at the end.

    Args:
        tell: Takes a line for people now and then.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell
        self._transports: dict[str, httpx.AsyncBaseTransport] = {}

    async def aclose(self) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            await transport.aclose()

    async def read(self, request: Request, what: str) -> Reply:
        """Return the whole answer, of whatever status that does not pass.

        Args:
            request: What is asked for.
            what: Is being obtained, for messages.

        Raises:
            PreflightError: There is none, also after several tries, or it is too long.
        """

        async def once() -> Reply:
            body = bytearray()

            async def take(chunk: bytes) -> None:
                body.extend(chunk)
                if len(body) > MAX_ANSWER_BYTES:
                    raise PreflightError(f"{what}: the answer of {request.url} does not end")

            async with self.ask(request) as response:
                await pour(response, take)
            headers = {name.lower(): value for name, value in response.headers.items()}
            final_url = str(response.request.url.copy_with(query=None))
            return Reply(
                status=response.status_code, headers=headers, body=bytes(body), url=final_url
            )

        return await self.persist(once, what)

    async def persist(self, once: Callable[[], Awaitable[T]], what: str) -> T:
        """Return what `once` returns, called again after each `PassingError` until there were too many of them.

        Raises:
            PreflightError: There were.
        """
        failures = 0
        while True:
            try:
                return await once()
            except PassingError as error:
                failures = 1 if error.has_advanced else failures + 1
                wait = error.wait_seconds
                if wait is None:
                    wait = backoff_seconds(
                        failures, base_seconds=BACKOFF_SECONDS, cap_seconds=60.0, random=random
                    )
                if failures >= TRIES or wait > MAX_WAIT_SECONDS:
                    asked = f"; it asks to wait for {wait:.0f} s" if wait > MAX_WAIT_SECONDS else ""
                    raise PreflightError(
                        f"{what} cannot be had: {error}{asked}",
                        hint="Try again later: what has come is kept.",
                    ) from error
                self.tell(f"{what}: {error}; once more in {math.ceil(wait)} s")
                await trio.sleep(wait)

    @asynccontextmanager
    async def ask(self, request: Request) -> AsyncIterator[httpx.Response]:
        """Send a request, follow redirects, and give the answer; its body is read with `pour`.

        Raises:
            PassingError: No answer, or one that says to try again.
            PreflightError: The address, a redirect or the proxy cannot be used.
        """
        async with AsyncExitStack() as stack:
            yield await self._follow(request, stack)

    async def _follow(self, request: Request, stack: AsyncExitStack) -> httpx.Response:
        start = here = _address(request.url)
        for _ in range(_MAX_REDIRECTS + 1):
            response = await self._send(request, here, is_private=_is_same(here, start))
            stack.push_async_callback(response.aclose)
            if response.status_code not in _REDIRECTS or "location" not in response.headers:
                _check_passing(response)
                return response
            here = _redirected(here, response.headers["location"])
            await stack.aclose()
        raise PreflightError(f"{request.url} leads round in circles")

    async def _send(self, request: Request, here: Address, *, is_private: bool) -> httpx.Response:
        headers = {
            "Host": here.url.netloc.decode("ascii"),
            "User-Agent": f"agentcompass/{__version__}",
            "Accept-Encoding": "identity",
            **request.headers,
        }
        if is_private:
            if here.authorization is not None:
                headers["Authorization"] = here.authorization
            headers.update(request.private)
        if request.body:
            headers["Content-Length"] = str(len(request.body))
        sent = httpx.Request(
            request.method,
            here.url,
            headers=headers,
            content=request.body,
            extensions={"timeout": _TIMEOUTS},
        )
        try:
            response = await self._transport(here.url).handle_async_request(sent)
        except httpx.HTTPError as error:
            raise PassingError(_failure(here, error)) from error
        response.request = sent
        return response

    def _transport(self, url: httpx.URL) -> httpx.AsyncBaseTransport:
        key = f"{url.scheme} {proxy_for(url)}"
        if key not in self._transports:
            try:
                self._transports[key] = open_transport(url)
            except ValueError as error:
                raise PreflightError(f"{url.host} cannot be reached: {error}") from error
        return self._transports[key]


async def pour(response: httpx.Response, take: Callable[[bytes], Awaitable[None]]) -> None:
    """Hand the body to `take` as it comes.

    What `take` raises is raised here, once the connection has come to rest: it stops by cancelling its own scope, never
    by leaving the loop, which would abandon the generators below.

    Raises:
        PassingError: The body ended too early or fell silent.
    """
    failure: Exception | None = None
    try:
        with trio.CancelScope() as scope:
            async for chunk in cast("AsyncIterable[bytes]", response.stream):
                if failure is not None:
                    continue
                try:
                    await take(chunk)
                except Exception as error:  # noqa: BLE001  # raised below
                    failure = error
                    scope.cancel(reason="the rest of this answer is of no use")
    except httpx.HTTPError as error:
        if failure is None:
            host = response.request.url.host
            raise PassingError(f"{host} broke off: {_said(error)}", has_advanced=True) from error
    if failure is not None:
        raise failure


def _address(url: str) -> Address:
    try:
        return Address.parse(url)
    except ValueError as error:
        raise PreflightError(f"a URL of a data set cannot be used: {error}") from None


def _is_same(one: Address, other: Address) -> bool:
    """Whether two addresses are of one server."""
    return (one.url.scheme, one.url.netloc) == (other.url.scheme, other.url.netloc)


def _redirected(here: Address, location: str) -> Address:
    try:
        there = Address.parse(str(here.url.join(location)))
    except (ValueError, httpx.InvalidURL):
        raise PreflightError(f"{here} redirects to what is no URL") from None
    if here.url.scheme == "https" and there.url.scheme != "https":
        raise PreflightError(f"{here} redirects to {there}, which is not encrypted")
    same = _is_same(here, there)
    return attrs.evolve(there, authorization=here.authorization) if same else there


def _check_passing(response: httpx.Response) -> None:
    if response.status_code not in _PASSING:
        return
    headers = {name.lower(): value for name, value in response.headers.items()}
    asked = asked_wait_seconds(headers, now=time.time())  # noqa: TID251  # compared with a date of the server's
    host = response.request.url.host
    meaning = (
        " (too many requests)" if response.status_code == httpx.codes.TOO_MANY_REQUESTS else ""
    )
    raise PassingError(f"{host} answered {response.status_code}{meaning}", wait_seconds=asked)


def _failure(here: Address, error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
        return f"no connection to {here.url.netloc.decode('ascii')}: {_said(error)}"
    return f"{here.url.host} gave no answer: {_said(error)}"


def _said(error: httpx.HTTPError) -> str:
    return str(error) or type(error).__name__
