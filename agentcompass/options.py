"""The one list of options: what the entry points accept and the command line shows.

Each field is an argument of the SDK under its own name; the string under it is the help text. Its metadata hold an
`Option`: how the command line shows it, and which setting of an orchestration it is. None means not given. Nothing
is checked here: `plan.resolve` checks everything at once.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import attrs

from agentcompass.data import frozen
from agentcompass.records import JSON, RequestOutcome
from agentcompass.secrets import Secret
from agentcompass.spec.resolved import AttemptStrategy, LogLevel, Progress

Form: TypeAlias = Literal[
    "positional", "value", "repeated", "pairs", "object", "array", "switch", "reuse"
]
"""How an option is written on the command line: an argument; one value; a value each time it is repeated; NAME=N each
time it is repeated; a JSON object; a JSON array of strings; nothing or `no-`; nothing or a run id (two fields)."""

AnyPath: TypeAlias = str | Path

_KEY: Final = "option"


@frozen(kw_only=True)
class Option:
    """How a field of the options is shown and what it sets."""

    path: str | None
    """Dotted path of the setting: in a request (`execution.k`), or of all requests where `is_shared`. The path of a whole
    section means that the value, a mapping, is merged into it. None: it is no setting (files, callbacks)."""
    flag: str | None
    """`--name` on the command line; the metavariable of a positional one; None: not on the command line."""
    form: Form
    is_shared: bool
    """It concerns all requests of an orchestration."""


@frozen(kw_only=True)
class NamedOption(Option):
    """An option together with the field that has it."""

    name: str
    """Name of the field, and of the argument in the SDK."""
    type: Any
    """Its annotation, resolved."""


def _shared(path: str | None, flag: str | None, form: Form = "value") -> dict[str, Option]:
    """Metadata of an option that concerns all requests."""
    return {_KEY: Option(path=path, flag=flag, form=form, is_shared=True)}


def _request(path: str, flag: str, form: Form = "value") -> dict[str, Option]:
    """Metadata of an option of one request."""
    return {_KEY: Option(path=path, flag=flag, form=form, is_shared=False)}


@frozen(kw_only=True)
class RuntimeOptions:
    """What single evaluations and orchestrations have in common."""

    config_path: AnyPath | Sequence[AnyPath] | None = attrs.field(
        default=None, metadata=_shared(None, "--config", "repeated")
    )
    """Configuration file, or several, later ones winning; read after the user's and the project's own. Default: those two only."""
    task_concurrency: int | None = attrs.field(
        default=None, metadata=_shared("runtime.task_concurrency", "--task-concurrency")
    )
    """Benchmark tasks in flight at once: of the evaluation, or of all requests of an orchestration together. Default: 32."""
    results_dir: AnyPath | None = attrs.field(
        default=None, metadata=_shared("runtime.results_dir", "--results-dir")
    )
    """Root directory of the results. Default: results."""
    data_dir: AnyPath | None = attrs.field(
        default=None, metadata=_shared("runtime.data_dir", "--data-dir")
    )
    """Root directory of downloaded data and caches. Default: data."""
    timeout_seconds: float | None = attrs.field(
        default=None, metadata=_shared("runtime.timeout_seconds", "--timeout-seconds")
    )
    """Wall-clock limit of the evaluation, or of the whole orchestration, in seconds; 0 means none. Default: 360000."""
    max_cost: float | None = attrs.field(
        default=None, metadata=_shared("runtime.max_cost", "--max-cost")
    )
    """US dollars that all model calls together may cost; attempts that do not fit are skipped. Default: no limit."""
    max_tokens: int | None = attrs.field(
        default=None, metadata=_shared("runtime.max_tokens", "--max-tokens")
    )
    """Tokens, input and output, that all model calls together may use; attempts that do not fit are skipped. Default: no limit."""
    cleanup_grace_seconds: float | None = attrs.field(
        default=None, metadata=_shared("runtime.cleanup_grace_seconds", "--cleanup-grace-seconds")
    )
    """Total time, in seconds, that cleanup may take once work is cancelled. Default: 30."""
    provider_limits: Mapping[str, int] | None = attrs.field(
        default=None, metadata=_shared("runtime.provider_limits", "--provider-limit", "pairs")
    )
    """Sandboxes open at once, by environment id; 0 means no limit. Default: no limits."""
    env_open_qps: Mapping[str, float] | None = attrs.field(
        default=None, metadata=_shared("runtime.env_open_qps", "--env-open-qps", "pairs")
    )
    """Sandboxes opened per second, by environment id; 0 means no limit. Default: no limits."""
    progress: Progress | None = attrs.field(
        default=None, metadata=_shared("runtime.progress", "--progress")
    )
    """How progress is shown: auto (live on a terminal, plain elsewhere), plain or none. Default: auto."""
    log_level: LogLevel | None = attrs.field(
        default=None, metadata=_shared("runtime.log_level", "--log-level")
    )
    """Lowest level shown on the console: DEBUG, INFO, WARNING, ERROR or CRITICAL. Default: INFO."""
    file_log_level: LogLevel | None = attrs.field(
        default=None, metadata=_shared("runtime.file_log_level", "--file-log-level")
    )
    """Lowest level written to log files; the same words as for the console. Default: DEBUG."""
    record: AnyPath | None = attrs.field(
        default=None, metadata=_shared("runtime.record", "--record")
    )
    """File to which every model exchange is added; the model `replay:FILE` answers from it. Default: none."""
    auto_install_dependencies: bool | None = attrs.field(
        default=None,
        metadata=_shared(
            "runtime.auto_install_dependencies", "--auto-install-dependencies", "switch"
        ),
    )
    """Install the optional packages a component needs into the running interpreter. Default: false."""
    log_file: AnyPath | None = attrs.field(default=None, metadata=_shared("runtime.log_file", None))
    """One extra file for the log of everything. Default: none."""
    on_progress: Callable[[Mapping[str, JSON]], object] | None = attrs.field(
        default=None, metadata=_shared(None, None)
    )
    """Called with each progress event, a JSON object; what it raises is logged and changes nothing. Default: none."""


@frozen(kw_only=True)
class RunOptions(RuntimeOptions):
    """All arguments of a single evaluation."""

    benchmark: str | None = attrs.field(
        default=None, metadata=_request("benchmark.id", "BENCHMARK", "positional")
    )
    """Benchmark id, or the import path of a class (package.module:Class). Required."""
    harness: str | None = attrs.field(
        default=None, metadata=_request("harness.id", "HARNESS", "positional")
    )
    """Harness id, or the import path of a class. Required."""
    model: str | None = attrs.field(
        default=None, metadata=_request("model.id", "MODEL", "positional")
    )
    """Model id, as the endpoint knows it. Required."""
    environment: str | None = attrs.field(
        default=None, metadata=_request("environment.id", "--env")
    )
    """Environment id, or the import path of a class. Default: host_process."""
    benchmark_params: Mapping[str, JSON] | None = attrs.field(
        default=None, metadata=_request("benchmark", "--benchmark-params", "object")
    )
    """The benchmark's own fields, as `agentcompass config docs` lists them. Default: its own defaults."""
    harness_params: Mapping[str, JSON] | None = attrs.field(
        default=None, metadata=_request("harness", "--harness-params", "object")
    )
    """The harness's own fields. Default: its own defaults."""
    environment_params: Mapping[str, JSON] | None = attrs.field(
        default=None, metadata=_request("environment", "--env-params", "object")
    )
    """The environment's own fields. Default: its own defaults."""
    model_base_url: str | None = attrs.field(
        default=None, metadata=_request("model.base_url", "--model-base-url")
    )
    """URL of the model endpoint, with or without /v1. Required, unless the harness needs no model or the model is local."""
    model_api_key: str | Secret | None = attrs.field(
        default=None, metadata=_request("model.api_key", "--model-api-key")
    )
    """Key of the model endpoint; written as ${NAME} it is taken from the environment and never stored. Default: none."""
    model_api_protocol: str | Sequence[str] | None = attrs.field(
        default=None, metadata=_request("model.api_protocol", "--model-api-protocol")
    )
    """Protocol of the model endpoint, or auto to decide from harness and URL. Default: auto."""
    model_params: Mapping[str, JSON] | None = attrs.field(
        default=None, metadata=_request("model.params", "--model-params", "object")
    )
    """Sent with each model call, except max_retries (default 5), timeout_seconds (600), max_connections (256), rpm, tpm and share_limits."""
    max_retries: int | None = attrs.field(
        default=None, metadata=_request("execution.max_retries", "--max-retries")
    )
    """How often an attempt that ended for an infrastructure reason is executed again. Default: 1."""
    retry_pattern_list: Sequence[str] | None = attrs.field(
        default=None,
        metadata=_request("execution.retry_pattern_list", "--retry-pattern-list", "array"),
    )
    """Regular expressions; an attempt whose error message or code matches one is executed again too. Default: none."""
    enabled_recipes: Sequence[str] | None = attrs.field(
        default=None, metadata=_request("execution.enabled_recipes", "--recipe", "repeated")
    )
    """Ids of the recipes that may apply. Default: every recipe that matches."""
    run_name: str | None = attrs.field(
        default=None, metadata=_request("output.run_name", "--run-name")
    )
    """A folder between the results directory and the run's own. Default: none."""
    run_id: str | None = attrs.field(default=None, metadata=_request("output.run_id", "--run-id"))
    """Name of the new run directory. Default: the time and a random suffix."""
    reuse: bool | None = attrs.field(
        default=None, metadata=_request("runtime.reuse", "--reuse", "reuse")
    )
    """Take over the graded attempts of the newest earlier run that could not have ended differently. Default: false."""
    reuse_run_id: str | None = attrs.field(
        default=None, metadata=_request("runtime.reuse_run_id", "--reuse", "reuse")
    )
    """The run whose graded attempts are taken over; implies reuse. Default: the newest compatible one."""
    keep_environment: bool | None = attrs.field(
        default=None,
        metadata=_request("execution.keep_environment", "--keep-environment", "switch"),
    )
    """Leave the sandboxes in place, and print how to enter them. Default: false."""
    enable_analysis: bool | None = attrs.field(
        default=None, metadata=_request("execution.enable_analysis", "--enable-analysis", "switch")
    )
    """Let the analyzers look at each finished attempt. Default: true."""
    analysis_params: Mapping[str, JSON] | None = attrs.field(
        default=None, metadata=_request("execution.analysis_params", "--analysis-params", "object")
    )
    """By analyzer id, a mapping of that analyzer's own fields. Default: {}."""
    k: int | None = attrs.field(default=None, metadata=_request("execution.k", "--k"))
    """Attempts at each task. Default: 1."""
    attempt_strategy: AttemptStrategy | None = attrs.field(
        default=None, metadata=_request("execution.attempt_strategy", "--attempt-strategy")
    )
    """avg makes all k attempts, pass stops at the first success. Default: avg."""
    min_coverage: float | None = attrs.field(
        default=None, metadata=_request("execution.min_coverage", "--min-coverage")
    )
    """Smallest part of the planned attempts, 0 to 1, that must be graded for the run to count. Default: 1."""
    execution_params: Mapping[str, JSON] | None = attrs.field(
        default=None, metadata=_request("execution", "--execution-params", "object")
    )
    """Execution settings without an option of their own: retry delays and the deadlines of phases. Default: {}."""
    recipe_dirs: Sequence[AnyPath] | None = attrs.field(
        default=None, metadata=_shared("runtime.recipe_dirs", "--recipe-dir", "repeated")
    )
    """Folders of modules that register recipes. Default: none."""


