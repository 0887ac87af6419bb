"""Keeps the garbage collector from walking, again and again, what lives as long as the run.

A full pass over all that a program has loaded takes tens of milliseconds, in which no thread moves: it is most of the
event loop's lag, and grows with the number of tasks. What is there when a run begins, and what a request has loaded
when its work begins, is therefore set aside (`gc.freeze`) until a run of this process ends; and the young are looked
at less often. Nothing else about collection changes, and memory is counted as before.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLDS: Final = (10_000, 20, 20)
"""Objects between two passes over the youngest, and passes between those over older ones, while a run lasts."""

_lock: Final = threading.Lock()
_before: Final[list[tuple[int, int, int]]] = []
"""The thresholds that each run of this process found: the collector is the process's, so this is too."""


@contextmanager
def set_aside() -> Iterator[None]:
    """Do so for the block.

    Runs of several threads may overlap; the first one's thresholds come back with the last, unless somebody else has
    changed them. What was set aside is given back whenever one of them ends: where there is always a run, garbage
    that was set aside with the rest must not stay for ever.
    """
    with _lock:
        found = gc.get_threshold()
        _before.append(found)
        if found[0] > 0:  # 0: somebody collects by hand
            gc.set_threshold(*THRESHOLDS)
        gc.freeze()
    try:
        yield
    finally:
        with _lock:
            found = _before.pop()  # whoever ends last gets what the first one found
            gc.unfreeze()
            if not _before and gc.get_threshold() == THRESHOLDS:
                gc.set_threshold(*found)


def set_loaded_aside() -> None:
    """Set aside what a request has loaded, too; within `set_aside`."""
    gc.freeze()
