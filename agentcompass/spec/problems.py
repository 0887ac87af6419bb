"""What is wrong with what a user wrote: collected as data, rendered once, all of it together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, final

import attrs

from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError

_IDENTIFIER: Final = re.compile(r"[^\W\d][\w-]*")

MAX_SHOWN: Final = 50
"""Problems that the text of an error shows; `ConfigurationError.problems` has all."""


@frozen(kw_only=True)
class Problem:
    """One thing that is wrong, and where."""

    where: str
    """`FILE:LINE:COLUMN`, or the door it came in by: `--k`, `argument k`, `OrchestrationSpec`."""
    path: str
    """Dotted path inside the document or the argument (`requests[1].model.id`); empty for the whole of it."""
    sentence: str
    """What is wrong and what would be right, without a full stop."""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.path, self.sentence) if part)


@final
class Problems:
    """Collects problems: of one value in one place, the first that was found."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, ...], Problem] = {}

    def add(self, where: str, path: str, sentence: str) -> None:
        """Note one more problem; see `Problem` for the parts."""
        key = (where, path) if path else (where, path, sentence)
        self._found.setdefault(key, Problem(where=where, path=path, sentence=sentence))

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Problem]:
        return iter(self._found.values())

    def relocate(self, change: Callable[[Problem], Problem | None]) -> None:
        """Put every problem where `change` says; None leaves it. Of those moved to one place, the first stays."""
        kept: dict[tuple[str, ...], Problem] = {}
        for key, problem in self._found.items():
            moved = change(problem)
            if moved is None:
                kept[key] = problem
            else:
                kept.setdefault((moved.where, moved.path), moved)
        self._found = kept

    def raise_if_any(self, scrub: Callable[[str], str] = str) -> None:
        """Raise one error for all problems found so far.

        Args:
            scrub: Removes secrets, which a component's own words may repeat.

        Raises:
            ConfigurationError: There is at least one; its `problems` are the `Problem` objects.
        """
        if self._found:
            problems = tuple(
                attrs.evolve(problem, sentence=scrub(problem.sentence))
                for problem in self._found.values()
            )
            lines = [str(problem) for problem in problems[:MAX_SHOWN]]
            if len(problems) > MAX_SHOWN:
                lines.append(f"... and {len(problems) - MAX_SHOWN} more problems")
            raise ConfigurationError("\n".join(lines), problems=problems)


def join_path(base: str, key: str | int) -> str:
    """Return the path of an item of `base`: `base.key`, `base[0]`, or `base['odd key']`."""
    if isinstance(key, int):
        return f"{base}[{key}]"
    if not _IDENTIFIER.fullmatch(key):
        return f"{base}[{key!r}]"
    return f"{base}.{key}" if base else key
