"""One request to the endpoint and its complete answer: no retries, no limits."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, final

import attrs
import trio

from agentcompass.components.models import wire
from agentcompass.components.models.failures import (
    EndpointError,
    ErrorObject,
    Said,
    Wording,
    from_answer,
    malformed,
)
from agentcompass.components.models.meter import MeteredTry
from agentcompass.components.models.protocols import Codec, StreamedAnswer
from agentcompass.data import frozen
from agentcompass.errors import ModelError
from agentcompass.net.address import Address
from agentcompass.net.http import (
    Answer,
    BodyTooLargeError,
    ConnectFailedError,
    HttpClient,
    NetworkError,
    RequestBody,
    StalledError,
)
from agentcompass.net.retry import asked_wait_seconds
from agentcompass.net.sse import DONE, EventDecoder, EventTooLargeError, ServerSentEvent
from agentcompass.records import JSON

MAX_BODY_BYTES: Final = 64 * 1024 * 1024
_MAX_ERROR_BYTES: Final = 64 * 1024
"""So much of an error's body is read: more than anybody is shown."""
_SHOWN: Final = 200
"""Characters shown of a body that is no JSON."""


@final
@frozen
class PlainAnswer:
    """A complete answer in one piece, not yet read as JSON."""

    content: bytes


CompleteAnswer: TypeAlias = PlainAnswer | StreamedAnswer


class Head(Protocol):
    """The beginning of an answer (`net.http.Answer`, or of one that was recorded)."""

    @property
    def status(self) -> int:
        """Of HTTP."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """By name."""
        ...


class Through(Protocol):
    """Where an answer is handed on while it comes in: to a program that has asked by itself."""

    headers: Mapping[str, str]
    """Of its request, which go on; names in lower case."""
    query: Mapping[str, str]
    """Likewise."""
    suffix: str
    """Of the path, after the protocol's own."""

    @property
    def is_begun(self) -> bool:
        """Whether something of an answer has been handed on: then nobody can try again."""
        ...

    def take_head(self, answer: Head) -> None:
        """Take note of an answer that is no error."""

    async def hand_on(self, piece: bytes) -> None:
        """Hand on a piece of a stream."""

    def take_end(self) -> None:
        """Take note that the stream is over, in good order."""

    def take_whole(self, content: bytes) -> None:
        """Take an answer that is no stream."""


