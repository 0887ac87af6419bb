"""Which parts of a directory tree a copy has: the rules for copying between this machine and a sandbox.

Into a sandbox, a relative link that stays below the copied directory is kept, any other is copied as what it leads to.
Out of it, a link is kept (made relative) if it stays below the copied directory; any other is left out, as are pipes,
sockets, devices and what its owner made unreadable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Final, final

from agentcompass.data import frozen

ENTRY_BYTES: Final = 512
"""What a name counts towards a limit, so that a million empty files are not nothing."""


@final
@frozen
class Part:
    """One thing to copy into a sandbox."""

    source: Path
    """On this machine."""
    name: PurePosixPath
    """Relative to the copy's top; `.` for that itself."""
    is_dir: bool = False
    link: str | None = None
    """Where it leads, if it is a link that is kept; else what it leads to is copied."""


def parts(source: Path, check: Callable[[], None]) -> Iterator[Part]:
    """Give what a copy of a file or directory has, directories before what is in them. Blocking.

    Args:
        source: What is not there is given as a file, and found missing when it is opened.
        check: Called often; may raise to stop.
    """
    top = PurePosixPath()
    if not source.is_dir():
        yield Part(source, top)
        return
    base = source.resolve()
    # Each with the real directories above it, by which a link back to one of them is known.
    above: tuple[Path, ...] = (base,)
    waiting = [(source, top, above)]
    while waiting:
        directory, name, above = waiting.pop()
        yield Part(directory, name, is_dir=True)
        with os.scandir(directory) as entries:
            for entry in entries:
                check()
                path, copy = Path(entry.path), name / entry.name
                if entry.is_symlink() and _stays_below(path, base):
                    yield Part(path, copy, link=str(path.readlink()))
                elif entry.is_symlink() and not path.exists():
                    continue  # to nothing, or in a circle
                elif entry.is_dir():
                    if (real := path.resolve()) not in above:
                        waiting.append((path, copy, (*above, real)))
                elif entry.is_file():
                    yield Part(path, copy)


def _stays_below(link: Path, base: Path) -> bool:
    to = link.readlink()
    try:
        return not to.is_absolute() and link.resolve().is_relative_to(base)
    except (OSError, RuntimeError):
        return False  # in a circle


def kept_link(base: str, parent: str, to: str) -> str | None:
    """Return where the copy of a link out of a sandbox leads, relative to itself; None if it is left out. Pure.

    Args:
        base: The copied directory, without links.
        parent: The directory below it that the link is in.
        to: Where it leads; absolute, or from `parent`.
    """
    real = os.path.normpath(PurePosixPath(parent, to))
    return os.path.relpath(real, parent) if PurePosixPath(real).is_relative_to(base) else None
