"""A real run or launch on a real terminal, ended at a moment: what must hold afterwards, and figures for a table."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Callable

import attrs
from ptyprocess import PtyProcess

from support.commandline import ROOT
from support.launches import Launch, reused, scores
from support.workload import Workload, await_no_survivors

GRACE_SECONDS = 10
BOUND_SECONDS = GRACE_SECONDS + 5
"""What an end may take."""
SLACK_SECONDS = 20
"""What a busy machine may add to that, and to the start of the program."""
WHOLE_SECONDS = 3.0
"""About how long an uninterrupted run takes: moments are drawn from this."""
KINDS = {"ctrl-c": 130, "ctrl-c twice": 130, "sigterm": 143, "terminal closed": 129}
"""Ways to end a run, and the exit codes."""
LAUNCH_KINDS = {"ctrl-c": 130, "ctrl-c twice": 130, "sigterm": 143, "timeout": 124}
"""Ways to end a launch, and the exit codes."""


def moments(count: int, name: str, whole: float = WHOLE_SECONDS) -> list[float]:
    """Moments of something that takes `whole`, the same ones for the same name."""
    chance = random.Random(name)
    return [round(chance.uniform(whole / 60, whole), 3) for _ in range(count)]


@attrs.frozen(kw_only=True)
class Ended:
    """What one experiment showed."""

    moment: float
    exit_code: int | None
    seconds: float
    """From the signal to the end of the process."""
    finished: int
    """Attempts that were on disk when it had ended."""
    left: int
    """Sandboxes that the ledger still names."""
    statuses: tuple[str, ...] = ()
    """Of a launch's requests; empty if it had not begun."""


def interrupt(work: Workload, kind: str, moment: float) -> Ended:
    """End a run by a signal, check what it leaves, and finish it."""
    terminal = Terminal(work)
    seconds = terminal.end(kind, moment)
    code = terminal.exit_code
    assert code in (KINDS[kind], 0)  # 0: it was complete
    assert await_no_survivors(f"9{work.marker}") == []
    finished, left = 0, len(work.leases())
    for run_dir in work.run_dirs():
        verdicts = work.check_unique(run_dir)
        assert set(verdicts) <= {"graded", "cancelled"}, verdicts
        finished += verdicts["graded"]
    if (
        kind != "ctrl-c twice"
    ):  # it cuts cleanup short: what is left is in the ledger, and gone with the next start
        assert left == 0
        assert work.sandboxes() == []
    _finish(work, finished)
    return Ended(moment=moment, exit_code=code, seconds=seconds, finished=finished, left=left)


def interrupt_launch(
    launch: Launch, kind: str, when: float | Callable[[], bool], wanted: dict[str, float]
) -> Ended:
    """End a launch, check what it leaves, finish it, and compare its scores with those of one that nobody ended.

    Args:
        launch: Nothing of it has run.
        kind: A key of `LAUNCH_KINDS`.
        when: Seconds after the start: of the program, or of its work if a time limit ends it. Or what must be true.
        wanted: The scores, by request.
    """
    limit = ("--timeout-seconds", str(when)) if kind == "timeout" else ()
    terminal = Terminal(launch, *limit)
    seconds = terminal.end(kind, when)
    code = terminal.exit_code
    assert code in (LAUNCH_KINDS[kind], 0)  # 0: it was complete
    assert await_no_survivors(f"9{launch.marker}") == []
    left = {json.loads(path.read_text())["name"] for path in launch.leases()}
    assert {path.name for path in launch.sandboxes()} <= left
    assert [name for name in left if name not in terminal.shown] == []
    assert kind == "ctrl-c twice" or not left  # it cuts cleanup short
    standing = launch.standing(kind, code)
    result = launch.complete("--reuse")
    assert scores(result) == wanted
    assert reused(result) == {name: standing.finished.get(name, 0) for name in wanted}
    return Ended(
        moment=seconds if callable(when) else when,
        exit_code=code,
        seconds=seconds,
        finished=sum(standing.finished.values()),
        left=len(left),
        statuses=tuple(standing.statuses.values()),
    )


