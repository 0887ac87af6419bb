"""Shows a run to people while it runs, on standard error.

Events change a tracker in the caller's thread, which takes microseconds and never waits; one display thread reads it,
draws, and alone writes. However slow, stopped or closed the terminal is, nothing else is held up: states that nobody
saw are skipped, and of lines that nobody takes the newest are kept.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Final, Self, TextIO, final

from agentcompass.errors import counted
from agentcompass.progress import events
from agentcompass.progress.narrator import Level, Line, Narrator
from agentcompass.progress.plain import Entry, Painter, PlainPainter
from agentcompass.progress.terminal import Output
from agentcompass.progress.text import cleaner, glyphs_for
from agentcompass.progress.tracker import Tracker
from agentcompass.secrets import Scrubber
from agentcompass.spec.resolved import Progress

_LOG = logging.getLogger(__name__)

_CLOSE_SECONDS: Final = 1.0
_LAST_WORDS_SECONDS: Final = 0.7
"""How long the display thread goes on trying to write once it is to end."""
_FRAME_SECONDS: Final = 0.25
_IDLE_SECONDS: Final = 1.0
_MAX_PENDING: Final = 2000
_LOG_LIMIT: Final = 10_000
"""Characters of one log message that are shown."""


def open_display(
    mode: Progress,
    *,
    stream: TextIO | None = None,
    scrubber: Scrubber,
    title: str = "agentcompass",
    clock: Callable[[], float] = time.time,  # noqa: TID251  # events carry wall-clock times
) -> Display:
    """Open the display of a run; use it as a context manager, or call `close`.

    Args:
        mode: `auto` is live on a terminal that can move its cursor and plain elsewhere; `plain` writes a line a minute and
            at changes that matter; `none` shows nothing but sandboxes that could not be removed, and log lines.
        stream: Where to write; None means standard error as it is now.
        scrubber: Removes secrets from all that is shown.
        title: Heads the live display.
        clock: Seconds since the epoch.
    """
    target = stream if stream is not None else sys.stderr
    output = Output(target) if target is not None else None
    is_live = mode == "auto" and output is not None and output.is_terminal
    return Display(
        output,
        scrubber=scrubber,
        title=title,
        clock=clock,
        is_live=is_live,
        is_silent=mode == "none",
    )


@final
class Display:
    """What `open_display` returns. All methods may be called from any thread and never wait, but `close`."""

    def __init__(
        self,
        output: Output | None,
        *,
        scrubber: Scrubber,
        title: str,
        clock: Callable[[], float],
        is_live: bool,
        is_silent: bool,
    ) -> None:
        self.is_live = is_live
        self._output = output
        self._title = title
        self._clock = clock
        self._is_silent = is_silent
        self._clean = cleaner(scrubber.scrub)
        self._clean_lines = cleaner(scrubber.scrub, _LOG_LIMIT, multiline=True)
        glyphs = glyphs_for(output.encoding if output else None)
        self._tracker = Tracker()
        self._narrator = Narrator(self._tracker, self._clean, glyphs, brief=is_live)
        self._lock = threading.Lock()  # over tracker, narrator and pending lines
        self._pending: deque[tuple[float, Line]] = deque(maxlen=_MAX_PENDING)
        self._n_dropped = 0
        self._wake, self._closing = threading.Event(), threading.Event()
        self._closing_at: float | None = None
        self._thread: threading.Thread | None = None

    def handle(self, event: events.Event) -> None:
        """Take an event. A fault of the display is logged for developers and hurts nothing."""
        try:
            with self._lock:
                self._tracker.apply(event)
                if self._is_silent and not isinstance(event, events.SandboxesLeft):
                    return
                self._put(self._narrator.tell(event))
        except Exception:  # noqa: BLE001  # what is shown of a run must not end the run
            _LOG.debug("the display could not take %r", event, exc_info=True)

    def log(self, text: str, level: Level = "info") -> None:
        """Show a log message, of one or more lines, above the live part. It is made printable and scrubbed."""
        with self._lock:
            self._put([Line(text, level)])

    def close(self) -> None:
        """Write what is still to be said and leave the terminal in order. Takes at most about a second.

        Nothing is written afterwards: what nobody took by then is dropped.
        """
        with self._lock:
            thread = self._thread
            if self._closing_at is None:
                self._closing_at = time.monotonic()
        self._closing.set()
        self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_CLOSE_SECONDS)
        if self._output is not None:
            self._output.abandon()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _put(self, lines: list[Line]) -> None:
        if self._output is None or self._closing_at is not None:
            return
        self._n_dropped += max(0, len(self._pending) + len(lines) - _MAX_PENDING)
        now = self._clock()
        self._pending.extend((now, line) for line in lines)
        if self._thread is None and (lines or not self._is_silent):
            # A daemon: the process may end while a stopped terminal holds it up.
            self._thread = threading.Thread(
                target=self._work, name="agentcompass display", daemon=True
            )
            self._thread.start()
        self._wake.set()

    # --- the display thread

    def _work(self) -> None:
        try:
            painter = self._new_painter()
            while self._closing_at is None:
                self._step(painter)
                self._wake.wait(_IDLE_SECONDS)
                self._wake.clear()
                self._closing.wait(_FRAME_SECONDS)
            self._step(painter)
            painter.finish()
        except Exception:  # noqa: BLE001  # what is shown of a run must not end the run
            _LOG.debug("the display has ended", exc_info=True)

    def _new_painter(self) -> Painter:
        assert self._output is not None  # no thread is started without
        if not self.is_live:
            return PlainPainter(self._output, self._gives_up)
        # rich, which only terminals need
        from agentcompass.progress.live import LivePainter  # noqa: PLC0415

        return LivePainter(self._output, self._gives_up, self._title, self._clean)

    def _step(self, painter: Painter) -> None:
        with self._lock:
            now = self._clock()
            if not self._is_silent:
                self._pending.extend((now, line) for line in self._narrator.tick(now))
            said = list(self._pending)
            self._pending.clear()
            n_dropped, self._n_dropped = self._n_dropped, 0
            painter.look(self._tracker, now)
        if n_dropped:
            said.insert(0, (now, Line(f"left out: {counted(n_dropped, 'line')} that nobody took")))
        painter.paint([entry for at, line in said for entry in self._entries(at, line)])

    def _entries(self, at: float, line: Line) -> Iterator[Entry]:
        first, *more = self._clean_lines(line.text).split("\n")
        yield Entry(at, line.level, first)
        for part in more:
            yield Entry(at, "info", f"    {part}")

    def _gives_up(self) -> bool:
        closing_at = self._closing_at
        return closing_at is not None and time.monotonic() - closing_at > _LAST_WORDS_SECONDS
