"""A model whose answers come from a recording: the same run again, without key and network.

Strict: what was not recorded is an error that shows the nearest request and where it differs. The n-th time that
something is asked it gets the answer that it got the n-th time; when these are used up, the last one again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, final

import attrs
import trio

from agentcompass.components.base import Account, AttemptModel, LoadContext, ModelRetry
from agentcompass.components.messages import Reply
from agentcompass.components.models.client import LentModel
from agentcompass.components.models.exchange import Through
from agentcompass.components.models.meter import Meter
from agentcompass.components.models.pricing import price_of
from agentcompass.components.models.protocols import Codec, choose_codec
from agentcompass.components.models.recording import Exchange, file_of, first, key_of, read
from agentcompass.errors import ConfigurationError, ModelError, PreflightError
from agentcompass.records import JSON
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
) -> ReplayClient:
    """Make the client of a recording for a run. All of it is read in `ready`.

    Args:
        config: Its id names the file.
        harness_protocols: What the harness can use, best first.
        prices: As for `open_client`.

    Raises:
        ConfigurationError: The file is no recording, or it is of a protocol that the harness does not speak.
    """
    path = file_of(config.id)
    sample = first(path)
    codec = choose_codec((sample.protocol,), harness_protocols, base_path="")
    return ReplayClient(config, path, sample, codec, prices)


@final
class ReplayClient:
    """A recording for one run (`components.base.ModelClient`); made by `open_replay`."""

    def __init__(
        self,
        config: ModelConfig,
        path: Path,
        sample: Exchange,
        codec: Codec,
        prices: Mapping[str, Mapping[str, float]],
    ) -> None:
        self._config = attrs.evolve(config, id=sample.model)
        self._path, self._codec = path, codec
        self._price = price_of(sample.model, prices, host=sample.host)
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
        return Player(exchanges, self._codec)

    async def check_serving(self) -> None:
        """Refuse: no request of such a program comes twice.

        Raises:
            PreflightError: In any case.
        """
        error = _no_program()
        raise PreflightError(error.message, hint=error.hint)

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
    """Answers requests from what was recorded, in the place of `calls.Caller`."""

    def __init__(self, exchanges: Sequence[Exchange], codec: Codec) -> None:
        self._codec = codec
        self._exchanges = exchanges
        self._by_key: defaultdict[str, list[Exchange]] = defaultdict(list)
        for exchange in exchanges:
            self._by_key[exchange.key].append(exchange)
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
        await trio.lowlevel.checkpoint()
        request = {name: value for name, value in body.items() if name != "model"}
        key = key_of(self._codec.name, request)
        known = self._by_key.get(key)
        if not known:
            raise await trio.to_thread.run_sync(self._unknown, request)
        exchange = known[min(self._asked[key], len(known) - 1)]
        self._asked[key] += 1
        with meter.one_try() as metered:
            metered.raw_usage = exchange.usage
            if exchange.response is None:
                raise _recorded_error(exchange)
            metered.is_answered = True
            return self._codec.reply(exchange.response, meter.price(exchange.usage))

    async def forward(
        self,
        body: Mapping[str, JSON],
        meter: Meter,
        on_retry: Callable[[ModelRetry], None],
        through: Through,
    ) -> None:
        """Refuse: programs say when and where they run in each request, so that none comes twice.

        Raises:
            ModelError: In any case (code `not-recorded`).
        """
        raise _no_program()

    async def ask_aside(self, body: Mapping[str, JSON], through: Through) -> None:
        """Refuse, as `forward` does."""
        raise _no_program()

    def _unknown(self, request: Mapping[str, JSON]) -> ModelError:
        asked = dict(_leaves(request))
        near = self._exchanges[:MAX_COMPARED]
        best = max(near, key=lambda each: _likeness(asked, dict(_leaves(each.request))))
        lines = list(_differences(dict(_leaves(best.request)), asked))
        shown = lines[:MAX_DIFFERENCES]
        if len(lines) > len(shown):
            shown.append(f"... and {len(lines) - len(shown)} more")
        listed = "\n".join(f"  {line}" for line in shown)
        return ModelError(
            f"this request was not recorded; the nearest one differs (recorded -> asked):\n{listed}",
            code="not-recorded",
            retryable=False,
            hint="Record the run again, or ask what was asked then: same tasks, harness and model parameters.",
        )


def _no_program() -> ModelError:
    return ModelError(
        "a recording cannot answer programs that call the model by themselves: no request of theirs comes twice",
        code="not-recorded",
        retryable=False,
        hint="Choose a harness whose requests depend on the task only, such as tool_loop.",
    )


def _recorded_error(exchange: Exchange) -> ModelError:
    error = exchange.error or {}
    return ModelError(
        str(error.get("message")),
        code=str(error.get("code")),
        retryable=False,
        hint=error.get("hint"),
    )


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
