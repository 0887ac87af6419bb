"""A process that writes records is killed at random moments; what it announced must be there."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentcompass.store.lock import is_held
from agentcompass.store.reader import read_run
from agentcompass.store.steps import steps_of
from agentcompass.store.summary import summarize
from support.storage import Disk

CHILD = """
import os, sys, threading
from pathlib import Path
from support.storage import Disk, graded, run_plan

places = threading.Semaphore(20)

def done(error, record):
    assert error is None
    os.write(1, f"{record.task_id}\\n".encode())
    places.release()

with Disk(Path(sys.argv[1]), plan=run_plan("t0")) as disk:
    os.write(1, b"ready\\n")
    for n in range(100_000):
        places.acquire()
        steps = disk.store.trajectory(f"t{n}", 1, 1)
        for number in range(n % 7):
            steps.write({"n": number})
        disk.store.append(graded(f"t{n}", details={"pad": "x" * (n % 7000)}), done)
        disk.store.event({"event": "notice", "n": n})
"""

ENV = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}


def killed_writer(run_dir, seconds):
    """Start a writer, kill it after `seconds` of writing, return what it announced."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(run_dir)], stdout=subprocess.PIPE, env=ENV
    )
    try:
        assert child.stdout.readline() == b"ready\n"
        assert read_run(run_dir).is_running
        time.sleep(seconds)
    finally:
        child.send_signal(signal.SIGKILL)
        announced = child.stdout.read().decode().split()
        child.stdout.close()
        child.wait(20)
    return announced


@pytest.mark.parametrize("seed", range(20))
def test_after_kill_9_the_journal_is_a_prefix_with_everything_announced(tmp_path, seed):
    run_dir = tmp_path / "r1"
    announced = killed_writer(run_dir, random.Random(seed).uniform(0.0, 0.05))
    corrupt = []
    run = read_run(run_dir)
    records = list(run.records(corrupt.append))
    found = [record.task_id for record in records]
    assert corrupt == []
    assert found == [f"t{n}" for n in range(len(found))]
    assert found[: len(announced)] == announced
    for number, record in enumerate(records[: len(announced)]):
        steps = list(steps_of(record, run.paths, "left-out"))
        assert steps == [{"n": n} for n in range(number % 7)]
    assert run.status == "interrupted"
    assert not is_held(run.paths.lock_file)
    assert summarize(run_dir).status == "interrupted"


def test_a_writer_in_another_process_is_named_and_its_death_frees_the_lock(tmp_path):
    code = CHILD.partition("with Disk")[0] + (
        "with Disk(Path(sys.argv[1])) as disk:\n"
        "    os.write(1, b'ready\\n')\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "r1")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ENV,
    ) as child:
        assert child.stdout.readline() == b"ready\n"
        with (
            pytest.raises(Exception, match=f"written by process {child.pid}"),
            Disk(tmp_path / "r1"),
        ):
            pass
        child.kill()
    assert not is_held(tmp_path / "r1/lock")
