"""The list of options against the published tables, and against the defaults of the settings they stand for."""

import subprocess
import sys

import attrs
import pytest

from agentcompass.options import LaunchOptions, RunOptions, RuntimeOptions, options_of
from agentcompass.spec.codec import as_json, fields_of
from agentcompass.spec.docs import field_docs
from agentcompass.spec.resolved import ExecutionConfig, RuntimeConfig
from agentcompass.spec.written import ModelSection, OutputSection, ReuseSection

# the tables of the documentation of the SDK: CLI form, SDK keyword
SHARED = {
    "config_path": "--config",
    "task_concurrency": "--task-concurrency",
    "results_dir": "--results-dir",
    "data_dir": "--data-dir",
    "timeout_seconds": "--timeout-seconds",
    "provider_limits": "--provider-limit",
    "env_open_qps": "--env-open-qps",
    "progress": "--progress",
    "log_level": "--log-level",
    "file_log_level": "--file-log-level",
    "auto_install_dependencies": "--auto-install-dependencies",
    "log_file": None,
    "on_progress": None,
}
SINGLE = {
    "benchmark": "BENCHMARK",
    "harness": "HARNESS",
    "model": "MODEL",
    "benchmark_params": "--benchmark-params",
    "harness_params": "--harness-params",
    "model_base_url": "--model-base-url",
    "model_api_key": "--model-api-key",
    "model_api_protocol": "--model-api-protocol",
    "model_params": "--model-params",
    "environment": "--env",
    "environment_params": "--env-params",
    "max_retries": "--max-retries",
    "retry_pattern_list": "--retry-pattern-list",
    "enabled_recipes": "--recipe",
    "recipe_dirs": "--recipe-dir",
    "run_name": "--run-name",
    "run_id": "--run-id",
    "reuse": "--reuse",
    "reuse_run_id": "--reuse",
    "keep_environment": "--keep-environment",
    "enable_analysis": "--enable-analysis",
    "analysis_params": "--analysis-params",
}
ADDED = {
    "record": "--record",
    "max_cost": "--max-cost",
    "max_tokens": "--max-tokens",
    "k": "--k",
    "attempt_strategy": "--attempt-strategy",
    "cleanup_grace_seconds": "--cleanup-grace-seconds",
    "min_coverage": "--min-coverage",
    "execution_params": "--execution-params",
}
LAUNCH = {
    "record": "--record",
    "max_cost": "--max-cost",
    "max_tokens": "--max-tokens",
    "cleanup_grace_seconds": "--cleanup-grace-seconds",
    "on_request_finished": None,
    "only": "--only",
}
CLASSES = (RuntimeOptions, RunOptions, LaunchOptions)


def _flags(cls):
    return {option.name: option.flag for option in options_of(cls)}


def test_run_has_exactly_the_documented_options():
    assert _flags(RunOptions) == SHARED | SINGLE | ADDED


def test_launch_has_exactly_the_documented_options():
    assert _flags(LaunchOptions) == SHARED | LAUNCH


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_option_has_a_help_text_that_says_its_default(cls):
    docs = field_docs(cls)
    for option in options_of(cls):
        assert "efault" in docs[option.name] or "Required" in docs[option.name], option.name


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_nothing_is_given_unless_it_is_given(cls):
    assert set(attrs.asdict(cls()).values()) == {None}


def test_every_option_stands_for_a_setting_that_exists():
    sections = {
        "execution": ExecutionConfig,
        "model": ModelSection,
        "output": OutputSection,
    }
    for option in options_of(RunOptions):
        if option.path is None or "." not in option.path:
            continue
        section, key = option.path.split(".")
        cls = sections.get(section)
        if section == "runtime":
            cls = RuntimeConfig if option.is_shared else ReuseSection
        assert key in (fields_of(cls) if cls else {"id"}), option.path


def test_the_defaults_that_help_texts_state_are_the_built_in_ones():
    defaults = {
        **{f"runtime.{k}": v for k, v in as_json(RuntimeConfig()).items()},
        **{f"execution.{k}": v for k, v in as_json(ExecutionConfig()).items()},
    }
    docs = field_docs(RunOptions)
    compared = 0
    for option in options_of(RunOptions):
        if option.path not in defaults:
            continue
        stated = docs[option.name].rpartition("Default: ")[2].rstrip(".")
        value = defaults[option.path]
        if isinstance(value, bool | int | float | str):
            shown = (
                str(value).lower()
                if isinstance(value, bool)
                else f"{value:g}"
                if not isinstance(value, str)
                else value
            )
            assert stated == shown, option.name
            compared += 1
    assert compared > 12


def test_options_describe_how_the_command_line_writes_them():
    forms = {option.name: option.form for option in options_of(RunOptions)}
    assert forms["model_params"] == "object"
    assert forms["provider_limits"] == "pairs"
    assert forms["enabled_recipes"] == "repeated"
    assert forms["retry_pattern_list"] == "array"
    assert forms["reuse"] == forms["reuse_run_id"] == "reuse"


def test_importing_the_options_loads_nothing_heavy():
    code = (
        "import sys, agentcompass.options;"
        "print(sorted({n.split('.')[0] for n in sys.modules}"
        " & {'trio', 'asyncio', 'cattrs', 'ruamel', 'httpx', 'cyclopts', 'rich', 'docker'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
