"""An orchestration as a user writes it, in a file or with these classes: nothing is final, None means not given.

Constructors check nothing; `plan.resolve` checks everything at once. Objects that were read from a file remember it
(`_source`), so that messages about what is still as it was read name its line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from agentcompass.data import frozen
from agentcompass.records import JSON
from agentcompass.secrets import Secret
from agentcompass.spec.ranges import NonNegativeFloat, PositiveFloat
from agentcompass.spec.resolved import ExecutionConfig, RuntimeConfig
from agentcompass.spec.tree import Source

SUPPORTED_VERSION: Final = 1
"""The only version of the orchestration format."""

DEFAULT_ENVIRONMENT: Final = "host_process"
"""Where tasks run when nobody names an environment."""

Section: TypeAlias = Mapping[str, Any]

Axis: TypeAlias = Sequence[str | Section] | Mapping[str, str | Section]
"""What a matrix varies: ids and sections with an id, or any of both by labels of one's own."""


def _as_tuple(requests: Any) -> Any:
    return tuple(requests) if isinstance(requests, list) else requests


@frozen(kw_only=True)
class ModelSection:
    """The `model` section: an endpoint and what is sent to it."""

    id: str | None = None
    """Model id, as the endpoint knows it."""
    base_url: str | None = None
    """URL of the endpoint, with or without `/v1`."""
    api_key: Secret | str | None = None
    """Key of the endpoint; written as `${NAME}`, it stays a reference in everything that is stored."""
    api_protocol: str | Sequence[str] | None = None
    """A protocol name, `auto`, or a list in order of preference; `auto` if not given."""
    params: Mapping[str, JSON] | None = None
    """Sent with each call, except those that govern the calls: `max_retries`, `timeout_seconds`, `max_connections`, `rpm`, `tpm`, `share_limits`."""


@frozen(kw_only=True)
class ReuseSection:
    """The `runtime` section of a request: what it takes over from an earlier run."""

    reuse: bool | None = None
    """Take over the graded attempts of an earlier run that could not have ended differently."""
    reuse_run_id: str | None = None
    """The run to take them from; without it, the newest compatible one."""


@frozen(kw_only=True)
class OutputSection:
    """The `output` section of a request: where its results go."""

    run_name: str | None = None
    """A folder between the results directory and the run's own."""
    run_id: str | None = None
    """Name of the new run directory; by default made from the time and chance."""


@frozen(kw_only=True)
class OrchestrationDefaults:
    """What all requests share unless they say otherwise. Component sections are flat: `{"id": ..., field: value}`."""

    benchmark: Section | None = None
    """Benchmark id and, beside it, the benchmark's own fields."""
    harness: Section | None = None
    """Harness id and, beside it, the harness's own fields."""
    model: Section | ModelSection | None = None
    """Model id, endpoint and parameters."""
    environment: Section | None = None
    """Environment id and, beside it, the environment's own fields; `host_process` if not given."""
    execution: Section | ExecutionConfig | None = None
    """How attempts are made, retried and limited."""
    runtime: Section | ReuseSection | None = None
    """What is reused of earlier runs."""
    output: Section | OutputSection | None = None
    """Where results go."""
    _source: Source | None = attrs.field(default=None, alias="_source", eq=False, repr=False)


@frozen(kw_only=True)
class RunRequestSpec(OrchestrationDefaults):
    """One named evaluation of an orchestration; what it does not say comes from the defaults."""

    name: str
    """Unique in the orchestration; also the name of its results folder."""
    weight: PositiveFloat | None = None
    """Share of the task slots relative to other requests; 1 if not given."""


@frozen(kw_only=True)
class MatrixSection(OrchestrationDefaults):
    """Requests for every combination of some components; what it says beside them is said for each of them."""

    name: str | None = None
    """Names of the requests, with `{model}`, `{harness}`, `{benchmark}` and `{environment}` in them; by default the
    labels of what is varied: `{model}_{benchmark}_{harness}`."""
    models: Axis | None = None
    """Models to combine."""
    harnesses: Axis | None = None
    """Harnesses to combine."""
    benchmarks: Axis | None = None
    """Benchmarks to combine."""
    environments: Axis | None = None
    """Environments to combine."""
    exclude: Sequence[Section] | None = None
    """Combinations to leave out: labels, or patterns of labels, by `model`, `harness`, `benchmark`, `environment`."""
    weight: PositiveFloat | None = None
    """Share of the task slots of each of its requests; 1 if not given."""


@frozen(kw_only=True)
class OrchestrationSpec:
    """Several requests that run under shared limits."""

    version: int = SUPPORTED_VERSION
    """Version of this format."""
    name: str | None = None
    """Name of the orchestration and of the folder with its summary; by default made from the time and chance."""
    task_concurrency: int | None = None
    """Tasks in flight over all requests."""
    runtime: Section | RuntimeConfig | None = None
    """What all requests share: directories, limits, logging."""
    defaults: OrchestrationDefaults | Section | None = None
    """What requests inherit."""
    requests: Sequence[RunRequestSpec | Section] = attrs.field(default=(), converter=_as_tuple)
    """The requests, in the order in which they are reported."""
    matrix: MatrixSection | Section | None = None
    """Further requests, one for each combination of models, harnesses, benchmarks and environments."""
    _source: Source | None = attrs.field(default=None, alias="_source", eq=False, repr=False)


@frozen(kw_only=True)
class Price:
    """What a model costs, in US dollars per million tokens; what is absent is unknown."""

    input: NonNegativeFloat | None = None
    """Tokens sent."""
    cached_input: NonNegativeFloat | None = None
    """Tokens sent that the endpoint had in its cache."""
    cache_write: NonNegativeFloat | None = None
    """Tokens sent that the endpoint put into its cache."""
    output: NonNegativeFloat | None = None
    """Tokens received, those of reasoning included unless they have a price of their own."""
    reasoning: NonNegativeFloat | None = None
    """Tokens of reasoning, where they cost other than the rest of the output."""
