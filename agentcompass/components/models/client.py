"""The model client: one endpoint for one run, lent to its attempts."""

from __future__ import annotations

import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol, TypeVar, final

import attrs
import trio

from agentcompass.components.base import (
    Account,
    Gateway,
    LoadContext,
    ModelRetry,
    ServedCall,
    Session,
)
from agentcompass.components.messages import Message, Reply, Tool
from agentcompass.components.models.calls import Caller, Ending, Record, Timing
from agentcompass.components.models.exchange import Exchanger, Through
from agentcompass.components.models.failures import (
    REASONING_REFUSED,
    EndpointError,
    Wording,
    revoked,
)
from agentcompass.components.models.gateway import serve
from agentcompass.components.models.meter import Meter
from agentcompass.components.models.paths import candidate_paths
from agentcompass.components.models.pricing import Price, price_of
from agentcompass.components.models.protocols import Codec, choose_codec
from agentcompass.components.models.recording import Exchange, Recorder
from agentcompass.errors import ConfigurationError, ModelError, PreflightError
from agentcompass.net.address import Address
from agentcompass.net.endpoint_limits import Limits
from agentcompass.net.endpoints import Endpoints
from agentcompass.net.http import HttpClient
from agentcompass.net.limits import EndpointLimiter
from agentcompass.records import JSON, Usage
from agentcompass.secrets import Scrubber
from agentcompass.spec.resolved import ModelConfig

T = TypeVar("T")

_SENDABLE_KEY: Final = re.compile(r"[\x21-\x7e]+")

_DEFAULT_TIMING: Final = Timing()

_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "User-Agent": "agentcompass",
}


def open_client(
    config: ModelConfig,
    *,
    harness_protocols: Sequence[str],
    prices: Mapping[str, Mapping[str, float]],
    recorder: Recorder | None = None,
    endpoints: Endpoints | None = None,
    timing: Timing = _DEFAULT_TIMING,
) -> EndpointClient:
    """Make the client for a run. Nothing is connected before the first call.

    Where the URL names a user, they are authenticated by it (Basic) and no bearer token is sent: there is one header
    for both.

    Args:
        config: The endpoint.
        harness_protocols: What the harness can use, best first.
        prices: By model id or pattern, US dollars per million tokens (`input`, `cached_input`, `cache_write`, `output`,
            `reasoning`).
        recorder: Keeps the exchanges; None: nobody wants them.
        endpoints: The limits of the run, which all its clients of one endpoint and key have in common; None: this client
            has its own.
        timing: Waits that no setting names.

    Raises:
        ConfigurationError: The URL or the key cannot be used, or there is no protocol in common.
    """
    address = _address(config)
    host = address.url.host
    codec = choose_codec(config.api_protocol, harness_protocols, address.path, host)
    scrubber = Scrubber()
    scrubber.register(config.api_key, *address.secrets)
    try:
        http = HttpClient(address, write_seconds=timing.idle_seconds)
    except ValueError as error:
        raise ConfigurationError(f"the model endpoint cannot be reached: {error}") from error
    exchanger = Exchanger(
        http,
        [address.with_path(path) for path in candidate_paths(address.path, codec.operation)],
        headers={**_HEADERS, **codec.headers(_key(config), host)},
        codec=codec,
        wording=Wording(scrubber),
        idle_seconds=timing.idle_seconds,
    )
    caller = Caller(
        exchanger,
        _limiter(config, address, endpoints or Endpoints(), timing),
        codec,
        max_retries=config.max_retries,
        timeout_seconds=config.timeout_seconds,
        timing=timing,
        random=random.Random(),
    )
    if recorder is not None:
        caller.record = _recording(recorder, codec.name, host, config.id)
    price = price_of(config.id, prices, host=host)
    return EndpointClient(config, http, caller, codec, price)


def _limiter(
    config: ModelConfig, address: Address, endpoints: Endpoints, timing: Timing
) -> EndpointLimiter:
    key = config.api_key.reveal() if config.api_key else ""
    return endpoints.limiter(
        f"{address.url.scheme}://{address.url.netloc.decode('ascii')}",
        f"{key}\n{address.authorization or ''}",
        Limits(cap=config.max_connections, rpm=config.rpm, tpm=config.tpm),
        pauses=timing.pauses(),
        is_shared=config.share_limits,
    )


