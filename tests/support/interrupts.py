"""A real run on a real terminal, ended at a moment: what must hold afterwards, and a row of figures for a table."""

from __future__ import annotations

import contextlib
import os
import random
import select
import signal
import sys
import time

import attrs
from ptyprocess import PtyProcess

from support.commandline import ROOT
from support.workload import Workload, await_no_survivors

GRACE_SECONDS = 10
WHOLE_SECONDS = 3.0
"""About how long an uninterrupted run takes: moments are drawn from this."""
KINDS = {"ctrl-c": 130, "ctrl-c twice": 130, "sigterm": 143, "terminal closed": 129}
"""Ways to end a run, and the exit codes."""


def moments(count: int, name: str) -> list[float]:
    """Moments after the start, the same ones for the same name."""
    chance = random.Random(name)
    return [round(chance.uniform(0.05, WHOLE_SECONDS), 3) for _ in range(count)]


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


def interrupt(work: Workload, kind: str, moment: float) -> Ended:
    """End a run by a signal, check what it leaves, and finish it."""
    child = _on_terminal(work)
    still_runs = _read_on(child, moment)
    began = time.monotonic()
    if still_runs:
        _signal(child, kind)
    _wait_for_end(child, GRACE_SECONDS + 5)
    seconds = time.monotonic() - began
    code = child.exitstatus if child.exitstatus is not None else 128 + child.signalstatus
    if code != KINDS[kind]:
        assert code == 0, (
            code
        )  # it was complete; or the signal came while Python ended, as shells tell it: 128 + n
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


def kill(work: Workload, moment: float) -> Ended:
    """End a run by SIGKILL, check what it leaves, and finish it."""
    child = _on_terminal(work)
    _read_on(child, moment)
    child.kill(signal.SIGKILL)
    _wait_for_end(child, 10)
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


def _on_terminal(work: Workload) -> PtyProcess:
    env = work.program.environment(TERM="xterm-256color", PYTHONPATH=str(ROOT))
    options = work.arguments("--cleanup-grace-seconds", str(GRACE_SECONDS))
    return PtyProcess.spawn(
        [sys.executable, "-m", "agentcompass.cli", *options],
        cwd=str(work.folder),
        env=env,
        dimensions=(24, 100),
        echo=False,
    )


def _signal(child: PtyProcess, kind: str) -> None:
    if kind == "sigterm":
        os.kill(child.pid, signal.SIGTERM)
        return
    if (
        kind == "terminal closed"
    ):  # the system sends SIGHUP, and every write to the terminal fails from now on
        os.close(child.fd)
        child.fd = -1
        return
    child.write(b"\x03")  # as the terminal sends it: SIGINT to the foreground group
    if kind == "ctrl-c twice":
        _read_on(child, 0.05)
        if child.isalive():
            with contextlib.suppress(OSError):
                child.write(b"\x03")


def _read_on(child: PtyProcess, seconds: float) -> bool:
    """Take what the program writes for some time, since a terminal nobody reads would block it; False at its end."""
    end = time.monotonic() + seconds
    while (rest := end - time.monotonic()) > 0:
        if select.select([child.fd], [], [], rest)[0]:
            try:
                child.read(65536)
            except EOFError:
                return False
    return True


def _wait_for_end(child: PtyProcess, seconds: float) -> None:
    if child.fd >= 0:
        assert not _read_on(child, seconds), "it has not ended in time"
        child.wait()
        return
    end = time.monotonic() + seconds
    while child.isalive():
        assert time.monotonic() < end, "it has not ended in time"
        time.sleep(0.02)
