"""Which tasks of a benchmark a request runs: parameters that change no answer."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import Final

import attrs

from agentcompass.components.base import Task
from agentcompass.data import frozen
from agentcompass.spec.problems import Problems
from agentcompass.spec.ranges import PositiveInt

SELECTION: Final = {"selection": True}
"""Metadata of a field that chooses tasks: it stays out of the fingerprint."""
MAX_SUGGESTIONS: Final = 10
"""Names for which the nearest is looked up: comparing one with a hundred thousand takes a second."""


@frozen(kw_only=True)
class SelectionParams:
    """Parameters that every benchmark with named tasks has."""

    sample_ids: tuple[str, ...] | None = attrs.field(default=None, metadata=SELECTION)
    """Task ids to run, at least one; they run in the data's order whatever their order here. None: all."""
    limit: PositiveInt | None = attrs.field(default=None, metadata=SELECTION)
    """Run only the first so many of the tasks selected otherwise, at least 1. None: all."""


def select(tasks: Iterable[Task], params: SelectionParams, where: str) -> list[Task]:
    """Return the tasks that the parameters select, in order.

    Args:
        tasks: All there are.
        params: The selection.
        where: The benchmark's name for messages.

    Raises:
        ConfigurationError: `sample_ids` is empty or has unknown ids; the message names the nearest of each.
    """
    found = list(tasks)
    problems = Problems()
    check_names(problems, where, "sample_ids", params.sample_ids, [task.id for task in found])
    problems.raise_if_any()
    if params.sample_ids is not None:
        wanted = set(params.sample_ids)
        found = [task for task in found if task.id in wanted]
    return found[: params.limit]


def check_names(
    problems: Problems,
    where: str,
    field: str,
    wanted: Collection[str] | None,
    known: Collection[str],
) -> None:
    """Note names of a selection that are not among the known ones, with the nearest, and a selection of nothing."""
    if wanted is None:
        return
    if not wanted:
        problems.add(where, field, "must have at least one entry; leave it out to run all tasks")
    there = set(known)
    unknown = [name for name in dict.fromkeys(wanted) if name not in there]
    for index, name in enumerate(unknown):
        is_compared = index < MAX_SUGGESTIONS
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5) if is_compared else []
        suffix = f"did you mean {near[0]!r}?" if near else f"there are {len(there)}"
        problems.add(where, field, f"nothing is called {name!r} ({suffix})")
