"""Which requests of an orchestration run, where only some are asked for by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from agentcompass.errors import did_you_mean
from agentcompass.spec.matrix import label_matches
from agentcompass.spec.problems import Problems
from agentcompass.spec.tree import Written, text_of


def keep_only(document: Written, wanted: object, where: str, problems: Problems) -> Written:
    """Return an orchestration without the requests that nobody asks for; nothing is said of what is wrong with them.

    Args:
        document: With its matrix expanded, and a list of requests, or none at all.
        wanted: As for `chosen`.
        where: As for `chosen`.
        problems: As for `chosen`.
    """
    requests = document.get("requests")
    if requests is None or not isinstance(requests.data, tuple):
        return document
    names = [text_of(request.get("name")) for request in requests.data]
    kept = chosen(names, wanted, where, problems)
    data = tuple(r for r, name in zip(requests.data, names, strict=True) if name in kept)
    return attrs.evolve(
        document, data={**document.data, "requests": attrs.evolve(requests, data=data)}
    )


def chosen(
    names: Sequence[str | None], wanted: object, where: str, problems: Problems
) -> set[str | None]:
    """Return those names of requests that are asked for.

    Args:
        names: Of all requests; None for one whose name is not known.
        wanted: A name, or a list of names, each of which may be a pattern as for file names (`*-small`).
        where: What messages call the option that asks.
        problems: Gets a name or pattern that no request has.
    """
    known = [name for name in names if name is not None]
    found: set[str | None] = set()
    for pattern in _patterns(wanted, where, problems):
        matching = {name for name in known if label_matches(name, pattern)}
        if not matching:
            problems.add(
                where, "", f"no request is called {pattern!r}{did_you_mean(pattern, known)}"
            )
        found |= matching
    return found


def _patterns(wanted: Any, where: str, problems: Problems) -> list[str]:
    patterns = [wanted] if isinstance(wanted, str) else wanted
    is_list = isinstance(patterns, list | tuple)
    if not is_list or not all(isinstance(pattern, str) for pattern in patterns):
        problems.add(where, "", f"must be a name or a list of names, not {wanted!r:.60}")
        return []
    if not patterns:
        problems.add(where, "", "must name at least one request")
    return list(patterns)
