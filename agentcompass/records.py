"""What is written down about a run: verdicts, executions, usage, leases. Data only.

Words: a *task* is planned k times as *attempts* 1..k; an attempt is executed once, and again after an
infrastructure failure. Each *execution* gives one `ExecutionRecord`, one line of `attempts.jsonl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

JSON: TypeAlias = Any
"""A JSON value: None, bool, int, finite float, str, list or tuple, mapping with str keys."""

SCHEMA_VERSION: Final = 1

Verdict: TypeAlias = Literal["graded", "infra", "cancelled", "skipped"]
Phase: TypeAlias = Literal["open", "prepare", "run", "collect", "evaluate", "close", "record"]
RequestStatus: TypeAlias = Literal["completed", "failed", "timed_out", "cancelled"]

StoppedBy: TypeAlias = str
"""Why an agent stopped before it was done: `timeout`, `max_turns`, `context`, `max_tokens`, `budget`, or its own word."""


@attrs.frozen(kw_only=True)
class Usage:
    """Tokens and money of one or more model calls.

    `input_tokens` includes cached and cache-write tokens, `output_tokens` includes reasoning tokens, so that
    input + output = total for every protocol. Calls whose answer carried no usage count in `calls` and
    `unmetered_calls`: their tokens are unknown, not zero.
    """

    calls: int = 0
    unmetered_calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = 0.0
    """US dollars; None as soon as one call's price is unknown."""

    @property
    def total_tokens(self) -> int:
        """Input plus output of all metered calls."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            calls=self.calls + other.calls,
            unmetered_calls=self.unmetered_calls + other.unmetered_calls,
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
        )


@attrs.frozen(kw_only=True)
class Metric:
    """A number that a benchmark gives for each attempt."""

    name: str
    kind: Literal["binary", "scalar"] = "binary"
    primary: bool = False
    """The one that heads the report; exactly one metric of a benchmark."""
    worst: float | None = 0.0
    best: float | None = 1.0
    """Ends of the scale, by which missing verdicts are bounded; None where there is none."""


@attrs.frozen(kw_only=True)
class Failure:
    """Why an execution has no score: where it broke, what broke, and whether another try could help."""

    phase: Phase
    code: str
    """Stable kebab-case cause; failures are grouped by it."""
    message: str
    retryable: bool = True


@attrs.frozen(kw_only=True)
class ExecutionRecord:
    """One finished execution of one attempt: a line of the journal."""

    task_id: str
    attempt: int
    """1..k."""
    execution: int
    """1 for the first try, 2 for its first retry, ..."""
    verdict: Verdict
    category: str | None = None
    metrics: Mapping[str, float] | None = None
    """By metric name, only and always when graded; binary metrics are 0.0 or 1.0."""
    failure: Failure | None = None
    """Only and always when not graded."""
    stopped_by: StoppedBy | None = None
    """Set when the agent was stopped or stopped itself early, and was graded on what it left."""
    answer: str | None = None
    """The agent's final answer, head and tail kept where it is longer than the store's limit."""
    details: Mapping[str, JSON] = attrs.field(factory=dict)
    """What the evaluator wants people to see: expected value, exit code, output tail."""
    usage: Usage = attrs.field(factory=Usage)
    phase_seconds: Mapping[str, float] = attrs.field(factory=dict)
    started_at: str = ""
    """ISO 8601, UTC."""
    finished_at: str = ""
    wall_seconds: float = 0.0
    will_retry: bool = False
    """True when another execution of the same attempt was planned at the time of writing."""
    reused_from: str | None = None
    """The run id this record was taken over from."""
    attempt_dir: str | None = None
    """Relative to the run directory, when something was kept there."""
    schema: int = SCHEMA_VERSION

    @property
    def key(self) -> tuple[str, int]:
        """The attempt this is an execution of."""
        return (self.task_id, self.attempt)


@attrs.frozen(kw_only=True)
class ProcessIdentity:
    """A process of this machine, told apart from a later one with the same pid."""

    boot_id: str
    pid: int
    started: int
    """Start time in clock ticks since boot (`/proc/PID/stat`, field 22)."""


@attrs.frozen(kw_only=True)
class Lease:
    """A sandbox that may exist: written before a provider is asked, removed when its removal is confirmed."""

    id: str
    run_id: str
    task_id: str
    environment: str
    """The environment's id, by which the reaper finds who can remove it."""
    name: str
    """What the provider calls the sandbox; chosen by us beforehand, so that it can be removed by name."""
    created_at: str
    expires_at: str
    owner: ProcessIdentity
    details: Mapping[str, str] = attrs.field(factory=dict)
    """What else the provider needs in order to remove it: a directory, an engine address."""
    keep: bool = False
    """`keep_environment`: people asked for it to stay; only `env close` removes it."""
    schema: int = SCHEMA_VERSION


OrchestrationStatus: TypeAlias = Literal[
    "completed", "partial_failure", "failed", "timed_out", "cancelled"
]


@attrs.frozen(kw_only=True)
class RequestOutcome:
    """How one request ended."""

    name: str
    status: RequestStatus
    result: Mapping[str, JSON] | None = None
    """The dictionary `run_evaluation` returns (metadata, metrics, summary, paths), as far as the request got."""
    error: str | None = None
    """One or two lines; None when completed."""
    paths: Mapping[str, str] = attrs.field(factory=dict)
    exception: Exception | None = attrs.field(default=None, repr=False, eq=False)
    """The error as an object, for callers that raise it."""


@attrs.frozen(kw_only=True)
class OrchestrationResult:
    """How an orchestration ended; `requests` keeps the order of the spec."""

    id: str
    name: str
    status: OrchestrationStatus
    started_at: str
    finished_at: str
    requests: Mapping[str, RequestOutcome]
    ended_by: str | None = None
    """Who ended it early: `sigint`, `sigterm`, `sighup`, `timeout`, `caller` or `store`; None when it ran to its end."""
