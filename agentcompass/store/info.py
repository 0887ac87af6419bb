"""What stands in `run.json` and `plan.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import attrs

from agentcompass.records import JSON, SCHEMA_VERSION, Metric, ProcessIdentity, RequestStatus
from agentcompass.spec.resolved import AttemptStrategy
from agentcompass.store import codec

StoredStatus: TypeAlias = Literal["running"] | RequestStatus
RunStatus: TypeAlias = StoredStatus | Literal["interrupted"]
"""`interrupted`: the file says `running`, but the process that wrote it is gone."""


@attrs.frozen(kw_only=True)
class RunInfo:
    """One run: what was asked, by which versions, and how it stands. `run.json`."""

    run_id: str
    name: str
    """The request's."""
    status: StoredStatus
    started_at: str
    """ISO 8601, UTC."""
    owner: ProcessIdentity
    """The process that executes it."""
    fingerprint: str
    identity: Mapping[str, JSON]
    """Everything that can change an answer: what `fingerprint` is the hash of."""
    request: Mapping[str, JSON]
    """As `store.request.written_request` gives it: secrets as references."""
    versions: Mapping[str, JSON] = attrs.field(factory=dict)
    """Of agentcompass, Python, the platform and the components."""
    finished_at: str | None = None
    """None while it runs."""
    counts: Mapping[str, int] = attrs.field(factory=dict)
    error: str | None = None
    """Why it did not complete, in one or two lines."""
    reused_from: str | None = None
    """The run id whose graded attempts were taken over."""
    schema: int = SCHEMA_VERSION


@attrs.frozen(kw_only=True)
class RunPlan:
    """What a run is to do; missing work is this minus the journal. `plan.json`."""

    tasks: tuple[tuple[str, str | None], ...]
    """Task id and category, in the benchmark's order."""
    k: int
    attempt_strategy: AttemptStrategy
    metrics: tuple[Metric, ...]
    min_coverage: float
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
    if info.status not in ("running", *get_args(RequestStatus)):
        raise ValueError(f"status {info.status!r:.40} is unknown")
    return info


def plan_to_json(plan: RunPlan) -> dict[str, Any]:
    """Return what is written to `plan.json`."""
    return codec.to_dict(plan) | {"metrics": [codec.to_dict(metric) for metric in plan.metrics]}


def plan_from_json(data: JSON) -> RunPlan:
    """Read `plan.json`; ValueError if it is not one, or a newer one."""
    written = codec.mapping(data, "plan.json")
    try:
        metrics = tuple(codec.build(Metric, metric) for metric in written["metrics"])
        tasks = tuple((str(task), category) for task, category in written["tasks"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"tasks or metrics are not readable: {error}") from None
    plan = codec.build(RunPlan, data, metrics=metrics, tasks=tasks)
    if plan.k < 1 or not metrics or plan.attempt_strategy not in get_args(AttemptStrategy):
        raise ValueError("k, attempt_strategy or metrics make no sense")
    return plan