@final
class Exchanger:
    """Sends requests to the one endpoint and reads what comes back.

    Args:
        http: Connections to the server.
        addresses: Where the operation may be, the likeliest first.
        headers: Of every request, key included.
        codec: The protocol.
        wording: Cleans what the endpoint says.
        idle_seconds: The longest silence in the middle of an answer.
    """

    def __init__(
        self,
        http: HttpClient,
        addresses: Sequence[Address],
        *,
        headers: Mapping[str, str],
        codec: Codec,
        wording: Wording,
        idle_seconds: float,
    ) -> None:
        self._http = http
        self._addresses = tuple(addresses)
        self._headers = headers
        self._codec = codec
        self._wording = wording
        self._idle_seconds = idle_seconds

    async def send(
        self,
        content: bytes,
        metered: MeteredTry,
        on_head: Callable[[Answer], None],
        through: Through | None = None,
    ) -> CompleteAnswer:
        """Send a request and wait for the whole answer. The first address that works is the only one from then on.

        Args:
            content: The request's body.
            metered: Where is written down how far the request got, and the usage of a stream that breaks.
            on_head: Told of the head of every answer, whatever its status.
            through: Where a streamed answer is handed on while it comes in; None: nowhere.

        Raises:
            EndpointError: There is no complete answer, or it is an error.
        """
        unknown_path: EndpointError | None = None
        for address in self._addresses:
            try:
                answer = await self._send_to(address, content, metered, on_head, through)
            except EndpointError as error:
                if error.code != "endpoint-not-found":
                    raise
                unknown_path = unknown_path or error
            else:
                self._addresses = (address,)
                return answer
        raise unknown_path or AssertionError("no address")

    async def read(self, answer: CompleteAnswer, metered: MeteredTry) -> Mapping[str, JSON]:
        """Return what an answer says, its usage having been written down.

        Raises:
            EndpointError: It is no JSON object (`malformed-response`), or an error that came as if all were well.
        """
        if not isinstance(answer, PlainAnswer):
            return answer.whole()
        payload = await self._decode(answer.content)
        if not isinstance(payload, Mapping):
            raise malformed("it is no JSON object")
        metered.raw_usage = payload.get("usage")
        if (failure := self._codec.failure(payload)) is not None:
            raise self._failure(failure)
        return payload

    async def _decode(self, content: bytes) -> JSON:
        try:
            return await wire.decode(content)
        except ValueError as error:
            start = self._wording.clean(content[: 4 * _SHOWN].decode(errors="replace"), _SHOWN)
            raise malformed(f"it is no JSON ({error}): {start or 'empty'}") from error

    async def _send_to(
        self,
        address: Address,
        content: bytes,
        metered: MeteredTry,
        on_head: Callable[[Answer], None],
        through: Through | None,
    ) -> CompleteAnswer:
        body, headers = RequestBody(content), self._headers
        if through is not None:
            address = address.extended(through.suffix, through.query)
            headers = {**{name.lower(): headers[name] for name in headers}, **through.headers}
        try:
            async with self._http.post(address, headers=headers, body=body) as answer:
                on_head(answer)
                if not 200 <= answer.status < 300:
                    raise await self._refusal(answer, address)
                metered.is_answered = True
                if through is not None:
                    through.take_head(answer)
                return await self._collect(answer, metered, through)
        except NetworkError as error:
            raise self._network_failure(error, address) from error
        except trio.Cancelled:
            metered.is_at_work = (
                body.is_sent
            )  # the endpoint does not know that nobody waits any more
            raise

    async def _collect(
        self, answer: Answer, metered: MeteredTry, through: Through | None
    ) -> CompleteAnswer:
        if "text/event-stream" not in answer.headers.get("content-type", ""):
            content = await self._read_body(answer, MAX_BODY_BYTES)
            return PlainAnswer(content)
        collecting = _StreamReader(self._codec.new_stream())
        idle, limit = self._idle_seconds, MAX_BODY_BYTES
        try:
            if through is None:
                await answer.read(collecting.take, idle_seconds=idle, max_bytes=limit)
            else:
                take = self._handing_on(collecting, through)
                await answer.relay(take, idle_seconds=idle, max_bytes=limit)
                through.take_end()
            complete = collecting.finish()
        finally:
            metered.raw_usage = collecting.answer.usage
        if complete.error is not None:
            raise self._failure(complete.error)
        return complete

    def _handing_on(
        self, collecting: _StreamReader, through: Through
    ) -> Callable[[bytes], Awaitable[bool]]:
        """What takes the pieces of a stream that is handed on: each is read before it goes.

        As long as nothing has gone, an error in it can be tried again. After that it is the program's to understand; what
        cannot be read goes on all the same.
        """
        is_read = True

        async def take(piece: bytes) -> bool:
            nonlocal is_read
            wants_more = True
            try:
                wants_more = not is_read or collecting.take(piece)
            except ModelError:
                if not through.is_begun:
                    raise
                is_read = False
            if collecting.answer.error is not None and not through.is_begun:
                raise self._failure(collecting.answer.error)
            await through.hand_on(piece)
            return wants_more

        return take

    def _failure(self, payload: JSON) -> EndpointError:
        """The error for one that came inside a success."""
        error = ErrorObject.read(payload)
        return from_answer(error.status, error, wording=self._wording)

    async def _read_body(self, answer: Answer, max_bytes: int) -> bytes:
        chunks: list[bytes] = []

        def take(chunk: bytes) -> bool:
            chunks.append(chunk)
            return True

        await answer.read(take, idle_seconds=self._idle_seconds, max_bytes=max_bytes)
        return b"".join(chunks)

    async def _refusal(self, answer: Answer, address: Address) -> EndpointError:
        """The error for an answer with another status than success."""
        content = b""
        try:
            content = await self._read_body(answer, _MAX_ERROR_BYTES)
            error = ErrorObject.read_body(content)
        except NetworkError as broken:  # the status alone tells enough
            error = ErrorObject(words=str(broken), codes=frozenset())
        if 300 <= answer.status < 400:
            target = self._wording.clean(answer.headers.get("location", "nowhere").split("?")[0])
            error = ErrorObject(words=f"{address} redirects to {target}", codes=frozenset())
        elif answer.status in {404, 405}:
            error = attrs.evolve(error, words=f"{error.words} ({address})")
        refusal = from_answer(
            answer.status,
            error,
            wording=self._wording,
            asked_seconds=asked_wait_seconds(answer.headers, now=wall_clock()),
        )
        body = self._wording.scrubber.scrub(content.decode(errors="replace"))
        refusal.said = Said(answer.status, body)
        return refusal

    def _network_failure(self, error: NetworkError, address: Address) -> EndpointError:
        words = self._wording.clean(str(error))
        if isinstance(error, BodyTooLargeError):
            return malformed(words)
        if isinstance(error, StalledError):
            message = f"the answer of {address} stalled: {words}"
            return EndpointError(message, code="stalled", retryable=True)
        if isinstance(error, ConnectFailedError):
            message = f"cannot connect to {address}: {words}"
            hint = "Is the endpoint running, and is base_url right?"
            return EndpointError(message, code="connection-failed", retryable=True, hint=hint)
        message = f"the connection to {address} broke: {words}"
        return EndpointError(message, code="connection-failed", retryable=True)


@final
class _StreamReader:
    """Turns the bytes of a streamed answer into the answer."""

    def __init__(self, answer: StreamedAnswer) -> None:
        self.answer = answer
        self._decoder = EventDecoder(max_event_bytes=MAX_BODY_BYTES)
        self._is_done = False

    def take(self, chunk: bytes) -> bool:
        """Take bytes; return whether more is wanted."""
        try:
            self._take_events(self._decoder.feed(chunk))
        except EventTooLargeError as error:
            raise malformed(str(error)) from error
        return not (self._is_over or self.answer.error)

    def finish(self) -> StreamedAnswer:
        """Return the answer after its last byte; raises `EndpointError` if it is not complete."""
        self._take_events(self._decoder.finish())
        if not (self.answer.error or self.answer.is_finished):
            raise malformed("the stream ended before the answer did")
        return self.answer

    @property
    def _is_over(self) -> bool:
        return self._is_done or self.answer.is_over

    def _take_events(self, events: Sequence[ServerSentEvent]) -> None:
        for event in events:
            if self._is_over:
                return
            if event.data.strip() == DONE:
                self._is_done = True
                return
            try:
                payload = wire.decode_now(event.data)
            except ValueError as error:
                raise malformed(f"an event of the stream is no JSON ({error})") from error
            self.answer.add(payload)


def wall_clock() -> float:
    """Return the time in seconds since the epoch."""
    return time.time()  # noqa: TID251  # dates in headers are wall-clock dates
