"""What of an engine's end reaches the caller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import outcome

T = TypeVar("T")


def result_of(ending: outcome.Outcome[T]) -> T:
    """Return what an engine returned, or raise what it raised, bare.

    Raised outside of any `except` block, so that no group appears as the context of its own member.
    """
    if isinstance(ending, outcome.Error):
        raise bare(ending.error)
    return ending.unwrap()


def bare(error: BaseException) -> BaseException:
    """Return what a caller should see of `error`: nurseries wrap even a single exception in a group.

    An interrupt anywhere in a group wins, so that `except KeyboardInterrupt` works; a lone exception is taken out
    of its group; several stay together.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, KeyboardInterrupt):
            return leaf
    return leaves[0] if len(leaves) == 1 else error


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error
