"""Files that components wrote into a run by themselves: secrets are removed from them afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from agentcompass.secrets import Scrubber

_PIECE: Final = 1024 * 1024


def scrub_folder(folder: Path, scrubber: Scrubber) -> None:
    """Remove every known secret from the files below a directory, links and special files left alone. Blocking.

    Raises:
        OSError: A file that holds one could not be read or replaced; the others are done.
    """
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
    with path.open("rb") as file:
        overlap = b""
        for piece in _pieces(file):
            if scrubber.holds_secret(overlap + piece):
                break
            overlap = piece[-scrubber.longest :]
        else:
            return
        file.seek(0)
        scrubbed = path.with_name(f".{path.name}.scrubbed")
        try:
            with scrubbed.open("wb") as other:
                other.writelines(scrubber.scrub_pieces(_pieces(file)))
            shutil.copymode(path, scrubbed)
            scrubbed.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                scrubbed.unlink()
            raise


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece
