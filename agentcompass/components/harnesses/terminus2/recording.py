"""A recording of the terminal, as `asciinema play` shows it: version 2 of the asciicast form, one event a line."""

from __future__ import annotations

import codecs
import json
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, final

import trio

from agentcompass.components.base import KiB, MiB
from agentcompass.components.harnesses.terminus2.tmux_bundle import TERMINAL

FILE_NAME: Final = "recording.cast"
MAX_BYTES: Final = 16 * MiB
"""Of output in a recording; after that it has only markers."""
FLOOD_BYTES: Final = 256 * KiB
"""Of output between two looks at the terminal; what comes after is missing, up to the picture of the next look."""
_LAST_SECONDS: Final = 2.0
"""For writing the end when the attempt is cancelled."""

_log = logging.getLogger("agentcompass.terminus2")


@final
class Recording:
    """Takes events on the event loop's thread and writes them in a worker thread.

    A recording that cannot be written is given up with a warning: it is no evidence.

    Args:
        folder: Makes and returns the directory of the file; None: nothing is recorded.
        width: Columns of the terminal.
        height: Rows.
    """

    def __init__(self, folder: Callable[[], Path] | None, *, width: int, height: int) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._began = trio.current_time()
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._size = self._since_look = 0
        now = int(datetime.now(UTC).timestamp())
        head = {"version": 2, "width": width, "height": height, "timestamp": now}
        self._lines = [json.dumps({**head, "env": {"TERM": TERMINAL}})]

    @property
    def is_open(self) -> bool:
        """Whether it takes more output at all."""
        return self._folder is not None and self._size < MAX_BYTES

    def output(self, data: bytes) -> bool:
        """Take what was written to the terminal, and say whether more is wanted before the next look."""
        self._since_look += len(data)
        if not self.is_open or self._since_look > FLOOD_BYTES:
            return False
        self._size += len(data)
        self._event("o", self._decoder.decode(data))
        return True

    def picture(self, lines: Sequence[str], row: int, column: int) -> None:
        """Take all that the terminal shows, colours included: where output is missing, and at the beginning."""
        self._since_look = 0
        if not self.is_open:
            return
        text = "\r\n".join(lines)
        self._size += len(text)
        self._decoder.reset()
        self._event("o", f"\x1b[0m\x1b[2J\x1b[H{text}\x1b[0m\x1b[{row + 1};{column + 1}H")

    def marker(self, label: str) -> None:
        """Take a point to jump to. It also begins a new stretch of output."""
        self._since_look = 0
        self._event("m", label)

    async def flush(self) -> None:
        """Write what was taken so far."""
        if self._folder is not None and self._lines:
            lines, self._lines = self._lines, []
            await trio.to_thread.run_sync(self._write, self._folder, lines, abandon_on_cancel=True)

    async def close(self) -> None:
        """Write the rest, also when the task has been cancelled."""
        with trio.move_on_after(_LAST_SECONDS, shield=True):
            await self.flush()

    def _event(self, kind: str, text: str) -> None:
        if self._folder is not None and text:
            seconds = round(trio.current_time() - self._began, 6)
            self._lines.append(json.dumps([seconds, kind, text]))

    def _write(self, folder: Callable[[], Path], lines: list[str]) -> None:
        try:
            self._path = self._path or folder() / FILE_NAME
            with self._path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
        except OSError as error:
            _log.warning("the terminal is not recorded any more: %s", error)
            self._folder = None
