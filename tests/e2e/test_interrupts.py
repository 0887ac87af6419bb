"""Ctrl-C, SIGTERM and kill -9 at random moments of a real run on a real terminal: nothing lost, nothing left."""

import contextlib
import os
import random
import select
import signal
import sys
import time

import pytest
from ptyprocess import PtyProcess

from support.commandline import ROOT
from support.workload import Workload, await_no_survivors

GRACE_SECONDS = 10
WHOLE_SECONDS = 3.0
"""About how long an uninterrupted run takes: moments are drawn from this."""


def on_terminal(work):
    """Start the evaluation on a pseudo-terminal of its own."""
    env = work.program.environment(TERM="xterm-256color", PYTHONPATH=str(ROOT))
    return PtyProcess.spawn(
        [sys.executable, "-m", "agentcompass.cli", *work.arguments("--cleanup-grace-seconds", str(GRACE_SECONDS))],
        cwd=str(work.folder), env=env, dimensions=(24, 100), echo=False,
    )  # fmt: skip


def read_on(child, seconds):
    """Take what a program writes for some time; a terminal nobody reads would block it. Returns False at its end."""
    end = time.monotonic() + seconds
    while (rest := end - time.monotonic()) > 0:
        if select.select([child.fd], [], [], rest)[0]:
            try:
                child.read(65536)
            except EOFError:
                return False
    return True


def wait_for_end(child, seconds):
    """Read to the end; returns the seconds it took."""
    began = time.monotonic()
    assert not read_on(child, seconds), "it has not ended in time"
    child.wait()
    return time.monotonic() - began


def moments(count, name):
    chance = random.Random(name)
    return [round(chance.uniform(0.05, WHOLE_SECONDS), 3) for _ in range(count)]


@pytest.mark.signals
@pytest.mark.parametrize("moment", moments(7, "signals"))
@pytest.mark.parametrize("kind", ["ctrl-c", "ctrl-c twice", "sigterm"])
def test_an_interrupted_run_ends_in_time_leaves_nothing_and_can_be_finished(tmp_path, kind, moment):
    work = Workload(tmp_path)
    child = on_terminal(work)
    still_runs = read_on(child, moment)
    if still_runs:
        if kind == "sigterm":
            os.kill(child.pid, signal.SIGTERM)
        else:
            child.write(b"\x03")  # as the terminal sends it: SIGINT to the foreground group
            if kind == "ctrl-c twice":
                read_on(child, 0.05)
                if child.isalive():
                    with contextlib.suppress(OSError):
                        child.write(b"\x03")
    wait_for_end(child, GRACE_SECONDS + 5)
    expected = {"sigterm": {143}, "ctrl-c": {130}, "ctrl-c twice": {130}}[kind]
    assert child.exitstatus in expected | {0}, (child.exitstatus, child.signalstatus)
    assert await_no_survivors(f"9{work.marker}") == []
    for run_dir in work.run_dirs():
        verdicts = work.check_unique(run_dir)
        assert set(verdicts) <= {"graded", "cancelled"}, verdicts
    if (
        kind != "ctrl-c twice"
    ):  # it cut cleanup short: what is left is in the ledger, and gone with the next start
        assert work.leases() == []
        assert work.sandboxes() == []
    work.resume()
    assert work.leases() == []
    assert work.sandboxes() == []


@pytest.mark.signals
@pytest.mark.parametrize("moment", moments(30, "kill"))
def test_a_killed_run_loses_only_what_was_in_flight(tmp_path, moment):
    work = Workload(tmp_path)
    child = on_terminal(work)
    read_on(child, moment)
    child.kill(signal.SIGKILL)
    wait_for_end(child, 10)
    assert await_no_survivors(f"9{work.marker}") == []
    finished = 0
    for run_dir in work.run_dirs():
        if (run_dir / "attempts.jsonl").exists():
            finished = sum(
                1 for line in (run_dir / "attempts.jsonl").read_bytes().split(b"\n")[:-1]
            )
    result = work.resume()
    assert result["summary"]["reused"] == finished
    assert await_no_survivors(f"9{work.marker}") == []
    assert work.leases() == []
    assert work.sandboxes() == []
