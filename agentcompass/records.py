"""What is written down about a run: verdicts, executions, usage, leases. Data only.

Words: a *task* is planned k times as *attempts* 1..k; an attempt is executed once, and again after an
infrastructure failure. Each *execution* gives one `ExecutionRecord`, one line of `attempts.jsonl`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

from agentcompass.data import frozen

JSON: TypeAlias = Any
"""A JSON value: None, bool, int, finite float, str, list or tuple, mapping with str keys."""

SCHEMA_VERSION: Final = 1

Verdict: TypeAlias = Literal["graded", "infra", "cancelled", "skipped"]
Phase: TypeAlias = Literal["open", "prepare", "run", "collect", "evaluate", "close", "record"]
RequestStatus: TypeAlias = Literal["completed", "failed", "timed_out", "cancelled"]

StoppedBy: TypeAlias = str
"""Why an agent stopped before it was done: `timeout`, `max_turns`, `context`, `max_tokens`, `budget`, or its own word."""


@frozen(kw_only=True)
class Usage:
    """Tokens and money of one or more model calls.

    `input_tokens` includes cached and cache-write tokens, `output_tokens` includes reasoning tokens, so that
    input + output = total for every protocol. Calls whose answer carried no usage count in `calls` and
    `unmetered_calls`: their tokens are unknown, not zero.
    """

    calls: int = 0
    """Requests that the endpoint answered, or was given up at."""
    unmetered_calls: int = 0
    """Those that told no usage: what they took is in none of the other numbers."""
    input_tokens: int = 0
    """Cached and cache-write tokens included."""
    cached_tokens: int = 0
    """Input that the endpoint had in its cache."""
    cache_write_tokens: int = 0
    """Input that the endpoint put into its cache."""
    output_tokens: int = 0
    """Those of reasoning included."""
    reasoning_tokens: int = 0
    """Output that is no part of the answer."""
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


@frozen(kw_only=True)
class Metric:
    """A number that a benchmark gives for each attempt."""

    name: str
    """As the evaluator gives it."""
    kind: Literal["binary", "scalar"] = "binary"
    """`binary`: 0 or 1; `scalar`: any finite number."""
    primary: bool = False
    """The one that heads the report; exactly one metric of a benchmark."""
    worst: float | None = 0.0
    """End of the scale, by which missing verdicts are bounded; None where there is none."""
    best: float | None = 1.0
    """The other end."""


@frozen(kw_only=True)
class Failure:
    """Why an execution has no score: where it broke, what broke, and whether another try could help."""

    phase: Phase
    """Where it broke; `record`: the result could not be written."""
    code: str
    """Stable kebab-case cause; failures are grouped by it."""
    message: str
    """For people."""
    retryable: bool = True
    """Whether another try could help."""


@frozen(kw_only=True)
class ExecutionRecord:
    """One finished execution of one attempt: a line of the journal."""

    task_id: str
    """As the benchmark calls it."""
    attempt: int
    """1..k."""
    execution: int
    """1 for the first try, 2 for its first retry, ..."""
    verdict: Verdict
    """How it ended."""
    category: str | None = None
    """The task's."""
    metrics: Mapping[str, float] | None = None
    """By metric name, only and always when graded; binary metrics are 0.0 or 1.0."""
    failure: Failure | None = None
    """Only and always when not graded."""
    stopped_by: StoppedBy | None = None
    """Set when the agent was stopped or stopped itself early, and was graded on what it left."""
    answer: str | None = None
    """The agent's final answer; of one longer than 64 KiB head and tail."""
    is_completion: bool = False
    """The answer continues a prompt instead of answering messages."""
    artifacts: Mapping[str, str] = attrs.field(factory=dict)
    """What went from the agent's sandbox to the evaluator's: by its path there, the copy's, relative to the run directory."""
    details: Mapping[str, JSON] = attrs.field(factory=dict)
    """What the evaluator wants people to see: expected value, exit code, output tail."""
    usage: Usage = attrs.field(factory=Usage)
    """Of all calls of the tested model in this execution."""
    judge_usage: Usage = attrs.field(factory=Usage)
    """Of all calls of the judge, where the benchmark has one."""
    sandbox: Mapping[str, Mapping[str, JSON]] = attrs.field(factory=dict)
    """What the sandboxes used and were refused, as far as their environment knows: `agent`, and `evaluation` where that
    has one of its own."""
    phase_seconds: Mapping[str, float] = attrs.field(factory=dict)
    """By phase; `wait` is time at limits and rates, which no deadline counts."""
    started_at: str = ""
    """ISO 8601, UTC."""
    finished_at: str = ""
    """The same."""
    wall_seconds: float = 0.0
    """From start to end, waiting included."""
    will_retry: bool = False
    """True when another execution of the same attempt was planned at the time of writing."""
    reused_from: str | None = None
    """The run id this record was taken over from; `attempt_dir`, `artifacts` and `steps_at` are of that run."""
    attempt_dir: str | None = None
    """Relative to the run directory, when something was kept there."""
    steps_at: tuple[int, int] | None = None
    """Where the trajectory stands in `trajectories.jsonl`: the line's first byte, and its length. None if it has no
    steps, or a file of its own in `attempt_dir`."""
    schema: int = SCHEMA_VERSION

    @property
    def key(self) -> tuple[str, int]:
        """The attempt this is an execution of."""
        return (self.task_id, self.attempt)


@frozen(kw_only=True)
class ProcessIdentity:
    """A process of this machine, told apart from a later one with the same pid."""

    boot_id: str
    """Of the kernel, which changes with each start of the machine."""
    pid: int
    """Process id."""
    started: int
    """Start time in clock ticks since boot (`/proc/PID/stat`, field 22)."""


@frozen(kw_only=True)
class Lease:
    """A sandbox that may exist: written before a provider is asked, removed when its removal is confirmed."""

    id: str
    """Unique."""
    run_id: str
    """Of the run that it belongs to."""
    task_id: str
    """Of the task that it is for."""
    environment: str
    """The environment's id, by which the reaper finds who can remove it."""
    name: str
    """What the provider calls the sandbox; chosen by us beforehand, so that it can be removed by name."""
    created_at: str
    """ISO 8601, UTC."""
    expires_at: str
    """After this it is nobody's, whatever its owner does."""
    owner: ProcessIdentity
    """The process that made it."""
    details: Mapping[str, str] = attrs.field(factory=dict)
    """What else the provider needs in order to remove it: a directory, an engine address."""
    keep: bool = False
    """`keep_environment`: people asked for it to stay; only `env close` removes it."""
    schema: int = SCHEMA_VERSION


OrchestrationStatus: TypeAlias = Literal[
    "completed", "partial_failure", "failed", "timed_out", "cancelled"
]


@frozen(kw_only=True)
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


@frozen(kw_only=True)
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
