"""Connections: a stack of idle ones, and nothing shared."""

import http.server
import shutil
import ssl
import subprocess
import threading

import httpx
import pytest
import trio

from agentcompass.net import lanes
from agentcompass.net.lanes import StackTransport, as_httpx_errors, ssl_context
from agentcompass.testing import FakeEndpoint, chat, no_answer
from agentcompass.testing.behaviours import BIG_SIZE


async def ask(transport, url, body=b"{}"):
    request = httpx.Request("POST", url, content=body)
    response = await transport.handle_async_request(request)
    try:
        return await response.aread()
    finally:
        await response.aclose()


@pytest.fixture
async def transport():
    opened = StackTransport()
    yield opened
    await opened.aclose()


async def test_one_connection_serves_one_request_after_another(transport):
    with FakeEndpoint(chat("x")) as endpoint:
        for _ in range(5):
            assert b'"x"' in await ask(transport, endpoint.url)
        assert endpoint.n_connections == 1


async def ask_together(transport, endpoint, gate, count):
    """Make requests that are all in flight at one time."""
    n_before = len(endpoint.requests)
    gate.clear()
    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(ask, transport, endpoint.url)
        await trio.to_thread.run_sync(endpoint.wait_for_requests, n_before + count)
        gate.set()


async def test_requests_at_once_have_a_connection_each_and_use_it_again(transport):
    gate = threading.Event()
    with FakeEndpoint(chat("x").but(gate=gate)) as endpoint:
        for _ in range(3):
            await ask_together(transport, endpoint, gate, 20)
        assert endpoint.n_connections == endpoint.peak_in_flight == transport.n_idle == 20


async def test_connections_that_are_not_needed_any_more_grow_old_and_go(transport, monkeypatch):
    monkeypatch.setattr(lanes, "IDLE_EXPIRY_SECONDS", 0.05)
    gate = threading.Event()
    with FakeEndpoint(chat("x").but(gate=gate)) as endpoint:
        await ask_together(transport, endpoint, gate, 5)
        for _ in range(10):
            await trio.sleep(0.02)
            await ask(transport, endpoint.url)
        assert transport.n_idle == 1
        await trio.to_thread.run_sync(endpoint.wait_for_open_connections, 1)


async def test_a_connection_closed_by_the_server_is_replaced_in_silence(transport):
    with FakeEndpoint(chat("x")) as endpoint:
        await ask(transport, endpoint.url)
        endpoint.close_idle_connections()
        await trio.to_thread.run_sync(endpoint.wait_for_open_connections, 0)
        await ask(transport, endpoint.url)
        assert endpoint.n_connections == len(endpoint.requests) == 2


@pytest.mark.parametrize("then", ["close", "reset"])
async def test_a_used_connection_that_dies_without_a_byte_is_replaced_once(transport, then):
    with FakeEndpoint([chat("x"), no_answer(then), chat("y")]) as endpoint:
        await ask(transport, endpoint.url)
        assert b'"y"' in await ask(transport, endpoint.url)
        assert [seen.connection for seen in endpoint.requests] == [0, 0, 1]


async def test_a_new_connection_that_dies_without_a_byte_is_an_error(transport):
    with FakeEndpoint(no_answer("close")) as endpoint:
        with pytest.raises(httpx.RemoteProtocolError):
            await ask(transport, endpoint.url)
        assert len(endpoint.requests) == 1


async def test_a_used_connection_that_dies_within_the_head_is_an_error(transport):
    with FakeEndpoint([chat("x"), chat("y").but(send_bytes=10, then="close")]) as endpoint:
        await ask(transport, endpoint.url)
        with pytest.raises(httpx.RemoteProtocolError):
            await ask(transport, endpoint.url)
        assert len(endpoint.requests) == 2


async def test_a_body_that_breaks_is_an_error_and_its_connection_is_gone(transport):
    with FakeEndpoint(chat("x" * 1000).but(send_bytes=500, then="reset")) as endpoint:
        with pytest.raises(httpx.TransportError):
            await ask(transport, endpoint.url)
        assert transport.n_idle == 0


async def test_nobody_listening_is_a_connect_error(transport):
    with FakeEndpoint() as endpoint:
        url = endpoint.url
    with pytest.raises(httpx.ConnectError):
        await ask(transport, url)


@pytest.mark.parametrize("host", ["a" * 80 + ".invalid", "no-such-host.invalid"])
async def test_an_impossible_host_is_a_connect_error(transport, host):
    with pytest.raises(httpx.ConnectError):
        await ask(transport, f"http://{host}:1/")


