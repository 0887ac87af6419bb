"""A small HTTP server on 127.0.0.1 in threads of its own, whose answers may go wrong; remembers what it was asked."""

from __future__ import annotations

import contextlib
import http.server
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from urllib.parse import parse_qs, unquote, urlsplit

import attrs


@attrs.frozen(kw_only=True)
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    """Decoded, without the query."""
    query: dict[str, str]
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes
    raw_query: str = ""


@attrs.frozen(kw_only=True)
class Given:
    """An answer."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = attrs.field(factory=dict)
    cut_after: int | None = None
    """Bytes of the body after which the connection is reset."""
    gate: threading.Event | None = None
    """Awaited after those bytes, instead of resetting."""


Answer = Callable[[Asked], Given]


class Loopback:
    """Serves while its context is open.

    Attributes:
        url: Its address, without a slash at the end.
        asked: All requests, in order.
        faults: Answers that come instead of the usual ones, by the end of a path; each is used once.
    """

    def __init__(self, answer: Answer) -> None:
        self.asked: list[Asked] = []
        self.faults: list[tuple[str, str, Callable[[Asked, Answer], Given]]] = []
        self._answer = answer
        self._lock = threading.Lock()
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                server._handle(self)

            do_POST = do_HEAD = do_GET

            def log_message(self, *args):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def netloc(self) -> str:
        return self.url.removeprefix("http://")

    def __enter__(self):
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        ).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def paths(self, method: str = "GET") -> list[str]:
        return [asked.path for asked in self.asked if asked.method == method]

    def fail(self, path: str, *givens: Given, method: str = "GET") -> None:
        """Answer the next requests for a path that ends so with these."""
        for given in givens:
            self.faults.append((method, path, lambda _asked, _answer, given=given: given))

    def spoil(self, path: str, **changes: object) -> None:
        """Change the next answer for a path that ends so."""
        self.faults.append(
            ("GET", path, lambda asked, answer: attrs.evolve(answer(asked), **changes))
        )

    def _handle(self, handler):
        parts = urlsplit(handler.path)
        asked = Asked(
            method=handler.command,
            path=unquote(parts.path),
            query={name: values[0] for name, values in parse_qs(parts.query).items()},
            headers={name.lower(): value for name, value in handler.headers.items()},
            body=_body(handler),
            raw_query=parts.query,
        )
        with self._lock:
            self.asked.append(asked)
            fault = next(
                (f for f in self.faults if f[0] == asked.method and asked.path.endswith(f[1])), None
            )
            if fault:
                self.faults.remove(fault)
        given = fault[2](asked, self._answer) if fault else self._answer(asked)
        with contextlib.suppress(OSError):
            _send(handler, asked, given)


def _body(handler) -> bytes:
    if handler.headers.get("transfer-encoding", "").lower() != "chunked":
        return handler.rfile.read(int(handler.headers.get("content-length") or 0))
    body = b""
    while size := int(handler.rfile.readline().split(b";")[0], 16):
        body += handler.rfile.read(size)
        handler.rfile.readline()
    handler.rfile.readline()
    return body


def _send(handler, asked: Asked, given: Given) -> None:
    body, status, headers = given.body, given.status, dict(given.headers)
    wanted = asked.headers.get("range", "")
    if wanted.startswith("bytes=") and status == 200 and headers.get("accept-ranges") == "bytes":
        start = int(wanted[6:].split("-")[0])
        status, whole = 206, len(body)
        headers["content-range"] = f"bytes {start}-{whole - 1}/{whole}"
        body = body[start:]
    handler.send_response(status)
    headers.setdefault("content-length", str(len(body)))
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    if asked.method == "HEAD":
        return
    if given.cut_after is None:
        handler.wfile.write(body)
        return
    handler.wfile.write(body[: given.cut_after])
    handler.wfile.flush()
    if given.gate is not None:
        given.gate.wait(60)
    linger = struct.pack("ii", 1, 0)
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    handler.connection.close()
    handler.close_connection = True


@contextlib.contextmanager
def serving(answer: Answer) -> Iterator[Loopback]:
    with Loopback(answer) as server:
        yield server
