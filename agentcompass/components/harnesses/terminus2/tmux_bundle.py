"""This machine's tmux as a bundle that runs in any sandbox of the same architecture: program, loader, libraries, locale.

Blocking: for worker threads.
"""

from __future__ import annotations

import functools
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from agentcompass.data import frozen
from agentcompass.errors import SandboxError

PROGRAM: Final = "tmux"
LOADER: Final = "ld.so"
TERMINAL: Final = "screen-256color"
"""What programs in the terminal take it for: nearly every system knows it."""
_LOCALE_FILES: Final = (
    "/usr/lib/locale/C.utf8/LC_CTYPE",
    "/usr/lib/locale/C.UTF-8/LC_CTYPE",
    "/usr/lib64/locale/C.utf8/LC_CTYPE",
)
_TERMINFO_DIRS: Final = (
    "/etc/terminfo",
    "/lib/terminfo",
    "/usr/share/terminfo",
    "/usr/lib/terminfo",
)
_LIST_SECONDS: Final = 20.0
_INTERPRETER: Final = 3
"""Type of the program header that names the loader. Source: the ELF specification."""
NO_TMUX: Final = (
    "Install tmux 3.0 or newer in the image or on this machine, or name a static build of it for the sandbox's "
    "architecture in the harness parameter `tmux`."
)


@frozen(kw_only=True)
class Bundle:
    """Files for one directory of a sandbox."""

    files: Mapping[str, bytes]
    """By path in the directory."""

    @property
    def folders(self) -> tuple[str, ...]:
        """Directories below the one."""
        return tuple(sorted({path.partition("/")[0] for path in self.files if "/" in path}))

    def command(self, directory: str) -> list[str]:
        """Return how the program is called there."""
        program = f"{directory}/{PROGRAM}"
        if LOADER not in self.files:
            return [program]
        return [f"{directory}/{LOADER}", "--library-path", directory, program]

    def env(self, directory: str) -> dict[str, str]:
        """Return the variables with which it finds its locale there."""
        return {"LOCPATH": directory}


def bundled(program: str | None) -> Bundle:
    """Return the bundle of a tmux of this machine.

    Args:
        program: Its path; None: the one on the PATH.

    Raises:
        SandboxError: There is none, or it cannot be used (code `no-tmux`).
    """
    found = shutil.which(PROGRAM) if program is None else program
    if found is None:
        raise no_tmux("there is none on this machine that could be brought in")
    return _read(found)


def no_tmux(reason: str) -> SandboxError:
    """Return the error of a sandbox in which there is no terminal to be had."""
    return SandboxError(f"no usable tmux: {reason}", code="no-tmux", retryable=False, hint=NO_TMUX)


@functools.cache
def _read(program: str) -> Bundle:
    try:
        content = Path(program).read_bytes()
        files = {PROGRAM: content, **dict(_shared())}
        loader = _loader(content)
        if loader is not None:
            files[LOADER] = Path(loader).read_bytes()
            files.update((path.name, path.read_bytes()) for path in _libraries(loader, program))
    except (OSError, ValueError, struct.error, subprocess.SubprocessError) as error:
        raise no_tmux(f"{program} cannot be brought in: {error}") from error
    return Bundle(files=files)


def _loader(program: bytes) -> str | None:
    """The loader that a program names; None if it is static."""
    if program[:6] != b"\x7fELF\x02\x01":
        raise ValueError("it is no 64-bit little-endian ELF program")
    (offset,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    for number in range(count):
        kind, _flags, begin = struct.unpack_from("<IIQ", program, offset + number * size)
        (length,) = struct.unpack_from("<Q", program, offset + number * size + 32)
        if kind == _INTERPRETER:
            return program[begin : begin + length].rstrip(b"\0").decode()
    return None


def _libraries(loader: str, program: str) -> Iterator[Path]:
    listed = subprocess.run(
        [loader, "--list", program],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LIST_SECONDS,
        check=True,
    )
    for line in listed.stdout.splitlines():
        _name, arrow, place = line.partition(" => ")
        if arrow and place.startswith("/") and not place.startswith(f"{loader} "):
            yield Path(place.rpartition(" (")[0])


def _shared() -> Iterator[tuple[str, bytes]]:
    """What the program and what runs in it look up by name."""
    for name in _LOCALE_FILES:
        if Path(name).is_file():
            yield "C.utf8/LC_CTYPE", Path(name).read_bytes()
            break
    entry = f"{TERMINAL[0]}/{TERMINAL}"
    for directory in _TERMINFO_DIRS:
        if Path(directory, entry).is_file():
            yield entry, Path(directory, entry).read_bytes()
            break
