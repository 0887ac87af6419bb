"""Single evaluations: from arguments to the orchestration of one request."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from agentcompass.options import RunOptions
from agentcompass.plan.resolve import override_runtime, resolve_run
from agentcompass.secrets import Secret
from agentcompass.spec.resolved import ExecutionConfig, ModelConfig, RuntimeConfig
from support.configured import BROKEN, DEFAULT_TURNS, HARNESS, SECRETIVE
from support.resolving import GIVEN, NOW, STAMP, launch, problems_of, run


def _request(tmp_path, environ=None, **given):
    return run(tmp_path, environ, **given).requests[0]


def test_the_least_resolves_to_built_in_defaults(tmp_path):
    resolved = run(tmp_path)
    request = resolved.requests[0]
    assert resolved.is_single
    assert request.name == resolved.name == "m_humaneval_openai_chat"
    assert request.environment.id == "host_process"
    assert request.execution == ExecutionConfig()
    assert request.model == ModelConfig(id="m", base_url="http://127.0.0.1:9/v1")
    assert request.run_id == resolved.id == STAMP
    assert (request.run_id_is_given, request.reuse, request.reuse_run_id) == (False, False, None)
    assert resolved.runtime == RuntimeConfig(
        results_dir=tmp_path / "results", data_dir=tmp_path / "data"
    )


def test_ids_carry_the_time_as_utc(tmp_path):
    now = datetime(2030, 1, 2, 1, 4, 5, tzinfo=timezone(timedelta(hours=-2)))
    resolved = resolve_run(
        RunOptions(**GIVEN), cwd=tmp_path, environ={}, now=now, random_suffix="abc123"
    )
    assert resolved.id == STAMP
    assert now == NOW


def test_every_argument_reaches_its_setting(tmp_path):
    resolved = run(
        tmp_path,
        {"HOME": "/home/me"},
        benchmark_params={"limit": 3},
        harness=HARNESS,
        harness_params={"max_turns": 4},
        environment="host_process",
        environment_params={"shell": "/bin/bash"},
        model_api_key="key123",
        model_api_protocol=["openai-completions", "openai-chat"],
        model_params={
            "temperature": 0, "max_retries": 2, "timeout_seconds": 1.5, "max_connections": 3,
            "rpm": 500, "tpm": 90000, "share_limits": False,
        },
        max_retries=0, retry_pattern_list=["a+"], keep_environment=True, enable_analysis=False,
        k=4, attempt_strategy="pass", min_coverage=0.5,
        execution_params={"run_timeout_seconds": 9, "close_timeout_seconds": 0},
        run_name="mine", run_id="first", reuse=True, reuse_run_id="earlier",
        task_concurrency=7, results_dir=Path("out"), data_dir="~/d", timeout_seconds=0,
        cleanup_grace_seconds=1.5, provider_limits={"host_process": 2},
        env_open_qps={"host_process": 0.5}, progress="none", log_level="ERROR",
        file_log_level="INFO", log_file="/x/log", auto_install_dependencies=True,
    )  # fmt: skip
    (request,) = resolved.requests
    assert request.benchmark.params.limit == 3
    assert request.harness.params.max_turns == 4
    assert request.environment.params.shell == "/bin/bash"
    assert request.model == ModelConfig(
        id="m", base_url="http://127.0.0.1:9/v1", api_key=Secret("key123"),
        api_protocol=("openai-completions", "openai-chat"), params={"temperature": 0},
        max_retries=2, timeout_seconds=1.5, max_connections=3, rpm=500, tpm=90000, share_limits=False,
    )  # fmt: skip
    assert request.execution == ExecutionConfig(
        max_retries=0, retry_pattern_list=("a+",), keep_environment=True, enable_analysis=False,
        k=4, attempt_strategy="pass", min_coverage=0.5, run_timeout_seconds=9.0,
        close_timeout_seconds=0.0,
    )  # fmt: skip
    assert (request.run_name, request.run_id, request.run_id_is_given) == ("mine", "first", True)
    assert (request.reuse, request.reuse_run_id) == (True, "earlier")
    assert resolved.runtime == RuntimeConfig(
        task_concurrency=7, results_dir=tmp_path / "out", data_dir=Path("/home/me/d"),
        timeout_seconds=0.0, cleanup_grace_seconds=1.5, provider_limits={"host_process": 2},
        env_open_qps={"host_process": 0.5}, progress="none", log_level="ERROR",
        file_log_level="INFO", log_file=Path("/x/log"), auto_install_dependencies=True,
    )  # fmt: skip


def test_an_argument_wins_over_the_same_key_in_execution_params(tmp_path):
    execution = _request(tmp_path, k=3, execution_params={"k": 2, "max_retries": 5}).execution
    assert (execution.k, execution.max_retries) == (3, 5)


def test_an_explicit_zero_is_not_the_default(tmp_path):
    execution = _request(tmp_path, max_retries=0, min_coverage=0.0).execution
    assert (execution.max_retries, execution.min_coverage) == (0, 0.0)


def test_a_run_to_reuse_implies_reuse_unless_it_is_switched_off(tmp_path):
    assert _request(tmp_path, reuse_run_id="x").reuse is True
    assert _request(tmp_path, reuse=False, reuse_run_id="x").reuse is False


@pytest.mark.parametrize("seconds", [2, 10.0, 1.5])
def test_a_time_limit_is_whole_or_not(tmp_path, seconds):
    resolved = run(tmp_path, timeout_seconds=seconds)
    assert resolved.runtime.timeout_seconds == seconds


def test_a_null_in_params_means_the_default(tmp_path):
    params = _request(tmp_path, harness=HARNESS, harness_params={"max_turns": None}).harness.params
    assert params.max_turns == DEFAULT_TURNS


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"k": "3"}, "argument k: must be an integer, not a string: '3'"),
        ({"k": True}, "argument k: must be an integer, not a boolean: true"),
        ({"k": 0}, "argument k: must be at least 1, not 0"),
        ({"timeout_seconds": -1}, "argument timeout_seconds: must be at least 0, not -1"),
        ({"task_concurrency": 2.5}, "argument task_concurrency: must be an integer, not a number: 2.5"),
        ({"min_coverage": float("nan")}, "argument min_coverage: must be a finite number, not nan"),
        ({"reuse": "yes"}, "argument reuse: must be true or false, not a string: 'yes' (write true or false)"),
        ({"benchmark_params": {"limt": 1}}, "argument benchmark_params: limt: unknown key (did you mean 'limit'?)"),
        ({"benchmark_params": {"id": "x"}}, "argument benchmark_params: id: the id is argument 'benchmark', not a parameter"),
        ({"benchmark_params": {"params": {"limit": 1}}}, "argument benchmark_params: params: component sections are flat"),
        ({"benchmark_params": [1]}, "argument benchmark_params: must be a mapping, not a list"),
        ({"benchmark_params": {"sample_ids": "one"}}, "argument benchmark_params: sample_ids: must be a list, not a string"),
        ({"benchmark": "humanevl"}, "argument benchmark: unknown benchmark 'humanevl' (did you mean 'humaneval'?)"),
        ({"benchmark": None}, "argument benchmark: is required"),
        ({"harness": None}, "argument harness: is required"),
        ({"model": None}, "argument model: is required"),
        ({"model": ""}, "argument model: must not be empty; write 'none' for no model"),
        ({"model": " \n"}, "argument model: must not be empty"),
        ({"model": "", "harness": HARNESS}, "argument model: must not be empty"),
        ({"model_params": {"messages": []}}, "argument model_params: messages: is sent by the harness itself"),
        ({"model_params": {"model": "x"}}, "argument model_params: model: is sent by the harness itself"),
        ({"model_params": {"prompt": "x"}}, "argument model_params: prompt: is sent by the harness itself"),
        ({"harness": "tool_loop", "model_params": {"tools": []}}, "argument model_params: tools: is sent by the harness itself"),
        ({"k": 10**20}, "argument k: must be at most 10000, not 1e+20"),
        ({"model_base_url": None}, "argument model_base_url: is required: the harness calls a model"),
        ({"model_base_url": "localhost:8000"}, "argument model_base_url: must be a URL such as http://HOST:PORT/v1"),
        ({"model_base_url": "http://h:99999/"}, "argument model_base_url: must be a URL"),
        ({"model_base_url": "http://u:secret1@ /"}, "not 'http://[secret]@ /'"),
        ({"model_api_protocol": "opnai-chat"}, "argument model_api_protocol: unknown protocol 'opnai-chat' (did you mean 'openai-chat'?)"),
        ({"model_api_protocol": []}, "argument model_api_protocol: must name at least one protocol"),
        ({"model_params": {"max_retries": -1}}, "argument model_params: max_retries: must be at least 0, not -1"),
        ({"model_params": {"rpm": 0}}, "argument model_params: rpm: must be at least 1, not 0"),
        ({"model_params": {"tpm": 2.5}}, "argument model_params: tpm:"),
        ({"model_params": {"share_limits": "no"}}, "argument model_params: share_limits:"),
        ({"model_params": {"temperature": float("inf")}}, "argument model_params: temperature: must be a finite number"),
        ({"model_params": {"x": object()}}, "argument model_params: x: must be a plain value"),
        ({"environment": "nowhere:Klass"}, "argument environment: environment 'nowhere:Klass' cannot be loaded"),
        ({"harness": BROKEN}, "NowhereDefined"),
        ({"provider_limits": {"hostprocess": 1}}, "argument provider_limits: hostprocess: unknown environment 'hostprocess' (did you mean 'host_process'?)"),
        ({"env_open_qps": {"host_process": -1}}, "argument env_open_qps: host_process: must be at least 0, not -1"),
        ({"enabled_recipes": ["nope"]}, "argument enabled_recipes: [0]: unknown recipe 'nope'"),
        ({"analysis_params": {"nope": {}}}, "argument analysis_params: nope: unknown analyzer 'nope'"),
        ({"retry_pattern_list": ["ok", "("]}, "argument retry_pattern_list: [1]: is no regular expression"),
        ({"recipe_dirs": ["nowhere"]}, "argument recipe_dirs: recipe_dirs: "),
        ({"execution_params": {"task_concurrency": 1}}, "argument execution_params: task_concurrency: is an argument of its own"),
        ({"execution_params": {"retry_min_delay_seconds": 99}}, "retry_min_delay_seconds: the shortest retry delay, 99 seconds, is longer than the longest, 60"),
        ({"run_id": "../x"}, "argument run_id: must be usable as the name of one folder"),
        ({"run_id": ""}, "argument run_id: must be usable"),
        ({"run_id": "a\0b"}, "argument run_id: must not contain a NUL character"),
        ({"run_name": "a/b"}, "argument run_name: must be usable"),
        ({"reuse_run_id": ".."}, "argument reuse_run_id: must be usable"),
        ({"progress": "fancy"}, "argument progress: must be one of auto, plain, none, not 'fancy'"),
        ({"log_level": "debug"}, "argument log_level: must be one of DEBUG"),
        ({"results_dir": ""}, "argument results_dir: must be a path, not an empty string"),
        ({"model_api_key": "${AC_NONE}"}, "argument model_api_key: the environment variable 'AC_NONE' is not set"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_wrong_argument_is_told_by_its_name(tmp_path, given, problem):
    lines = problems_of(run, tmp_path, **given)
    assert len(lines) == 1, lines
    assert problem in lines[0]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"k": 0}, "--k: must be at least 1, not 0"),
        ({"environment": "dokcer"}, "--env: unknown environment 'dokcer'"),
        ({"benchmark_params": {"limt": 1}}, "--benchmark-params: limt: unknown key"),
        ({"model_base_url": None}, "--model-base-url: is required"),
        ({"benchmark": None}, "BENCHMARK: is required"),
        ({"enabled_recipes": ["x"]}, "--recipe: [0]: unknown recipe"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_the_command_line_hears_of_flags(tmp_path, given, problem):
    lines = problems_of(run, tmp_path, as_flags=True, **given)
    assert len(lines) == 1, lines
    assert lines[0].startswith(problem)


def test_everything_that_is_wrong_is_told_at_once(tmp_path):
    lines = problems_of(
        run,
        tmp_path,
        k=0,
        max_retries=-1,
        task_concurrency=0,
        provider_limits={"nope": 1},
        benchmark_params={"limt": 1},
        model_base_url="x",
        retry_pattern_list=["("],
        run_id="/",
        enabled_recipes=["nope"],
    )
    assert len(lines) == 9


def test_a_harness_without_a_model_needs_no_endpoint(tmp_path):
    request = _request(tmp_path, harness="nop", model_base_url=None)
    assert (request.model.id, request.model.base_url) == ("m", None)


def test_an_empty_key_is_no_key(tmp_path):
    assert _request(tmp_path, {"K": ""}, model_api_key="${K}").model.api_key is None


def test_references_work_in_arguments_too_and_name_the_request(tmp_path):
    resolved = run(
        tmp_path, {"M": "org/model", "MY_KEY": "sk-123456"}, model="${M}", model_api_key="${MY_KEY}"
    )
    assert resolved.requests[0].name == "org/model_humaneval_openai_chat"
    assert resolved.requests[0].model.api_key.reference == "${MY_KEY}"
    assert {secret.reveal() for secret in resolved.secrets} == {"sk-123456"}


def test_secrets_come_in_by_every_door_and_are_written_as_references(tmp_path):
    resolved = run(
        tmp_path,
        {"TOK": "x", "SOME_TOKEN": "from-env"},
        harness=SECRETIVE,
        harness_params={
            "api_key": "clear-key",
            "session_token": "${TOK}",
            "headers": {"X": "Bearer ${SOME_TOKEN}", "Y": "again clear-key"},
        },
        model_base_url="http://me:pass-word@h/v1",
        model_params={"extra_headers": {"X-Api-Key": "in-params"}},
    )
    harness = resolved.requests[0].harness
    assert harness.params.api_key == Secret("clear-key")
    assert harness.params.session_token == "x"
    assert harness.params.headers["X"] == "Bearer from-env"
    assert harness.written == {
        "api_key": "[secret]",
        "session_token": "${TOK}",
        "sort_key": "created_at",
        "headers": {"X": "Bearer ${SOME_TOKEN}", "Y": "again [secret]"},
        "turns": 3,
    }
    assert resolved.requests[0].model.written == {
        "base_url": "http://[secret]@h/v1",
        "api_key": None,
        "api_protocol": ["auto"],
        "params": {"extra_headers": {"X-Api-Key": "[secret]"}},
    }
    assert {secret.reveal() for secret in resolved.secrets} == {
        "clear-key", "x", "from-env", "pass-word", "me:pass-word", "in-params",
    }  # fmt: skip


def test_a_missing_parameter_is_missed_where_the_component_is_named(tmp_path):
    assert problems_of(run, tmp_path, harness=SECRETIVE) == [
        "the arguments: harness.api_key: is required"
    ]


def test_a_validator_of_a_component_is_told_with_its_field(tmp_path):
    given = {"harness": SECRETIVE, "harness_params": {"api_key": "k", "turns": 1}}
    assert problems_of(run, tmp_path, **given) == [
        "argument harness_params: turns: 'turns' must be >= 2: 1"
    ]


def test_recipes_of_folders_may_be_enabled(tmp_path):
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "mine.py").write_text(
        "from agentcompass.components.base import NoParams, Recipe\n"
        "from agentcompass.components.registry import register\n"
        "@register\nclass Mine(Recipe[NoParams]):\n    id = 'mine'\n"
        "    def matches(self, request):\n        return True\n"
    )
    resolved = run(tmp_path, recipe_dirs=["recipes"], enabled_recipes=["mine"])
    assert resolved.runtime.recipe_dirs == (folder,)
    assert resolved.requests[0].execution.enabled_recipes == ("mine",)


def test_nothing_is_written_by_resolving(tmp_path):
    run(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_shared_settings_of_a_resolved_orchestration_can_be_overridden(tmp_path):
    resolved = run(tmp_path, task_concurrency=3, log_level="ERROR")
    options = RunOptions(progress="none", task_concurrency=5, results_dir="other")
    changed = override_runtime(resolved, options, cwd=tmp_path, environ={})
    assert changed.requests is resolved.requests
    assert (changed.runtime.task_concurrency, changed.runtime.log_level) == (5, "ERROR")
    assert changed.runtime.results_dir == tmp_path / "other"
    assert override_runtime(resolved, RunOptions(), cwd=tmp_path, environ={}) is resolved


def test_config_files_come_too_late_for_a_resolved_orchestration(tmp_path):
    options = RunOptions(config_path="c.yaml", task_concurrency=0)
    lines = problems_of(override_runtime, run(tmp_path), options, cwd=tmp_path, environ={})
    assert lines == [
        "argument config_path: needs an OrchestrationSpec: this orchestration is resolved already",
        "argument task_concurrency: must be at least 1, not 0",
    ]


def test_a_single_evaluation_is_the_orchestration_of_one_request(tmp_path):
    single = run(tmp_path, k=2, benchmark_params={"limit": 3}, model_params={"temperature": 0})
    file = launch(
        "requests:\n- name: m_humaneval_openai_chat\n  benchmark: {id: humaneval, limit: 3}\n  harness: {id: openai_chat}\n"
        "  model: {id: m, base_url: 'http://127.0.0.1:9/v1', params: {temperature: 0}}\n  execution: {k: 2}\n",
        tmp_path,
    )
    assert single.requests == file.requests
    assert single.runtime == file.runtime
