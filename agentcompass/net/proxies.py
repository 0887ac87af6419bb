"""Proxies named by the environment: through them requests go over httpx's own transport, in small shards.

httpx's pool walks through all of its connections for every request and may close one that it has just handed out;
with few connections in each pool neither is felt.
"""

from __future__ import annotations

import urllib.request
from collections.abc import AsyncIterator
from typing import Final, final

import httpx

from agentcompass.net.lanes import StackTransport, ssl_context

SHARD_SIZE: Final = 16
"""Requests in flight at once in one pool."""


def open_transport(url: httpx.URL) -> httpx.AsyncBaseTransport:
    """Return the transport for requests to `url`: lanes, or shards where the environment names a proxy.

    `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` count, in either case, as for curl.

    Raises:
        ValueError: The proxy's URL cannot be used, or is SOCKS and the package for that is not installed; or the
            certificates that the environment names cannot be loaded. The message does not repeat the proxy's URL,
            which may hold a password.
    """
    if url.scheme == "https":
        try:
            ssl_context()
        except OSError as error:
            raise ValueError(
                f"no TLS certificates (SSL_CERT_FILE, SSL_CERT_DIR): {error}"
            ) from error
    address = proxy_for(url)
    if address is None:
        return StackTransport()
    try:
        proxy = httpx.Proxy(address)
        return ShardedTransport(proxy)
    except (ValueError, httpx.InvalidURL) as error:
        raise ValueError("the proxy that the environment names has no valid URL") from error
    except ImportError as error:
        raise ValueError(
            "the environment names a SOCKS proxy: that needs `pip install 'httpx[socks]'`"
        ) from error


def proxy_for(url: httpx.URL) -> str | None:
    """Return the URL of the proxy that the environment names for `url`, or None."""
    proxies = urllib.request.getproxies()
    address = proxies.get(url.scheme) or proxies.get("all")
    if not address or urllib.request.proxy_bypass(url.netloc.decode("ascii")):
        return None
    return address if "://" in address else f"http://{address}"


@final
class ShardedTransport(httpx.AsyncBaseTransport):
    """As many httpx pools as are needed to have at most `SHARD_SIZE` requests in each.

    Args:
        proxy: Where all requests go.
    """

    def __init__(self, proxy: httpx.Proxy) -> None:
        self._proxy = proxy
        self._shards: list[httpx.AsyncHTTPTransport] = []
        self._places: list[httpx.AsyncHTTPTransport] = []
        """One entry for each request that a shard could take now; the most recently used last."""
        self._add_shard()

    @property
    def n_shards(self) -> int:
        """Pools so far."""
        return len(self._shards)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request through the proxy."""
        if not self._places:
            self._add_shard()
        shard = self._places.pop()
        try:
            response = await shard.handle_async_request(request)
        except BaseException:
            self._places.append(shard)
            raise
        assert isinstance(
            response.stream, httpx.AsyncByteStream
        )  # httpx's async transports give no other
        response.stream = _ShardStream(response.stream, self._places, shard)
        return response

    async def aclose(self) -> None:
        """Close all connections."""
        for shard in self._shards:
            await shard.aclose()

    def _add_shard(self) -> None:
        shard = httpx.AsyncHTTPTransport(
            verify=ssl_context(),
            proxy=self._proxy,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=SHARD_SIZE),
        )
        self._shards.append(shard)
        self._places += [shard] * SHARD_SIZE


@final
class _ShardStream(httpx.AsyncByteStream):
    """The body of an answer; closing it gives the shard's place back."""

    def __init__(
        self,
        stream: httpx.AsyncByteStream,
        places: list[httpx.AsyncHTTPTransport],
        shard: httpx.AsyncHTTPTransport,
    ) -> None:
        self._stream, self._places, self._shard = stream, places, shard
        self._is_open = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._stream)

    async def aclose(self) -> None:
        if self._is_open:
            self._is_open = False
            try:
                await self._stream.aclose()
            finally:
                self._places.append(self._shard)
