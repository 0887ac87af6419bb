"""Python programs run in a child process, with signals sent to them."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import attrs

import agentcompass

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(agentcompass.__file__).parents[1])}
"""For children anywhere: the package under test is the one they import."""

HEAD = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
"""Who starts the tests in the background of a shell makes them, and their children, ignore interrupts."""


@attrs.frozen
class Ended:
    returncode: int
    lines: list[str]
    stderr: str
    seconds: float
    """From the first signal, else from the start."""


def run_script(
    text: str, *, interrupts: int = 0, pause: float = 0.4, number: int = signal.SIGINT
) -> Ended:
    """Run a program that prints `ready`; then send it signals, `pause` seconds apart."""
    child = subprocess.Popen(
        [sys.executable, "-W", "error::ResourceWarning", "-c", HEAD + text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # what a buffer has taken in with the first line, `communicate` would not see
        env=ENVIRONMENT,
        start_new_session=True,
    )
    begin = time.monotonic()
    try:
        first = child.stdout.readline()
        if interrupts:
            time.sleep(0.2)
            begin = time.monotonic()
        for n in range(interrupts):
            if n:
                time.sleep(pause)
            child.send_signal(number)
        out, err = child.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()
    return Ended(
        child.returncode,
        (first + out).decode().splitlines(),
        err.decode(),
        time.monotonic() - begin,
    )
