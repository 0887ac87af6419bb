"""A gateway as a program in a sandbox has it: a real endpoint behind it, and a client that asks it."""

import contextlib
import json
from types import SimpleNamespace

import httpx
import trio

from agentcompass.components.base import LoadContext
from agentcompass.components.environments.place import OpenPlace
from agentcompass.components.inlet import listening
from agentcompass.components.models import open_replay
from agentcompass.spec.resolved import ModelConfig
from support.opened import PRICES, Opened

OPERATIONS = {
    "openai-chat": "/v1/chat/completions",
    "openai-completions": "/v1/completions",
    "openai-responses": "/v1/responses",
    "anthropic": "/v1/messages",
}


class Door:
    """The one thing that a gateway needs of a session."""

    @contextlib.asynccontextmanager
    async def listen(self):
        async with listening(await OpenPlace(None, "", None).listen()) as inlet:
            yield inlet


class Served:
    """A gateway, its client, and what was told of its calls.

    Attributes:
        gateway: As a harness has it.
        model: The model behind it.
        retries: That were told.
        calls: That were told.
        http: With the key.
    """

    def __init__(self, opened, gateway, protocol, calls):
        self.gateway, self.model, self.retries = gateway, opened.model, opened.retries
        self.protocol, self.calls = protocol, calls
        self.http = httpx.AsyncClient(
            base_url=gateway.url, headers=self.headers(gateway.key), timeout=20, trust_env=False
        )

    def headers(self, key):
        name = "x-api-key" if self.protocol == "anthropic" else "authorization"
        return {name: key if name == "x-api-key" else f"Bearer {key}"}

    async def ask(self, *, path=None, headers=None, **body):
        """Ask as a client of the protocol does."""
        said = {"model": "whatever", "messages": [{"role": "user", "content": "hi"}]}
        if self.protocol == "openai-responses":
            said = {"model": "whatever", "input": "hi"}
        if self.protocol == "openai-completions":
            said = {"model": "whatever", "prompt": "hi"}
        path = path or OPERATIONS[self.protocol]
        return await self.http.post(path, json={**said, **body}, headers=headers)

    @contextlib.asynccontextmanager
    async def streaming(self):
        """Ask for a stream, and give the connection on which the answer comes."""
        said = {"messages": [{"role": "user", "content": "hi"}], "stream": True}
        body = json.dumps(said).encode()
        lines = [f"POST {OPERATIONS[self.protocol]} HTTP/1.1", "Host: x"]
        headers = {**self.headers(self.gateway.key), "content-length": len(body)}
        lines += [f"{name}: {value}" for name, value in headers.items()]
        async with await self.connect() as connection:
            await connection.send_all("\r\n".join([*lines, "", ""]).encode() + body)
            yield connection

    async def connect(self):
        host, _, port = self.gateway.url.removeprefix("http://").partition(":")
        return await trio.open_tcp_stream(host, int(port))


@contextlib.asynccontextmanager
async def serving(endpoint, protocol="openai-chat", *, max_calls=None, **opened):
    """Serve a model; leaving the block ends it."""
    async with (
        Opened(endpoint, protocols=(protocol,), **opened) as client,
        _serving(client, protocol, max_calls) as served,
    ):
        yield served


@contextlib.asynccontextmanager
async def replaying(path, protocol, varying=()):
    """Serve a recording likewise."""
    config = ModelConfig(id=f"replay:{path}", served_version="1")
    client = open_replay(config, harness_protocols=(protocol,), prices=PRICES, varying=varying)
    await client.ready(LoadContext(data_dir=path.parent))
    await client.check_serving()
    opened = SimpleNamespace(retries=[])
    opened.model = client.lend(opened.retries.append)
    async with _serving(opened, protocol) as served:
        yield served
    await client.aclose()


@contextlib.asynccontextmanager
async def _serving(client, protocol, max_calls=None):
    calls = []

    async def told(call):
        calls.append(call)

    serve = client.model.serve(Door(), on_call=told, max_calls=max_calls)
    async with serve as gateway:
        served = Served(client, gateway, protocol, calls)
        try:
            yield served
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
                await served.http.aclose()