def kill(work: Workload, moment: float) -> Ended:
    """End a run by SIGKILL, check what it leaves, and finish it."""
    terminal = Terminal(work)
    terminal.end("kill", moment)
    began = time.monotonic()
    assert await_no_survivors(f"9{work.marker}") == []
    seconds = time.monotonic() - began
    finished = sum(work.check_unique(run_dir)["graded"] for run_dir in work.run_dirs())
    left = len(work.leases())
    _finish(work, finished)
    return Ended(moment=moment, exit_code=None, seconds=seconds, finished=finished, left=left)


def _finish(work: Workload, finished: int) -> None:
    """Resume: everything that was on disk is taken over, the score is that of an undisturbed run, nothing is left."""
    assert work.resume()["summary"]["reused"] == finished
    assert await_no_survivors(f"9{work.marker}") == []
    assert work.leases() == []
    assert work.sandboxes() == []


class Terminal:
    """The program on a terminal of its own, which somebody reads: one that nobody reads would block it."""

    def __init__(self, work: Workload, *options: str):
        arguments = work.arguments("--cleanup-grace-seconds", str(GRACE_SECONDS), *options)
        self._shown = bytearray()
        self._began = time.monotonic()
        self._child = PtyProcess.spawn(
            [sys.executable, "-m", "agentcompass.cli", *arguments],
            cwd=str(work.folder),
            env=work.program.environment(TERM="xterm-256color", PYTHONPATH=str(ROOT)),
            dimensions=(24, 100),
            echo=False,
        )

    @property
    def shown(self) -> str:
        """What it has written."""
        return self._shown.decode(errors="replace")

    @property
    def exit_code(self) -> int:
        """As shells tell it: 128 + n for the signal n, which comes to that while Python begins and ends."""
        status, by_signal = self._child.exitstatus, self._child.signalstatus
        return 128 + by_signal if status is None else status

    def end(self, kind: str, when: float | Callable[[], bool]) -> float:
        """End it in one of the ways, unless it ends before; return how many seconds it took for that.

        Args:
            kind: "timeout" does nothing but wait: the program knows.
            when: Seconds after the start, or what must be true.
        """
        condition = when if callable(when) else lambda: time.monotonic() >= self._began + when
        still_runs = self._read_until(condition)
        began = time.monotonic()
        if still_runs and kind != "timeout":
            self._signal(kind)
        self._await_end(BOUND_SECONDS + SLACK_SECONDS)
        return time.monotonic() - began

    def _signal(self, kind: str) -> None:
        child = self._child
        if kind in ("sigterm", "kill"):
            os.kill(child.pid, signal.SIGTERM if kind == "sigterm" else signal.SIGKILL)
            return
        if (
            kind == "terminal closed"
        ):  # the system sends SIGHUP, and every write to the terminal fails from now on
            os.close(child.fd)
            child.fd = -1
            return
        child.write(b"\x03")  # as the terminal sends it: SIGINT to the foreground group
        if kind == "ctrl-c twice":
            self._read_on(0.05)
            if child.isalive():
                with contextlib.suppress(OSError):
                    child.write(b"\x03")

    def _read_until(self, condition: Callable[[], bool]) -> bool:
        """Take what it writes until a condition is true; False at its end."""
        while not condition():
            if not self._read_on(0.01):
                return False
        return True

    def _read_on(self, seconds: float) -> bool:
        """Take what it writes for some time; False at its end."""
        end = time.monotonic() + seconds
        while (rest := end - time.monotonic()) > 0:
            if select.select([self._child.fd], [], [], rest)[0]:
                try:
                    self._shown += self._child.read(65536)
                except EOFError:
                    return False
        return True

    def _await_end(self, seconds: float) -> None:
        if self._child.fd >= 0:
            assert not self._read_on(seconds), f"it has not ended in time: {self.shown}"
            self._child.wait()
            return
        end = time.monotonic() + seconds
        while self._child.isalive():
            assert time.monotonic() < end, "it has not ended in time"
            time.sleep(0.02)
