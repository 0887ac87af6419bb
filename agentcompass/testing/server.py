"""A model endpoint for tests: a real HTTP server on 127.0.0.1 that does what a script says and remembers what it was asked.

It runs in threads of its own, so that tests on trio, on asyncio, and tests with subprocesses can all use it.
"""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self, final

from agentcompass.testing.reactions import Behaviour, Reaction, Seen, Then, as_function, echo


@final
class FakeEndpoint:
    """The server; use as a context manager. All attributes may be read from any thread, at any time.

    Args:
        behaviour: What it does, see the module.
        port: 0 for any free one.
        on_request: Told of each request before it is answered.
    """

    def __init__(
        self,
        behaviour: Behaviour = echo,
        *,
        port: int = 0,
        on_request: Callable[[Seen], None] = lambda _seen: None,
    ) -> None:
        self._react = as_function(behaviour)
        self._on_request = on_request
        self._changed = threading.Condition()
        self._requests: list[Seen] = []
        self._in_flight = 0
        self.peak_in_flight = 0
        """The most requests that were being answered at one time."""
        self._sockets: dict[int, socket.socket] = {}
        self._threads: list[threading.Thread] = []
        self._numbers = itertools.count()
        self._stopping = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`, without a path."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """The same with `/v1`."""
        return f"{self.url}/v1"

    @property
    def requests(self) -> tuple[Seen, ...]:
        """Every request so far, in the order of arrival."""
        with self._changed:
            return tuple(self._requests)

    @property
    def n_connections(self) -> int:
        """Connections accepted so far."""
        return len(self._threads)

    @property
    def n_open_connections(self) -> int:
        """Connections that neither side has closed, as far as the server noticed."""
        with self._changed:
            return len(self._sockets)

    def wait_for_requests(self, count: int, *, timeout_seconds: float = 10.0) -> None:
        """Block until `count` requests have arrived; from trio, call it in a thread."""
        self._wait(lambda: len(self._requests) >= count, f"{count} requests", timeout_seconds)

    def wait_for_open_connections(self, count: int, *, timeout_seconds: float = 10.0) -> None:
        """Block until exactly `count` connections are open."""
        self._wait(lambda: len(self._sockets) == count, f"{count} connections", timeout_seconds)

    def close_idle_connections(self) -> None:
        """Close every connection from the server's side, as servers do with idle ones."""
        with self._changed:
            for connection in self._sockets.values():
                _shut_down(connection)

    def start(self) -> Self:
        """Begin to serve; what `with` does."""
        self._acceptor = threading.Thread(target=self._accept, name="fake-endpoint", daemon=True)
        self._acceptor.start()
        return self

    def stop(self) -> None:
        """End all connections and threads."""
        self._stopping.set()
        _shut_down(self._listener)
        self._acceptor.join()
        self._listener.close()
        self.close_idle_connections()
        for thread in self._threads:
            thread.join(timeout=10)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def _wait(self, condition: Callable[[], bool], what: str, timeout_seconds: float) -> None:
        with self._changed:
            if not self._changed.wait_for(condition, timeout_seconds):
                raise AssertionError(
                    f"no {what} within {timeout_seconds} s: "
                    f"{len(self._requests)} requests, {len(self._sockets)} connections"
                )

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                connection, _address = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number = len(self._threads)
            with self._changed:
                self._sockets[number] = connection
                self._changed.notify_all()
            thread = threading.Thread(
                target=self._serve, args=(number, connection), name=f"fake-{number}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _serve(self, number: int, connection: socket.socket) -> None:
        try:
            with contextlib.suppress(OSError), connection.makefile("rb") as reader:
                while (seen := self._read(reader, number)) is not None:
                    if not self._answer(seen, connection):
                        break
        finally:
            with self._changed:
                del self._sockets[number]
                _shut_down(connection)
                connection.close()
                self._changed.notify_all()

    def _read(self, reader: Any, connection_number: int) -> Seen | None:
        start = reader.readline()
        parts = start.decode("latin-1").split()
        if len(parts) != 3:  # the end, or no HTTP
            return None
        method, target, _version = parts
        headers: dict[str, str] = {}
        while line := reader.readline().decode("latin-1").strip():
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        size = int(headers.get("content-length", 0))
        body = reader.read(size)
        if len(body) < size:
            return None
        with self._changed:
            seen = Seen(
                method=method,
                target=target,
                headers=headers,
                body=body,
                connection=connection_number,
                number=next(self._numbers),
            )
            self._requests.append(seen)
            self._in_flight += 1
            self.peak_in_flight = max(self.peak_in_flight, self._in_flight)
            self._changed.notify_all()
        return seen

    def _answer(self, seen: Seen, connection: socket.socket) -> bool:
        """React to a request; return whether the connection goes on."""
        is_counted = True
        try:
            self._on_request(seen)
            reaction = self._react(seen)
            self._hold(reaction)
            pieces = reaction.wire()
            if reaction.then == "keep" and reaction.send_bytes is None:
                # the next request may follow the last byte at once: this one must not count any more
                self._send(connection, pieces[:-1], reaction)
                self._leave()
                is_counted = False
                self._send(connection, pieces[-1:], reaction.but(pause_seconds=0))
                return True
            self._send(connection, _first_bytes(pieces, reaction.send_bytes), reaction)
            return self._end(connection, reaction.then)
        finally:
            if is_counted:
                self._leave()

    def _leave(self) -> None:
        with self._changed:
            self._in_flight -= 1

    def _hold(self, reaction: Reaction) -> None:
        if reaction.gate is not None:
            while not (reaction.gate.wait(0.05) or self._stopping.is_set()):
                pass
        if reaction.delay_seconds:
            self._stopping.wait(reaction.delay_seconds)

    def _send(self, connection: socket.socket, pieces: Sequence[bytes], reaction: Reaction) -> None:
        for index, piece in enumerate(pieces):
            if index > 1 and reaction.pause_seconds:
                self._stopping.wait(reaction.pause_seconds)
            connection.sendall(piece)

    def _end(self, connection: socket.socket, then: Then) -> bool:
        if then == "reset":
            # zero linger: close() sends RST instead of FIN
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        elif then == "stall":
            # until the client, or `stop`, ends the connection
            while connection.recv(65536):
                pass
        return then == "keep"


def _first_bytes(pieces: Sequence[bytes], limit: int | None) -> list[bytes]:
    if limit is None:
        return list(pieces)
    kept: list[bytes] = []
    for piece in pieces:
        kept.append(piece[:limit])
        limit -= len(kept[-1])
    return [piece for piece in kept if piece]


def _shut_down(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
