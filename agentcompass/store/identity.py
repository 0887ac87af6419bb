"""Telling processes apart: whether the one that wrote a file still runs."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from agentcompass.records import ProcessIdentity

_PROC = Path("/proc")


def this_process() -> ProcessIdentity:
    """Return the identity of this process, as it is after a fork too."""
    pid = os.getpid()
    _, started = _state_and_start(pid) or ("", 0)
    return ProcessIdentity(boot_id=_boot_id(), pid=pid, started=started)


def is_alive(identity: ProcessIdentity) -> bool:
    """Whether a process of this machine still runs.

    False after a reboot, and for another process that got the same pid later. A process that exists but whose start
    time cannot be read (hidden by the system, or in a chroot without /proc) counts as alive: nothing of it may be
    cleaned up.
    """
    if identity.boot_id != (_boot_id() or identity.boot_id) or identity.pid <= 0:
        return False
    seen = _state_and_start(identity.pid)
    if seen is None:
        return _exists(identity.pid)
    state, started = seen
    return started == identity.started and state not in {"Z", "X"}


def _boot_id() -> str:
    with contextlib.suppress(OSError):
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def _state_and_start(pid: int) -> tuple[str, int] | None:
    """State and start time from `/proc/PID/stat`; None if it cannot be read."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The second field is the program's name in parentheses, which may itself contain spaces and parentheses.
    fields = stat.rpartition(b")")[2].split()
    return fields[0].decode(), int(fields[19])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it is another user's
        pass
    return True
