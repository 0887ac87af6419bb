"""Which run or launch a directory means, when it is not one itself: the newest below it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agentcompass.api.reading import seconds_of
from agentcompass.data import frozen
from agentcompass.errors import StoreError
from agentcompass.regular import read_regular
from agentcompass.store import jsonl
from agentcompass.store.files import explained
from agentcompass.store.identity import is_alive
from agentcompass.store.info import RunInfo, info_from_json
from agentcompass.store.layout import RunPaths, find_run_dirs
from agentcompass.store.lock import is_held
from agentcompass.store.orchestration import FILE_NAME, OrchestrationInfo, read_orchestration


@frozen(kw_only=True)
class Chosen:
    """A run or a launch, and what else is going on beside it."""

    directory: Path
    others: tuple[Path, ...]
    """Of other runs and launches that are under way, the newest first."""


def choose(directory: Path) -> Chosen:
    """Return the run or launch that a directory is, or else the newest one below it.

    A run that belongs to a launch counts as that launch. One that cannot be read counts too, by the time of its file:
    whoever asks is told why.

    Args:
        directory: Of a run or a launch, or the root of results.

    Raises:
        StoreError: There is none, or the directory cannot be looked at.
    """
    with explained("read", directory):
        is_one = any(
            path.exists() for path in (directory / FILE_NAME, RunPaths(directory).run_file)
        )
    if is_one:
        return Chosen(directory=directory, others=())
    found = sorted(_candidates(directory), key=lambda one: one.began_at, reverse=True)
    if not found:
        raise StoreError(
            f"there is no run in {directory}",
            hint="Give a run directory, the directory of a launch, or the results directory that they are in.",
        )
    first, *rest = found
    return Chosen(
        directory=first.directory, others=tuple(one.directory for one in rest if one.is_running)
    )


@frozen(kw_only=True)
class _Candidate:
    directory: Path
    began_at: float
    is_running: bool = False


def _candidates(root: Path) -> Iterator[_Candidate]:
    parts: set[tuple[str, str]] = set()
    for path in root.glob(f"*/{FILE_NAME}"):
        try:
            launch = read_orchestration(path.parent)
        except StoreError:
            yield from _unreadable(path)
            continue
        info: OrchestrationInfo = launch.info
        parts |= {(name, entry.run_id) for name, entry in info.requests.items()}
        yield _Candidate(
            directory=path.parent,
            began_at=seconds_of(info.started_at) or 0.0,
            is_running=launch.is_running,
        )
    for run_dir in find_run_dirs(root):
        paths = RunPaths(run_dir)
        run = _info(paths)
        if run is None:
            yield from _unreadable(paths.run_file)
        elif (run.name, run.run_id) not in parts:
            yield _Candidate(
                directory=run_dir,
                began_at=seconds_of(run.started_at) or 0.0,
                is_running=run.status == "running"
                and (is_alive(run.owner) or is_held(paths.lock_file)),
            )


def _info(paths: RunPaths) -> RunInfo | None:
    """What a run is, without what it is to do, which may be much."""
    try:
        return info_from_json(jsonl.decode(read_regular(paths.run_file)))
    except (OSError, ValueError):
        return None


def _unreadable(path: Path) -> Iterator[_Candidate]:
    try:
        yield _Candidate(directory=path.parent, began_at=path.stat().st_mtime)
    except OSError:  # removed, or it has not been written yet
        return
