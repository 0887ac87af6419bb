"""The analyzers of a run: which there are, and calls of them that cost nobody else anything."""

from __future__ import annotations

import inspect
import itertools
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, final

import attrs

from agentcompass.components import registry
from agentcompass.components.analysis import (
    Finding,
    FinishedAttempt,
    Noted,
    Summarizer,
    SummaryRow,
)
from agentcompass.components.base import Analyzer
from agentcompass.errors import ConfigurationError
from agentcompass.records import JSON
from agentcompass.spec.codec import structure
from agentcompass.spec.problems import Problems
from agentcompass.spec.tree import Origin, from_python
from agentcompass.store.analysis import StoredFinding

MAX_FINDINGS: Final = 50
"""Of one analyzer about one execution."""
MAX_ROWS: Final = 250
"""Of one analyzer in the summary."""
MAX_LABEL: Final = 80
MAX_DETAIL: Final = 500

_log = logging.getLogger("agentcompass.engine")


@final
@attrs.define(eq=False)
class Turn:
    """One stay in a worker thread, from which the thread may not come back in time."""

    busy: str | None = None
    """The analyzer whose code runs now."""
    is_over: bool = False
    """Nobody waits any more: whatever the thread still does, it must leave no trace."""


class TurnIsOver(Exception):  # noqa: N818  # no error: the way out of a thread that was given up
    """Raised in a thread that nobody waits for any more."""


@final
class Analysts:
    """The analyzers of one run. Its methods run in a worker thread, one turn at a time.

    Args:
        analyzers: By the name under which their findings are kept.
        notes: What is to be said about those that could not be set up.
    """

    def __init__(self, analyzers: Mapping[str, Analyzer[Any]], notes: Sequence[str] = ()) -> None:
        self._analyzers = dict(analyzers)
        self._faulty: set[str] = set()
        self.notes = list(notes)
        """What people should know about the analyzers: at most one for each and kind of trouble."""

    @property
    def names(self) -> list[str]:
        """Of the analyzers that are still asked."""
        return list(self._analyzers)

    def dismiss(self, name: str, why: str) -> None:
        """Never call an analyzer again."""
        self._analyzers.pop(name, None)
        self.notes.append(f"analyzer {name} {why}; it is not asked again")

    def look_at(self, attempt: FinishedAttempt, turn: Turn) -> list[tuple[str, Mapping[str, JSON]]]:
        """Return what the analyzers have to say about an attempt: names and findings as JSON.

        Raises:
            TurnIsOver: The turn was given up meanwhile.
        """
        found: list[tuple[str, Mapping[str, JSON]]] = []
        for name, analyzer in list(self._analyzers.items()):
            with self._guarded(name, turn):
                found += [(name, item) for item in _findings(analyzer.analyze(attempt))]
        return found

    def sum_up(self, findings: Iterable[StoredFinding], turn: Turn) -> list[dict[str, JSON]]:
        """Return the rows of the summary, by analyzer in order of name.

        Raises:
            TurnIsOver: The turn was given up meanwhile.
            StoreError: The findings cannot be read.
        """
        summarizers: dict[str, Summarizer] = {}
        for name, analyzer in list(self._analyzers.items()):
            with self._guarded(name, turn):
                summarizers[name] = analyzer.summarizer()
        for found in findings:
            summarizer = summarizers.get(found.analyzer)
            if summarizer is not None:
                with self._guarded(found.analyzer, turn):
                    summarizer.add(_noted(found))
        rows: list[dict[str, JSON]] = []
        for name, summarizer in sorted(summarizers.items()):
            with self._guarded(name, turn):
                rows += [{"analyzer": name, **row} for row in _rows(summarizer.rows())]
        return rows

    @contextmanager
    def _guarded(self, name: str, turn: Turn) -> Iterator[None]:
        """Foreign code runs inside: whatever it raises is a note, once."""
        turn.busy = name
        try:
            yield
        except BaseException as error:  # noqa: BLE001  # in a thread of its own nothing else than the analyzer raises here
            if not turn.is_over and name not in self._faulty:
                self._faulty.add(name)
                text = f"analyzer {name} failed: {type(error).__name__}: {error!s:.200}"
                self.notes.append(text)
                _log.debug(text, exc_info=error)
        finally:
            turn.busy = None
        if turn.is_over:
            raise TurnIsOver


