"""Whether a process that only waits has been left alone, as its machine shows it. Blocking functions, for root.

A container's own processes are of the same user as the programs in it, and these may take them over: write into
their memory (ptrace(2), /proc/PID/mem) and go on in them, where whoever ends all other processes finds nothing. So of
a process that waits in a system call, and will go on waiting, all is noted that decides what it does next: where it
waits and on which stack, what code it has, and every word of its memory that leads into that code, the ways back from
its calls among them. As long as all this is as it was, it does what it did.

Source: proc(5).
"""

from __future__ import annotations

import os
import re
import time
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, final

from agentcompass.data import frozen

_PAUSE: Final = 0.003
_MAX_BYTES: Final = 8 * 1024 * 1024
"""Of one mapping that are searched; a program that waits has some hundred kilobytes in all."""
_WORD: Final = array("Q").itemsize
# 00400000-0047d000 r-xp 00001000 fe:00 2171437    /usr/sbin/docker-init
_MAPPING: Final = re.compile(r"^(([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ (\d+)) ", re.MULTILINE)
_OWN_PAGES: Final = re.compile(r"^Anonymous: +(\d+) kB$", re.MULTILINE)
_STATUS: Final = re.compile(
    r"^(?:TracerPid|Uid|Gid|Threads|SigBlk|SigIgn|SigCgt):.*$", re.MULTILINE
)
_STARTED: Final = 19
"""Which field of a process's `stat` says when it was started; the state is number 0."""


@final
@frozen
class Waiting:
    """How a process waits."""

    started: int
    """When it was started, by which it is told from a later one of the same number."""
    call: tuple[str, ...]
    """Its system call, stack pointer and program counter."""
    status: tuple[str, ...]
    """Who it is, how many threads it has, which signals it handles, and who traces it."""
    files: tuple[str, ...]
    """What it has open."""
    fixed: tuple[str, ...]
    """What it has mapped without the right to write, code above all, and how much of each is not as in its file."""
    programs: frozenset[tuple[int, int]]
    """The files that its code is from: inodes, which a file that is overwritten keeps, and times of change, which not."""
    ways: Mapping[int, int]
    """The words of its own memory that lead into code, by their addresses."""

    def goes_on_as(self, before: Waiting) -> bool:
        """Whether it will do what it would have done before.

        A word that led into code may lead nowhere now: some are only left over where a call keeps its variables. And a
        word that did not lead into code before is no way back.
        """
        same = (self.started, self.call, self.status, self.files, self.fixed) == (
            before.started,
            before.call,
            before.status,
            before.files,
            before.fixed,
        )
        return same and all(self.ways.get(at, to) == to for at, to in before.ways.items())


def settled(pid: int, seconds: float) -> Waiting | None:
    """Return how a process waits once it does.

    Args:
        pid: On this machine.
        seconds: To wait for it at most.

    Returns:
        None if it does not wait, is gone, or cannot be looked at.
    """
    before: Waiting | None = None
    for now in _looks(pid, seconds):
        if before is not None and now.goes_on_as(before):
            return now
        before = now
    return None


def is_untouched(pid: int, before: Waiting, seconds: float) -> bool:
    """Whether a process waits as it did before; it may be busy for a moment within `seconds`."""
    return any(now.goes_on_as(before) for now in _looks(pid, seconds))


def _looks(pid: int, seconds: float) -> Iterator[Waiting]:
    """Look at a process now and then, as long as it can be looked at."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = _look(Path(f"/proc/{pid}"))
        except (OSError, ValueError, IndexError):
            return
        if found is not None:
            yield found
        if time.monotonic() > deadline:
            return
        time.sleep(_PAUSE)


def _look(process: Path) -> Waiting | None:
    """Return how a process waits; None if it does not at this moment."""
    call = _call(process)
    if call is None:
        return None
    started = _text(process / "stat").rpartition(")")[2].split()[_STARTED]
    status = tuple(_STATUS.findall(_text(process / "status")))
    files = tuple(sorted(f"{file.name} {file.readlink()}" for file in (process / "fd").iterdir()))
    fixed, code, ways = _memory(process, stack=int(call[1], 16))
    programs = frozenset(_files(process, code))
    if _call(process) != call:  # what was read must be of one moment
        return None
    return Waiting(int(started), call, status, files, fixed, programs, ways)


def _call(process: Path) -> tuple[str, ...] | None:
    words = _text(process / "syscall").split()
    return None if words[0] in ("running", "-1") else (words[0], *words[-2:])


def _memory(
    process: Path, *, stack: int
) -> tuple[tuple[str, ...], Sequence[tuple[int, int]], Mapping[int, int]]:
    """Return `Waiting.fixed`, where code from files is, and `Waiting.ways`.

    Args:
        process: Its directory.
        stack: The stack pointer. What lies below it is left from calls that are over.
    """
    text = _text(process / "smaps")
    heads = list(_MAPPING.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    fixed, code, from_files, own = [], [], [], []
    for head, text_end in zip(heads, ends, strict=True):
        pages = _OWN_PAGES.search(text, head.start(), text_end)
        n_own = int(pages[1]) if pages else 0
        begin, end, rights = int(head[2], 16), int(head[3], 16), head[4]
        if "w" not in rights:
            fixed.append(f"{head[1]} {n_own}")
        if "x" in rights:
            code.append((begin, end))
        if "x" in rights and head[5] != "0":
            from_files.append((begin, end))
        if n_own and "r" in rights:
            own.append((stack if begin <= stack < end else begin, end))
    with (process / "mem").open("rb", buffering=0) as memory:
        ways = dict(way for place in own for way in _ways(memory.fileno(), *place, code))
    return tuple(fixed), from_files, ways


def _files(process: Path, code: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for begin, end in code:
        found = (process / "map_files" / f"{begin:x}-{end:x}").stat()
        yield found.st_ino, found.st_ctime_ns


def _ways(
    memory: int, begin: int, end: int, code: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    begin += -begin % _WORD
    data = os.pread(memory, min(end - begin, _MAX_BYTES) // _WORD * _WORD, begin)
    lowest = min((low for low, _ in code), default=0)
    for number, word in enumerate(array("Q", data[: len(data) // _WORD * _WORD])):
        if word >= lowest and any(low <= word < high for low, high in code):
            yield begin + number * _WORD, word


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")
