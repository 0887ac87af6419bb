"""What a fake endpoint does with a request: answers of every protocol, errors, and every way of breaking off.

A *behaviour* is one `Reaction`, a list of them (used in order, the last one for ever), or a function from the request
to a `Reaction`. Reactions are made by the functions below and changed with `but`: `chat("x").but(then="reset", send_bytes=40)`.
"""

from __future__ import annotations

import collections
import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

from agentcompass.components.models import unrolled
from agentcompass.data import frozen
from agentcompass.testing import dialects
from agentcompass.testing.dialects import MESSAGE_USAGE, RESPONSE_USAGE, USAGE, Calls

Then: TypeAlias = Literal["keep", "close", "reset", "stall"]


@frozen(kw_only=True)
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


@frozen(kw_only=True)
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
        return events(list(unrolled.chat_events(whole)))
    if "output" in whole:
        return typed_events(unrolled.response_events(whole))
    return typed_events(unrolled.message_events(whole))


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
    parts = () if isinstance(content, str) else content
    words = content if isinstance(content, str) else json.dumps(content)
    path = seen.target.split("?")[0]
    if path.endswith("/messages"):
        answer = message(_only_text(parts) or words)
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


def as_function(behaviour: Behaviour) -> Callable[[Seen], Reaction]:
    """Return a behaviour of any kind as a function."""
    if callable(behaviour):
        return behaviour
    if isinstance(behaviour, Reaction):
        return lambda _seen: behaviour
    lock, rest = threading.Lock(), collections.deque(behaviour)

    def next_of_list(_seen: Seen) -> Reaction:
        with lock:
            return rest.popleft() if len(rest) > 1 else rest[0]

    return next_of_list
