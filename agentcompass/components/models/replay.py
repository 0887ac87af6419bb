"""A model whose answers come from a recording: the same run again, without key and network.

Strict: what was not recorded is an error that shows the nearest request and where it differs; `compared` says what of a
request counts. The n-th time that something is asked it gets the answer that it got the n-th time; when these are used
up, the last one again.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, final

import attrs
import trio

from agentcompass.components.base import Account, AttemptModel, LoadContext, ModelRetry
from agentcompass.components.messages import Reply
from agentcompass.components.models.client import LentModel
from agentcompass.components.models.compared import Varying, compared, patterns
from agentcompass.components.models.exchange import Through
from agentcompass.components.models.failures import EndpointError, Said
from agentcompass.components.models.meter import Meter
from agentcompass.components.models.pricing import Price, price_of
from agentcompass.components.models.protocols import Codec, choose_codec
from agentcompass.components.models.recording import Exchange, file_of, first, read
from agentcompass.components.models.unrolled import unrolled
from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError, ModelError
from agentcompass.records import JSON, Usage
from agentcompass.spec.resolved import ModelConfig

MAX_COMPARED: Final = 2000
"""Recorded requests among which the nearest is looked for."""
MAX_DIFFERENCES: Final = 5
_AROUND: Final = 40
"""Characters shown of a text from a little before the place where it differs."""


def open_replay(
    config: ModelConfig,
    *,
    harness_protocols: Sequence[str],
    prices: Mapping[str, Mapping[str, float]],
    varying: Sequence[str] = (),
) -> ReplayClient:
    """Make the client of a recording for a run. All of it is read in `ready`.

    Args:
        config: Its id names the file.
        harness_protocols: What the harness can use, best first.
        prices: As for `open_client`.
        varying: Of the harness; see `components.base.Harness.varying`.

    Raises:
        ConfigurationError: The file is no recording, or it is of a protocol that the harness does not speak; or
            something in `varying` is no regular expression.
    """
    path = file_of(config.id)
    sample = first(path)
    codec = choose_codec((sample.protocol,), harness_protocols, base_path="")
    config = attrs.evolve(config, id=sample.model)
    price = price_of(sample.model, prices, host=sample.host)
    return ReplayClient(config, path, codec, price, patterns(varying))


@final
class ReplayClient:
    """A recording for one run (`components.base.ModelClient`); made by `open_replay`."""

    def __init__(
        self, config: ModelConfig, path: Path, codec: Codec, price: Price, varying: Varying
    ) -> None:
        self._config, self._path = config, path
        self._codec, self._price, self._varying = codec, price, varying
        self._player: Player | None = None

    @property
    def knows_price(self) -> bool:
        """Whether what calls cost can be told."""
        return self._price.is_known

    async def ready(self, ctx: LoadContext) -> None:
        """Read the recording.

        Raises:
            ConfigurationError: It is damaged, or of several models or protocols.
        """
        if self._player is None:
            self._player = await trio.to_thread.run_sync(self._load)

    def _load(self) -> Player:
        exchanges: list[Exchange] = []

        def take(exchange: Exchange) -> bool:
            exchanges.append(exchange)
            return True

        read(self._path, take)
        for what in ("model", "protocol"):
            names = sorted({getattr(exchange, what) for exchange in exchanges})
            if len(names) > 1:
                raise ConfigurationError(
                    f"the recording {self._path} has more than one {what}: {', '.join(names)}",
                    hint="Record the runs of each model to a file of its own.",
                )
        return Player(exchanges, self._codec, self._varying)

    async def check_serving(self) -> None:
        """Do nothing: what is recorded in a protocol is answered in it."""

    def lend(
        self, on_retry: Callable[[ModelRetry], None], account: Account | None = None
    ) -> AttemptModel:
        """Return a model for one attempt."""
        if self._player is None:
            raise AssertionError("`ready` comes first")
        meter = Meter(self._codec.name, self._price, account)
        return LentModel(self._config, self._player, self._codec, meter, on_retry)

    async def aclose(self) -> None:
        """Forget the recording."""
        self._player = None


@final
class Player:
    """Answers requests from what was recorded, in the place of `calls.Caller`.

    Args:
        exchanges: Those that were recorded, in order.
        codec: Of the protocol of all of them.
        varying: What is overlooked in requests.
    """

    def __init__(self, exchanges: Sequence[Exchange], codec: Codec, varying: Varying) -> None:
        self._codec, self._varying = codec, varying
        self._exchanges = exchanges
        self._by_key: defaultdict[str, list[Exchange]] = defaultdict(list)
        for exchange in exchanges:
            self._by_key[_key(self._compared(exchange.request))].append(exchange)
        self._asked: defaultdict[str, int] = defaultdict(int)

    async def call(
        self,
        body: Mapping[str, JSON],
        meter: Meter,
        on_retry: Callable[[ModelRetry], None],  # nothing is tried again
    ) -> Reply:
        """Return what was answered to the same request.

        Raises:
            ModelError: What it was refused with, or it was not recorded (code `not-recorded`).
        """
        exchange = await self._find(body)
        response, usage = _answer(exchange, meter)
        return self._codec.reply(response, usage)

    async def forward(
        self,
        body: Mapping[str, JSON],
        meter: Meter,
        on_retry: Callable[[ModelRetry], None],  # as above
        through: Through,
    ) -> Reply | None:
        """Hand on what was answered to the same request of a program, streamed if it asks for that.

        Raises:
            ModelError: As of `call`.
        """
        exchange = await self._find(body)
        response, usage = _answer(exchange, meter)
        if body.get("stream") is True:
            through.take_head(_Head(headers={"content-type": "text/event-stream"}))
            for event in unrolled(self._codec.name, response):
                await through.hand_on(event)
            through.take_end()
        else:
            through.take_head(_Head(headers={"content-type": "application/json"}))
            through.take_whole(json.dumps(response).encode())
        try:
            return self._codec.reply(response, usage)
        except ModelError:  # as when it was recorded: the program may make more of it
            return None

    async def ask_aside(self, body: Mapping[str, JSON], through: Through) -> None:
        """Refuse: what is no model call is not recorded, and programs know how to go on without it.

        Raises:
            ModelError: In any case (code `not-recorded`).
        """
        error = EndpointError(
            "what is no model call is not recorded", code="not-recorded", retryable=False
        )
        error.said = Said(404, "")
        raise error

    async def _find(self, body: Mapping[str, JSON]) -> Exchange:
        """Return the exchange whose turn it is.

        Raises:
            ModelError: There is none (`not-recorded`).
        """
        request = {name: value for name, value in body.items() if name != "model"}
        if self._varying:  # of programs: their requests are long
            key = await trio.to_thread.run_sync(lambda: _key(self._compared(request)))
        else:
            await trio.lowlevel.checkpoint()
            key = _key(self._compared(request))
        known = self._by_key.get(key)
        if not known:
            raise await trio.to_thread.run_sync(self._unknown, request)
        exchange = known[min(self._asked[key], len(known) - 1)]
        self._asked[key] += 1
        return exchange

    def _compared(self, request: Mapping[str, JSON]) -> Mapping[str, JSON]:
        return compared(self._codec.name, request, self._varying)

    def _unknown(self, request: Mapping[str, JSON]) -> ModelError:
        asked = dict(_leaves(self._compared(request)))
        near = [
            dict(_leaves(self._compared(each.request))) for each in self._exchanges[:MAX_COMPARED]
        ]
        best = max(near, key=lambda each: _likeness(asked, each))
        lines = list(_differences(best, asked))
        shown = lines[:MAX_DIFFERENCES]
        if len(lines) > len(shown):
            shown.append(f"... and {len(lines) - len(shown)} more")
        listed = "\n".join(f"  {line}" for line in shown)
        return ModelError(
            f"this request was not recorded; the nearest one differs (recorded -> asked):\n{listed}",
            code="not-recorded",
            retryable=False,
            hint="Record the run again, or ask what was asked then: same tasks, harness and model parameters. Of agents"
            " whose texts differ from run to run, the harness parameter `varying` names what is to be overlooked.",
        )


def _key(request: Mapping[str, JSON]) -> str:
    """What tells requests apart: a hash of what is compared of them."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@frozen(kw_only=True)
