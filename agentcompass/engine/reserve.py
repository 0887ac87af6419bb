"""Descriptors that are kept free for the end: however many files are open, a run can be summed up."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, final

SPARE: Final = 16
"""More than summing up, closing and removing sandboxes take at a time."""


@final
class Reserve:
    """Holds `SPARE` descriptors, and lends them to those who sum up."""

    def __init__(self) -> None:
        self._held: list[int] = []
        self._borrowers = 0
        self._fill()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Have the descriptors free for the block."""
        self._borrowers += 1
        self._empty()
        try:
            yield
        finally:
            self._borrowers -= 1
            if not self._borrowers:
                self._fill()

    def close(self) -> None:
        """Give them up."""
        self._borrowers += 1  # for good
        self._empty()

    def _fill(self) -> None:
        with contextlib.suppress(OSError):  # others have taken them meanwhile
            while len(self._held) < SPARE:
                self._held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def _empty(self) -> None:
        while self._held:
            os.close(self._held.pop())
