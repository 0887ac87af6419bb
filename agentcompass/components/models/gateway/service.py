"""One connection of a program to its gateway: who may ask, which path is which call, and what is answered."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, final

import trio

from agentcompass.components.base import MiB, ServedCall
from agentcompass.components.models import wire
from agentcompass.components.models.anthropic import Anthropic
from agentcompass.components.models.gateway.passage import Passage
from agentcompass.components.models.gateway.refusals import JSON_TYPE, explanation, refusal_for
from agentcompass.components.models.gateway.request import (
    COUNT_TOKENS,
    headers_of,
    key_of,
    outbound,
    query_of,
    resource_of,
)
from agentcompass.components.models.protocols import CODECS, OPERATIONS
from agentcompass.errors import ModelError
from agentcompass.net.http_server import Answering, Asked, RefusedError
from agentcompass.records import JSON

if TYPE_CHECKING:
    from agentcompass.components.models.gateway.gate import Gate

_ENCODINGS: Final = ("", "identity")
MAX_REQUEST_BYTES: Final = 32 * MiB
"""Images included."""
MAX_HELD_BYTES: Final = 2 * MAX_REQUEST_BYTES
"""Of all requests of a sandbox that are being read or answered."""


@final
class ProgramService:
    """What a connection is served by (`net.http_server.Service`).

    Args:
        gate: Of its sandbox.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._call = trio.CancelScope()
        self.is_busy = False
        """A request is being answered."""
        self.was_busy = False
        """There has been one."""
        self.held_bytes = 0
        """Of that request, while it is read or answered."""

    def cut(self) -> None:
        """End the call that is being made, if there is one: what has not been answered yet is refused."""
        self._call.cancel(reason="the key has died")

    # --- net.http_server.Service

    def admit(self, asked: Asked) -> None:
        """Let nobody in without the key, nor a request that nothing can come of."""
        gate = self._gate
        key = key_of(asked.headers).encode("utf-8", "replace")
        if not (hmac.compare_digest(key, gate.key.encode()) and gate.is_open):
            raise RefusedError(401)
        if asked.headers.get("content-encoding", "").lower() not in _ENCODINGS:
            raise RefusedError(415)
        size = _size_of(asked)
        if gate.held_bytes + size > MAX_HELD_BYTES:
            raise RefusedError(503)
        self.is_busy = self.was_busy = True
        self.held_bytes = size

    def explain(self, status: int) -> tuple[Mapping[str, str], bytes]:
        """Return what a status means, in the form of the protocol."""
        return JSON_TYPE, explanation(self._gate.protocol, status)

    async def answer(self, asked: Asked, out: Answering) -> None:
        """Answer a request; when the key dies meanwhile, with 401 or by cutting what has begun."""
        try:
            with trio.CancelScope() as self._call:
                await self._answer(asked, out)
        finally:
            self.is_busy, self.held_bytes = False, 0
            self._gate.make_known()
        if self._call.cancelled_caught and not out.is_begun:
            raise RefusedError(401)

    # --- what is asked for

    async def _answer(self, asked: Asked, out: Answering) -> None:
        resource, protocol = resource_of(asked.path), self._gate.protocol
        if not self._gate.is_open:  # it may have died while the body came
            raise RefusedError(401)
        if asked.method in ("GET", "HEAD"):
            await out.whole(200, JSON_TYPE, json.dumps(self._looked_up(resource)).encode())
            return
        if asked.method != "POST":
            raise RefusedError(405, headers={"Allow": "GET, HEAD, POST"})
        counts = resource == f"{CODECS[Anthropic.name].operation}/{COUNT_TOKENS}"
        spoken = Anthropic.name if counts else OPERATIONS.get(resource)
        if spoken is None:
            raise RefusedError(404)
        if spoken != protocol:
            words = f"the model is reached by the protocol {protocol} here, and this path is of {spoken}"
            raise RefusedError(404, explanation(protocol, 404, words))
        if counts:
            await self._count(asked, out)
        else:
            await self._call_model(asked, out)

    def _looked_up(self, resource: str) -> JSON:
        """What a GET finds: the one model."""
        known = {
            "": {},
            "models": _models(self._gate),
            f"models/{self._gate.model}": _model(self._gate),
        }
        if resource not in known:
            raise RefusedError(404)
        return known[resource]

    async def _call_model(self, asked: Asked, out: Answering) -> None:
        gate = self._gate
        if not gate.may_call:
            words = f"the program has made the {gate.max_calls} calls that it may"
            await out.whole(403, JSON_TYPE, explanation(gate.protocol, 403, words))
            gate.exhaust()
            return
        with gate.calling():  # also while its body is read: others that come meanwhile count it
            request = outbound(
                await self._read(asked), gate.lent.params, model=gate.model, protocol=gate.protocol
            )
            passage = Passage(
                out,
                headers=headers_of(asked.headers),
                query=query_of(asked.query),
                hides_usage=request.hides_usage,
            )
            started = trio.current_time()
            reply, error = None, None
            try:
                reply = await gate.lent.forward(request.body, passage)
            except ModelError as failure:
                error = failure
            seconds = trio.current_time() - started
            # Before the program knows that its answer is complete: it may end then, and all of this with it.
            await gate.tell(ServedCall(seconds=seconds, reply=reply, error=error))
        if error is None or passage.is_begun:
            await passage.finish()
            return
        refusal = refusal_for(error, gate.protocol)
        try:
            await out.whole(refusal.status, {**JSON_TYPE, **refusal.headers}, refusal.body or b"")
        finally:
            gate.judge(error)

    async def _count(self, asked: Asked, out: Answering) -> None:
        """Ask the endpoint what a request would use: no model call, and never a reason to end anything."""
        gate = self._gate
        body = {**await self._read(asked), "model": gate.model}
        passage = Passage(
            out,
            headers=headers_of(asked.headers),
            query=query_of(asked.query),
            suffix=f"/{COUNT_TOKENS}",
        )
        try:
            await gate.lent.ask_aside(body, passage)
        except ModelError as error:
            raise refusal_for(error, gate.protocol) from error
        await passage.finish()

    async def _read(self, asked: Asked) -> Mapping[str, JSON]:
        with suppress(ValueError):
            body = await wire.decode(asked.body)
            if isinstance(body, Mapping):
                return body
        words = "the request is no JSON object"
        raise RefusedError(400, explanation(self._gate.protocol, 400, words))


def _size_of(asked: Asked) -> int:
    """How large a request says that it is, or may be where it does not say; one that is too large is refused unread."""
    if "transfer-encoding" in asked.headers:
        return MAX_REQUEST_BYTES
    return min(MAX_REQUEST_BYTES, int(asked.headers.get("content-length", "0")))


def _model(gate: Gate) -> dict[str, JSON]:
    if gate.protocol == Anthropic.name:
        created = "1970-01-01T00:00:00Z"
        return {
            "type": "model",
            "id": gate.model,
            "display_name": gate.model,
            "created_at": created,
        }
    return {"id": gate.model, "object": "model", "created": 0, "owned_by": "agentcompass"}


def _models(gate: Gate) -> dict[str, JSON]:
    if gate.protocol == Anthropic.name:
        ends = {"first_id": gate.model, "last_id": gate.model, "has_more": False}
        return {"data": [_model(gate)], **ends}
    return {"object": "list", "data": [_model(gate)]}
