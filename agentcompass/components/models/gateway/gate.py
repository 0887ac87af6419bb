"""The gateway of one sandbox: its key, its connections, and its end."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Final, Protocol, final

import attrs
import trio

from agentcompass.components.base import GATEWAY_CONNECTIONS, Inlet, ServedCall, Session
from agentcompass.components.inlet import listening, listening_here
from agentcompass.components.messages import Reply
from agentcompass.components.models.exchange import Through
from agentcompass.components.models.gateway.service import MAX_REQUEST_BYTES, ProgramService
from agentcompass.errors import ModelError
from agentcompass.net.http_server import Bounds
from agentcompass.net.http_server import serve as serve_connection
from agentcompass.records import JSON

_BOUNDS: Final = Bounds(max_body_bytes=MAX_REQUEST_BYTES)
_BUSY_SECONDS: Final = 0.1
_NEW_SECONDS: Final = 2.0
"""So long the first request of a new connection is taken to be on its way."""
_TELL_SECONDS: Final = 10.0
"""For writing down a call that is over, once the block has ended."""
_LEFT_TO_PROGRAMS: Final = frozenset({"bad-request", "context-exceeded", "reasoning-refused"})
"""Errors that a program may know how to go on after."""


class Lent(Protocol):
    """What a gateway needs of the model lent to an attempt."""

    id: str
    protocol: str

    @property
    def params(self) -> Mapping[str, JSON]:
        """Of the user."""
        ...

    @property
    def is_revoked(self) -> bool:
        """Whether every call is refused."""
        ...

    async def forward(self, body: Mapping[str, JSON], through: Through) -> Reply | None:
        """Make a call whose answer is handed on; None if it cannot be read as a reply.

        Raises:
            ModelError: There is none, or it broke off.
        """
        ...

    async def ask_aside(self, body: Mapping[str, JSON], through: Through) -> None:
        """Ask the endpoint what is no model call; errors as of `forward`."""
        ...


@attrs.define(eq=False)
class _Connection:
    service: ProgramService
    since: float
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is asked on it, and nothing is likely to be on its way."""
        service, is_new = self.service, trio.current_time() < self.since + _NEW_SECONDS
        return not service.is_busy and (service.was_busy or not is_new)


