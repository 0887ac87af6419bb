"""Resolved requests and orchestrations for tests of what lies below resolving."""

from pathlib import Path

import attrs

from agentcompass.components import registry
from agentcompass.spec.resolved import (
    ComponentConfig,
    ExecutionConfig,
    ModelConfig,
    Orchestration,
    Request,
    RuntimeConfig,
)

_EXECUTION = ExecutionConfig(
    max_retries=1,
    retry_pattern_list=(),
    retry_min_delay_seconds=5.0,
    retry_max_delay_seconds=60.0,
    k=1,
    attempt_strategy="avg",
    enabled_recipes=(),
    keep_environment=False,
    enable_analysis=True,
    analysis_params={},
    min_coverage=1.0,
    open_timeout_seconds=600.0,
    prepare_timeout_seconds=600.0,
    run_timeout_seconds=None,
    collect_timeout_seconds=60.0,
    evaluate_timeout_seconds=None,
    close_timeout_seconds=60.0,
    timeout_multiplier=1.0,
)


def execution_config(**changes):
    """Execution settings: the defaults, changed."""
    return attrs.evolve(_EXECUTION, **changes)


def component(kind, id_, **params):
    """A component with parameters."""
    cls = registry.load(kind, id_)
    return ComponentConfig(id=id_, params=cls.Params(**params), written=params)


def model_config(**changes):
    """A model without endpoint, changed."""
    fields = dict(
        id="test-model",
        base_url=None,
        api_key=None,
        api_protocol=("auto",),
        params={},
        max_retries=2,
        timeout_seconds=30.0,
        max_connections=64,
    )
    return ModelConfig(**(fields | changes))


def request(benchmark, harness, environment=None, *, model=None, name="test", **execution):
    """A request of the given components."""
    return Request(
        name=name,
        benchmark=benchmark,
        harness=harness,
        environment=environment or component("environment", "host_process"),
        model=model or model_config(),
        execution=execution_config(**execution),
        run_name=None,
        run_id="run-1",
        run_id_is_given=False,
        reuse=False,
        reuse_run_id=None,
    )


def orchestration(results_dir: Path, *requests, secrets=(), **runtime):
    """An orchestration of requests with results in a directory."""
    fields = dict(
        task_concurrency=8,
        results_dir=results_dir,
        data_dir=results_dir / "data",
        timeout_seconds=0.0,
        cleanup_grace_seconds=5.0,
        provider_limits={},
        env_open_qps={},
        progress="none",
        log_level="INFO",
        file_log_level="DEBUG",
        log_file=None,
        auto_install_dependencies=False,
        recipe_dirs=(),
    )
    return Orchestration(
        id="orchestration-1",
        name="test",
        requests=requests,
        runtime=RuntimeConfig(**(fields | runtime)),
        secrets=secrets,
        is_single=len(requests) == 1,
    )