def _recording(recorder: Recorder, protocol: str, host: str, model: str) -> Record:
    async def record(ending: Ending) -> None:
        error = ending.error
        await recorder.add(
            Exchange(
                protocol=protocol,
                host=host,
                model=model,
                request={name: item for name, item in ending.body.items() if name != "model"},
                response=ending.payload,
                usage=ending.raw_usage,
                error=error and _written(error),
            )
        )

    return record


def _written(error: EndpointError) -> Mapping[str, JSON]:
    said = {} if error.said is None else {"status": error.said.status, "body": error.said.body}
    return {"code": error.code, "message": error.message, "hint": error.hint, **said}


@final
class EndpointClient:
    """One endpoint for one run (`components.base.ModelClient`); made by `open_client`."""

    def __init__(
        self, config: ModelConfig, http: HttpClient, caller: Caller, codec: Codec, price: Price
    ) -> None:
        self._config = config
        self._http = http
        self._caller = caller
        self._codec = codec
        self._price = price

    @property
    def knows_price(self) -> bool:
        """Whether what calls cost can be told."""
        return self._price.is_known

    def lend(
        self, on_retry: Callable[[ModelRetry], None], account: Account | None = None
    ) -> LentModel:
        """Return a model for one attempt; see `components.base.ModelClient`."""
        meter = Meter(self._codec.name, self._price, account)
        return LentModel(self._config, self._caller, self._codec, meter, on_retry)

    async def ready(self, ctx: LoadContext) -> None:
        """Do nothing: somebody else runs the endpoint, and it may come up later."""

    async def check_serving(self) -> None:
        """Check that the endpoint has the path of the protocol; see `components.base.ModelClient`."""
        try:
            await self._caller.check_path()
        except ModelError as error:
            raise PreflightError(
                f"the endpoint does not speak {self._codec.name}, by which the agent calls its model: {error.message}",
                hint="Nothing is translated between protocols: use an endpoint that speaks it, or another harness.",
            ) from error

    async def aclose(self) -> None:
        """Close all connections."""
        await self._http.aclose()


class Calls(Protocol):
    """Who answers: an endpoint (`calls.Caller`) or a recording (`replay.Player`)."""

    async def call(
        self, body: Mapping[str, JSON], meter: Meter, on_retry: Callable[[ModelRetry], None]
    ) -> Reply:
        """Ask until there is a reply."""
        ...

    async def forward(
        self,
        body: Mapping[str, JSON],
        meter: Meter,
        on_retry: Callable[[ModelRetry], None],
        through: Through,
    ) -> Reply | None:
        """Ask for somebody else, who gets the answer while it comes in; see `calls.Caller`."""
        ...

    async def ask_aside(self, body: Mapping[str, JSON], through: Through) -> None:
        """Ask what is no model call; likewise."""
        ...


