"""Runs one program with its tests, inside the sandbox, under limits, and tells the verdict.

This file's text is handed to `python -c`; it needs nothing but the standard library of Python 3.7 or newer.

Input: one line with the length of a JSON object in bytes; the object (`sources`, `timeout_seconds`, `memory_mb`);
one line with a token. Output: `ready VERSION` before the program begins, then `TOKEN passed` or `TOKEN failed:
...` once the tests are over. The program has neither this input nor this output: its own input is empty and
its output goes to stderr. The token is read when the tests are over. So nothing that a program does by accident, and
nothing simple that it does on purpose (printing, exiting, raising, replacing builtins), looks like a pass. Code in
the same process that goes looking for the token's file descriptor can find it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import types
from collections.abc import Callable

MAX_MESSAGE = 500
MAX_FILE_BYTES = 64 * 1024 * 1024
SOLUTION = "solution"


def main() -> None:
    """Read the job, run it, write the verdict, and leave without running anything of the program's."""
    read, write, leave, clock = os.read, os.write, os._exit, signal.setitimer
    incoming, outgoing = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    job = json.loads(_read_exactly(incoming, int(_read_line(incoming, read))).decode("ascii"))
    write(outgoing, f"ready {sys.version.split()[0]}\n".encode("ascii"))
    _limit(job["timeout_seconds"], job["memory_mb"])
    verdict = _verdict(job["sources"])
    clock(signal.ITIMER_REAL, 0)
    token = _read_line(incoming, read)
    write(outgoing, b"\n" + token + b" " + verdict + b"\n")
    leave(0)


def _read_line(file: int, read: Callable[[int, int], bytes]) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = read(file, 1)
        if not byte:
            break
        line += byte
    return line.strip()


def _read_exactly(file: int, length: int) -> bytes:
    parts = []
    while length > 0:
        part = os.read(file, min(length, 1 << 20))
        if not part:
            raise EOFError("the job is cut short")
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _limit(timeout_seconds: float, memory_mb: int) -> None:
    """The alarm kills the process: an exception could be caught by the program."""
    for kind, wanted in (
        (resource.RLIMIT_AS, memory_mb * 1024 * 1024),
        (resource.RLIMIT_FSIZE, MAX_FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (value, value))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, timeout_seconds)


def _verdict(sources: list[list[str]]) -> bytes:
    """Run the sources in one module, compiled apart so that each may begin with `from __future__`."""
    execute = exec
    module = types.ModuleType(SOLUTION)
    sys.modules[SOLUTION] = module
    try:
        codes = [compile(text, f"<{name}>", "exec", dont_inherit=True) for name, text in sources]
        for code in codes:
            execute(code, module.__dict__)
    except BaseException as error:  # noqa: BLE001  SystemExit is a failure too
        return _failure(error)
    return b"passed"


def _failure(error: BaseException) -> bytes:
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001  the program may have written this __str__
        text = ""
    line = " ".join(f"failed: {name}: {text}".split())
    return line[:MAX_MESSAGE].encode("ascii", "backslashreplace")


if __name__ == "__main__":
    main()
