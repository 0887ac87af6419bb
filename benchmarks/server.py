"""An endpoint that costs as little as it can: a fixed chat answer, in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator

from benchmarks.measure import ROOT

_BODY = json.dumps(
    {
        "id": "r", "object": "chat.completion", "created": 0, "model": "served",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "The answer is 42."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 6, "total_tokens": 18},
    }
).encode()  # fmt: skip
_ANSWER = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(_BODY)
) + _BODY


class _Connection(asyncio.Protocol):
    def __init__(self, delay: float) -> None:
        self._delay, self._data = delay, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self._data) < end + 4 + length:
                return
            self._data = self._data[end + 4 + length :]
            if self._delay:
                asyncio.get_running_loop().call_later(self._delay, self._answer)
            else:
                self._answer()

    def _answer(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(_ANSWER)  # type: ignore[attr-defined]  # it is a socket's


async def _serve(delay: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Connection(delay), "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until whoever started this has gone


@contextlib.contextmanager
def endpoint(delay_seconds: float = 0.0) -> Iterator[str]:
    """Serve during the block; gives the base URL."""
    argv = [sys.executable, "-m", "benchmarks.server", str(delay_seconds)]
    child = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert child.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(child.stdout.readline())}/v1"
    finally:
        child.kill()
        child.communicate()


if __name__ == "__main__":
    asyncio.run(_serve(float(sys.argv[1])))