def analysts_for(analysis_params: Mapping[str, JSON]) -> Analysts:
    """Construct every analyzer that is installed, and those that parameters name by import path.

    Args:
        analysis_params: By id or import path, the analyzer's own fields.

    Returns:
        Those that could be constructed and are enabled, with a note about each that could not.
    """
    notes: list[str] = []
    chosen: dict[type[Analyzer[Any]], tuple[str, JSON]] = {}
    for name in [*registry.known("analyzer"), *analysis_params]:
        try:
            cls = registry.load("analyzer", name)
        except ConfigurationError as error:
            notes.append(f"analyzer {name} is left out: {error.message}")
        else:
            chosen[cls] = (name, analysis_params.get(name, chosen.get(cls, ("", None))[1]))
    analyzers: dict[str, Analyzer[Any]] = {}
    for cls, (name, written) in chosen.items():
        try:
            analyzer = cls(_params(cls, name, written))
            if getattr(analyzer.params, "enabled", True):
                analyzers[name if cls.id in analyzers else cls.id] = analyzer
        except (Exception, SystemExit) as error:  # noqa: BLE001  # foreign code: it breaks only itself
            notes.append(f"analyzer {name} is left out: {type(error).__name__}: {error!s:.200}")
    return Analysts(dict(sorted(analyzers.items())), notes)


def _params(cls: type[Analyzer[Any]], name: str, written: JSON) -> object:
    if not written:
        return cls.Params()
    problems = Problems()
    origin = Origin(layer="analysis_params", where="analysis_params", path=name)
    params: object = structure(from_python(written, origin, problems), cls.Params, problems)
    problems.raise_if_any()
    return params


def _findings(given: Any) -> Iterator[dict[str, JSON]]:
    for finding in itertools.islice(_iterable(given), MAX_FINDINGS):
        if not isinstance(finding, Finding):
            raise TypeError(f"it gave {type(finding).__name__}, not a Finding")
        data: dict[str, JSON] = {"label": _text(finding.label, MAX_LABEL)}
        if finding.detail:
            data["detail"] = _text(finding.detail, MAX_DETAIL)
        if finding.value is not None:
            data["value"] = _number(finding.value)
        yield data


def _rows(given: Any) -> Iterator[dict[str, JSON]]:
    for row in itertools.islice(_iterable(given), MAX_ROWS):
        if not isinstance(row, SummaryRow):
            raise TypeError(f"its summary has {type(row).__name__}, not a SummaryRow")
        yield {
            "label": _text(row.label, MAX_LABEL),
            "count": int(row.count),
            "detail": _text(row.detail, MAX_DETAIL),
            "examples": [
                {"task_id": _text(task_id, MAX_DETAIL), "attempt": int(attempt)}
                for task_id, attempt in row.examples[:MAX_FINDINGS]
            ],
        }


def _iterable(given: Any) -> Iterable[object]:
    if inspect.iscoroutine(given):
        given.close()
        raise TypeError("its method is async: analyzers run in a thread")
    if given is None or isinstance(given, str | bytes):
        raise TypeError(f"it gave {given!r:.40}, not findings")
    result: Iterable[object] = given
    return result


def _text(value: object, limit: int) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not a text")
    return value if len(value) <= limit else f"{value[: limit - 1]}…"


def _number(value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"{value!r:.40} is not a finite number")
    return value if isinstance(value, int) and not isinstance(value, bool) else float(value)


def _noted(found: StoredFinding) -> Noted:
    finding = Finding(label=found.label, detail=found.detail, value=found.value)
    return Noted(
        task_id=found.task_id, attempt=found.attempt, execution=found.execution, finding=finding
    )
