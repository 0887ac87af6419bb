"""Painting on a terminal: the panel at the bottom, lines above it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final, final

from rich.text import Text

from agentcompass.progress.narrator import Level
from agentcompass.progress.panel import Panel
from agentcompass.progress.plain import Entry
from agentcompass.progress.terminal import Output, Region
from agentcompass.progress.text import Clean
from agentcompass.progress.tracker import Tracker

_MAX_RECENT: Final = 100
"""Lines kept to be shown again when the terminal becomes narrower."""
_DIM: Final = "\x1b[2m"
_RESET: Final = "\x1b[0m"
_COLOURS: Final[Mapping[Level, str]] = {"info": "", "warning": "\x1b[33m", "error": "\x1b[31m"}


@final
class LivePainter:
    """Keeps the panel at the bottom of a terminal."""

    def __init__(
        self, output: Output, gives_up: Callable[[], bool], title: str, clean: Clean
    ) -> None:
        self._output = output
        self._gives_up = gives_up
        self._has_colours = not os.environ.get("NO_COLOR")
        self._panel = Panel(title, clean, output.encoding, os.environ)
        self._region = Region()
        self._recent: deque[str] = deque(maxlen=_MAX_RECENT)
        self._frame: list[Text] = []
        self._columns, self._rows = output.size()
        self._is_narrower = False

    def look(self, tracker: Tracker, now: float) -> None:
        """Compose the next frame for the terminal's present size."""
        columns, rows = self._output.size()
        self._is_narrower = columns < self._columns
        self._columns, self._rows = columns, rows
        self._frame = self._panel.compose(tracker, now, columns, rows)

    def paint(self, entries: Sequence[Entry]) -> None:
        """Put new lines above the panel and repaint it, in one piece."""
        new = [self._line(entry) for entry in entries]
        self._recent.extend(new)
        frame = self._panel.render(self._frame)
        if self._is_narrower:
            room = max(0, self._rows - 1 - len(frame))
            recent = list(self._recent)[-room:] if room else []
            text = self._region.repaint_all(frame, recent)
        else:
            text = self._region.paint(frame, "".join(f"{line}\n" for line in new))
        self._output.send(text, self._gives_up)

    def finish(self) -> None:
        """Take the panel away; the lines stay."""
        self._output.send(self._region.clear(), self._gives_up)

    def _line(self, entry: Entry) -> str:
        # Without rich: thousands may come at once.
        time = datetime.fromtimestamp(entry.at).astimezone().strftime("%H:%M:%S")
        if not self._has_colours:
            return f"{time} {entry.text}"
        return f"{_DIM}{time}{_RESET} {_COLOURS[entry.level]}{entry.text}{_RESET}"
