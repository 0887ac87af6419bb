"""Files that components wrote into a run by themselves: secrets are removed from them afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from agentcompass.secrets import Scrubber
from agentcompass.store import casts

_PIECE: Final = 1024 * 1024


def scrub_folder(folder: Path, scrubber: Scrubber) -> None:
    """Remove every known secret from the files below a directory, links and special files left alone. Blocking.

    In recordings of a terminal it is also found where it is cut across events.

    Raises:
        OSError: A file that holds one could not be read or replaced; the others are done.
    """
    if not scrubber.longest:
        return
    failure: OSError | None = None
    for directory, _folders, names in os.walk(folder):
        for name in names:
            path = Path(directory, name)
            try:
                if path.is_file() and not path.is_symlink():
                    _scrub_file(path, scrubber)
            except OSError as error:
                failure = failure or error
    if failure is not None:
        raise failure


def _scrub_file(path: Path, scrubber: Scrubber) -> None:
    _rewrite(path, scrubber, _holds_secret, _scrubbed)
    if path.suffix == casts.SUFFIX:
        _rewrite(path, scrubber, casts.shows_secret, casts.scrubbed)


def _rewrite(
    path: Path,
    scrubber: Scrubber,
    needs_it: Callable[[BinaryIO, Scrubber], bool],
    scrubbed: Callable[[BinaryIO, Scrubber], Iterable[bytes]],
) -> None:
    """Replace a file, if need be, by what is made of it."""
    with path.open("rb") as file:
        if not needs_it(file, scrubber):
            return
        file.seek(0)
        other_path = path.with_name(f".{path.name}.scrubbed")
        try:
            with other_path.open("wb") as other:
                other.writelines(scrubbed(file, scrubber))
            shutil.copymode(path, other_path)
            other_path.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                other_path.unlink()
            raise


def _holds_secret(file: BinaryIO, scrubber: Scrubber) -> bool:
    overlap = b""
    for piece in _pieces(file):
        if scrubber.holds_secret(overlap + piece):
            return True
        overlap = piece[-scrubber.longest :]
    return False


def _scrubbed(file: BinaryIO, scrubber: Scrubber) -> Iterator[bytes]:
    return scrubber.scrub_pieces(_pieces(file))


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece
