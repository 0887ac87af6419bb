"""Everything that a run tells its observers: small frozen events, in the order things happened.

An observer gets events, never internals. `as_dict` gives the JSON object that stands in `events.jsonl` and that
people see in their `on_progress` callback.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, TypeAlias

import attrs

from agentcompass.data import frozen
from agentcompass.records import JSON, Phase, RequestStatus, Usage, Verdict


@frozen(kw_only=True)
class Event:
    """What all events have. `at` is seconds since the epoch; `request` the request's name, empty for the whole."""

    kind: ClassVar[str]
    field_names: ClassVar[tuple[str, ...]]
    """Of the fields, in order."""
    at: float
    request: str = ""

    @classmethod
    def __attrs_init_subclass__(cls) -> None:
        cls.field_names = tuple(field.name for field in attrs.fields(cls))

    def as_dict(self) -> dict[str, JSON]:
        """Return the event as a JSON object."""
        # by hand, since attrs.asdict walks every value again: this is done several times for each attempt
        data: dict[str, JSON] = {"event": self.kind}
        for name in self.field_names:
            value = getattr(self, name)
            data[name] = attrs.asdict(value) if isinstance(value, Usage) else value
        return data


@frozen(kw_only=True)
class RunPrepared(Event):
    """A request's tasks are loaded and its run directory is made. Counts are attempts."""

    kind: ClassVar[str] = "run_prepared"
    run_id: str
    run_dir: str
    planned: int
    reused: int
    metric: str
    """Name of the primary metric."""
    reused_score: float | None = None
    """Mean of the primary metric over the reused attempts; None where there are none or it is not known."""


@frozen(kw_only=True)
class AttemptStarted(Event):
    """An attempt got its places and begins."""

    kind: ClassVar[str] = "attempt_started"
    task: str
    attempt: int
    execution: int


@frozen(kw_only=True)
class PhaseStarted(Event):
    """An attempt enters a phase; `detail` says what it waits for, when it waits (`open rate`, ...)."""

    kind: ClassVar[str] = "phase_started"
    task: str
    attempt: int
    phase: Phase
    detail: str = ""


@frozen(kw_only=True)
class ModelRetried(Event):
    """A model call failed and is tried again after a wait."""

    kind: ClassVar[str] = "model_retried"
    task: str
    attempt: int
    code: str
    message: str
    wait_seconds: float


@frozen(kw_only=True)
class AttemptFinished(Event):
    """An execution is over *and durable*."""

    kind: ClassVar[str] = "attempt_finished"
    task: str
    attempt: int
    execution: int
    verdict: Verdict
    score: float | None
    """The primary metric, when graded."""
    code: str | None
    """Cause of failure, when not."""
    message: str | None
    stopped_by: str | None
    will_retry: bool
    usage: Usage
    wall_seconds: float


@frozen(kw_only=True)
class RequestFinished(Event):
    """A request is over and summed up."""

    kind: ClassVar[str] = "request_finished"
    status: RequestStatus
    score: float | None
    ci95: tuple[float, float] | None
    coverage: float
    error: str | None
    run_dir: str | None


@frozen(kw_only=True)
class LimitsChanged(Event):
    """What is in use and what binds: told at most once a second."""

    kind: ClassVar[str] = "limits_changed"
    running: int
    waiting: Mapping[str, int]
    """Attempts that wait, by what they wait for: `task_concurrency`, `provider:docker`, `open rate:docker`, `retry`"""
    sandboxes: int = 0
    """Sandboxes that may exist now, without those that were kept for people."""
    endpoints: Mapping[str, Mapping[str, JSON]] = attrs.field(factory=dict)
    """Model endpoints at which calls wait, by host: `in_use`, `limit`, `cap`, `rpm`, `tpm`, `waiting`, `binds` (`limit`,
    `others`, `pause`, `rpm`, `tpm`, `start`), `pause_seconds`, and how many `others` on this machine share them."""


@frozen(kw_only=True)
class CleanupStarted(Event):
    """The run is being cancelled: no new task starts, sandboxes are removed within the grace."""

    kind: ClassVar[str] = "cleanup_started"
    reason: str
    sandboxes: int
    grace_seconds: float


@frozen(kw_only=True)
class SandboxesLeft(Event):
    """Cleanup is over and these could not be confirmed gone; they stay in the ledger."""

    kind: ClassVar[str] = "sandboxes_left"
    names: tuple[str, ...]
    hint: str


@frozen(kw_only=True)
class SandboxKept(Event):
    """`keep_environment`: a sandbox stays; `hint` is how to enter it."""

    kind: ClassVar[str] = "sandbox_kept"
    task: str
    attempt: int
    name: str
    hint: str


@frozen(kw_only=True)
class Notice(Event):
    """Something a person should know once. `level` is info, warning or error."""

    kind: ClassVar[str] = "notice"
    level: str
    text: str


EventSink: TypeAlias = Callable[[Event], None]
