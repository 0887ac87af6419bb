"""Starting a program in the sandbox, and handing out its events, JSON lines, as they come."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, final

import attrs
import trio

from agentcompass.components.base import KiB, MiB, Session
from agentcompass.data import frozen
from agentcompass.records import JSON

MAX_LINE_BYTES: Final = 32 * MiB
"""Of one event; of a longer line only the beginning is kept, which is no event then."""
INLINE_BYTES: Final = 256 * KiB
"""What is read in place; larger lines are read in a worker thread."""
MAX_UNREADABLE: Final = 100
"""Lines that are no events and are told of."""
SHOWN_BYTES: Final = 2000
"""Of such a line."""
_TAIL_BYTES: Final = 4 * KiB
_TAIL_SECONDS: Final = 30.0
_START: Final = 'exec <"$1" 2>"$2"; shift 2; exec "$@"'


@frozen(kw_only=True)
class Launch:
    """What is started."""

    argv: Sequence[str]
    env: Mapping[str, str] = attrs.field(repr=False)


@frozen(kw_only=True)
class Ended:
    """How it ended."""

    exit_code: int
    errors: str
    """The end of its standard error."""


class Listener(Protocol):
    """What makes something of a program's events."""

    async def take(self, event: Mapping[str, Any]) -> None:
        """Take an event."""

    async def take_unreadable(self, text: str) -> None:
        """Take the beginning of a line that is no JSON object."""


async def run_program(
    session: Session, launch: Launch, prompt: str, home: str, listener: Listener
) -> Ended:
    """Run a program to its end. When this is cancelled, nothing of it is left.

    Args:
        session: Of the sandbox.
        launch: What to run.
        prompt: What it reads.
        home: Directory in the sandbox for its input and its errors.
        listener: Gets its events.

    Raises:
        SandboxError: The sandbox failed.
    """
    files = [f"{home}/prompt", f"{home}/errors"]
    await session.write_text(files[0], prompt, mode=0o600)
    argv = ["sh", "-c", _START, "sh", *files, *launch.argv]
    lines, reader = Lines(), _Reader(listener)
    async with session.process(argv, env=launch.env) as program:
        while data := await program.receive():
            for line in lines.feed(data):
                await reader.read(line)
        for line in lines.rest():
            await reader.read(line)
        exit_code = await program.wait()
    told = await session.exec(["tail", "-c", str(_TAIL_BYTES), files[1]], timeout=_TAIL_SECONDS)
    return Ended(exit_code=exit_code, errors=told.stdout.strip())


@final
class _Reader:
    """Hands out what lines say."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._n_unreadable = 0

    async def read(self, line: bytes) -> None:
        """Read a line; of many that are no events only the first are told."""
        if not line.strip():
            return
        if len(line) <= INLINE_BYTES:
            event = _event(line)
        else:
            event = await trio.to_thread.run_sync(_event, line)
        if event is not None:
            await self._listener.take(event)
        elif self._n_unreadable < MAX_UNREADABLE:
            self._n_unreadable += 1
            await self._listener.take_unreadable(line[:SHOWN_BYTES].decode(errors="replace"))


def _event(line: bytes) -> Mapping[str, JSON] | None:
    try:
        event = json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


@final
class Lines:
    """Cuts output into lines. Pure."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take output, and give the lines that it completes."""
        *complete, begun = data.split(b"\n")
        for end in complete:
            self._add(end)
            yield from self.rest()
        self._add(begun)

    def rest(self) -> Iterator[bytes]:
        """Give the line that was begun, if one was."""
        line = b"".join(self._pieces)
        self._pieces, self._size = [], 0
        if line:
            yield line

    def _add(self, piece: bytes) -> None:
        kept = piece[: MAX_LINE_BYTES - self._size]
        if kept:
            self._pieces.append(kept)
            self._size += len(kept)
