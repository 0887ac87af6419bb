"""Finding an earlier run whose graded attempts can be taken over: same fingerprint, complete or not."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError, StoreError
from agentcompass.plan.fingerprint import differences
from agentcompass.records import JSON, ExecutionRecord
from agentcompass.store.info import RunPlan
from agentcompass.store.layout import RunPaths, find_run_dirs, namespace_dir
from agentcompass.store.reader import StoredRun, read_run

_log = logging.getLogger("agentcompass.plan")

MAX_DIFFERENCES = 20
"""Listed in an error."""


@frozen(kw_only=True)
class Reusable:
    """An earlier run with the same fingerprint."""

    run_id: str
    run_dir: Path
    graded: Mapping[tuple[str, int], ExecutionRecord]
    """By (task id, attempt), ready to be appended to a new journal: `reused_from` names the run that executed it,
    in whose directory the attempt's files are."""

    def limited_to(self, plan: RunPlan) -> Reusable:
        """Return it with the attempts that a new run plans too: the earlier one may have had more tasks, or other metrics."""
        task_ids = {task_id for task_id, _category in plan.tasks}
        names = {metric.name for metric in plan.metrics}
        planned = {
            (task_id, attempt): record
            for (task_id, attempt), record in self.graded.items()
            if task_id in task_ids and attempt <= plan.k and names <= set(record.metrics or ())
        }
        return attrs.evolve(self, graded=planned)


def find_reusable(
    results_dir: Path,
    run_name: str | None,
    namespace: str,
    fingerprint: str,
    identity: Mapping[str, JSON],
    *,
    reuse_run_id: str | None,
) -> Reusable | None:
    """Return the run to take graded attempts from.

    Args:
        results_dir: The root of all results.
        run_name: The folder of the new run, or None.
        namespace: Of the new run: without an id, only its neighbours are looked at.
        fingerprint: Of the new run.
        identity: What the fingerprint is the hash of, for saying what differs.
        reuse_run_id: The run that the user named, anywhere below the root; None: the newest compatible one that has
            a graded attempt, complete or not.

    Returns:
        The run; None if no id was given and there is none.

    Raises:
        ConfigurationError: The named run is not there, cannot be read, or has another fingerprint; the message says
            which ids come near, why, or what differs.
    """
    neighbours = namespace_dir(results_dir, run_name, namespace)
    if reuse_run_id is not None:
        return _named(results_dir, neighbours, fingerprint, identity, reuse_run_id)
    for run in _newest_first(neighbours):
        if run.info.fingerprint == fingerprint:
            reusable = _reusable(run)
            if reusable is not None and reusable.graded:
                return reusable
    return None


def _newest_first(neighbours: Path) -> list[StoredRun]:
    """The readable runs of one namespace."""
    runs: list[StoredRun] = []
    for run_dir in _run_dirs(neighbours):
        try:
            runs.append(read_run(run_dir))
        except StoreError as error:
            _log.info("not reused: %s", error.message)
    return sorted(runs, key=lambda run: (run.info.started_at, run.info.run_id), reverse=True)


def _run_dirs(directory: Path) -> Iterator[Path]:
    return (path for path in find_run_dirs(directory) if path.parent == directory)


def _reusable(run: StoredRun) -> Reusable | None:
    """The graded attempts of a run; None if its journal cannot be read."""
    try:
        graded = _graded(run)
    except StoreError as error:
        _log.info("not reused: %s", error.message)
        return None
    return Reusable(run_id=run.info.run_id, run_dir=run.paths.run_dir, graded=graded)


def _graded(run: StoredRun) -> dict[tuple[str, int], ExecutionRecord]:
    graded: dict[tuple[str, int], ExecutionRecord] = {}
    for record in run.records():
        if record.verdict == "graded" and record.key not in graded:
            origin = record.reused_from or run.info.run_id
            graded[record.key] = attrs.evolve(record, reused_from=origin, will_retry=False)
    return graded


def _named(
    results_dir: Path,
    neighbours: Path,
    fingerprint: str,
    identity: Mapping[str, JSON],
    run_id: str,
) -> Reusable:
    found, known = _with_id(results_dir, neighbours, run_id)
    if not found:
        near = difflib.get_close_matches(run_id, known, n=3, cutoff=0.5)
        names = ", ".join(near or sorted(known, reverse=True)[:3])
        raise ConfigurationError(
            f"there is no run {run_id!r} to reuse below {results_dir}",
            hint=f"Nearest: {names}." if names else "There is no run at all there.",
        )
    same = [run for run in found if run.info.fingerprint == fingerprint]
    if not same:
        raise _not_the_same(found[0], identity)
    try:
        graded = _graded(same[0])
    except StoreError as error:
        raise ConfigurationError(f"run {run_id!r} cannot be reused: {error.message}") from error
    return Reusable(run_id=run_id, run_dir=same[0].paths.run_dir, graded=graded)


def _with_id(results_dir: Path, neighbours: Path, run_id: str) -> tuple[list[StoredRun], set[str]]:
    """The runs of an id, neighbours of the new one first, and all ids below the root."""
    found: list[StoredRun] = []
    known: set[str] = set()
    unreadable: list[str] = []
    for run_dir in find_run_dirs(results_dir):
        if not RunPaths(run_dir).run_file.exists():
            continue
        try:
            run = read_run(run_dir)
        except StoreError as error:
            known.add(run_dir.name)
            if run_dir.name == run_id:
                unreadable.append(error.message)
            continue
        known.add(run.info.run_id)
        if run.info.run_id == run_id:
            found.append(run)
    if unreadable and not found:
        raise ConfigurationError(f"run {run_id!r} cannot be reused: {unreadable[0]}")
    found.sort(key=lambda run: run.info.started_at, reverse=True)
    found.sort(key=lambda run: run.paths.run_dir.parent != neighbours)
    return found, known


def _not_the_same(run: StoredRun, identity: Mapping[str, JSON]) -> ConfigurationError:
    lines = differences(run.info.identity, identity)
    shown = lines[:MAX_DIFFERENCES]
    if len(lines) > len(shown):
        shown.append(f"... and {len(lines) - len(shown)} more")
    listed = "\n".join(f"  {line}" for line in shown or ["(only its secrets or its version)"])
    return ConfigurationError(
        f"run {run.info.run_id!r} cannot be reused, its answers would differ:\n{listed}",
        hint="Make the settings equal, or run without --reuse.",
    )