class _Head:
    """Of an answer that goes on to a program (`exchange.Head`)."""

    headers: Mapping[str, str]
    status: int = 200


def _answer(exchange: Exchange, meter: Meter) -> tuple[Mapping[str, JSON], Usage]:
    """Meter an exchange, and return its answer with what it used; raise the error that it ended with."""
    with meter.one_try() as metered:
        metered.raw_usage = exchange.usage
        if exchange.response is None:
            raise _recorded_error(exchange)
        metered.is_answered = True
        return exchange.response, meter.usage_of(metered)


def _recorded_error(exchange: Exchange) -> ModelError:
    recorded = exchange.error or {}
    error = EndpointError(
        str(recorded.get("message")),
        code=str(recorded.get("code")),
        retryable=False,
        hint=recorded.get("hint"),
    )
    status, body = recorded.get("status"), recorded.get("body")
    if isinstance(status, int) and isinstance(body, str):
        error.said = Said(status, body)
    return error


def _leaves(value: JSON, path: str = "") -> Iterator[tuple[str, JSON]]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    else:
        yield path, value


def _likeness(asked: Mapping[str, JSON], recorded: Mapping[str, JSON]) -> tuple[int, int]:
    same = sum(1 for path, value in asked.items() if recorded.get(path, _NOWHERE) == value)
    return same, -abs(len(asked) - len(recorded))


_NOWHERE: Final = object()


def _differences(recorded: Mapping[str, JSON], asked: Mapping[str, JSON]) -> Iterator[str]:
    for path in dict.fromkeys((*recorded, *asked)):
        before, now = recorded.get(path, _NOWHERE), asked.get(path, _NOWHERE)
        if before != now:
            yield f"{path}: {_shown(before, now)} -> {_shown(now, before)}"


def _shown(value: object, other: object) -> str:
    if value is _NOWHERE:
        return "(absent)"
    if not (isinstance(value, str) and isinstance(other, str)):
        return f"{value!r:.80}"
    same = next(
        (at for at, pair in enumerate(zip(value, other, strict=False)) if pair[0] != pair[1]),
        min(len(value), len(other)),
    )
    start = max(0, same - _AROUND // 2)
    part = value[start : same + _AROUND]
    return f"{'…' if start else ''}{part!r}{'…' if same + _AROUND < len(value) else ''}"
