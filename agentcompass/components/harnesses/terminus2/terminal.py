"""The terminal of an attempt: keys are pressed, time passes, the screen is read. It is replaced once if it is lost."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, final

import trio

from agentcompass.components.base import Session
from agentcompass.components.harnesses.terminus2.control import LostError
from agentcompass.components.harnesses.terminus2.link import Link
from agentcompass.components.harnesses.terminus2.recording import Recording
from agentcompass.components.harnesses.terminus2.screen import (
    Excerpt,
    Look,
    limited,
    news,
    without_blank_end,
)
from agentcompass.components.harnesses.terminus2.start import Pane, Started, start
from agentcompass.data import frozen
from agentcompass.errors import SandboxError
from agentcompass.records import JSON

T = TypeVar("T")

MAX_STARTS: Final = 2
"""Terminals that an attempt gets."""
_PROMPT_LOOKS: Final = 60
"""For the first sign of the shell; one without a prompt is a terminal, too."""
_PROMPT_PAUSE: Final = 0.05
_KEYS_AT_ONCE: Final = 500
"""Bytes in one command of tmux."""
_END_LINES: Final = 2500
"""Of much output, lines that are fetched from each end."""
_SLACKS: Final = (0, 500, 5000)
"""Lines that may scroll by between two questions to tmux, at the first try, the second, ..."""
_KEY_NAME: Final = re.compile(
    r"(?:[CMScms]-)+[!-&(-~][A-Za-z0-9]{0,30}|\^[!-&(-~]|[A-Za-z][A-Za-z0-9]{1,31}"
)
"""What could be the name of a key; tmux knows, and types what is none."""
_STATE: Final = "#{history_size} #{pane_height} #{alternate_on}"


class TerminalGoneError(Exception):
    """The terminal was lost once too often: nothing more can be done in it."""


@frozen(kw_only=True)
class Shown:
    """What a look at the terminal gave."""

    text: str
    is_new: bool
    """It is what was added since the last look, rather than all that is visible."""
    is_cut: bool
    """Its middle was left out."""


@final
class Terminal:
    """A terminal in a sandbox. Made by `in_terminal`.

    Args:
        session: The sandbox.
        pane: What it is to be like.
        max_bytes: Of what one look gives.
        recording: Gets what is written to it.
        nursery: Open as long as it is used.
    """

    def __init__(
        self,
        session: Session,
        pane: Pane,
        max_bytes: int,
        recording: Recording,
        nursery: trio.Nursery,
    ) -> None:
        self._session, self._pane, self._max_bytes = session, pane, max_bytes
        self._recording, self._nursery = recording, nursery
        self._starts = 0
        self._before: Look | None = None
        self._started: Started
        self._link: Link

    @property
    def details(self) -> dict[str, JSON]:
        """What the record says about it."""
        where = "brought in" if self._started.is_brought else "of the sandbox"
        return {"tmux": f"{self._started.version}, {where}", "terminals": self._starts}

    async def open(self) -> None:
        """Start it.

        Raises:
            SandboxError: It cannot be had.
            LostError: It was lost at once.
        """
        self._starts += 1
        self._started = await start(self._session, self._pane)
        self._before = None
        self._link = Link(self._session, self._started, self._recording, self._nursery)
        await self._link.open()
        for _ in range(_PROMPT_LOOKS):
            if await self._screen():
                break
            await trio.sleep(_PROMPT_PAUSE)

    async def press(self, keystrokes: str) -> None:
        """Press keys: all of a text as it stands or, if that is the name of a key in tmux, that one.

        Raises:
            LostError: The terminal is lost.
        """
        target = self._started.pane
        if _KEY_NAME.fullmatch(keystrokes):
            await self._link.press([f"send-keys -t {target} -- '{keystrokes}'"])
            return
        data = keystrokes.encode(errors="replace")
        chunks = (data[at : at + _KEYS_AT_ONCE] for at in range(0, len(data), _KEYS_AT_ONCE))
        await self._link.press([f"send-keys -t {target} -H {chunk.hex(' ')}" for chunk in chunks])

    async def look(self) -> Shown:
        """Return what was added since the last look or, where that cannot be told, the whole screen.

        Raises:
            LostError: The terminal is lost.
        """
        found = await self._excerpt()
        await self._link.record()
        if found is None:
            text, is_cut = limited(Excerpt(head=await self._screen()), self._max_bytes)
            return Shown(text=text, is_new=False, is_cut=is_cut)
        text, is_cut = limited(found, self._max_bytes)
        return Shown(text=text, is_new=True, is_cut=is_cut)

    async def screen(self) -> str:
        """Return all that is visible, without that it counts as a look.

        Raises:
            LostError: The terminal is lost.
        """
        return limited(Excerpt(head=await self._screen()), self._max_bytes)[0]

    async def replace(self) -> None:
        """Start a new terminal in place of one that was lost.

        Raises:
            TerminalGoneError: There was a new one already, or there cannot be one, although the sandbox works.
            SandboxError: The sandbox does not work.
        """
        self._link.close()
        if self._starts >= MAX_STARTS:
            raise TerminalGoneError
        try:
            await self.open()
        except LostError as error:
            raise TerminalGoneError from error
        except SandboxError as error:
            if error.code != "no-tmux":
                raise
            raise TerminalGoneError from error

    async def mark(self, label: str) -> None:
        """Put a point to jump to into the recording."""
        self._recording.marker(label)
        await self._recording.flush()

    # --- looking

    async def _excerpt(self) -> Excerpt | None:
        """What is new; None if that cannot be told. Remembers the look."""
        pane = self._started.pane
        (state, lines) = await self._link.ask(_state_of(pane), f"capture-pane -p -t {pane}")
        history, height, is_alternate = _numbers(state)
        before, self._before = self._before, None
        if is_alternate:
            return None
        visible = Look(top=history, height=height, lines=without_blank_end(lines))
        self._before = visible
        if before is None or before.height != height or history < before.top:
            return None
        if history == before.top:
            return news(before, Excerpt(head=visible.lines))
        for slack in _SLACKS:
            now = await self._from(before.top, history, slack)
            if now is not None:
                return news(before, now)
            history = self._before.top
        return None

    async def _from(self, top: int, history: int, slack: int) -> Excerpt | None:
        """Everything from a line on, given how many were above the screen a moment ago; None if too many came since."""
        pane, begin = self._started.pane, top - history - slack
        capture = f"capture-pane -p -t {pane} -S"
        is_long = history - top > 2 * _END_LINES
        asked = [f"{capture} {begin} -E {begin + slack + _END_LINES}"] if is_long else []
        asked.append(f"{capture} {-_END_LINES if is_long else begin}")
        state, *captured = await self._link.ask(_state_of(pane), *asked)
        new_history, height, _ = _numbers(state)
        last = captured[-1]
        self._before = Look(top=new_history, height=height, lines=without_blank_end(last[-height:]))
        moved = new_history - history
        if not 0 <= moved <= slack:
            return None
        head = tuple(captured[0][min(top, slack - moved) :])
        if not is_long:
            return Excerpt(head=without_blank_end(head))
        tail = without_blank_end(last)
        omitted = new_history - _END_LINES - (top + len(head))
        if omitted <= 0:
            return Excerpt(head=(*head, *tail[-omitted:]))
        return Excerpt(head=head, tail=tail, omitted=omitted)

    async def _screen(self) -> tuple[str, ...]:
        (lines,) = await self._link.ask(f"capture-pane -p -t {self._started.pane}")
        return without_blank_end(lines)


async def in_terminal(
    session: Session,
    pane: Pane,
    recording: Recording,
    work: Callable[[Terminal], Awaitable[T]],
    *,
    max_bytes: int,
) -> T:
    """Start a terminal, do some work in it, and return what that returns, or raise what it raises, as itself.

    The client ends with it; what runs in the terminal, and the terminal, do not.

    Args:
        session: The sandbox.
        pane: What the terminal is to be like.
        recording: Gets what is written to it; closed at the end.
        work: What is done.
        max_bytes: Of what one look at it gives.

    Raises:
        SandboxError: There can be none.
    """
    result: list[T] = []
    failure: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            terminal = Terminal(session, pane, max_bytes, recording, nursery)
            try:
                await terminal.open()
                result.append(await work(terminal))
            except LostError as error:
                failure = SandboxError(f"the terminal ended at once: {error}", code="no-terminal")
            except Exception as error:  # noqa: BLE001  # raised below, outside the nursery, which would wrap it
                failure = error
            nursery.cancel_scope.cancel(reason="the work is done")
    finally:
        await recording.close()
    if failure is not None:
        raise failure
    return result[0]


def _state_of(pane: str) -> str:
    return f"display-message -p -t {pane} '{_STATE}'"


def _numbers(state: list[str]) -> list[int]:
    """The numbers of `_STATE`."""
    try:
        return [int(word) for word in state[0].split(" ")]
    except (IndexError, ValueError):
        raise LostError(f"tmux answers {state!r:.100}") from None
