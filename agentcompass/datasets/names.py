"""Names that come from elsewhere: paths that stay inside of a directory, and texts that become folder names."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Final

from agentcompass.errors import ConfigurationError, PreflightError

_MAX_SEGMENT_BYTES: Final = 255
_MAX_READABLE: Final = 80


def checked_path(text: str, what: str, *, may_be_empty: bool = False) -> PurePosixPath:
    """Return a relative path that leads nowhere but down.

    Args:
        text: With `/` between names.
        what: It is, with its article, for messages.
        may_be_empty: Whether it may be the directory itself.

    Raises:
        ConfigurationError: It is absolute, has `..`, an empty or an overlong name, `.git`, a control character or a
            backslash in it.
    """
    names = text.split("/") if text else []
    is_bad = any(
        name in {"", ".", ".."}
        or name.lower() == ".git"
        or "\\" in name
        or any(ord(character) < 32 or ord(character) == 127 for character in name)
        or len(name.encode(errors="surrogatepass")) > _MAX_SEGMENT_BYTES
        for name in names
    )
    if is_bad or not (names or may_be_empty):
        raise ConfigurationError(
            f"{text!r} cannot be {what}: it must be relative and lead nowhere but down"
        )
    return PurePosixPath(*names)


def inside(directory: Path, text: str, what: str) -> Path:
    """Return where a path that a server named stands below a directory.

    Raises:
        PreflightError: It would stand elsewhere.
    """
    try:
        return directory / checked_path(text, "the path of a file")
    except ConfigurationError as error:
        raise PreflightError(f"{what} has a file that is refused: {error.message}") from None


def refuse_links_outside(directory: Path, what: str) -> None:
    """Check that no symbolic link below a directory leads out of it. Blocking.

    Whatever reads the data set would follow it to files of this machine.

    Raises:
        PreflightError: One does; it is named.
    """
    root = directory.resolve()
    for parent, folders, files in os.walk(directory):
        for name in (*folders, *files):
            path = Path(parent, name)
            if not path.is_symlink():
                continue
            to = path.readlink()
            end = Path(os.path.normpath(path.parent.resolve() / to))
            if to.is_absolute() or not end.is_relative_to(root) or not _ends_inside(path, root):
                raise PreflightError(
                    f"{what} is refused: its link {path.relative_to(directory)} leads out of it, to {to}"
                )


def _ends_inside(path: Path, root: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # a loop leads nowhere
        return True


def readable(text: str) -> str:
    """Return a short text of letters, digits, `.`, `_`, `@` and `-` that is like another."""
    name = re.sub(r"[^A-Za-z0-9._@-]+", "--", text.removeprefix("https://").removeprefix("http://"))
    return name.strip(".-")[-_MAX_READABLE:].strip(".-") or "data"
