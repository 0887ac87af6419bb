"""Painting line by line, for files, pipes and CI logs; and what the display thread expects of a painter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol, final

from agentcompass.data import frozen
from agentcompass.progress.narrator import Level
from agentcompass.progress.terminal import Output
from agentcompass.progress.tracker import Tracker


@frozen
class Entry:
    """One line to be shown: clean, without its line end. `at` is seconds since the epoch."""

    at: float
    level: Level
    text: str


class Painter(Protocol):
    """How lines and state reach a stream; used by one thread."""

    def look(self, tracker: Tracker, now: float) -> None:
        """Take down what will be shown of the state, quickly: it is locked meanwhile."""

    def paint(self, entries: Sequence[Entry]) -> None:
        """Show new lines, and the state as last looked at."""

    def finish(self) -> None:
        """Leave the stream in order."""


@final
class PlainPainter:
    """Writes complete, time-stamped lines and nothing else."""

    def __init__(self, output: Output, gives_up: Callable[[], bool]) -> None:
        self._output = output
        self._gives_up = gives_up

    def look(self, tracker: Tracker, now: float) -> None:
        """The narrator's lines say it all."""

    def paint(self, entries: Sequence[Entry]) -> None:
        """Write one line for each entry, time in UTC."""
        for entry in entries:
            self._output.send(f"{_stamp(entry)}{entry.text}\n", self._gives_up)

    def finish(self) -> None:
        """Lines are complete as they are."""


def _stamp(entry: Entry) -> str:
    time = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"{time} " if entry.level == "info" else f"{time} {entry.level.upper()} "
