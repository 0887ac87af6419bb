"""From the endpoint's answer to the program that waits for it, piece by piece as it comes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final, final

from agentcompass.components.models.exchange import Head
from agentcompass.net.http_server import Answering

_KEPT_HEADERS: Final = ("content-type", "request-id", "x-request-id")
"""Others tell of the user's account, or of limits that the gateway keeps."""
_EVENT_END: Final = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)")
_MAX_HELD: Final = 64 * 1024
"""Bytes of an event that are held back to see what it is."""


@final
class Passage:
    """What an `Exchanger` hands an answer on to (`exchange.Through`).

    Args:
        out: To the program.
        headers: Of its request that go on, names in lower case.
        query: Of its request that goes on.
        suffix: Of the path, after the protocol's own.
        hides_usage: It has not asked for the event that tells usage.
    """

    def __init__(
        self,
        out: Answering,
        *,
        headers: Mapping[str, str],
        query: Mapping[str, str],
        suffix: str = "",
        hides_usage: bool = False,
    ) -> None:
        self.headers, self.query, self.suffix = headers, query, suffix
        self._out = out
        self._status = 200
        self._kept: Mapping[str, str] = {}
        self._sieve = UsageSieve() if hides_usage else None
        self._content: bytes | None = None
        self._is_over = False

    @property
    def is_begun(self) -> bool:
        """Whether something of an answer has gone on: then nobody can try again."""
        return self._out.is_begun

    def take_head(self, answer: Head) -> None:
        """Remember what an answer is."""
        self._status = answer.status
        self._kept = {
            name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers
        }

    async def hand_on(self, piece: bytes) -> None:
        """Send a piece of a stream."""
        if not self._out.is_begun:
            await self._out.begin(self._status, self._kept)
        await self._out.send(piece if self._sieve is None else self._sieve.feed(piece))

    def take_end(self) -> None:
        """Remember that the stream is over."""
        self._is_over = True

    def take_whole(self, content: bytes) -> None:
        """Remember an answer that is no stream."""
        self._content = content

    async def finish(self) -> None:
        """Send what is still to be sent; nothing more where the answer broke off, which is then cut."""
        if self._content is not None:
            await self._out.whole(self._status, self._kept, self._content)
        elif self._is_over:
            await self.hand_on(b"" if self._sieve is None else self._sieve.rest())
            await self._out.finish()


@final
class UsageSieve:
    """Leaves out of a stream the event that tells usage and nothing else: clients that did not ask trip over it."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, piece: bytes) -> bytes:
        """Take bytes, and return those that can go on."""
        *events, self._held = _EVENT_END.split(self._held + piece)
        if len(self._held) > _MAX_HELD:
            events.append(self.rest())
        return b"".join(event for event in events if not _is_usage_only(event))

    def rest(self) -> bytes:
        """Return what is held back."""
        held, self._held = self._held, b""
        return held


def _is_usage_only(event: bytes) -> bool:
    if b'"usage"' not in event:
        return False
    lines = (line.removeprefix(b"data:") for line in event.splitlines())
    try:
        payload = json.loads(b"".join(lines))
    except ValueError:
        return False
    is_object = isinstance(payload, dict)
    return is_object and payload.get("choices") == [] and bool(payload.get("usage"))
