"""Ending processes of a container from outside, on the machine it runs on. Blocking functions, for root.

Trusts nothing in the container: neither its programs nor what its processes say of themselves, except for the mark in
the environment that they were started with.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from agentcompass.containers.cgroups import Cgroups
from agentcompass.containers.errors import DockerError

_PAUSE: Final = 0.005
_EXITING: Final = 0x4
"""PF_EXITING of the kernel's include/linux/sched.h."""
_N_THREADS: Final = 17
"""Which of `_stat` counts a process's threads, dead first one included."""


def end_marked(
    cgroups: Cgroups, mark: str, root: int, seconds: float, check: Callable[[], None]
) -> int:
    """Kill the processes whose environment has a mark, and their descendants, until there are none.

    Args:
        cgroups: Of the container.
        mark: `NAME=value`, as it stands in the environment.
        root: A process that is known to be one of them; 0: none is.
        seconds: For the whole.
        check: Called between rounds; may raise to stop.

    Returns:
        How many there were.

    Raises:
        DockerError: Something is left (code `processes-left`).
    """

    def find() -> set[int]:
        pids = cgroups.pids()
        parents = _parents(pids)
        # Those first of which that is known: the environment of a process that forks without end takes long to read.
        tree = {root} & pids | descendants({root}, parents) if root else set()
        if tree := {pid for pid in tree if not _is_zombie(pid)}:
            return tree
        marked = {pid for pid in pids if _has(pid, mark.encode())}
        return marked | descendants(marked, parents)

    return _end(find, seconds, check)


def end_others(
    cgroups: Cgroups, own: Collection[int], seconds: float, check: Callable[[], None]
) -> int:
    """Kill all processes of a container but its own, until there are none; return how many there were.

    Args:
        cgroups: Of the container.
        own: Its own, by pid.
        seconds: For the whole.
        check: Called between rounds; may raise to stop.

    Raises:
        DockerError: Something is left (code `processes-left`).
    """
    return _end(lambda: cgroups.pids() - set(own), seconds, check)


def end_strangers(
    cgroups: Cgroups, first: int, has_init: bool, seconds: float, check: Callable[[], None]
) -> int:
    """Kill what a container's main process, which is a service, has not started: see `strangers` and `end_others`."""

    def find() -> set[int]:
        parents = _parents(cgroups.pids())
        by_age = sorted(parents, key=_started)
        return strangers({pid: parents[pid] for pid in by_age}, first, has_init)

    return _end(find, seconds, check)


def strangers(parents: Mapping[int, int], first: int, has_init: bool) -> set[int]:
    """Return which processes of a container are not its own. Pure.

    Its own are the first one; the main one, if that is another; and what descends from the main one. Orphans are
    children of the first process by adoption, so what daemons the main process has left is not told from others'.

    Args:
        parents: By pid, the oldest process first.
        first: The container's first process.
        has_init: The first process is the engine's own, and the main one is the oldest of its children.
    """
    own = {first}
    if has_init:
        main = next((pid for pid, parent in parents.items() if parent == first), first)
        own |= {main} | (descendants({main}, parents) if main != first else set())
    return set(parents) - own


def descendants(ancestors: Iterable[int], parents: Mapping[int, int]) -> set[int]:
    """Return the processes that descend from others. Pure.

    Args:
        ancestors: Not in the result, unless one descends from another.
        parents: By pid.
    """
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: set[int] = set()
    waiting = list(ancestors)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def is_alive(pid: int) -> bool:
    """Whether a process is neither dead nor dying: one that ends kills its namespace first, and is gone last."""
    fields = _stat(pid)
    return bool(fields) and fields[0] not in ("Z", "X") and not int(fields[6]) & _EXITING


def _end(find: Callable[[], set[int]], seconds: float, check: Callable[[], None]) -> int:
    deadline = time.monotonic() + seconds
    seen: set[int] = set()
    while left := {pid for pid in find() if not _is_zombie(pid)}:
        check()
        seen |= left
        if time.monotonic() > deadline:
            raise DockerError(
                f"{len(left)} processes of a container cannot be killed", code="processes-left"
            )
        _kill(left, find)
        time.sleep(_PAUSE)
    return len(seen)


def _kill(pids: Iterable[int], find: Callable[[], set[int]]) -> None:
    held: dict[int, int] = {}
    try:
        for pid in pids:
            # Gone; or too many at once, and those that are left have their turn in the next round.
            with contextlib.suppress(OSError):
                held[pid] = os.pidfd_open(pid)
        # Asked once more: what is held now cannot become another process under the same number.
        still = find()
        meant = [fd for pid, fd in held.items() if pid in still]
        # Stopped first, so that none makes another while its parent is being killed.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for fd in meant:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(fd, number)
    finally:
        for fd in held.values():
            os.close(fd)


def _has(pid: int, mark: bytes) -> bool:
    try:
        if environ := Path(f"/proc/{pid}/environ").read_bytes():
            return mark in environ.split(b"\0")
        # of a process whose first thread has ended only the others tell
        return any(
            mark in (task / "environ").read_bytes().split(b"\0")
            for task in Path(f"/proc/{pid}/task").iterdir()
        )
    except OSError:
        return False  # ended


def _parents(pids: Iterable[int]) -> dict[int, int]:
    return {pid: int(fields[1]) for pid in pids if (fields := _stat(pid))}


def _started(pid: int) -> int:
    fields = _stat(pid)
    return int(fields[19]) if fields else 0


def _is_zombie(pid: int) -> bool:
    """Whether a process is gone but for its number: one whose first thread alone has ended goes on in the others."""
    fields = _stat(pid)
    return not fields or (fields[0] in ("Z", "X") and int(fields[_N_THREADS]) <= 1)


def _stat(pid: int) -> list[str]:
    """The fields of a process from its state on; none if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()
