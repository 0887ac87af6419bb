"""A model endpoint for tests: a real HTTP server on 127.0.0.1 that does what a script says and remembers what it was asked.

It runs in threads of its own, so that tests on trio, on asyncio, and tests with subprocesses can all use it:

    with FakeEndpoint([rate_limited(retry_after="0"), chat("42")]) as endpoint:
        ...                                  # endpoint.base_url, endpoint.url
    assert endpoint.requests[1].json["messages"][0]["content"] == "6 * 7?"

What it does is a *behaviour*: one `Reaction`, a list of them (used in order, the last one for ever), or a function
from the request to a `Reaction`. Reactions are made by the functions below (`chat`, `stream`, `error`, ...) and
changed with `but(...)`: `chat("x").but(then="reset", send_bytes=40)`.

As a process, for tests of programs: `python -m support.endpoint --behaviour echo` prints its URL and serves until it
is terminated or its parent has ended.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import attrs

from support import dialects
from support.dialects import MESSAGE_USAGE, RESPONSE_USAGE, USAGE, Calls

Then: TypeAlias = Literal["keep", "close", "reset", "stall"]

BIG_SIZE = 2_000_000
"""Characters of the `huge` answer."""


@attrs.frozen(kw_only=True)
class Seen:
    """A request as it arrived."""

    method: str
    target: str
    """Path and query."""
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    connection: int
    """Which connection it came on, from 0: tells whether connections are reused."""
    number: int
    """Which request of the endpoint it is, from 0."""

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@attrs.frozen(kw_only=True)
class Reaction:
    """What the endpoint does with one request."""

    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=lambda: {"content-type": "application/json"})
    body: bytes = b""
    chunks: Sequence[bytes] | None = None
    """Instead of `body`: sent one by one, with chunked transfer encoding."""
    pause_seconds: float = 0.0
    """Before each chunk but the first."""
    delay_seconds: float = 0.0
    """Before the answer."""
    gate: threading.Event | None = None
    """The answer waits until it is set."""
    send_bytes: int | None = None
    """Only so many bytes of the answer (head included) are sent before `then` happens."""
    then: Then = "keep"
    """`keep` the connection, `close` it without having said so, `reset` it, or `stall`: keep it open and stay silent."""

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    def but(self, **changes: Any) -> Reaction:
        """Return the same with some fields changed."""
        return attrs.evolve(self, **changes)

    def wire(self) -> list[bytes]:
        """The answer as the pieces in which it is sent."""
        framing = (
            {"content-length": str(len(self.body))}
            if self.chunks is None
            else {"transfer-encoding": "chunked"}
        )
        head = f"HTTP/1.1 {self.status} {'OK' if self.status < 400 else 'Not OK'}\r\n" + "".join(
            f"{name}: {value}\r\n" for name, value in {**self.headers, **framing}.items()
        )
        encoded_head = head.encode("latin-1") + b"\r\n"
        if self.chunks is None:
            return [encoded_head + self.body]
        framed = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in self.chunks if chunk]
        return [encoded_head, *framed, b"0\r\n\r\n"]


Behaviour: TypeAlias = Reaction | Sequence[Reaction] | Callable[[Seen], Reaction]


# --- reactions


def json_answer(
    payload: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Reaction:
    """Any JSON value; lone surrogates go out as escapes."""
    return Reaction(
        status=status,
        headers={"content-type": "application/json", **(headers or {})},
        body=json.dumps(payload).encode(),
    )


def chat(
    content: str | None = "hello",
    *,
    tool_calls: Sequence[tuple[str, str]] = (),
    reasoning: str | None = None,
    finish_reason: str | None = None,
    usage: Mapping[str, Any] | None = USAGE,
) -> Reaction:
    """An `openai-chat` answer. `tool_calls` are (name, arguments); ids are `call-0`, `call-1`, ..."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning is not None:
        message["reasoning_content"] = reasoning
    if tool_calls:
        message["tool_calls"] = [
            {
                "id": f"call-{index}",
                "type": "function",
                "function": {"name": name, "arguments": text},
            }
            for index, (name, text) in enumerate(tool_calls)
        ]
    reason = finish_reason or ("tool_calls" if tool_calls else "stop")
    return json_answer(
        dialects.choices("chat.completion", {"message": message, "finish_reason": reason}, usage)
    )


def completion(
    text: str = "hello", *, finish_reason: str = "stop", usage: Mapping[str, Any] | None = USAGE
) -> Reaction:
    """An `openai-completions` answer."""
    return json_answer(
        dialects.choices("text_completion", {"text": text, "finish_reason": finish_reason}, usage)
    )


