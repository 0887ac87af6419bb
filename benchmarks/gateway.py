"""What the gateway adds to a model call, and to each piece of a stream, beside the same calls without it.

Endpoint, gateway and caller are a process each, as they are where agents work. Calls are made one after the other; a request
is as long as those of coding agents. Each piece of a stream carries the time at which the endpoint sent it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from benchmarks import measure

REQUEST_BYTES = 80_000
PIECES = 200
PAUSE_SECONDS = 0.002
"""Between two pieces of a stream."""
WARM_UP = 20


# --- the endpoint


class _Endpoint(asyncio.Protocol):
    def __init__(self) -> None:
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        end = self._data.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        length = int(self._data[:end].lower().split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self._data) < end + length:
            return
        body, self._data = self._data[end : end + length], self._data[end + length :]
        if b'"stream": true' in body or b'"stream":true' in body:
            self._task = asyncio.ensure_future(self._stream())
        else:
            self._answer()

    def _answer(self) -> None:
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "42"},
            "finish_reason": "stop",
        }
        usage = {"prompt_tokens": 12, "completion_tokens": 6, "total_tokens": 18}
        body = json.dumps({"id": "r", "model": "m", "choices": [choice], "usage": usage}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        self._transport.write(head.encode() + b"\r\n\r\n" + body)

    async def _stream(self) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked"
        self._transport.write(head + b"\r\n\r\n")
        for _ in range(PIECES):
            await asyncio.sleep(PAUSE_SECONDS)
            choice = {"index": 0, "delta": {"content": str(time.monotonic_ns())}}
            self._send({"choices": [choice]})
        self._send({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        self._transport.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    def _send(self, payload: object) -> None:
        event = b"data: " + json.dumps(payload).encode() + b"\n\n"
        self._transport.write(b"%x\r\n%b\r\n" % (len(event), event))


async def serve_endpoint() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Endpoint, "127.0.0.1", 0)
    print(json.dumps({"port": server.sockets[0].getsockname()[1], "key": "k"}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until whoever started this has gone


# --- the gateway


def serve_gateway(port: int) -> None:
    import trio

    from agentcompass.components.base import Inlet
    from agentcompass.components.models import open_client
    from agentcompass.secrets import Secret
    from agentcompass.spec.resolved import ModelConfig

    class Door:
        @contextlib.asynccontextmanager
        async def listen(self) -> Any:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            async with listener:
                _host, own = listener.socket.getsockname()
                yield Inlet(host="127.0.0.1", port=own, listener=listener)

    async def main() -> None:
        config = ModelConfig(
            id="m", base_url=f"http://127.0.0.1:{port}/v1", api_key=Secret("the-real-key")
        )
        client = open_client(config, harness_protocols=("openai-chat",), prices={})
        async with client.lend(print).serve(Door()) as gateway:  # type: ignore[arg-type]  # all that it needs
            own = int(gateway.url.rpartition(":")[2])
            print(json.dumps({"port": own, "key": gateway.key}), flush=True)
            await trio.to_thread.run_sync(sys.stdin.read)

    trio.run(main)


# --- the caller


class Caller:
    """One connection."""

    def __init__(self, place: Any) -> None:
        self._socket = socket.create_connection(("127.0.0.1", place["port"]))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._key = place["key"]

    def _ask(self, *, stream: bool) -> None:
        messages = [{"role": "user", "content": "x" * REQUEST_BYTES}]
        body = json.dumps({"model": "m", "messages": messages, "stream": stream}).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)

    def call(self) -> float:
        """Make a call; returns its milliseconds."""
        started = time.perf_counter()
        self._ask(stream=False)
        data = b""
        while not data.endswith(b"}}"):
            data += self._socket.recv(65536)
        assert data.startswith(b"HTTP/1.1 200")
        return 1000 * (time.perf_counter() - started)

    def pieces(self) -> list[float]:
        """Read a stream; returns how old each piece was when it came, in milliseconds."""
        self._ask(stream=True)
        ages: list[float] = []
        data = b""
        while not data.endswith(b"0\r\n\r\n"):
            data += self._socket.recv(65536)
            now = time.monotonic_ns()
            *complete, rest = data.split(b"\n\n")
            for event in complete:
                if b'"content": "' in event:
                    sent = int(event.split(b'"content": "')[1].split(b'"')[0])
                    ages.append((now - sent) / 1e6)
            data = rest
        assert len(ages) == PIECES
        return ages


@contextlib.contextmanager
def _child(*words: str) -> Iterator[Any]:
    argv = [sys.executable, "-m", "benchmarks.gateway", *words]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=measure.ROOT
    ) as child:
        assert child.stdout is not None
        try:
            yield json.loads(child.stdout.readline())
        finally:
            child.kill()


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def run(*, quick: bool) -> dict[str, Any]:
    """Measure, print the table and return the figures."""
    calls, streams = (100, 2) if quick else (1000, 10)
    found: dict[str, dict[str, list[float]]] = {}
    with _child("endpoint") as endpoint, _child("gateway", str(endpoint["port"])) as gateway:
        callers = {"direct": Caller(endpoint), "gateway": Caller(gateway)}
        for name, caller in callers.items():
            for _ in range(WARM_UP):
                caller.call()
            found[name] = {"call": [], "piece": []}
        for _ in range(calls):  # in turn, so that a busy moment of the machine is everybody's
            for name, caller in callers.items():
                found[name]["call"].append(caller.call())
        for _ in range(streams):
            for name, caller in callers.items():
                found[name]["piece"] += caller.pieces()
    figures, rows = {}, []
    for what in ("call", "piece"):
        direct, through = found["direct"][what], found["gateway"][what]
        p50, p99 = ((_quantile(direct, share), _quantile(through, share)) for share in (0.5, 0.99))
        figures[what] = {
            "direct_p50_ms": p50[0],
            "gateway_p50_ms": p50[1],
            "added_p50_ms": p50[1] - p50[0],
            "direct_p99_ms": p99[0],
            "gateway_p99_ms": p99[1],
        }
        rows.append([what, *(f"{value:.2f}" for value in figures[what].values())])
    head = ["of a", "direct p50 ms", "gateway p50 ms", "added ms", "direct p99", "gateway p99"]
    print(measure.table(head, rows))
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["endpoint", "gateway"])
    parser.add_argument("port", type=int, nargs="?", default=0)
    options = parser.parse_args()
    if options.what == "endpoint":
        asyncio.run(serve_endpoint())
    else:
        serve_gateway(options.port)
