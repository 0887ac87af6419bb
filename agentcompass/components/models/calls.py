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
from agentcompass.components.models.estimate import TokenEstimate
from agentcompass.components.models.exchange import (
    CompleteAnswer,
    Exchanger,
    PlainAnswer,
    Through,
    wall_clock,
)
from agentcompass.components.models.failures import RATE_LIMITED, EndpointError, cannot_send
from agentcompass.components.models.meter import Meter, MeteredTry
from agentcompass.components.models.protocols import Codec
from agentcompass.data import frozen
from agentcompass.errors import ModelError
from agentcompass.net.http import Answer
from agentcompass.net.limit_headers import about_limits, pause_seconds
from agentcompass.net.limits import EndpointLimiter
from agentcompass.net.pauses import Pauses
from agentcompass.net.retry import Uniform, backoff_seconds
from agentcompass.net.turns import PauseTooLongError, Place, Turn
from agentcompass.records import JSON, Usage

_CHECK_SECONDS: Final = 20.0

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
    """Upper end of that wait at most, and of a pause of all callers."""
    pause_seconds: float = 0.5
    """Upper end of the pause of all callers after the first refusal that names no time; it grows with each further one."""

    def pauses(self) -> Pauses:
        """Return the pauses of an endpoint."""
        return Pauses(first_seconds=self.pause_seconds, longest_seconds=self.backoff_cap_seconds)


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
        limiter: Says how many at once and per minute; shared by all who use the endpoint with the same key.
        codec: Reads the answers.
        max_retries: Of one call, after the first try. To be refused while the endpoint takes others is none of them: such a
            call waits until it is taken, or its time is over; unless there are to be no retries at all.
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
        self._estimate = TokenEstimate()

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
        with meter.calling():
            reply = await self._call(body, meter, on_retry, None)
        assert reply is not None
        return reply

    async def forward(
        self,
        body: Mapping[str, JSON],
        meter: Meter,
        on_retry: Callable[[ModelRetry], None],
        through: Through,
    ) -> Reply | None:
        """Ask until there is an answer, which is handed on while it comes in; nothing is tried again once it has begun to.

        Returns:
            The same as a reply; None where it cannot be read as one.

        Raises:
            EndpointError: As of `call`; or the answer broke off, or ended with an error, after it had been begun.
        """
        with meter.calling():
            return await self._call(body, meter, on_retry, through)

    async def ask_aside(self, body: Mapping[str, JSON], through: Through) -> None:
        """Hand on the answer to what is no model call, and so is not tried again, metered or kept.

        Raises:
            EndpointError: There is none.
        """
        content = await _encoded(body)
        clock = _CallClock(self._timeout_seconds or math.inf)
        tries = _Tries(self._limiter.turn(), content, 0.0, through)
        place = self._limiter.place(tries.turn, patience_seconds=clock.left_seconds)
        answer = await self._exchange(place, tries, MeteredTry(), clock)
        if isinstance(answer, PlainAnswer):
            through.take_whole(answer.content)

    async def check_path(self) -> None:
        """Check that the endpoint knows the path of calls, by a request that nothing can come of.

        Raises:
            EndpointError: It does not (`endpoint-not-found`). What else is wrong is for the first call to find out.
        """
        with trio.move_on_after(_CHECK_SECONDS):
            try:
                await self._exchanger.send(b"{}", MeteredTry(), lambda _answer: None)
            except EndpointError as error:
                if error.code == "endpoint-not-found":
                    raise

    async def _call(
        self,
        body: Mapping[str, JSON],
        meter: Meter,
        on_retry: Callable[[ModelRetry], None],
        through: Through | None,
    ) -> Reply | None:
        content = await _encoded(body)
        clock = _CallClock(self._timeout_seconds or math.inf)
        tries = _Tries(self._limiter.turn(), content, self._expected_tokens(body), through)
        while True:
            try:
                payload, reply, raw_usage = await self._try(tries, meter, clock)
            except EndpointError as error:
                tries.add(error, is_counted=not tries.is_crowded or not self._max_retries)
                has_begun = through is not None and through.is_begun
                if not error.retryable:
                    await self._keep(Ending(body, error=error))
                if has_begun:
                    raise
            else:
                if reply is not None:
                    counts = self._limiter.limits.tpm is not None
                    self._estimate.learn(reply.usage, body if counts else None)
                await self._keep(Ending(body, payload, raw_usage))
                return reply
            wait = self._wait_after(tries, clock)
            failed = tries.failures[-1]
            on_retry(
                ModelRetry(
                    code=failed.code,
                    message=failed.message,
                    wait_seconds=wait,
                    try_number=len(tries.failures),
                )
            )
            with clock.running(), meter.waiting():
                await trio.sleep(wait)

    def _expected_tokens(self, body: Mapping[str, JSON]) -> float:
        return 0.0 if self._limiter.limits.tpm is None else self._estimate.of(body)

    async def _try(
        self, tries: _Tries, meter: Meter, clock: _CallClock
    ) -> tuple[Mapping[str, JSON], Reply | None, JSON]:
        place = self._limiter.place(
            tries.turn,
            tokens=tries.tokens,
            patience_seconds=clock.left_seconds,
            waiting=meter.waiting,
        )
        with meter.one_try() as metered:
            answer = await self._exchange(place, tries, metered, clock)
            payload = await self._exchanger.read(answer, metered)
            usage = meter.usage_of(metered)
            if not usage.unmetered_calls:
                place.used(usage.total_tokens)
            if tries.through is None:
                reply: Reply | None = self._codec.reply(payload, usage)
            else:
                if isinstance(answer, PlainAnswer):
                    tries.through.take_whole(answer.content)
                reply = self._readable(payload, usage)
            return payload, reply, metered.raw_usage

    def _readable(self, payload: Mapping[str, JSON], usage: Usage) -> Reply | None:
        """Read an answer that somebody else may make more of."""
        try:
            return self._codec.reply(payload, usage)
        except ModelError:
            return None

    async def _keep(self, ending: Ending) -> None:
        if self.record is not None:
            await self.record(ending)

    async def _exchange(
        self, place: Place, tries: _Tries, metered: MeteredTry, clock: _CallClock
    ) -> CompleteAnswer:
        try:
            async with place:
                with clock.running():
                    return await self._send(place, tries, metered)
        except PauseTooLongError as error:
            raise EndpointError(
                str(error), code=RATE_LIMITED, retryable=True, asked_seconds=error.seconds
            ) from error
        raise EndpointError(
            f"no complete answer within {self._timeout_seconds:g} s (timeout_seconds)",
            code="timed-out",
            retryable=True,
        )

    async def _send(self, place: Place, tries: _Tries, metered: MeteredTry) -> CompleteAnswer:
        def heed(answer: Answer) -> None:
            if told := about_limits(answer.raw_headers):
                place.pause(pause_seconds(told, now=wall_clock(), tokens=self._estimate.typical))

        try:
            answer = await self._exchanger.send(tries.content, metered, heed, tries.through)
        except EndpointError as error:
            if error.code == RATE_LIMITED:
                tries.is_crowded = not place.refused(error.asked_seconds)
            raise
        place.succeeded()
        return answer

    def _wait_after(self, tries: _Tries, clock: _CallClock) -> float:
        """Return how long to wait before the next try; raise the last failure if there is none."""
        failures, error = tries.failures, tries.failures[-1]
        n_malformed = sum(failure.code == "malformed-response" for failure in failures)
        is_last = tries.n_counted > self._max_retries or n_malformed >= MAX_MALFORMED
        if not error.retryable or clock.left_seconds <= 0:
            raise error
        if is_last:
            raise _with_addition(error, f"after {len(failures)} tries" if failures[1:] else "")
        wait = max(self._own_wait(tries), error.asked_seconds or 0.0)
        left = clock.left_seconds
        if wait < left:
            return wait
        who = "the endpoint asked for" if error.asked_seconds == wait else "next would be"
        raise _with_addition(
            error, f"{who} a wait of {wait:.0f} s, but {left:.0f} s are left of timeout_seconds"
        )

    def _own_wait(self, tries: _Tries) -> float:
        if tries.failures[-1].code == RATE_LIMITED:
            return self._limiter.pause_seconds  # of all callers: nobody backs off alone
        return backoff_seconds(
            max(1, tries.n_counted),
            base_seconds=self._timing.backoff_base_seconds,
            cap_seconds=self._timing.backoff_cap_seconds,
            random=self._random,
        )