def stream(
    *pieces: str,
    usage: Mapping[str, Any] | None = USAGE,
    finish_reason: str | None = "stop",
    done: bool = True,
) -> Reaction:
    """An `openai-chat` answer as server-sent events, a chunk each."""
    payloads = [dialects.chunk({"role": "assistant", "content": ""})]
    payloads += [dialects.chunk({"content": piece}) for piece in pieces]
    if finish_reason is not None:
        payloads.append(dialects.chunk({}, finish_reason=finish_reason))
    if usage is not None:
        payloads.append({**dialects.chunk({}), "choices": [], "usage": dict(usage)})
    return events(payloads, done=done)


def response(
    text: str = "hello",
    *,
    tool_calls: Calls = (),
    reasoning: str | None = None,
    usage: Mapping[str, Any] | None = RESPONSE_USAGE,
    **more: Any,
) -> Reaction:
    """An `openai-responses` answer; `more` is of `dialects.response`. Arguments of calls are texts."""
    output = [] if reasoning is None else [dialects.output_reasoning(reasoning)]
    output += [dialects.output_text(text)] if text else []
    calls = enumerate(tool_calls)
    output += [dialects.output_call(*call, index=index) for index, call in calls]
    return json_answer(dialects.response(output, usage=usage, **more))


def message(
    text: str = "hello",
    *,
    tool_calls: Calls = (),
    thinking: str | None = None,
    usage: Mapping[str, Any] | None = MESSAGE_USAGE,
    stop_reason: str | None = None,
    **more: Any,
) -> Reaction:
    """An `anthropic` answer; `more` is of `dialects.message`. Arguments of calls are objects."""
    content = [] if thinking is None else [dialects.thinking_block(thinking)]
    content += [dialects.text_block(text)] if text else []
    calls = enumerate(tool_calls)
    content += [dialects.tool_block(*call, index=index) for index, call in calls]
    reason = stop_reason or ("tool_use" if tool_calls else "end_turn")
    return json_answer(dialects.message(content, usage=usage, stop_reason=reason, **more))


def streamed(answer: Reaction) -> Reaction:
    """The same as a stream: a whole answer of any protocol but `openai-completions`."""
    whole = answer.json
    if "choices" in whole:
        return events(list(dialects.chat_events(whole)))
    if "output" in whole:
        return typed_events(dialects.response_events(whole))
    return typed_events(dialects.message_events(whole))


def typed_events(payloads: Iterable[Mapping[str, Any]]) -> Reaction:
    """Events that are named after their `type`, without `[DONE]`: `openai-responses` and `anthropic`."""
    chunks = [
        f"event: {payload['type']}\ndata: {json.dumps(payload)}\n\n".encode()
        for payload in payloads
    ]
    return Reaction(headers={"content-type": "text/event-stream"}, chunks=chunks)


def events(payloads: Sequence[Any], *, done: bool = True) -> Reaction:
    """Any JSON values as server-sent events, with `[DONE]` at the end."""
    chunks = [b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads]
    if done:
        chunks.append(b"data: [DONE]\n\n")
    return Reaction(headers={"content-type": "text/event-stream"}, chunks=chunks)


def error(
    status: int,
    message: str = "it failed",
    *,
    code: str | int | None = None,
    type: str | None = None,  # noqa: A002  # the name on the wire
    headers: Mapping[str, str] | None = None,
) -> Reaction:
    """An error in the OpenAI form."""
    payload = {"error": {"message": message, "type": type, "param": None, "code": code}}
    return json_answer(payload, status=status, headers=headers)


def anthropic_error(
    status: int,
    message: str = "it failed",
    *,
    type: str = "api_error",  # noqa: A002  # the name on the wire
    headers: Mapping[str, str] | None = None,
) -> Reaction:
    """An error in the Anthropic form."""
    payload = {"type": "error", "error": {"type": type, "message": message}, "request_id": "req-1"}
    return json_answer(payload, status=status, headers=headers)


def rate_limited(retry_after: str | None = "0") -> Reaction:
    """A 429, with `Retry-After` unless None."""
    headers = {} if retry_after is None else {"retry-after": retry_after}
    return error(429, "slow down", code="rate_limit_exceeded", headers=headers)


def text(body: str, *, status: int = 200) -> Reaction:
    """Something that is no JSON."""
    return Reaction(status=status, headers={"content-type": "text/html"}, body=body.encode())


def no_answer(then: Then = "close") -> Reaction:
    """Not a byte: the connection is closed, reset, or left open in silence."""
    return Reaction(send_bytes=0, then=then)


def redirect(location: str, *, status: int = 307) -> Reaction:
    """A redirection."""
    return json_answer({}, status=status, headers={"location": location})


