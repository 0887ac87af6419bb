"""What connects an attempt with a tmux server: one client that is asked, and one that hears what programs write.

They are apart since a client that hears too much answers late or, in some versions of tmux, not at all.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar, final

import trio

from agentcompass.components.base import Session
from agentcompass.components.harnesses.terminus2 import control
from agentcompass.components.harnesses.terminus2.control import Control, Lines, LostError
from agentcompass.components.harnesses.terminus2.recording import Recording
from agentcompass.components.harnesses.terminus2.screen import without_blank_end
from agentcompass.components.harnesses.terminus2.start import Started
from agentcompass.errors import SandboxError

T = TypeVar("T")

_MAX_CLIENTS: Final = 10
"""That one server gets, one after the other: something in the terminal may end them, as `tmux detach-client` does."""
_NOT_ATTACHED: Final = "no current client"
_ATTACH_LOOKS: Final = 40
_ATTACH_PAUSE: Final = 0.05
_AT_ONCE: Final = 64
"""Commands whose answers are awaited together."""
_OUTPUT: Final = b"%output "
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")


@final
class Link:
    """A connection with a tmux server.

    Args:
        session: The sandbox that it runs in.
        started: The server.
        recording: Gets what programs write.
        nursery: Open as long as the connection.
    """

    def __init__(
        self, session: Session, started: Started, recording: Recording, nursery: trio.Nursery
    ) -> None:
        self._session, self._started = session, started
        self._recording, self._nursery = recording, nursery
        self._clients = 0
        self._asked = trio.CancelScope()
        """Of the client that is asked."""
        self._heard = trio.CancelScope()
        """Of the one that hears."""
        self._is_hearing = False
        self._control: Control

    async def open(self) -> None:
        """Connect.

        Raises:
            LostError: The server is not there any more.
            SandboxError: The sandbox failed.
        """
        await self._attach()
        await self.record()

    def close(self) -> None:
        """Let go of the server, which goes on."""
        self._asked.cancel(reason="the terminal is given up")
        self._heard.cancel(reason="the terminal is given up")

    async def ask(self, *commands: str) -> list[list[str]]:
        """Carry out commands; see `Control.ask`. If only the client was ended, another one asks once more.

        Raises:
            LostError: The server, or what was asked about, is lost.
        """
        return await self._retried(lambda: self._control.ask(*commands))

    async def press(self, commands: Sequence[str]) -> None:
        """Carry out commands that press keys: each at most once, even if the client is ended meanwhile.

        Raises:
            LostError: As of `ask`, before anything was pressed.
        """
        await self.ask(f"display-message -p -t {self._started.pane} ''")
        for begin in range(0, len(commands), _AT_ONCE):
            lines = [[command] for command in commands[begin : begin + _AT_ONCE]]
            try:
                await self._control.ask_in_turn(lines)
            except LostError:
                return  # the next look shows what has arrived, or that there is nothing to look at

    async def record(self) -> None:
        """See to it that the recording has what the terminal shows now: heard so far, or else as a picture.

        Raises:
            LostError: As of `ask`.
        """
        if self._is_hearing or not self._recording.is_open:
            return
        self._heard = trio.CancelScope()
        self._is_hearing = True
        with trio.move_on_after(control.ANSWER_SECONDS) as limit:
            await self._nursery.start(self._hear, self._heard)
        if limit.cancelled_caught:
            raise LostError("tmux does not answer")
        pane = self._started.pane
        place = f"display-message -p -t {pane} '#{{cursor_y}} #{{cursor_x}}'"
        (cursor,), lines = await self.ask(place, f"capture-pane -p -e -t {pane}")
        row, column = (int(word) for word in cursor.split(" "))
        self._recording.picture(without_blank_end(lines), row, column)

    # --- below

    async def _retried(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            return await ask()
        except LostError:
            if self._control.is_listening or self._clients >= _MAX_CLIENTS:
                raise
        await self._attach()
        return await ask()

    async def _attach(self) -> None:
        self._asked.cancel(reason="another client takes over")
        self._asked = trio.CancelScope()
        self._clients += 1
        self._control = await self._nursery.start(self._talk, self._asked)
        if not self._started.has_flags:
            await self._silence()

    async def _silence(self) -> None:
        """Let the client hear nothing, once the server takes it for attached, which may be a moment after its first word."""
        for left in reversed(range(_ATTACH_LOOKS)):
            try:
                await self._control.ask("refresh-client -F no-output")
            except LostError as error:
                if _NOT_ATTACHED not in str(error) or not left:
                    raise
                await trio.sleep(_ATTACH_PAUSE)
            else:
                return

    async def _talk(self, scope: trio.CancelScope, task_status: trio.TaskStatus[Control]) -> None:
        flags = ("-f", "no-output") if self._started.has_flags else ()
        is_begun = False
        try:
            with scope:
                async with self._session.process(
                    self._client(*flags), cwd=self._started.directory, env=self._started.env
                ) as process:
                    client = Control(process)
                    is_begun = True
                    task_status.started(client)
                    await client.listen()
        except SandboxError:
            if not is_begun:
                raise
            # otherwise the next question finds nobody, and says so

    async def _hear(self, scope: trio.CancelScope, task_status: trio.TaskStatus[None]) -> None:
        """Hand over what programs write, until that becomes too much, or the client ends."""
        is_begun = False
        try:
            with scope:
                async with self._session.process(
                    self._client(), cwd=self._started.directory, env=self._started.env
                ) as process:
                    async for line in Lines(process):
                        if not is_begun:  # the first word of tmux: from now on nothing is missed
                            is_begun = True
                            task_status.started()
                        if line.startswith(_OUTPUT) and not self._recording.output(_text_of(line)):
                            break
            if not is_begun:
                task_status.started()
        except SandboxError:
            if not is_begun:
                raise
        finally:
            self._is_hearing = False

    def _client(self, *options: str) -> list[str]:
        started = self._started
        return [*started.argv, "-C", "attach-session", *options, "-t", started.session]


def _text_of(line: bytes) -> bytes:
    """What a program wrote, of `%output PANE TEXT`."""
    text = line.split(b" ", 2)[2]
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 8) & 255]), text)
