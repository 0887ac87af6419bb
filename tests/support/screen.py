"""A program on a terminal that the test can look at."""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path

import pyte
from ptyprocess import PtyProcess

TESTS = Path(__file__).resolve().parents[1]


class Screen:
    """A child on a pseudo-terminal. `until` reads what it writes; `lines` is what a person would see."""

    def __init__(self, code: str, *, columns=80, rows=24, **environ):
        path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
        env = {**os.environ, "PYTHONPATH": path, "TERM": "xterm-256color", **environ}
        for name in ("NO_COLOR", "COLUMNS", "LINES"):
            if name not in environ:
                env.pop(name, None)
        self._screen = pyte.HistoryScreen(columns, rows, history=2000)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self.child = PtyProcess.spawn(
            [sys.executable, "-c", code], dimensions=(rows, columns), env=env, echo=False
        )

    @property
    def lines(self):
        return [line.rstrip() for line in self._screen.display]

    @property
    def text(self):
        return "\n".join(self.lines)

    @property
    def history(self):
        """Lines that have scrolled off the top, oldest first."""
        return [
            "".join(line[x].data for x in sorted(line)).rstrip()
            for line in self._screen.history.top
        ]

    @property
    def cursor_is_shown(self):
        return not self._screen.cursor.hidden

    def until(self, condition, timeout=20.0):
        """Read until a text is on the screen or a function of this object is true."""
        shows = condition if callable(condition) else lambda screen: condition in screen.text
        deadline = time.monotonic() + timeout
        while not shows(self):
            if not self._read(deadline) and not shows(self):
                raise AssertionError(f"not shown: {condition!r}; the screen has\n{self.text}")

    def end(self, timeout=20.0):
        """Read to the end of the child and return its exit code."""
        deadline = time.monotonic() + timeout
        while self._read(deadline):
            pass
        self.child.wait()
        return self.child.exitstatus

    def resize(self, columns, rows):
        self._screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def write(self, data: bytes):
        self.child.write(data)

    def close(self):
        self.child.close(force=True)

    def _read(self, deadline):
        rest = deadline - time.monotonic()
        if rest <= 0 or not select.select([self.child.fd], [], [], rest)[0]:
            raise AssertionError(f"timed out; the screen has\n{self.text}")
        try:
            data = self.child.read(65536)
        except EOFError:
            return False
        self.raw += data
        self._stream.feed(data)
        return True
