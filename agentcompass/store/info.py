"""What stands in `run.json` and `plan.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

from agentcompass.data import frozen
from agentcompass.records import JSON, SCHEMA_VERSION, Metric, ProcessIdentity, RequestStatus
from agentcompass.spec.resolved import AttemptStrategy, ExecutionConfig, RuntimeConfig
from agentcompass.store import codec, shape

StoredStatus: TypeAlias = Literal["running"] | RequestStatus
RunStatus: TypeAlias = StoredStatus | Literal["interrupted"]
"""`interrupted`: the file says `running`, but the process that wrote it is gone."""
MAX_ATTEMPTS: Final = 10**8
"""Planned in one run; more than memory holds, so a plan that says so is damaged."""


@frozen(kw_only=True)
class RunInfo:
    """One run: what was asked, by which versions, and how it stands. `run.json`."""

    run_id: str
    """Also the name of the directory, made a good file name."""
    name: str
    """The request's."""
    status: StoredStatus
    """One that says `running` while its owner is gone is shown as `interrupted`."""
    started_at: str
    """ISO 8601, UTC."""
    owner: ProcessIdentity
    """The process that executes it."""
    fingerprint: str
    """SHA-256 of what can change an answer: runs that share it can share attempts."""
    identity: Mapping[str, JSON]
    """What `fingerprint` is the hash of; where that counts the value of a reference, a few digits of its hash stand here."""
    request: Mapping[str, JSON]
    """`benchmark`, `harness`, `environment` (each `id`, `params`, and `given`: names of those that differ from the defaults),
    `model`, `execution`, `runtime` (the shared settings that somebody gave), `run_name` and more; references as references."""
    versions: Mapping[str, JSON] = attrs.field(factory=dict)
    """Of agentcompass, Python, the platform and the components."""
    finished_at: str | None = None
    """None while it runs."""
    counts: Mapping[str, int] = attrs.field(factory=dict)
    """As in `metrics.json`; empty while it runs."""
    error: str | None = None
    """Why it did not complete, in one or two lines."""
    reused_from: str | None = None
    """The run id whose graded attempts were taken over."""
    regraded_from: str | None = None
    """The run id whose attempts were evaluated again, without their agents."""
    schema: int = SCHEMA_VERSION


@frozen(kw_only=True)
class RunPlan:
    """What a run is to do; missing work is this minus the journal. `plan.json`."""

    tasks: tuple[tuple[str, str | None], ...]
    """Task id and category, in the benchmark's order."""
    k: int
    """Attempts at each task."""
    attempt_strategy: AttemptStrategy
    """`avg` makes all k attempts; `pass` stops at the first success."""
    metrics: tuple[Metric, ...]
    """What the benchmark gives for each attempt."""
    min_coverage: float
    """Smallest part of the planned attempts, 0 to 1, that must be graded."""
    schema: int = SCHEMA_VERSION

    @property
    def primary(self) -> Metric:
        """The metric that heads the report."""
        return next((metric for metric in self.metrics if metric.primary), self.metrics[0])


def info_to_json(info: RunInfo) -> dict[str, Any]:
    """Return what is written to `run.json`."""
    return codec.to_dict(info) | {"owner": codec.to_dict(info.owner)}


def info_from_json(data: JSON) -> RunInfo:
    """Read `run.json`; ValueError if it is not one, or a newer one."""
    owner = codec.build(ProcessIdentity, codec.mapping(data, "run.json").get("owner"))
    info = codec.build(RunInfo, data, owner=owner)
    if (wrong := shape.problem(_WrittenRequest, info.request)) is not None:
        raise ValueError(f"request.{wrong}")
    return info


@frozen(kw_only=True)
class _WrittenComponent:
    """What is read of a component in `RunInfo.request`."""

    id: str
    params: Mapping[str, JSON]
    given: tuple[str, ...]


@frozen(kw_only=True)
class _WrittenModel:
    id: str
    base_url: str | None
    api_key: str | None
    api_protocol: tuple[str, ...]
    params: Mapping[str, JSON]
    max_retries: int
    timeout_seconds: float
    max_connections: int
    rpm: int | None
    tpm: int | None
    share_limits: bool


@frozen(kw_only=True)
class _WrittenRequest:
    """What is read of `RunInfo.request`; other fields are for people."""

    benchmark: _WrittenComponent | None
    harness: _WrittenComponent | None
    environment: _WrittenComponent | None
    model: _WrittenModel | None
    execution: ExecutionConfig | None
    runtime: RuntimeConfig | None
    run_name: str | None


def plan_to_json(plan: RunPlan) -> dict[str, Any]:
    """Return what is written to `plan.json`."""
    return codec.to_dict(plan) | {"metrics": [codec.to_dict(metric) for metric in plan.metrics]}


def plan_from_json(data: JSON) -> RunPlan:
    """Read `plan.json`; ValueError if it is not one, or a newer one."""
    read = codec.build(RunPlan, codec.mapping(data, "plan.json"))
    plan = attrs.evolve(
        read,
        metrics=tuple(codec.build(Metric, metric) for metric in read.metrics),
        tasks=tuple((task_id, category) for task_id, category in read.tasks),
    )
    names = {metric.name for metric in plan.metrics}
    if plan.k < 1 or not names or len(names) < len(plan.metrics):
        raise ValueError("k or metrics make no sense")
    if plan.k * len(plan.tasks) > MAX_ATTEMPTS:
        raise ValueError(f"more than {MAX_ATTEMPTS:,} attempts are planned")
    return plan
