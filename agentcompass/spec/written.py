"""An orchestration as a user writes it, in a file or with these classes: nothing is final, None means not given.

Constructors check nothing; `plan.resolve` checks everything at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from agentcompass.records import JSON
from agentcompass.secrets import Secret
from agentcompass.spec.ranges import NonNegativeFloat, PositiveFloat
from agentcompass.spec.resolved import ExecutionConfig, RuntimeConfig

SUPPORTED_VERSION: Final = 1
"""The only version of the orchestration format."""

DEFAULT_ENVIRONMENT: Final = "host_process"
"""Where tasks run when nobody names an environment."""

Section: TypeAlias = Mapping[str, Any]


@attrs.frozen(kw_only=True)
class ModelSection:
    """The `model` section: an endpoint and what is sent to it."""

    id: str | None = None
    """Model id, as the endpoint knows it."""
    base_url: str | None = None
    """URL of the endpoint, with or without `/v1`."""
    api_key: Secret | str | None = None
    """Key of the endpoint; written as `${NAME}`, it stays a reference in everything that is stored."""
    api_protocol: str | Sequence[str] | None = None
    """A protocol name, `auto`, or a list in order of preference."""
    params: Mapping[str, JSON] | None = None
    """Sent with each call, except `max_retries`, `timeout_seconds` and `max_connections`, which limit the calls."""


@attrs.frozen(kw_only=True)
class ReuseSection:
    """The `runtime` section of a request: what it takes over from an earlier run."""

    reuse: bool | None = None
    """Take over the graded attempts of an earlier run that could not have ended differently."""
    reuse_run_id: str | None = None
    """The run to take them from; without it, the newest compatible one."""


@attrs.frozen(kw_only=True)
class OutputSection:
    """The `output` section of a request: where its results go."""

    run_name: str | None = None
    """A folder between the results directory and the run's own."""
    run_id: str | None = None
    """Name of the new run directory; by default made from the time and chance."""


@attrs.frozen(kw_only=True)
class OrchestrationDefaults:
    """What all requests share unless they say otherwise. Component sections are flat: `{"id": ..., field: value}`."""

    benchmark: Section | None = None
    """Benchmark id and, beside it, the benchmark's own fields."""
    harness: Section | None = None
    """Harness id and, beside it, the harness's own fields."""
    model: Section | ModelSection | None = None
    """Model id, endpoint and parameters."""
    environment: Section | None = None
    """Environment id and, beside it, the environment's own fields."""
    execution: Section | ExecutionConfig | None = None
    """How attempts are made, retried and limited."""
    runtime: Section | ReuseSection | None = None
    """What is reused of earlier runs."""
    output: Section | OutputSection | None = None
    """Where results go."""


@attrs.frozen(kw_only=True)
class RunRequestSpec(OrchestrationDefaults):
    """One named evaluation of an orchestration; what it does not say comes from the defaults."""

    name: str
    """Unique in the orchestration; also the name of its results folder."""
    weight: PositiveFloat | None = None
    """Share of the task slots relative to other requests; 1 if not given."""


@attrs.frozen(kw_only=True)
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
    requests: Sequence[RunRequestSpec | Section] = ()
    """The requests, in the order in which they are reported."""


@attrs.frozen(kw_only=True)
class Price:
    """What a model costs, in US dollars per million tokens; what is absent is unknown."""

    input: NonNegativeFloat | None = None
    """Tokens sent."""
    cached_input: NonNegativeFloat | None = None
    """Tokens sent that the endpoint had in its cache."""
    cache_write: NonNegativeFloat | None = None
    """Tokens sent that the endpoint put into its cache."""
    output: NonNegativeFloat | None = None
    """Tokens received, those of reasoning included."""