def echo(seen: Seen) -> Reaction:
    """Behaviour: the last user message, or the prompt, comes back by the protocol of the path; streamed if asked so."""
    asked = seen.json
    if "prompt" in asked:
        return completion(asked["prompt"])
    said = asked["input"] if "input" in asked else asked["messages"]
    content = said if isinstance(said, str) else said[-1]["content"]
    words = content if isinstance(content, str) else json.dumps(content)
    path = seen.target.split("?")[0]
    if path.endswith("/messages"):
        answer = message(_only_text(content) or words)
    elif path.endswith("/responses"):
        answer = response(words)
    else:
        return stream(words) if asked.get("stream") else chat(words)
    return streamed(answer) if asked.get("stream") else answer


def _only_text(content: Sequence[Mapping[str, Any]]) -> str | None:
    """The text of a message that has but one part."""
    return content[0].get("text") if len(content) == 1 else None


def echo_key(seen: Seen) -> Reaction:
    """Behaviour: a rejection that repeats the key, as real endpoints do."""
    key = seen.headers.get("x-api-key") or seen.headers.get("authorization", "")
    key = key.removeprefix("Bearer ")
    return error(401, f"Incorrect API key provided: {key}.", code="invalid_api_key")


BEHAVIOURS: Mapping[str, Behaviour] = {
    "echo": echo,
    "echo-key": echo_key,
    "hello": chat("hello"),
    "no-usage": chat("hello", usage=None),
    "tool-call": chat(None, tool_calls=[("bash", '{"command": "echo hi"}')]),
    "stream": stream("hel", "lo"),
    "response": response("hello"),
    "response-tool-call": response("", tool_calls=[("bash", '{"command": "echo hi"}')]),
    "message": message("hello"),
    "message-tool-call": message("", tool_calls=[("bash", {"command": "echo hi"})]),
    "overloaded": anthropic_error(529, "Overloaded", type="overloaded_error"),
    "rate-limited": rate_limited(),
    "rate-limited-once": [rate_limited(), chat("hello")],
    "server-error": error(500, "internal error"),
    "server-error-once": [error(500, "internal error"), chat("hello")],
    "quota": error(429, "You exceeded your current quota", code="insufficient_quota"),
    "context": error(400, "too long", code="context_length_exceeded"),
    "unauthorized": error(401, "no such key", code="invalid_api_key"),
    "model-not-found": error(404, "The model `x` does not exist.", code="model_not_found"),
    "reset": no_answer("reset"),
    "closed": no_answer("close"),
    "silent": no_answer("stall"),
    "stall": chat("hello").but(send_bytes=150, then="stall"),
    "slow": chat("hello").but(delay_seconds=1.0),
    "closing": chat("hello").but(then="close"),
    "invalid-json": text("{'not': json"),
    "html": text("<html>bad gateway</html>", status=502),
    "no-choices": json_answer({"id": "x", "choices": []}),
    "huge": chat("x" * BIG_SIZE),
    "surrogate": chat("broken \ud83d emoji"),
}
"""By name, for the command line."""


# --- the server


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
        self._react = _as_function(behaviour)
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


def _as_function(behaviour: Behaviour) -> Callable[[Seen], Reaction]:
    if callable(behaviour):
        return behaviour
    if isinstance(behaviour, Reaction):
        return lambda _seen: behaviour
    lock, rest = threading.Lock(), collections.deque(behaviour)

    def next_of_list(_seen: Seen) -> Reaction:
        with lock:
            return rest.popleft() if len(rest) > 1 else rest[0]

    return next_of_list


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


# --- as a process


def main(argv: Sequence[str] | None = None) -> None:
    """Serve a named behaviour until terminated, or until the parent process has ended."""
    parser = argparse.ArgumentParser(prog="python -m support.endpoint", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--behaviour", choices=sorted(BEHAVIOURS), default="echo")
    parser.add_argument("--answer", help="a fixed text instead of a behaviour")
    parser.add_argument(
        "--log", type=Path, help="append each request to this file, a JSON line each"
    )
    options = parser.parse_args(argv)
    behaviour = BEHAVIOURS[options.behaviour] if options.answer is None else chat(options.answer)
    # asked before the URL is printed: whoever reads it may end at once
    parent, stopped = os.getppid(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    signal.signal(signal.SIGINT, lambda *_: stopped.set())
    with FakeEndpoint(behaviour, port=options.port, on_request=_logger(options.log)) as endpoint:
        print(endpoint.base_url, flush=True)
        while os.getppid() == parent and not stopped.wait(0.5):
            pass


def _logger(file: Path | None) -> Callable[[Seen], None]:
    if file is None:
        return lambda _seen: None
    lock = threading.Lock()

    def append(seen: Seen) -> None:
        line = json.dumps({"at": time.time(), "target": seen.target, "body": seen.body.decode()})
        with lock, file.open("a") as out:
            out.write(line + "\n")

    return append


if __name__ == "__main__":
    sys.exit(main())
