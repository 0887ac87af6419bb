"""One model call: as many requests as it takes, within its number of retries and its time."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, TypeAlias, final

import trio

from agentcompass.components.base import ModelRetry
from agentcompass.components.messages import Reply
from agentcompass.components.models import wire
from agentcompass.components.models.exchange import CompleteAnswer, Exchanger
from agentcompass.components.models.failures import EndpointError, cannot_send
from agentcompass.components.models.meter import Meter, MeteredTry
from agentcompass.components.models.protocols import Codec
from agentcompass.data import frozen
from agentcompass.net.limits import EndpointLimiter, PauseTooLongError, Place
from agentcompass.net.retry import Uniform, backoff_seconds
from agentcompass.records import JSON

MAX_MALFORMED: Final = 3
"""Unusable answers to one call until it is given up: they are paid for, and rarely get better."""


@frozen(kw_only=True)
class Timing:
    """The waits of a client that no setting names."""

    idle_seconds: float = 120.0
    """The longest silence in the middle of an answer."""
    backoff_base_seconds: float = 1.0
    """Upper end of the random wait after the first failure; it doubles with each further one."""
    backoff_cap_seconds: float = 60.0
    """Upper end of that wait at most."""


@frozen
class Ending:
    """How a call ended."""

    body: Mapping[str, JSON]
    """What was asked."""
    payload: Mapping[str, JSON] | None = None
    """What was answered, in the protocol's form; None: an error."""
    raw_usage: JSON = None
    error: EndpointError | None = None


Record: TypeAlias = Callable[[Ending], Awaitable[None]]


@final
class Caller:
    """Makes calls to one endpoint, for all attempts of a run.

    Args:
        exchanger: Sends the requests.
        limiter: Says how many at once.
        codec: Reads the answers.
        max_retries: Of one call, after the first try.
        timeout_seconds: Of one call: its tries and the waits between them, but not the wait for other calls to leave
            it a place. 0 means none.
        timing: Back-off.
        random: Where chance comes from.
    """

    record: Record | None = None
    """Keeps each call that came to its end, with what was asked; None: nobody wants to know."""

    def __init__(
        self,
        exchanger: Exchanger,
        limiter: EndpointLimiter,
        codec: Codec,
        *,
        max_retries: int,
        timeout_seconds: float,
        timing: Timing,
        random: Uniform,
    ) -> None:
        self._exchanger = exchanger
        self._limiter = limiter
        self._codec = codec
        self._max_retries = max_retries
        self._timeout_seconds = timeout_seconds
        self._timing = timing
        self._random = random

    async def call(
        self, body: Mapping[str, JSON], meter: Meter, on_retry: Callable[[ModelRetry], None]
    ) -> Reply:
        """Ask until there is a reply.

        Nothing of an answer is handed out before all of it is there, so a broken one may be asked for again.

        Args:
            body: The request.
            meter: Counts every request that is made.
            on_retry: Told before each wait for another try.

        Raises:
            EndpointError: Another try cannot help, or none is left in number or time.
        """
        try:
            content = await wire.encode(body)
        except ValueError as error:
            raise cannot_send(f"the request cannot be written as JSON: {error}") from error
        clock = _CallClock(self._timeout_seconds or math.inf)
        failures: list[EndpointError] = []
        while True:
            try:
                payload, reply, raw_usage = await self._try(content, meter, clock)
            except EndpointError as error:
                failures.append(error)
                if not error.retryable:
                    await self._keep(Ending(body, error=error))
            else:
                await self._keep(Ending(body, payload, raw_usage))
                return reply
            wait = self._wait_after(failures, clock)
            failed = failures[-1]
            on_retry(
                ModelRetry(
                    code=failed.code,
                    message=failed.message,
                    wait_seconds=wait,
                    try_number=len(failures),
                )
            )
            with clock.running():
                await trio.sleep(wait)

    async def _try(
        self, content: bytes, meter: Meter, clock: _CallClock
    ) -> tuple[Mapping[str, JSON], Reply, JSON]:
        with meter.one_try() as metered:
            answer = await self._exchange(content, metered, clock)
            payload = await self._exchanger.read(answer, metered)
            reply = self._codec.reply(payload, meter.price(metered.raw_usage))
            return payload, reply, metered.raw_usage

    async def _keep(self, ending: Ending) -> None:
        if self.record is not None:
            await self.record(ending)

    async def _exchange(
        self, content: bytes, metered: MeteredTry, clock: _CallClock
    ) -> CompleteAnswer:
        try:
            async with self._limiter.place(patience_seconds=clock.left_seconds) as place:
                with clock.running():
                    return await self._send(content, metered, place)
        except PauseTooLongError as error:
            raise EndpointError(
                str(error), code="rate-limited", retryable=True, asked_seconds=error.seconds
            ) from error
        raise EndpointError(
            f"no complete answer within {self._timeout_seconds:g} s (timeout_seconds)",
            code="timed-out",
            retryable=True,
        )

    async def _send(self, content: bytes, metered: MeteredTry, place: Place) -> CompleteAnswer:
        try:
            answer = await self._exchanger.send(content, metered)
        except EndpointError as error:
            if error.code == "rate-limited":
                place.rate_limited(error.asked_seconds or 0.0)
            raise
        place.succeeded()
        return answer

    def _wait_after(self, failures: list[EndpointError], clock: _CallClock) -> float:
        """Return how long to wait before the next try; raise the last failure if there is none."""
        error = failures[-1]
        n_malformed = sum(failure.code == "malformed-response" for failure in failures)
        is_last = len(failures) > self._max_retries or n_malformed >= MAX_MALFORMED
        if not error.retryable or clock.left_seconds <= 0:
            raise error
        if is_last:
            raise _with_addition(error, f"after {len(failures)} tries" if failures[1:] else "")
        own = backoff_seconds(
            len(failures),
            base_seconds=self._timing.backoff_base_seconds,
            cap_seconds=self._timing.backoff_cap_seconds,
            random=self._random,
        )
        wait = max(own, error.asked_seconds or 0.0)
        if wait < clock.left_seconds:
            return wait
        who = "the endpoint asked for" if error.asked_seconds == wait else "next would be"
        raise _with_addition(
            error,
            f"{who} a wait of {wait:.0f} s, but {clock.left_seconds:.0f} s are left of timeout_seconds",
        )


@final
class _CallClock:
    """The time that is left to one call; it runs only while the call itself does something."""

    def __init__(self, limit_seconds: float) -> None:
        self.left_seconds = limit_seconds

    @contextmanager
    def running(self) -> Iterator[None]:
        """Spend time in the block, which is cancelled when there is none left."""
        started = trio.current_time()
        try:
            with trio.move_on_after(max(0.0, self.left_seconds)):
                yield
        finally:
            self.left_seconds -= trio.current_time() - started


def _with_addition(error: EndpointError, addition: str) -> EndpointError:
    if not addition:
        return error
    return EndpointError(
        f"{error.message} ({addition})",
        code=error.code,
        retryable=error.retryable,
        hint=error.hint,
        asked_seconds=error.asked_seconds,
    )
