"""How many files this process may have open at once (RLIMIT_NOFILE): sockets and pipes count too."""

from __future__ import annotations

import contextlib
import resource
import sys

_given: list[int] = []
"""The soft limit before `raise_limit`; empty if that changed nothing."""


def limit() -> int:
    """Return how many there may be now."""
    return _number(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def given_limit() -> int:
    """Return how many there might be before `raise_limit`: what programs that we start expect.

    Some close every descriptor that there might be, others cannot use those beyond 1024.
    """
    return _given[0] if _given else limit()


def raise_limit() -> None:
    """Raise the soft limit to the hard one, which every process may. For a process that is ours alone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Some systems have a lower bound of their own, which they do not tell.
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            _given[:] = [_given[0] if _given else _number(soft)]


def _number(value: int) -> int:
    return sys.maxsize if value == resource.RLIM_INFINITY else value
