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
SHOWN_CHARACTERS: Final = 500
"""Of a line that is no event."""
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
    lines = Lines()
    async with session.process(argv, env=launch.env) as program:
        while data := await program.receive():
            for line in lines.feed(data):
                await _hand_out(line, listener)
        for line in lines.rest():
            await _hand_out(line, listener)
        exit_code = await program.wait()
    told = await session.exec(["tail", "-c", str(_TAIL_BYTES), files[1]], timeout=_TAIL_SECONDS)
    return Ended(exit_code=exit_code, errors=told.stdout.strip())


async def _hand_out(line: bytes, listener: Listener) -> None:
    if not line.strip():
        return
    if len(line) <= INLINE_BYTES:
        event = _event(line)
    else:
        event = await trio.to_thread.run_sync(_event, line)
    if event is not None:
        await listener.take(event)
    else:
        await listener.take_unreadable(line[: 4 * SHOWN_CHARACTERS].decode(errors="replace"))


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
