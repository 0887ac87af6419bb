"""Logging of a run: its own files and the console, through the package's logger, never the root logger.

What a log call says reaches the handlers of the run it was made in, and no other: each run sets `current_orchestration`
and `current_request` in its context, and tasks and worker threads inherit them. Files are written by a thread of
their own, so that a slow disk holds nobody up.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self, TextIO, final

from agentcompass.data import frozen
from agentcompass.errors import counted
from agentcompass.progress.narrator import Level
from agentcompass.progress.package_logger import TAP
from agentcompass.progress.text import printable
from agentcompass.secrets import Scrubber
from agentcompass.spec.resolved import LogLevel

current_request: ContextVar[str] = ContextVar("agentcompass_request", default="")
"""Name of the request on whose behalf code runs; empty for the whole orchestration."""
current_orchestration: ContextVar[str] = ContextVar("agentcompass_orchestration", default="")
"""Id of the orchestration: tells apart two runs in one process, also when their requests have one name."""

_MAX_PENDING: Final = 10_000
_CLOSE_SECONDS: Final = 5.0
_LONGEST: Final = 100_000
"""Characters of one message that are written, its traceback included."""


class ShowsLogs(Protocol):
    """What console lines go to: a `Display`."""

    def log(self, text: str, level: Level = "info") -> None:
        """Show one message."""


@frozen
class _Message:
    """A log record made final where it was logged: its arguments may change later."""

    at: float
    level: str
    logger: str
    request: str
    text: str


class LogSink:
    """A destination of log messages, until it is closed. Context manager."""

    def __init__(self, handler: logging.Handler, finish: Callable[[], None]) -> None:
        self._handler = handler
        self._finish = finish
        self._is_open = True
        TAP.add(handler)

    def close(self) -> None:
        """Stop taking messages and write those that were taken; may be called again."""
        if self._is_open:
            self._is_open = False
            TAP.remove(self._handler)
            self._finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def open_run_log(path: Path, level: LogLevel, scrubber: Scrubber, request_name: str) -> LogSink:
    """Open `run.log` of a run.

    Args:
        path: Appended to; its directory exists.
        level: The least level that is written.
        scrubber: Applied to each message as it is written, tracebacks included.
        request_name: Only what is logged with this `current_request`, in the present orchestration, is written.

    Raises:
        OSError: The file cannot be opened.
    """
    return _open_file(path, level, scrubber, request_name)


def open_log_file(path: Path, level: LogLevel, scrubber: Scrubber) -> LogSink:
    """Open the extra log file of everything in the present orchestration; like `open_run_log` otherwise."""
    return _open_file(path, level, scrubber, None)


def attach_display(display: ShowsLogs, level: LogLevel) -> LogSink:
    """Show what is logged in the present orchestration on its display, which scrubs it; tracebacks at DEBUG only."""
    handler = _ConsoleHandler(display, has_tracebacks=level == "DEBUG")
    _prepare(handler, level, None)
    return LogSink(handler, lambda: None)


def _open_file(
    path: Path, level: LogLevel, scrubber: Scrubber, request_name: str | None
) -> LogSink:
    writer = _FileWriter(path.open("a", encoding="utf-8", errors="backslashreplace"), scrubber)
    handler = _QueueingHandler(writer)
    _prepare(handler, level, request_name)
    return LogSink(handler, writer.close)


def _prepare(handler: logging.Handler, level: LogLevel, request_name: str | None) -> None:
    handler.setLevel(level)
    orchestration = current_orchestration.get()

    def belongs_here(_record: logging.LogRecord) -> bool:
        return current_orchestration.get() == orchestration and (
            request_name is None or current_request.get() == request_name
        )

    handler.addFilter(belongs_here)


# --- handlers: run where the message is logged, and never wait


class _QueueingHandler(logging.Handler):
    def __init__(self, writer: _FileWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        self._writer.put(
            _Message(
                at=record.created,
                level=record.levelname,
                logger=record.name,
                request=current_request.get(),
                text=_text(record, self.format)[:_LONGEST],
            )
        )


class _ConsoleHandler(logging.Handler):
    def __init__(self, display: ShowsLogs, *, has_tracebacks: bool) -> None:
        super().__init__()
        self._display = display
        self._has_tracebacks = has_tracebacks

    def emit(self, record: logging.LogRecord) -> None:
        show = self.format if self._has_tracebacks else logging.LogRecord.getMessage
        text = _text(record, show)
        request = current_request.get()
        level: Level = "info"
        if record.levelno >= logging.WARNING:
            level = "warning" if record.levelno < logging.ERROR else "error"
        self._display.log(f"{request}: {text}" if request else text, level)


def _text(record: logging.LogRecord, show: Callable[[logging.LogRecord], str]) -> str:
    try:
        return show(record)
    except Exception:  # noqa: BLE001  # a log call with wrong arguments; logging would print over the display
        return f"log message that cannot be formatted, from {record.pathname}:{record.lineno}"


@final
class _FileWriter:
    """Writes messages to a file in a thread; when the disk cannot keep up or is full, says how many were lost."""

    def __init__(self, file: TextIO, scrubber: Scrubber) -> None:
        self._file = file
        self._scrubber = scrubber
        self._queue: queue.Queue[_Message | None] = queue.Queue(_MAX_PENDING)
        self._n_lost = 0
        self._thread = threading.Thread(target=self._work, name="agentcompass log", daemon=True)
        self._thread.start()

    def put(self, message: _Message) -> None:
        try:
            self._queue.put_nowait(message)
        except queue.Full:
            self._n_lost += 1

    def close(self) -> None:
        try:
            self._queue.put(None, timeout=_CLOSE_SECONDS)
        except queue.Full:
            return  # the disk is stuck; the thread is a daemon
        self._thread.join(_CLOSE_SECONDS)

    def _work(self) -> None:
        # A full disk spoils the closing too: what is still in the buffer cannot be written.
        with contextlib.suppress(OSError), self._file:
            while (message := self._queue.get()) is not None:
                self._write(message)

    def _write(self, message: _Message) -> None:
        lost, self._n_lost = self._n_lost, 0
        try:
            if lost:
                self._file.write(f"... missing here: {counted(lost, 'message')}\n")
            self._file.write(self._line(message))
        except OSError:  # a full disk: the journal, not the log, decides what it means for the run
            self._n_lost += lost + 1
        if self._queue.empty():
            with contextlib.suppress(
                OSError
            ):  # what is in the buffer stays there, and is tried again
                self._file.flush()

    def _line(self, message: _Message) -> str:
        time = datetime.fromtimestamp(message.at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
        request = f" [{message.request}]" if message.request else ""
        head = f"{time}Z {message.level:<8} {message.logger}{request} "
        # Only lines that we write start with a time: text from outside cannot pass for one.
        text = printable(message.text, multiline=True).replace("\n", "\n    ")
        return self._scrubber.scrub(f"{head}{text}") + "\n"
