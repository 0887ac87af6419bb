"""What a spec resolves to: immutable, validated, every value final. Data only.

`plan.resolve` makes these from what a user wrote; the engine, the store and the display read them. A single
evaluation is an `Orchestration` of one `Request`.

The fields of `ExecutionConfig`, `RuntimeConfig` and `ModelConfig` are also the declaration of the keys of those names
in files: their types with ranges are what is checked, their defaults are the built-in ones, stated nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import attrs

from agentcompass.data import frozen
from agentcompass.records import JSON
from agentcompass.secrets import Secret
from agentcompass.spec.protocols import AUTO
from agentcompass.spec.ranges import (
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Range,
)

AttemptCount: TypeAlias = Annotated[int, Range(minimum=1, maximum=10_000)]
"""More than anybody makes, and few enough to be planned in memory."""
AttemptStrategy: TypeAlias = Literal["avg", "pass"]
Progress: TypeAlias = Literal["auto", "plain", "none"]
LogLevel: TypeAlias = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


@frozen(kw_only=True)
class ComponentConfig:
    """A benchmark, harness or environment with its parameters."""

    id: str
    """The registered id, or an import path `package.module:Class`."""
    params: Any
    """An instance of the component's `Params` class, secrets revealed only through `Secret`."""
    written: Mapping[str, JSON]
    """The same as plain JSON for files: defaults filled in, references as references, other secrets masked."""
    counted: Mapping[str, JSON] | None = None
    """The same for the fingerprint: values in the place of references that are not secret. None: as written."""
    given: tuple[str, ...] | None = None
    """Names of the parameters that differ from their defaults. None: not known, so all of them."""


@frozen(kw_only=True)
class ModelConfig:
    """An endpoint, a model id and what is sent with each call."""

    id: str
    base_url: str | None = None
    """None for harnesses that need no model, and for models that the engine serves itself."""
    served_version: str | None = None
    """Of a model that the engine serves itself: the version of a local model's weights, or of a recording. None for all others."""
    api_key: Secret | None = None
    api_protocol: tuple[str, ...] = (AUTO,)
    """In order of preference; `("auto",)` leaves the choice to harness and URL."""
    params: Mapping[str, JSON] = attrs.field(factory=dict)
    """Sent to the endpoint as they are."""
    max_retries: NonNegativeInt = 5
    """Of one call, after the first try."""
    timeout_seconds: NonNegativeFloat = 600.0
    """Of one call, all retries and waits included; 0 means none."""
    max_connections: PositiveInt = 256
    """Calls in flight at once to this endpoint in one run, if it takes so many."""
    rpm: PositiveInt | None = None
    """Requests per minute that the endpoint allows with this key; null if you do not know."""
    tpm: PositiveInt | None = None
    """Tokens per minute, input and output together; likewise."""
    share_limits: bool = True
    """Whether runs on this machine that use the endpoint with the same key share its limits."""
    written: Mapping[str, JSON] | None = attrs.field(default=None, eq=False)
    """`base_url`, `api_key`, `api_protocol` and `params` as plain JSON for files: references stay, other secrets are masked.
    None: to be made from the values."""
    counted: Mapping[str, JSON] | None = attrs.field(default=None, eq=False)
    """The same for the fingerprint: values in the place of references that are not secret."""


CALL_SETTINGS: Final = (
    "max_retries", "timeout_seconds", "max_connections", "rpm", "tpm", "share_limits",
)  # fmt: skip
"""Fields of `ModelConfig` that are written among a model's `params` and govern the calls instead of being sent."""


