"""The cost of a model call by each protocol beside bare httpx on the same lanes, with the same requests and answers.

Bare means: the request's object is there already, and what comes back is read as JSON and thrown away. What a call of
ours does beside that is to write the conversation in the protocol's form, to wait for its turn, to meter, and to read
the answer. CPU counts, since that is what limits the calls per second of a process. A streamed answer comes in one
piece: if each event came by itself, the network would cost so much more on both sides that the ratio said little.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks import measure
from benchmarks.server import endpoint

IN_FLIGHT = 64
WARM_UP = 300
BAR = 1.3
PIECES = 64
"""Of a streamed answer."""
TEXT = "The test fails because the date is compared as text; I will look at the parser first. " * 4
ARGUMENTS = {"command": "grep -rn 'def parse' src | head -40"}

_CHAT_USAGE = {"prompt_tokens": 1200, "completion_tokens": 90, "total_tokens": 1290,
               "prompt_tokens_details": {"cached_tokens": 1024}}  # fmt: skip
_RESPONSE_USAGE = {"input_tokens": 1200, "output_tokens": 90, "total_tokens": 1290,
                   "input_tokens_details": {"cached_tokens": 1024}, "output_tokens_details": {"reasoning_tokens": 0}}  # fmt: skip
_MESSAGE_USAGE = {"input_tokens": 176, "cache_read_input_tokens": 1024, "cache_creation_input_tokens": 0, "output_tokens": 90}  # fmt: skip


def _pieces() -> Iterator[str]:
    size = -(-len(TEXT) // PIECES)
    yield from (TEXT[at : at + size] for at in range(0, len(TEXT), size))


def _chat() -> tuple[Any, list[Any]]:
    about = {"id": "r", "created": 0, "model": "served"}
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "bash", "arguments": json.dumps(ARGUMENTS)},
    }
    said = {"role": "assistant", "content": TEXT, "tool_calls": [call]}
    whole = {**about, "object": "chat.completion", "usage": _CHAT_USAGE,
             "choices": [{"index": 0, "message": said, "finish_reason": "tool_calls"}]}  # fmt: skip

    def chunk(delta: Any, reason: str | None = None) -> Any:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return {**about, "object": "chat.completion.chunk", "choices": [choice]}

    stream = [
        chunk({"role": "assistant", "content": ""}), *(chunk({"content": p}) for p in _pieces()),
        chunk({"tool_calls": [{"index": 0, **call}]}), chunk({}, "tool_calls"), {**about, "choices": [], "usage": _CHAT_USAGE},
    ]  # fmt: skip
    return whole, stream


def _completion() -> tuple[Any, list[Any]]:
    about = {"id": "r", "object": "text_completion", "created": 0, "model": "served"}

    def choices(text: str, reason: str | None) -> Any:
        return {**about, "choices": [{"index": 0, "text": text, "finish_reason": reason}]}

    stream = [
        *(choices(p, None) for p in _pieces()), choices("", "stop"), {**about, "choices": [], "usage": _CHAT_USAGE},
    ]  # fmt: skip
    return {**choices(TEXT, "stop"), "usage": _CHAT_USAGE}, stream


def _response() -> tuple[Any, list[Any]]:
    part = {"type": "output_text", "text": TEXT, "annotations": []}
    said = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    call = {"id": "f1", "type": "function_call", "call_id": "c1", "name": "bash", "status": "completed",
            "arguments": json.dumps(ARGUMENTS)}  # fmt: skip
    whole = {"id": "r", "object": "response", "created_at": 0, "model": "served", "status": "completed", "error": None,
             "incomplete_details": None, "output": [said, call], "usage": _RESPONSE_USAGE}  # fmt: skip
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    at = {"item_id": "m1", "output_index": 0, "content_index": 0}
    stream = [
        {"type": "response.created", "response": begun}, {"type": "response.in_progress", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**said, "content": []}},
        *({"type": "response.output_text.delta", **at, "delta": p, "logprobs": []} for p in _pieces()),
        {"type": "response.output_item.done", "output_index": 0, "item": said},
        {"type": "response.output_item.done", "output_index": 1, "item": call},
        {"type": "response.completed", "response": whole},
    ]  # fmt: skip
    return whole, [{**event, "sequence_number": n} for n, event in enumerate(stream)]


def _message() -> tuple[Any, list[Any]]:
    call = {"type": "tool_use", "id": "c1", "name": "bash", "input": ARGUMENTS}
    whole = {"id": "r", "type": "message", "role": "assistant", "model": "served", "stop_reason": "tool_use",
             "stop_sequence": None, "content": [{"type": "text", "text": TEXT}, call], "usage": _MESSAGE_USAGE}  # fmt: skip

    def delta(index: int, what: Any) -> Any:
        return {"type": "content_block_delta", "index": index, "delta": what}

    stream = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *(delta(0, {"type": "text_delta", "text": p}) for p in _pieces()),
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {**call, "input": {}}},
        delta(1, {"type": "input_json_delta", "partial_json": json.dumps(ARGUMENTS)}),
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, "usage": _MESSAGE_USAGE},
        {"type": "message_stop"},
    ]  # fmt: skip
    return whole, stream


PATHS: Mapping[str, tuple[str, Callable[[], tuple[Any, list[Any]]]]] = {
    "openai-chat": ("chat/completions", _chat),
    "openai-completions": ("completions", _completion),
    "openai-responses": ("responses", _response),
    "anthropic": ("messages", _message),
}


def _client(protocol: str, url: str, *, streams: bool) -> tuple[Any, Callable[[], Any]]:
    """A client of ours, and what makes one call."""
    from agentcompass.components.messages import Message, Tool, ToolCall
    from agentcompass.components.models import open_client
    from agentcompass.secrets import Secret
    from agentcompass.spec.resolved import ModelConfig

    config = ModelConfig(
        id="m", base_url=url, api_key=Secret("sk-0123456789"), api_protocol=(protocol,),
        params={"temperature": 0, **({"stream": True} if streams else {})},
    )  # fmt: skip
    prices = {"m": {"input": 1.0, "cached_input": 0.1, "cache_write": 1.25, "output": 5.0}}
    client = open_client(config, harness_protocols=(protocol,), prices=prices)
    call = ToolCall(id="c0", name="bash", arguments=json.dumps(ARGUMENTS))
    messages = [
        Message(role="system", content="You are a careful engineer. " * 20),
        Message(role="user", content="Please find out why the test fails. " * 20),
        Message(role="assistant", content=TEXT, tool_calls=(call,)),
        Message(role="tool", content="src/dates.py:17: def parse(text):\n" * 30, tool_call_id="c0"),
    ]
    schema = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}  # fmt: skip
    tools = [Tool(name="bash", description="Run a command in the sandbox.", parameters=schema)]
    model = client.lend(lambda _retry: None)
    if protocol == "openai-completions":
        prompt = "\n".join(str(message.content) for message in messages)
        return client, lambda: model.complete(prompt, stop=["\ndef"])
    return client, lambda: model.chat(messages, tools=tools)


def ours(protocol: str, url: str, *, streams: bool, calls: int) -> None:
    """Make calls by the model client."""
    import trio

    async def main() -> None:
        client, one = _client(protocol, url, streams=streams)

        async def lane(todo: Iterator[int]) -> None:
            for _ in todo:
                reply = await one()
                assert reply.message.content == TEXT, reply

        async with trio.open_nursery() as nursery:
            todo = iter(range(calls))
            for _ in range(IN_FLIGHT):
                nursery.start_soon(lane, todo)
        await client.aclose()

    trio.run(main)


def bare(protocol: str, url: str, *, streams: bool, calls: int) -> None:
    """Make the same calls by httpx alone."""
    import httpx
    import trio

    from agentcompass.net.lanes import StackTransport

    body = json.loads(_body(protocol, streams=streams))
    target = f"{url}/{PATHS[protocol][0]}"
    headers = {"authorization": "Bearer sk-0123456789"}

    async def lane(client: httpx.AsyncClient, todo: Iterator[int]) -> None:
        for _ in todo:
            if not streams:
                answer = await client.post(target, json=body, headers=headers)
                assert answer.json()["id"] == "r"
                continue
            async with client.stream("POST", target, json=body, headers=headers) as answer:
                async for line in answer.aiter_lines():
                    if line.startswith("data: ") and line != "data: [DONE]":
                        json.loads(line[6:])

    async def main() -> None:
        todo = iter(range(calls))
        lanes = httpx.AsyncClient(transport=StackTransport(), timeout=60)
        async with lanes as client, trio.open_nursery() as nursery:
            for _ in range(IN_FLIGHT):
                nursery.start_soon(lane, client, todo)

    trio.run(main)


def _body(protocol: str, *, streams: bool) -> bytes:
    """What our client sends."""
    import trio

    from agentcompass.net.http import HttpClient

    sent: list[bytes] = []

    class SentError(Exception):
        """It has been sent."""

    def post(_self: Any, _address: Any, *, headers: Any, body: Any) -> Any:
        sent.append(body.hand_over())
        raise SentError

    async def main() -> None:
        _, one = _client(protocol, "http://127.0.0.1:1/v1", streams=streams)
        try:
            await one()
        except SentError:
            return

    real, HttpClient.post = HttpClient.post, post  # type: ignore[method-assign,assignment]
    try:
        trio.run(main)
    finally:
        HttpClient.post = real  # type: ignore[method-assign]
    return sent[0]


def child(what: str, protocol: str, url: str, form: str, calls: int) -> None:
    """Measure in this process, after a warm-up that loads all modules, and print the CPU of a call in milliseconds."""
    work = {"bare": bare, "ours": ours}[what]
    work(protocol, url, streams=form == "streamed", calls=WARM_UP)
    before = resource.getrusage(resource.RUSAGE_SELF)
    work(protocol, url, streams=form == "streamed", calls=calls)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"cpu_ms": 1000 * cpu / calls}))


def run(*, quick: bool) -> dict[str, Any]:
    """Measure all protocols, bare and ours in turn; print the table and return the figures."""
    rounds, calls = (1, 300) if quick else (5, 1500)
    figures: dict[str, Any] = {}
    rows = []
    with endpoint(answers={path: make() for path, make in PATHS.values()}) as url:
        for protocol in PATHS:
            for form in ("whole", "streamed"):
                best = {"bare": float("inf"), "ours": float("inf")}
                for _ in range(rounds):
                    for what, least in best.items():
                        arguments = (what, protocol, url, form, str(calls))
                        cost = measure.python("-m", "benchmarks.protocols", *arguments).json
                        best[what] = min(least, cost["cpu_ms"])
                ratio = best["ours"] / best["bare"]
                figures[f"{protocol}, {form}"] = {**best, "ratio": ratio}
                rows.append([
                    protocol, form, f"{best['bare']:.2f}", f"{best['ours']:.2f}", f"{ratio:.2f}",
                    "" if ratio <= BAR else f"above {BAR}",
                ])  # fmt: skip
    print(measure.table(["protocol", "answer", "bare CPU ms", "ours CPU ms", "ratio", ""], rows))
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["bare", "ours"])
    parser.add_argument("protocol")
    parser.add_argument("url")
    parser.add_argument("form")
    parser.add_argument("calls", type=int)
    sys.exit(child(**vars(parser.parse_args())))