@final
class LentModel:
    """The model as lent to one attempt (`components.base.AttemptModel`).

    Attributes:
        id: The model's id, as sent.
        protocol: The name of the wire protocol.
        asked: Calls that the harness made, whatever came of them.
        replies: Calls that gave it a reply.
    """

    def __init__(
        self,
        config: ModelConfig,
        caller: Calls,
        codec: Codec,
        meter: Meter,
        on_retry: Callable[[ModelRetry], None],
    ) -> None:
        self.id = config.id
        self.protocol = codec.name
        self.asked = self.replies = 0
        self._params = config.params
        self._caller = caller
        self._codec = codec
        self._meter = meter
        self._on_retry = on_retry
        self._in_flight: set[trio.CancelScope] = set()
        self._is_revoked = False
        self._n_stale = 0
        """So many messages of a conversation are sent without their reasoning: the endpoint has refused it."""

    @property
    def usage(self) -> Usage:
        """Sum over all requests so far that were answered, or given up while the endpoint worked on them."""
        return self._meter.usage

    def revoke(self) -> None:
        """Refuse every further call and cancel those in flight; each raises `ModelError`, code `model-revoked`."""
        self._is_revoked = True
        for scope in self._in_flight:
            scope.cancel(reason="the model was revoked")

    async def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        params: Mapping[str, JSON] | None = None,
    ) -> Reply:
        """Ask for the next message; see `components.base.Model`.

        Where the endpoint refuses its own reasoning, because what was said before it has changed since (a harness
        has shortened it), the same is asked once more without that reasoning, now and in later calls.
        """
        stale, fresh = messages[: self._n_stale], messages[self._n_stale :]
        body = self._codec.chat_body([*map(_without_reasoning, stale), *fresh], tools)
        self._begin()
        try:
            return await self._ask(body, params)
        except ModelError as error:
            if error.code != REASONING_REFUSED or all(each.verbatim is None for each in fresh):
                raise
        self._n_stale = len(messages)
        body = self._codec.chat_body([*map(_without_reasoning, messages)], tools)
        return await self._ask(body, params)

    async def complete(
        self,
        prompt: str,
        *,
        stop: Sequence[str] = (),
        params: Mapping[str, JSON] | None = None,
    ) -> Reply:
        """Ask to continue a text; see `components.base.Model`."""
        body = self._codec.completion_body(prompt, stop)
        self._begin()
        return await self._ask(body, params)

    def serve(
        self,
        session: Session | None,
        *,
        on_call: Callable[[ServedCall], Awaitable[None]] | None = None,
        max_calls: int | None = None,
    ) -> AbstractAsyncContextManager[Gateway]:
        """Let programs call the model by themselves; see `components.base.Model`."""
        return serve(self, session, on_call=on_call, max_calls=max_calls)

    # --- gateway.gate.Lent

    @property
    def params(self) -> Mapping[str, JSON]:
        """The user's parameters."""
        return self._params

    @property
    def is_revoked(self) -> bool:
        """Whether every call is refused."""
        return self._is_revoked

    async def forward(self, body: Mapping[str, JSON], through: Through) -> Reply | None:
        """Make a call of a program's; see `calls.Caller.forward`."""
        self._begin()
        call = self._caller.forward(
            self._codec.with_defaults(body), self._meter, self._on_retry, through
        )
        return await self._until_revoked(call)

    async def ask_aside(self, body: Mapping[str, JSON], through: Through) -> None:
        """Ask the endpoint what is no model call; see `calls.Caller.ask_aside`."""
        await self._caller.ask_aside(body, through)

    # --- below

    def _begin(self) -> None:
        """Count a call of the harness."""
        if self._is_revoked:
            raise revoked()
        self._meter.check()
        self.asked += 1

    async def _ask(self, said: Mapping[str, JSON], params: Mapping[str, JSON] | None) -> Reply:
        body = self._codec.with_defaults(
            {**self._params, **(params or {}), **said, "model": self.id}
        )
        return await self._until_revoked(self._caller.call(body, self._meter, self._on_retry))

    async def _until_revoked(self, call: Awaitable[T]) -> T:
        with trio.CancelScope() as scope:
            self._in_flight.add(scope)
            try:
                reply = await call
            finally:
                self._in_flight.discard(scope)
            if not self._is_revoked:
                self.replies += 1
                return reply
        raise revoked()


def _without_reasoning(message: Message) -> Message:
    return attrs.evolve(message, verbatim=None)


def _address(config: ModelConfig) -> Address:
    if config.base_url is None:
        raise ConfigurationError(
            f"the model {config.id!r} has no base_url", hint="Set model_base_url."
        )
    try:
        return Address.parse(config.base_url)
    except ValueError as error:
        raise ConfigurationError(f"the model's base_url cannot be used: {error}") from error


def _key(config: ModelConfig) -> str | None:
    key = config.api_key.reveal() if config.api_key else None
    if key and not _SENDABLE_KEY.fullmatch(key):
        raise ConfigurationError(
            "the model's api_key has white space or other characters that cannot be sent",
            hint="Was it read from a file with a line end?",
        )
    return key