@frozen(kw_only=True)
class ExecutionConfig:
    """SPEC section 5: how attempts are made, retried and limited. A deadline of 0 seconds means none."""

    max_retries: NonNegativeInt = 1
    """How often an attempt that ended for an infrastructure reason is executed again."""
    retry_pattern_list: tuple[str, ...] = ()
    """Regular expressions; an attempt whose error message or code matches one is executed again too."""
    retry_min_delay_seconds: NonNegativeFloat = 5.0
    """Delay before the first retry of an attempt, at most; it doubles with each further one."""
    retry_max_delay_seconds: NonNegativeFloat = 60.0
    """Longest delay before a retry."""
    k: AttemptCount = 1
    """Attempts at each task."""
    attempt_strategy: AttemptStrategy = "avg"
    """`avg` makes all k attempts; `pass` stops at the first success."""
    enabled_recipes: tuple[str, ...] = ()
    """Ids of the recipes that may apply; empty means every one that matches."""
    keep_environment: bool = False
    """Leave the sandboxes, and print how to enter them."""
    enable_analysis: bool = True
    """Let the analyzers look at each finished attempt."""
    analysis_params: Mapping[str, JSON] = attrs.field(factory=dict)
    """By analyzer id: a mapping of that analyzer's own fields."""
    min_coverage: Fraction = 1.0
    """Smallest part of the planned attempts, 0 to 1, that must be graded for the run to count as completed."""
    attempt_max_cost: PositiveFloat | None = None
    """US dollars that the model calls of one attempt may cost; then its agent is stopped, and graded on what it left."""
    attempt_max_tokens: PositiveInt | None = None
    """Tokens, input and output together, that they may use; likewise."""
    open_timeout_seconds: NonNegativeFloat = 600.0
    """Deadline for opening a sandbox."""
    prepare_timeout_seconds: NonNegativeFloat = 600.0
    """Deadline for setting a task up in its sandbox."""
    run_timeout_seconds: NonNegativeFloat | None = None
    """Deadline of the agent. None: the task's, else the harness's."""
    collect_timeout_seconds: NonNegativeFloat = 60.0
    """Deadline for taking the artifacts out of the agent's sandbox."""
    evaluate_timeout_seconds: NonNegativeFloat | None = None
    """Deadline of the evaluation. None: the task's, else the benchmark's, else 1800."""
    close_timeout_seconds: NonNegativeFloat = 60.0
    """Deadline for closing a sandbox."""
    timeout_multiplier: PositiveFloat = 1.0
    """Factor on the deadlines of the agent and of the evaluation."""


@frozen(kw_only=True)
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
    regrade_of: Path | None = None
    """Directory of the run whose attempts are evaluated again, instead of letting agents work; None for all other runs."""
    written_execution: Mapping[str, JSON] | None = None
    """`execution` as plain JSON for files, like `ComponentConfig.written`. None: to be made from the values."""


@frozen(kw_only=True)
class RuntimeConfig:
    """SPEC section 4: what all requests of an orchestration share."""

    task_concurrency: PositiveInt = 32
    """Tasks in flight over the whole orchestration."""
    results_dir: Path = Path("results")
    """Root of all results."""
    data_dir: Path = Path("data")
    """Root of downloaded data and caches."""
    timeout_seconds: NonNegativeFloat = 360_000.0
    """Wall clock of the whole orchestration; 0 means none."""
    max_cost: PositiveFloat | None = None
    """US dollars that all model calls may cost; what does not fit is skipped. None means no limit."""
    max_tokens: PositiveInt | None = None
    """Tokens, input and output together, that all model calls may use. None means no limit."""
    cleanup_grace_seconds: NonNegativeFloat = 30.0
    """Total time that cleanup may take once work is cancelled."""
    provider_limits: Mapping[str, NonNegativeInt] = attrs.field(factory=dict)
    """Sandboxes open at once by environment id; 0 or absent means no limit."""
    env_open_qps: Mapping[str, NonNegativeFloat] = attrs.field(factory=dict)
    """Sandboxes opened per second by environment id; 0 or absent means no limit."""
    progress: Progress = "auto"
    """What is shown while it runs: `auto` is live on a terminal and plain elsewhere."""
    log_level: LogLevel = "INFO"
    """Of the console."""
    file_log_level: LogLevel = "DEBUG"
    """Of each run's `run.log` and of `log_file`."""
    log_file: Path | None = None
    """One extra file for the log of everything, or None."""
    record: Path | None = None
    """File to which every model exchange is added, to be replayed as the model `replay:FILE`; None: they are not kept."""
    auto_install_dependencies: bool = False
    """Whether a component's optional extra may be installed into the running interpreter."""
    recipe_dirs: tuple[Path, ...] = ()
    """Folders of modules that register recipes."""


@frozen(kw_only=True)
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
    """By model id pattern: US dollars per million tokens, keys input, cached_input, cache_write, output, reasoning."""
    written_runtime: Mapping[str, JSON] | None = None
    """`runtime` as plain JSON for files, like `ComponentConfig.written`. None: to be made from the values."""
    given_runtime: tuple[str, ...] = ()
    """Names of the settings in `runtime` that somebody gave."""
    notes: tuple[str, ...] = ()
    """What resolving did that might surprise; shown by --dry-run and logged."""
