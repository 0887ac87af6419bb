"""tmux in control mode: commands go in as lines, their answers come out as lines.

Source: CONTROL MODE in tmux(1). Answers come in the order of the commands, each between `%begin` and `%end` or `%error`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, Self, final

import attrs
import trio

from agentcompass.components.base import MiB, Process
from agentcompass.errors import SandboxError

ANSWER_SECONDS: Final = 30.0
"""For an answer, which takes milliseconds: a server that needs longer has been stopped."""
_LONGEST_LINE: Final = 16 * MiB
_OURS: Final = b"1"
"""The last word of `%begin` where the command was sent by this client."""


class LostError(Exception):
    """tmux is not there any more, or not what was asked about; the message says how that is known."""


@attrs.define(eq=False)
class _Asked:
    """A line of commands whose answers are awaited."""

    count: int
    answers: list[list[str]] = attrs.field(factory=list)
    refusal: str | None = None
    is_over: trio.Event = attrs.field(factory=trio.Event)


@final
class Control:
    """A client of a tmux server.

    Args:
        process: `tmux -C attach-session`.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._waiting: deque[_Asked] = deque()
        self._lines: list[str] | None = None
        """Of the answer that is coming in."""
        self._guard = b""
        """What its end has in common with its begin."""
        self._lost: str | None = None

    @property
    def is_listening(self) -> bool:
        """Whether it has not ended; if it has, the server may still be there."""
        return self._lost is None

    async def listen(self) -> None:
        """Read until there is nothing more to read; runs beside whatever asks, and raises nothing of its own."""
        try:
            async for line in Lines(self._process):
                self._take(line)
        finally:
            self._lose("tmux was ended")

    async def ask(self, *commands: str) -> list[list[str]]:
        """Carry out commands with nothing in between, and return the lines that each has printed.

        Raises:
            LostError: There is no answer, or one of the commands was refused, and with it those that follow.
        """
        (answers,) = await self.ask_in_turn([commands])
        return answers

    async def ask_in_turn(self, lines: Sequence[Sequence[str]]) -> list[list[list[str]]]:
        """Do as `ask` does with one line of commands after the other, without waiting for the answers in between."""
        if self._lost is not None:
            raise LostError(self._lost)
        asked = [_Asked(count=len(commands)) for commands in lines]
        self._waiting.extend(asked)
        text = "".join(" ; ".join(commands) + "\n" for commands in lines)
        try:
            with trio.move_on_after(ANSWER_SECONDS):
                await self._process.send(text.encode())
                for one in asked:
                    await one.is_over.wait()
        except (OSError, SandboxError, trio.ClosedResourceError) as error:
            self._lose(f"tmux takes no more commands: {error}")
        if not all(one.is_over.is_set() for one in asked):
            self._lose("tmux does not answer")
        for one in asked:
            if one.refusal is not None:
                raise LostError(one.refusal)
        return [one.answers for one in asked]

    # --- what comes in

    def _take(self, line: bytes) -> None:
        if self._lines is None:
            if line.startswith(b"%begin "):
                self._lines, self._guard = [], line.partition(b" ")[2]
            return
        word, _, guard = line.partition(b" ")
        if word in (b"%end", b"%error") and guard == self._guard:
            lines, self._lines = self._lines, None
            self._answered(lines, is_refused=word == b"%error")
        else:
            self._lines.append(line.decode(errors="replace"))

    def _answered(self, lines: list[str], *, is_refused: bool) -> None:
        if self._guard.rpartition(b" ")[2] != _OURS or not self._waiting:
            return
        one = self._waiting[0]
        one.answers.append(lines)
        if is_refused:
            one.refusal = " ".join(lines) or "tmux refuses a command"
        if is_refused or len(one.answers) == one.count:
            self._waiting.popleft()
            one.is_over.set()

    def _lose(self, reason: str) -> None:
        self._lost = self._lost or reason
        while self._waiting:
            one = self._waiting.popleft()
            one.refusal = self._lost
            one.is_over.set()


@final
class Lines:
    """What a process prints, line by line, until it ends, or the sandbox fails: whoever uses that next is told."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._ready: deque[bytes] = deque()
        self._rest = b""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._ready:
            try:
                data = await self._process.receive()
            except (OSError, SandboxError, trio.ClosedResourceError):
                data = b""
            if not data or len(self._rest) > _LONGEST_LINE:
                raise StopAsyncIteration
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._ready.extend(lines)
        return self._ready.popleft()