async def test_cancelled_requests_leave_no_connection_and_do_not_disturb_others(transport):
    with FakeEndpoint(
        lambda seen: no_answer("stall") if seen.target == "/stall" else chat("x")
    ) as endpoint:
        with trio.move_on_after(10) as scope:
            async with trio.open_nursery() as nursery:
                for _ in range(50):
                    nursery.start_soon(ask, transport, endpoint.url + "/stall")
                await trio.to_thread.run_sync(endpoint.wait_for_requests, 50)
                scope.cancel()
        await trio.to_thread.run_sync(endpoint.wait_for_open_connections, 0)
        assert transport.n_idle == 0
        for _ in range(3):
            await ask(transport, endpoint.url)
        assert transport.n_idle == 1


async def test_a_request_cancelled_in_the_middle_of_a_body_closes_its_connection(transport):
    with FakeEndpoint(chat("x" * 1000).but(send_bytes=500, then="stall")) as endpoint:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask, transport, endpoint.url)
                await trio.to_thread.run_sync(endpoint.wait_for_requests, 1)
                scope.cancel()
        await trio.to_thread.run_sync(endpoint.wait_for_open_connections, 0)


async def test_a_request_cancelled_during_a_tls_handshake_closes_its_socket(transport):
    listener = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery, listener[0]:
        nursery.start_soon(ask, transport, f"https://127.0.0.1:{port}/")
        async with await listener[0].accept() as connection:
            assert await connection.receive_some()  # the client's hello, which is never answered
            nursery.cancel_scope.cancel()
            with trio.fail_after(5) as limit:
                limit.shield = True
                while await connection.receive_some():
                    pass


async def test_a_large_answer_and_a_large_request_pass(transport):
    with FakeEndpoint(lambda seen: chat("x" * len(seen.body))) as endpoint:
        assert len(await ask(transport, endpoint.url, b"y" * BIG_SIZE)) > BIG_SIZE


async def test_closing_closes_idle_connections():
    transport = StackTransport()
    with FakeEndpoint(chat("x")) as endpoint:
        await ask(transport, endpoint.url)
        await transport.aclose()
        await trio.to_thread.run_sync(endpoint.wait_for_open_connections, 0)


async def test_a_connection_in_use_while_closing_is_closed_when_it_comes_back():
    transport, gate = StackTransport(), threading.Event()
    with FakeEndpoint(chat("x").but(gate=gate)) as endpoint:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, transport, endpoint.url)
            await trio.to_thread.run_sync(endpoint.wait_for_requests, 1)
            await transport.aclose()
            gate.set()
        assert transport.n_idle == 0
        await trio.to_thread.run_sync(endpoint.wait_for_open_connections, 0)


async def test_256_requests_at_once(transport):
    gate = threading.Event()
    with FakeEndpoint(chat("x").but(gate=gate)) as endpoint:
        await ask_together(transport, endpoint, gate, 256)
        assert endpoint.n_connections == endpoint.peak_in_flight == 256


def test_tls_is_verified_with_one_context_for_all():
    assert ssl_context() is ssl_context()
    assert ssl_context().verify_mode is ssl.CERT_REQUIRED
    assert ssl_context().check_hostname


class Secure(http.server.BaseHTTPRequestHandler):
    """Says on which connection a request came."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        body = str(self.client_address[1]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args):
        pass


@pytest.fixture
def secure(tmp_path):
    """The URL of a server with a certificate of its own, `cert.pem`."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    make = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 9 -subj /CN=localhost"
    make += " -addext subjectAltName=DNS:localhost"
    subprocess.run(make.split(), cwd=tmp_path, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    server = http.server.HTTPServer(("127.0.0.1", 0), Secure, False)
    server.handle_error = lambda *_: None
    server.server_bind()
    server.server_activate()
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"https://localhost:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_a_certificate_of_nobody_is_refused(transport, secure):
    with pytest.raises(httpx.ConnectError, match="certificate"):
        await ask(transport, secure)


async def test_a_certificate_that_the_machine_trusts_is_accepted_once_for_many_requests(
    transport, secure, tmp_path, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    ssl_context.cache_clear()
    try:
        said = {await ask(transport, secure) for _ in range(3)}
    finally:
        ssl_context.cache_clear()
        await transport.aclose()
    assert len(said) == 1


@pytest.mark.parametrize(
    "error", [OSError("lost"), UnicodeError("lost"), trio.BrokenResourceError("lost")]
)
def test_whatever_the_network_raises_is_what_a_transport_owes(error):
    with pytest.raises(httpx.ConnectError, match="lost") as caught, as_httpx_errors():
        raise error
    assert caught.value.__cause__ is error


def test_a_fault_of_ours_stays_what_it_is():
    with pytest.raises(KeyError), as_httpx_errors():
        raise KeyError
