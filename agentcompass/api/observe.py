"""How a run or a launch of another process stands, from its files alone; it may be writing them at this moment.

The journal says what is done, the events what is being done. Whoever looks needs no lock and leaves no trace.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from agentcompass.api.reading import Reading, seconds_of
from agentcompass.api.standing import (
    Activity,
    Ending,
    ProcessState,
    RequestStanding,
    Standing,
    Trouble,
)
from agentcompass.errors import StoreError
from agentcompass.progress.tracker import Tracker
from agentcompass.records import ProcessIdentity
from agentcompass.store.files import explained
from agentcompass.store.identity import is_alive
from agentcompass.store.lock import is_held
from agentcompass.store.orchestration import (
    FILE_NAME,
    LOCK_NAME,
    RequestEntry,
    StoredOrchestration,
    read_orchestration,
)
from agentcompass.store.reader import StoredRun, read_run


class _Stored(Protocol):
    @property
    def status(self) -> str: ...


S = TypeVar("S", bound=_Stored)


def observe(directory: Path, now: float) -> Standing:
    """Return how a run or a launch stands.

    Args:
        directory: Holds `run.json` or, for a launch, `orchestration.json`.
        now: Seconds since the epoch.

    Raises:
        StoreError: It holds neither, or what it holds cannot be read. A request of a launch that cannot be read says so.
    """
    with explained("read", directory):
        is_launch = (directory / FILE_NAME).exists()
    if is_launch:
        return _of_launch(_settled(lambda: read_orchestration(directory)), now)
    return _of_run(_settled(lambda: read_run(directory)), now)


def _settled(read: Callable[[], S]) -> S:
    """Read; once more if the process turns out to be gone, since it may have written its last word in between."""
    found = read()
    return read() if found.status == "interrupted" else found


def _of_run(run: StoredRun, now: float) -> Standing:
    info, reading = run.info, Reading(run, run.info.name)
    return _standing(
        [reading],
        now,
        kind="run",
        id=info.run_id,
        name=info.name,
        directory=str(run.paths.run_dir),
        status=reading.status,
        process=info.owner,
        process_state=_process_state(info.owner, run.paths.lock_file),
        started_at=info.started_at,
        finished_at=info.finished_at,
        ended_by=None,
    )


def _of_launch(launch: StoredOrchestration, now: float) -> Standing:
    info, status = launch.info, launch.status
    return _standing(
        [_part(name, entry, status) for name, entry in info.requests.items()],
        now,
        kind="launch",
        id=info.id,
        name=info.name,
        directory=str(launch.directory),
        status=status,
        process=info.owner,
        process_state=_process_state(info.owner, launch.directory / LOCK_NAME),
        started_at=info.started_at,
        finished_at=info.finished_at,
        ended_by=info.ended_by,
    )


def _part(name: str, entry: RequestEntry, status: str) -> Reading | RequestStanding:
    """A request of a launch: its run to be read or, where there is none, what is known of it all the same."""
    if entry.run_dir is None:
        is_cut_off = status == "interrupted" and entry.status in {"preparing", "running"}
        state = "interrupted" if is_cut_off else entry.status
        return RequestStanding(
            name=name, run_id=entry.run_id, run_dir=None, status=state, error=entry.error
        )
    run_dir = Path(entry.run_dir)
    try:
        return Reading(_settled(lambda: read_run(run_dir)), name)
    except StoreError as error:
        return RequestStanding(
            name=name,
            run_id=entry.run_id,
            run_dir=entry.run_dir,
            status="unreadable",
            error=error.message,
            metric=entry.metric,
            score=entry.score,
            ci95=entry.ci95,
        )


def _standing(parts: Sequence[Reading | RequestStanding], now: float, **known: Any) -> Standing:
    readings = [part for part in parts if isinstance(part, Reading)]
    tracker = _tracked([reading for reading in readings if reading.is_under_way])
    requests = [part.standing(tracker) if isinstance(part, Reading) else part for part in parts]
    is_running = known["status"] == "running"
    return Standing(
        **known,
        elapsed_seconds=_elapsed(
            known["started_at"], known["finished_at"], now if is_running else None
        ),
        ending=_ending(tracker, now),
        per_second=tracker.rate(now) if is_running else None,
        left_seconds=_left(tracker, requests, now) if is_running else None,
        model_retries=tracker.recent_retries(now),
        requests=tuple(requests),
        activities=_activities(tracker, now),
        troubles=_troubles(readings, now),
    )


def _tracked(readings: Sequence[Reading]) -> Tracker:
    """What the runs that are under way add up to."""
    tracker = Tracker()
    finishes = heapq.merge(*(one.finishes() for one in readings), key=lambda event: event.at)
    for event in finishes:
        tracker.apply(event)
    for reading in readings:
        for told in reading.events(tracker.active):
            tracker.apply(told)
    return tracker


def _process_state(process: ProcessIdentity, lock_file: Path) -> ProcessState:
    if is_alive(process):
        return "alive"
    return "elsewhere" if is_held(lock_file) else "gone"


def _elapsed(started_at: str, finished_at: str | None, now: float | None) -> float | None:
    start, end = seconds_of(started_at), now or seconds_of(finished_at)
    return None if start is None or end is None else max(0.0, end - start)


def _ending(tracker: Tracker, now: float) -> Ending | None:
    left = tracker.grace_left(now)
    if tracker.cleanup is None or left is None:
        return None
    return Ending(reason=tracker.cleanup.reason, seconds_left=left)


def _left(tracker: Tracker, requests: Sequence[RequestStanding], now: float) -> float | None:
    """Like the tracker's, without the attempts that are not needed."""
    whole, undone = tracker.eta_seconds(now), tracker.planned - tracker.done
    if whole is None or undone <= 0:
        return whole
    needed = sum(request.running + request.waiting for request in requests)
    return whole * needed / undone


def _activities(tracker: Tracker, now: float) -> tuple[Activity, ...]:
    oldest_first = sorted(tracker.active.values(), key=lambda attempt: attempt.phase_started_at)
    return tuple(
        Activity(
            request=attempt.request,
            task=attempt.task,
            attempt=attempt.attempt,
            execution=attempt.execution,
            seconds=max(0.0, now - attempt.started_at),
            phase=attempt.phase,
            phase_seconds=max(0.0, now - attempt.phase_started_at),
            waits_for=attempt.detail,
            model_retries=attempt.model_retries,
        )
        for attempt in oldest_first
    )


def _troubles(readings: Sequence[Reading], now: float) -> tuple[Trouble, ...]:
    found = [trouble for reading in readings for trouble in reading.troubles(now)]
    return tuple(sorted(found, key=lambda trouble: trouble.seconds_ago))
