"""The second line: finding a sandbox's processes by the mark in their environment.

Needed when no keeper can answer for them any more: after `kill -9` of the engine, or of the keeper's own
processes. A process that has changed its environment is not found here; that is what the keeper is for.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from agentcompass.components.environments.keeper import all_pids, send_signal
from agentcompass.errors import SandboxError

MARK = "AGENTCOMPASS_LEASE"
"""The variable that every process of a sandbox inherits; its value is the lease's id."""
END_SECONDS = 5.0
PAUSE_SECONDS = 0.01


def find(lease_id: str) -> set[int]:
    """Return the processes that carry the mark of a lease, as far as this user may see them."""
    wanted = f"{MARK}={lease_id}".encode()
    found = set()
    for pid in all_pids():
        try:
            environ = Path(f"/proc/{pid}/environ").read_bytes() or _of_threads(pid)
        except OSError:
            continue  # ended, or another user's
        if wanted in environ.split(b"\0"):
            found.add(pid)
    return found - {os.getpid()}


def _of_threads(pid: int) -> bytes:
    """What the threads of a process know of its environment when its first one has ended."""
    known = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has just ended
            known.append((task / "environ").read_bytes())
    return b"\0".join(known)


def end(lease_id: str, check: Callable[[], None]) -> int:
    """Kill what carries the mark of a lease until nothing does; return how many there were.

    Args:
        lease_id: Whose.
        check: Called between rounds; may raise to give up.

    Raises:
        SandboxError: Something survived (code `processes-left`).
    """
    deadline = time.monotonic() + END_SECONDS
    seen: set[int] = set()
    while left := find(lease_id):
        check()
        seen |= left
        if time.monotonic() > deadline:
            raise SandboxError(
                f"processes {sorted(left)} could not be killed", code="processes-left"
            )
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in left:
                send_signal(pid, number)
        time.sleep(PAUSE_SECONDS)
    return len(seen)


def await_guards(directory: Path, check: Callable[[], None]) -> None:
    """Wait until no guard holds its lock on a workspace, for at most `END_SECONDS`."""
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return  # nothing there to be held
    try:
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                check()
                time.sleep(PAUSE_SECONDS)
            except OSError:
                return  # a file system without locks
            else:
                return
    finally:
        os.close(fd)
