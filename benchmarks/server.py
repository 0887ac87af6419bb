"""An endpoint that costs as little as it can: fixed answers, in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT

_BODY = json.dumps(
    {
        "id": "r", "object": "chat.completion", "created": 0, "model": "served",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "The answer is 42."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 6, "total_tokens": 18},
    }
).encode()  # fmt: skip
_JSON, _EVENTS = "application/json", "text/event-stream"


def _head(media_type: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {media_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _answers(told: Mapping[str, Any]) -> dict[bytes, bytes]:
    """Complete answers by path; a `?` after it: streamed."""
    found = {b"": _head(_JSON, _BODY)}
    for path, (whole, stream) in told.items():
        name = path.encode()
        found[name] = _head(_JSON, json.dumps(whole).encode())
        events = "".join(f"event: {e.get('type', 'x')}\ndata: {json.dumps(e)}\n\n" for e in stream)
        found[name + b"?"] = _head(_EVENTS, f"{events}data: [DONE]\n\n".encode())
    return found


class _Connection(asyncio.Protocol):
    def __init__(self, delay: float, answers: Mapping[bytes, bytes]) -> None:
        self._delay, self._answers, self._data = delay, answers, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            if len(self._data) < end + 4 + length:
                return
            body = self._data[end + 4 : end + 4 + length]
            self._data = self._data[end + 4 + length :]
            name = head.split(b" ", 2)[1].removeprefix(b"/v1/") + b"?" * (b'"stream":' in body)
            answer = self._answers.get(name, self._answers[b""])
            if self._delay:
                asyncio.get_running_loop().call_later(self._delay, self._answer, answer)
            else:
                self._answer(answer)

    def _answer(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)  # type: ignore[attr-defined]  # it is a socket's


async def _serve(delay: float, told: Mapping[str, Any]) -> None:
    loop, answers = asyncio.get_running_loop(), _answers(told)
    server = await loop.create_server(
        lambda: _Connection(delay, answers), "127.0.0.1", 0, backlog=2048
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until whoever started this has gone


@contextlib.contextmanager
def endpoint(
    delay_seconds: float = 0.0, answers: Mapping[str, tuple[Any, list[Any]]] | None = None
) -> Iterator[str]:
    """Serve during the block; gives the base URL.

    Args:
        delay_seconds: Before each answer.
        answers: By path after the base URL: the answer in one piece, and the events of a streamed one; others get a chat answer.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".json") as told:
        json.dump(answers or {}, told)
        told.flush()
        argv = [sys.executable, "-m", "benchmarks.server", str(delay_seconds), told.name]
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
    asyncio.run(_serve(float(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())))
