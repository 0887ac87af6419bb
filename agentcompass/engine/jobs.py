"""Executions to be made, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

from agentcompass.components.base import Task
from agentcompass.data import frozen


@final
@frozen
class Job:
    """One execution of one attempt at one task."""

    task: Task
    attempt: int
    """1..k."""
    execution: int = 1
    """1 for the first, 2 for its first retry, ..."""


def plan_jobs(
    tasks: Sequence[Task], k: int, *, one_by_one: bool, skip: frozenset[tuple[str, int]]
) -> Iterator[Job]:
    """Yield the executions to start with, in order: all attempts of a task one after another.

    Args:
        tasks: In order.
        k: Attempts of each.
        one_by_one: Only the first missing attempt of each task: the next one depends on how it ends.
        skip: Attempts that need no execution: (task id, attempt).
    """
    for task in tasks:
        for attempt in range(1, k + 1):
            if (task.id, attempt) not in skip:
                yield Job(task, attempt)
                if one_by_one:
                    break
