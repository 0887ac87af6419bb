"""How a run or a launch stands at a moment: what `agentcompass status` shows. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import attrs

from agentcompass.data import frozen
from agentcompass.records import OrchestrationStatus, ProcessIdentity, Usage, Verdict
from agentcompass.store.info import RunStatus

ProcessState: TypeAlias = Literal["alive", "elsewhere", "gone"]
"""`elsewhere`: it holds the lock, but cannot be seen from here: another host or another pid namespace."""
RequestState: TypeAlias = RunStatus | Literal["preparing", "unreadable"]


@frozen(kw_only=True)
class Activity:
    """An attempt that runs now. Times are in seconds."""

    request: str
    task: str
    attempt: int
    execution: int
    seconds: float
    """Since it began."""
    phase: str
    """Empty before its first one."""
    phase_seconds: float
    waits_for: str
    """Empty when it does not wait inside its phase."""
    model_retries: int


@frozen(kw_only=True)
class Trouble:
    """Executions of one request that failed alike, or a warning."""

    request: str
    code: str
    count: int
    seconds_ago: float
    """Since the last one."""
    task: str
    """Of the last one; empty for a warning."""
    message: str
    """Of the last one."""


@frozen(kw_only=True)
class RequestStanding:
    """One request. Counts are attempts."""

    name: str
    run_id: str
    run_dir: str | None
    """None before it has one."""
    status: RequestState
    error: str | None = None
    """Why it did not complete, or cannot be read."""
    planned: int = 0
    done: int = 0
    """Those of an earlier run included. While it runs: with a verdict. Otherwise: graded."""
    running: int = 0
    waiting: int = 0
    """Neither done nor running, and needed: what is still to be executed."""
    waiting_for_retry: int = 0
    """Of those that wait: executed already, and to be executed again."""
    not_needed: int = 0
    """Strategy `pass`: of tasks that have succeeded."""
    reused: int = 0
    verdicts: Mapping[Verdict, int] = attrs.field(factory=dict)
    """Of this run, reused attempts not included."""
    metric: str | None = None
    score: float | None = None
    """Of a run that completed: over all that was planned, as the report says. Of any other: the mean over what is graded."""
    ci95: tuple[float, float] | None = None
    usage: Usage = attrs.field(factory=Usage)
    """Of every execution of this run so far."""
    sandboxes: int = 0
    """That may exist, without those that were kept for people."""
    finish_command: str | None = None
    """Executes what is missing and takes over what is graded; None while it runs, and if nothing is missing."""


@frozen(kw_only=True)
class Ending:
    """A run that is being ended: its cleanup."""

    reason: str
    seconds_left: float
    """That cleanup may still take."""


@frozen(kw_only=True)
class Standing:
    """A run or a launch at a moment."""

    kind: Literal["run", "launch"]
    id: str
    """The run id, or the launch's id."""
    name: str
    directory: str
    status: RunStatus | OrchestrationStatus
    process: ProcessIdentity
    """That executes it, or did."""
    process_state: ProcessState
    started_at: str
    """ISO 8601, UTC."""
    finished_at: str | None
    """None while it runs, and if nobody could write it."""
    elapsed_seconds: float | None
    """To its end, or to this moment; None if it was interrupted."""
    ended_by: str | None
    """Who ended a launch early; None if nobody did, while it runs, and of a single run."""
    ending: Ending | None
    """None unless it is being ended now."""
    per_second: float | None
    """Attempts finished lately; None before the first one, and if it does not run."""
    left_seconds: float | None
    """Until all is done at that rate; None while that is a guess."""
    model_retries: Mapping[str, int]
    """Model calls tried again within the last minute, by cause, most first."""
    requests: tuple[RequestStanding, ...]
    activities: tuple[Activity, ...]
    """All attempts that run now, the one that is longest in its phase first."""
    troubles: tuple[Trouble, ...]
    """The latest first."""
