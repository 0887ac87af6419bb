"""Proxies named by the environment."""

import sys
import threading

import httpx
import pytest
import trio

from agentcompass.net.lanes import StackTransport, ssl_context
from agentcompass.net.proxies import SHARD_SIZE, ShardedTransport, open_transport, proxy_for
from agentcompass.testing import FakeEndpoint, chat

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "request_method")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_without_a_proxy_there_are_lanes():
    assert isinstance(open_transport(httpx.URL("http://host/")), StackTransport)


@pytest.mark.parametrize(
    ("variables", "url", "proxy"),
    [
        ({"HTTP_PROXY": "http://p:1"}, "http://host", "http://p:1"),
        ({"https_proxy": "p:1"}, "https://host", "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1"}, "http://host", None),
        ({"ALL_PROXY": "http://p:2"}, "https://host", "http://p:2"),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "host"}, "http://host:80", None),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": ".corp"}, "http://a.corp:8000/v1", None),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "*"}, "http://host", None),
        ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "other"}, "http://host", "http://p:1"),
    ],
)
def test_the_usual_variables_count(monkeypatch, variables, url, proxy):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(httpx.URL(url)) == proxy


@pytest.mark.parametrize("proxy", ["gopher://me:secret@p", "http://me:sec/ret@p:1"])
def test_an_unusable_proxy_is_told_without_its_password(monkeypatch, proxy):
    monkeypatch.setenv("HTTP_PROXY", proxy)
    with pytest.raises(ValueError, match="proxy") as caught:
        open_transport(httpx.URL("http://host/"))
    assert "sec" not in str(caught.value)


async def test_requests_go_to_the_proxy_a_few_to_a_shard(monkeypatch):
    gate = threading.Event()
    with FakeEndpoint(chat("x").but(gate=gate)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        transport = open_transport(httpx.URL("http://far.invalid/"))
        assert isinstance(transport, ShardedTransport)

        async def ask():
            request = httpx.Request("POST", "http://far.invalid/v1", content=b"{}")
            response = await transport.handle_async_request(request)
            await response.aread()
            await response.aclose()

        for _ in range(2):
            async with trio.open_nursery() as nursery:
                for _ in range(SHARD_SIZE + 1):
                    nursery.start_soon(ask)
                await trio.to_thread.run_sync(proxy.wait_for_requests, SHARD_SIZE + 1)
                gate.set()
        assert transport.n_shards == 2
        assert proxy.requests[0].target == "http://far.invalid/v1"
        await transport.aclose()


def test_a_socks_proxy_without_its_package_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", "socks5://p:1")
    with pytest.raises(ValueError, match=r"httpx\[socks\]"):
        open_transport(httpx.URL("http://host/"))


def test_certificates_that_are_not_there_are_told(monkeypatch, tmp_path):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    ssl_context.cache_clear()
    with pytest.raises(ValueError, match="SSL_CERT_FILE"):
        open_transport(httpx.URL("https://host/"))


async def test_failed_requests_do_not_use_up_a_shard(monkeypatch):
    with FakeEndpoint() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
    transport = open_transport(httpx.URL("http://far.invalid/"))
    for _ in range(SHARD_SIZE + 1):
        with pytest.raises(httpx.ConnectError):
            await transport.handle_async_request(httpx.Request("POST", "http://far.invalid/v1"))
    assert transport.n_shards == 1
    await transport.aclose()