_RUN_FIELDS: Final = attrs.fields_dict(RunOptions)


@frozen(kw_only=True)
class RegradeOptions(RuntimeOptions):
    """All arguments of an evaluation of what an earlier run left, beside that run. What is not given is as it was then."""

    benchmark_params: Mapping[str, JSON] | None = attrs.field(
        default=None, metadata=_RUN_FIELDS["benchmark_params"].metadata
    )
    """Fields of the benchmark that are to be others now. Default: as they were."""
    environment: str | None = attrs.field(
        default=None, metadata=_RUN_FIELDS["environment"].metadata
    )
    """Environment id. Default: as it was."""
    environment_params: Mapping[str, JSON] | None = attrs.field(
        default=None, metadata=_RUN_FIELDS["environment_params"].metadata
    )
    """Fields of the environment that are to be others now. Default: as they were."""
    max_retries: int | None = attrs.field(
        default=None, metadata=_RUN_FIELDS["max_retries"].metadata
    )
    """How often an evaluation that failed for an infrastructure reason is made again. Default: as it was."""
    run_id: str | None = attrs.field(default=None, metadata=_RUN_FIELDS["run_id"].metadata)
    """Name of the new run directory. Default: the time and a random suffix."""


@frozen(kw_only=True)
class LaunchOptions(RuntimeOptions):
    """All arguments of an orchestration, beside the orchestration itself."""

    on_request_finished: Callable[[RequestOutcome], object] | None = attrs.field(
        default=None, metadata=_shared(None, None)
    )
    """Called whenever a request finishes; what it raises is logged and changes nothing. Default: none."""
    only: str | Sequence[str] | None = attrs.field(
        default=None, metadata=_shared(None, "--only", "repeated")
    )
    """Name of a request to run, or several, or patterns such as small-*; the others are left out. Default: all."""


def options_of(cls: type[RuntimeOptions]) -> tuple[NamedOption, ...]:
    """Return every option of a class, in the order of its fields."""
    return _options_of(typing.cast("Any", cls))


@functools.cache  # resolving the annotations takes milliseconds, and many ask
def _options_of(cls: Any) -> tuple[NamedOption, ...]:
    types = typing.get_type_hints(cls)
    return tuple(
        NamedOption(
            name=field.name,
            type=types[field.name],
            **attrs.asdict(field.metadata[_KEY], recurse=False),
        )
        for field in attrs.fields(cls)
    )
