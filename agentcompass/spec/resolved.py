"""What a spec resolves to: immutable, validated, every value final. Data only.

`plan.resolve` makes these from what a user wrote; the engine, the store and the display read them. A single
evaluation is an `Orchestration` of one `Request`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import attrs

from agentcompass.records import JSON
from agentcompass.secrets import Secret

AttemptStrategy: TypeAlias = Literal["avg", "pass"]
Progress: TypeAlias = Literal["auto", "plain", "none"]
LogLevel: TypeAlias = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


@attrs.frozen(kw_only=True)
class ComponentConfig:
    """A benchmark, harness or environment with its parameters."""

    id: str
    """The registered id, or an import path `package.module:Class`."""
    params: Any
    """An instance of the component's `Params` class, secrets revealed only through `Secret`."""
    written: Mapping[str, JSON]
    """The same as plain JSON for files and the fingerprint: defaults filled in, secrets as references."""


@attrs.frozen(kw_only=True)
class ModelConfig:
    """An endpoint, a model id and what is sent with each call."""

    id: str
    base_url: str | None
    """None for harnesses that need no model."""
    api_key: Secret | None
    api_protocol: tuple[str, ...]
    """In order of preference; `("auto",)` leaves the choice to harness and URL."""
    params: Mapping[str, JSON]
    """Sent to the endpoint as they are."""
    max_retries: int
    """Of one call, after the first try."""
    timeout_seconds: float
    """Of one call, all retries and waits included; 0 means none."""
    max_connections: int
    """Calls in flight at once to this endpoint in one run."""


@attrs.frozen(kw_only=True)
class ExecutionConfig:
    """SPEC section 5: how attempts are made, retried and limited. A deadline of 0 seconds means none."""

    max_retries: int
    retry_pattern_list: tuple[str, ...]
    retry_min_delay_seconds: float
    retry_max_delay_seconds: float
    k: int
    attempt_strategy: AttemptStrategy
    enabled_recipes: tuple[str, ...]
    keep_environment: bool
    enable_analysis: bool
    analysis_params: Mapping[str, JSON]
    min_coverage: float
    open_timeout_seconds: float
    prepare_timeout_seconds: float
    run_timeout_seconds: float | None
    """None: the task's, else the harness's."""
    collect_timeout_seconds: float
    evaluate_timeout_seconds: float | None
    """None: the task's, else the benchmark's, else 1800."""
    close_timeout_seconds: float
    timeout_multiplier: float


@attrs.frozen(kw_only=True)
class Request:
    """One (benchmark, harness, model, environment) with its settings; executing it makes a run."""

    name: str
    """Unique in its orchestration; for a single evaluation `<model>_<benchmark>_<harness>`."""
    benchmark: ComponentConfig
    harness: ComponentConfig
    environment: ComponentConfig
    model: ModelConfig
    execution: ExecutionConfig
    run_name: str | None
    """A folder between the results directory and the namespace, or None."""
    run_id: str
    """Chosen by the user or made from time and chance; the name of the run directory."""
    run_id_is_given: bool
    reuse: bool
    reuse_run_id: str | None
    weight: float = 1.0
    """Share of task slots relative to other requests."""


@attrs.frozen(kw_only=True)
class RuntimeConfig:
    """SPEC section 4: what all requests of an orchestration share."""

    task_concurrency: int
    results_dir: Path
    data_dir: Path
    timeout_seconds: float
    """Wall clock of the whole orchestration; 0 means none."""
    cleanup_grace_seconds: float
    provider_limits: Mapping[str, int]
    """Sandboxes open at once by environment id; 0 or absent means no limit."""
    env_open_qps: Mapping[str, float]
    """Sandboxes opened per second by environment id; 0 or absent means no limit."""
    progress: Progress
    log_level: LogLevel
    file_log_level: LogLevel
    log_file: Path | None
    auto_install_dependencies: bool
    recipe_dirs: tuple[Path, ...]


@attrs.frozen(kw_only=True)
class Orchestration:
    """Everything that is needed to run: immutable, and the only thing handed to the engine."""

    id: str
    name: str
    requests: tuple[Request, ...]
    runtime: RuntimeConfig
    secrets: tuple[Secret, ...]
    """Every secret value that came in by any door, for the scrubber."""
    is_single: bool
    """Made by `run_evaluation`: directories are named after the components, not after the request."""
    prices: Mapping[str, Mapping[str, float]] = attrs.field(factory=dict)
    """By model id pattern: US dollars per million tokens, keys input, cached_input, cache_write, output."""
    notes: tuple[str, ...] = ()
    """What resolving did that might surprise; shown by --dry-run and logged."""