@final
class _Tries:
    """The tries of one call.

    Args:
        turn: Its place in the order of all calls.
        content: What is sent each time.
        tokens: What it is expected to use.
        through: Where the answer is handed on; None: nowhere.
    """

    def __init__(self, turn: Turn, content: bytes, tokens: float, through: Through | None) -> None:
        self.turn, self.content, self.tokens, self.through = turn, content, tokens, through
        self.failures: list[EndpointError] = []
        self.n_counted = 0
        """Those that use up `max_retries`."""
        self.is_crowded = False
        """The endpoint refused the present try while it took others."""

    def add(self, failure: EndpointError, *, is_counted: bool) -> None:
        """Note how a try failed."""
        self.failures.append(failure)
        self.n_counted += is_counted
        self.is_crowded = False


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


async def _encoded(body: Mapping[str, JSON]) -> bytes:
    try:
        return await wire.encode(body)
    except ValueError as error:
        raise cannot_send(f"the request cannot be written as JSON: {error}") from error


def _with_addition(error: EndpointError, addition: str) -> EndpointError:
    if not addition:
        return error
    longer = EndpointError(
        f"{error.message} ({addition})",
        code=error.code,
        retryable=error.retryable,
        hint=error.hint,
        asked_seconds=error.asked_seconds,
    )
    longer.said = error.said
    return longer