@final
class Gate:
    """What all connections of a sandbox share (`components.base.Gateway`).

    Args:
        lent: The model.
        inlet: Where its programs are accepted.
        on_call: Told of each call that is over.
        max_calls: Replies after which further calls are refused; None: no limit.
    """

    def __init__(
        self,
        lent: Lent,
        inlet: Inlet,
        on_call: Callable[[ServedCall], Awaitable[None]] | None,
        max_calls: int | None,
    ) -> None:
        self.lent, self.model, self.protocol = lent, lent.id, lent.protocol
        self.url = f"http://{inlet.host}:{inlet.port}"
        self.key = f"agentcompass-{secrets.token_urlsafe(32)}"
        self.max_calls = max_calls
        self.is_exhausted = False
        self.in_flight = 0
        self.failure: ModelError | None = None
        """Why no call can succeed any more."""
        self.block = trio.CancelScope()
        """Around what goes on while the model is served."""
        self._listener = inlet.listener
        self._on_call = on_call
        self._deadline = trio.current_effective_deadline()
        self._is_dead = False
        self._n_replies = 0
        self._life = trio.CancelScope(shield=True)
        self._connections: dict[_Connection, None] = {}
        """Those that are served, in order of arrival."""
        self._changed = trio.Event()

    # --- the key

    @property
    def is_open(self) -> bool:
        """Whether the key is valid."""
        is_over = self._is_dead or trio.current_time() >= self._deadline
        return not (is_over or self.lent.is_revoked)

    def die(self) -> None:
        """End the key at once, and with it what is in flight."""
        self._is_dead = True
        for connection in self._connections:
            connection.service.cut()

    def close(self) -> None:
        """Close all connections at once."""
        self.die()
        self._life.cancel(reason="the gateway closes")

    # --- calls

    @property
    def held_bytes(self) -> int:
        """Of all requests that are being read or answered."""
        return sum(connection.service.held_bytes for connection in self._connections)

    @property
    def may_call(self) -> bool:
        """Whether another call may be made."""
        made = self._n_replies + self.in_flight
        return not self.is_exhausted and (self.max_calls is None or made < self.max_calls)

    def exhaust(self) -> None:
        """End the block, when the calls in flight are over: one was refused since there had been enough."""
        self.is_exhausted = True
        if not self.in_flight:
            self.block.cancel(reason="the calls are used up")

    @contextmanager
    def calling(self) -> Iterator[None]:
        """A call is made during the block."""
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            if self.is_exhausted:
                self.exhaust()

    def judge(self, error: ModelError) -> None:
        """End the block after an error that every further call would meet too.

        Args:
            error: Of a call, its retries included, of whose answer nothing was there.
        """
        if error.code in _LEFT_TO_PROGRAMS or not self.is_open:
            return
        self.failure = self.failure or error
        self.block.cancel(reason="a model call has failed for good")

    async def tell(self, call: ServedCall) -> None:
        """Count a call that is over, and tell whoever wants to know; an end that comes meanwhile waits a moment for that."""
        self._n_replies += call.error is None
        if self._on_call is None:
            return
        scope = trio.CancelScope(shield=True)

        async def hasten() -> None:
            try:
                await trio.sleep_forever()
            finally:
                scope.deadline = trio.current_time() + _TELL_SECONDS

        async with trio.open_nursery() as nursery:
            nursery.start_soon(hasten)
            with scope:
                await self._on_call(call)
            nursery.cancel_scope.cancel(reason="it is told")

    # --- connections

    async def run(self) -> None:
        """Serve, until `close`: a block that is cancelled takes a moment to end, and its programs may ask meanwhile."""
        with self._life:
            async with trio.open_nursery() as nursery:
                while True:
                    try:
                        stream = await self._listener.accept()
                    except OSError:  # no descriptor is left: others will be closed
                        await trio.sleep(_BUSY_SECONDS)
                        continue
                    try:
                        await self._make_place()
                    except trio.Cancelled:
                        await trio.aclose_forcefully(stream)
                        raise
                    connection = _Connection(ProgramService(self), trio.current_time())
                    self._connections[connection] = None
                    nursery.start_soon(self._serve, connection, stream)

    async def watch(self) -> None:
        """End the key when the block is cancelled, whatever its programs do then."""
        try:
            await trio.sleep_forever()
        finally:
            self.die()

    async def _make_place(self) -> None:
        """Wait for a place, for which the oldest connection that is idle, or becomes so, is closed."""
        while len(self._connections) >= GATEWAY_CONNECTIONS:
            idle = (one for one in self._connections if one.is_idle)
            if (oldest := next(idle, None)) is not None:
                oldest.scope.cancel(reason="another connection needs its place")
            with trio.move_on_after(_NEW_SECONDS):
                await self._changed.wait()

    def make_known(self) -> None:
        """A connection has become idle, or has ended."""
        self._changed.set()
        self._changed = trio.Event()

    async def _serve(self, connection: _Connection, stream: trio.abc.HalfCloseableStream) -> None:
        try:
            with connection.scope:
                async with stream:
                    await serve_connection(stream, connection.service, _BOUNDS)
        finally:
            del self._connections[connection]
            self.make_known()


@asynccontextmanager
async def serve(
    lent: Lent,
    session: Session | None,
    on_call: Callable[[ServedCall], Awaitable[None]] | None,
    max_calls: int | None,
) -> AsyncIterator[Gate]:
    """Serve a model to programs during the block; see `components.base.Model.serve`."""
    failure: Exception | None = None
    way = listening(listening_here()) if session is None else session.listen()
    async with way as inlet:
        gate = Gate(lent, inlet, on_call, max_calls)
        with gate.block:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(gate.run)
                nursery.start_soon(gate.watch)
                try:
                    yield gate
                except Exception as error:  # noqa: BLE001  # raised below, in no group
                    failure = error
                finally:
                    gate.close()
                    nursery.cancel_scope.cancel(reason="the block is over")
    if gate.failure is not None:
        raise gate.failure
    if failure is not None:
        raise failure
