"""The live display's frame: a tracker's state as lines that fit a terminal. Imports rich, so only the live mode does.

What matters most comes first, and the list of active attempts takes the room that is left.
"""

from __future__ import annotations

import heapq
import io
from collections.abc import Iterator, Mapping
from typing import Final, Literal, final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from agentcompass.errors import counted
from agentcompass.progress import narrator, text
from agentcompass.progress.events import CleanupStarted
from agentcompass.progress.state import ActiveAttempt, RequestState
from agentcompass.progress.tracker import Tracker

_MIN_BAR: Final = 10
_MAX_BAR: Final = 40
_MAX_ACTIVE: Final = 20
_MAX_ENDPOINTS: Final = 3
_MIN_ROWS: Final = 6
"""Taken even where they are more than two thirds of the terminal; the rest is for log lines."""
_STATUS_STYLE: Final[Mapping[str | None, str]] = {
    None: "bold",
    "completed": "green",
    "failed": "red",
    "timed_out": "yellow",
    "cancelled": "yellow",
}


@final
class Panel:
    """Draws frames.

    Args:
        title: Stands in the first line.
        clean: For the untrusted parts: names of tasks, requests, limits.
        encoding: Of the terminal, by which glyphs are chosen.
        environ: Of the process: TERM, COLORTERM and NO_COLOR decide about colours.
    """

    def __init__(
        self, title: str, clean: text.Clean, encoding: str | None, environ: Mapping[str, str]
    ) -> None:
        self._title = title
        self._clean = clean
        self._glyphs = text.glyphs_for(encoding)
        self._overflow: Literal["ellipsis", "crop"] = (
            "ellipsis" if self._glyphs is text.UNICODE else "crop"
        )
        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            no_color=bool(environ.get("NO_COLOR")),
            markup=False,
            emoji=False,
            highlight=False,
            legacy_windows=False,
            _environ=dict(environ),
        )

    def compose(self, tracker: Tracker, now: float, columns: int, rows: int) -> list[Text]:
        """Take the state down as fewer than `rows` lines of fewer than `columns` cells. Quick: the state is locked."""
        width, height = max(1, columns - 1), max(1, min(rows - 1, max(_MIN_ROWS, rows * 2 // 3)))
        head = list(self._head(tracker, now, width, height))[:height]
        tail = list(self._active(tracker, now, width, height - len(head)))
        for line in (*head, *tail):
            line.truncate(width, overflow=self._overflow)
        return [*head, *tail]

    def render(self, lines: list[Text]) -> list[str]:
        """Turn lines into text with the colour sequences that the terminal understands."""
        rendered = []
        for line in lines:
            with self._console.capture() as capture:
                self._console.print(line, end="", soft_wrap=True)
            rendered.append(capture.get())
        return rendered

    # --- above the list

    def _head(self, tracker: Tracker, now: float, width: int, height: int) -> Iterator[Text]:
        elapsed = text.duration(now - tracker.started_at) if tracker.started_at else "0s"
        yield Text.assemble((self._clean(self._title), "bold"), f"  {elapsed}")
        if tracker.cleanup is not None:
            yield self._cleanup(tracker.cleanup, tracker, now)
        requests = list(tracker.requests.values())
        if len(requests) > 1:
            yield self._bar("all requests", tracker.done, tracker.planned, width)
        room = max(1, (height - 4) // 2)
        running_first = sorted(requests, key=lambda state: state.status is not None)
        for state in running_first[:room]:
            yield from self._request(state, width, is_alone=len(requests) == 1)
        if len(requests) > room:
            yield Text(f"  and {counted(len(requests) - room, 'more request')}", "dim")
        yield self._speed(tracker, now)
        waiting = tracker.waiting()
        if waiting and tracker.cleanup is None:
            yield Text(
                "waiting for " + ", ".join(f"{self._clean(k)} {n}" for k, n in waiting.items()),
                "yellow",
            )
        if tracker.cleanup is None:
            for held in narrator.held_calls(tracker)[:_MAX_ENDPOINTS]:
                yield Text(self._clean(held), "yellow")

    def _cleanup(self, notice: CleanupStarted, tracker: Tracker, now: float) -> Text:
        return Text(
            f"cleaning up ({self._clean(notice.reason)}): {narrator.to_be_removed(tracker)},"
            f" {tracker.grace_left(now) or 0:.0f} s left; Ctrl-C again ends this now",
            "bold yellow",
        )

    def _request(self, state: RequestState, width: int, *, is_alone: bool) -> Iterator[Text]:
        running = state.running_score
        yield self._bar("" if is_alone else state.name, state.done, state.planned, width)
        parts = Text("  ")
        parts.append(self._clean(state.metric) + " ", "bold")
        parts.append(text.score(running.mean, running.interval), _STATUS_STYLE[state.status])
        counts = narrator.verdicts(state)
        if counts:
            parts.append(f" {self._glyphs.dot} {counts}")
        if state.status is not None:
            parts.append(f" {self._glyphs.dot} {state.status.replace('_', ' ')}")
        yield parts

    def _bar(self, name: str, done: int, planned: int, width: int) -> Text:
        share = min(1.0, done / planned) if planned else 0.0
        numbers = f" {done}/{planned} {share:4.0%}"
        label = self._clean(name)
        if label:
            label = _fitted(label, min(cell_len(label), max(8, width // 3))) + " "
        room = width - cell_len(label) - len(numbers)
        if room < _MIN_BAR:
            return Text(f"{label}{numbers.strip()}")
        size = min(_MAX_BAR, room)
        full = round(share * size)
        return Text.assemble(
            label,
            (self._glyphs.full * full, "cyan"),
            (self._glyphs.rest * (size - full), "dim"),
            numbers,
        )

    def _speed(self, tracker: Tracker, now: float) -> Text:
        eta = tracker.eta_seconds(now) if tracker.cleanup is None else None
        parts = [
            text.pace(tracker.rate(now)),
            f"{text.duration(eta)} left" if eta else "",
            narrator.spent(tracker),
            counted(tracker.model_retries, "model retry", "model retries")
            if tracker.model_retries
            else "",
        ]
        recent = tracker.recent_retries(now)
        if recent:
            code, n = next(iter(recent.items()))
            parts.append(f"{n} {self._clean(code)} in the last minute")
        return Text("  " + f" {self._glyphs.dot} ".join(filter(None, parts)))

    # --- the list

    def _active(self, tracker: Tracker, now: float, width: int, room: int) -> Iterator[Text]:
        attempts = tracker.active
        if not attempts or room < 1:
            return
        phases = f" {self._glyphs.dot} ".join(
            f"{self._clean(phase) or 'start'} {n}" for phase, n in tracker.phases().items()
        )
        yield Text(f"{len(attempts)} active: {phases}", "bold")
        shown = heapq.nsmallest(
            min(room - 1, _MAX_ACTIVE), attempts.values(), key=lambda item: item.phase_started_at
        )
        name_cells = min(40, max(8, width // 2))
        for attempt in shown:
            yield self._attempt(attempt, now, name_cells)

    def _attempt(self, attempt: ActiveAttempt, now: float, name_cells: int) -> Text:
        number = f" #{attempt.attempt}" if attempt.attempt > 1 else ""
        name = _fitted(self._clean(attempt.task) + number, name_cells)
        age = text.duration(now - attempt.phase_started_at)
        line = Text.assemble("  ", name, f"  {self._clean(attempt.phase) or 'start':<8} {age:>7}")
        notes: list[tuple[str, Literal["dim", "yellow"]]] = []
        if attempt.execution > 1:
            notes.append((f"try {attempt.execution}", "dim"))
        if attempt.model_retries:
            notes.append((counted(attempt.model_retries, "model retry", "model retries"), "yellow"))
        if attempt.detail:
            notes.append((self._clean(attempt.detail), "dim"))
        for note, style in notes:
            line.append(f"  {note}", style)
        return line


def _fitted(label: str, cells: int) -> str:
    """Cut or fill a label to a number of cells; East Asian characters take two."""
    return set_cell_size(label, cells)
