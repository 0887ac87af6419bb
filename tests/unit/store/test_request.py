"""The command that finishes a run: what its user set, and nothing else."""

import json
import shlex

import attrs
import pytest

from agentcompass.store.request import finish_command, written_request
from support.configured import HARNESS, SECRETIVE
from support.resolving import run
from support.storage import run_info


def command(request, run_dir, **info):
    return finish_command(run_info(request=request, **info), run_dir)


def finishing(tmp_path, environ=None, **given):
    """The words of the command for a run of `given`, without what every one has."""
    orchestration = run(tmp_path, environ, **given)
    (request,) = orchestration.requests
    stored = json.loads(json.dumps(written_request(request, orchestration)))
    run_dir = tmp_path / "results" / (request.run_name or "") / "ns" / "r1"
    words = shlex.split(command(stored, run_dir))
    assert words[-2:] == ["--reuse", "r1"]
    at = words.index("--results-dir")
    assert words[at + 1] == str(tmp_path / "results")
    return [*words[2:at], *words[at + 2 : -2]]


BASE = ["humaneval", "openai_chat", "m", "--model-base-url", "http://127.0.0.1:9/v1"]


def test_a_masked_key_is_not_repeated(tmp_path):
    request = {"model": {"id": "m", "api_key": "[secret]"}}
    said = command(request, tmp_path / "ns/r1")
    assert "secret" not in said
    assert "--model-api-key" not in said


def test_a_run_name_moves_the_results_directory_up(tmp_path):
    said = command({"run_name": "nightly"}, tmp_path / "nightly/ns/r1")
    assert f"--run-name nightly --results-dir {tmp_path} --reuse r1" in said


def test_time_limits_that_change_answers_are_repeated(tmp_path):
    execution = {
        "run_timeout_seconds": 60,
        "evaluate_timeout_seconds": None,
        "timeout_multiplier": 2.0,
    }
    said = command({"execution": execution}, tmp_path / "ns/r1")
    given = json.dumps({"run_timeout_seconds": 60, "timeout_multiplier": 2.0})
    assert f"--execution-params '{given}'" in said


def test_what_has_its_default_is_not_said(tmp_path):
    assert finishing(tmp_path) == BASE
    defaults = {
        "environment": "host_process", "k": 1, "max_retries": 1, "min_coverage": 1.0, "model_api_protocol": "auto",
        "model_params": {"max_retries": 5, "timeout_seconds": 600}, "benchmark_params": {"timeout_seconds": 15},
        "enable_analysis": True, "progress": "none", "log_level": "ERROR", "run_id": "mine",
    }  # fmt: skip
    assert finishing(tmp_path, **defaults) == BASE


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"benchmark_params": {"limit": 3}}, ["--benchmark-params", '{"limit": 3}']),
        ({"harness_params": {"system_prompt": "it's ${K}"}}, ["--harness-params", '{"system_prompt": "it\'s ${K}"}']),
        ({"harness": HARNESS, "harness_params": {"label": "$${x"}}, ["--harness-params", '{"label": "$${x"}']),
        ({"environment_params": {"shell": "/bin/bash"}}, ["--env-params", '{"shell": "/bin/bash"}']),
        ({"model_api_key": "${K}"}, ["--model-api-key", "${K}"]),
        ({"model_api_key": "in-clear"}, []),
        ({"model_api_protocol": ["openai-completions", "openai-chat"]}, ["--model-api-protocol", "openai-completions", "--model-api-protocol", "openai-chat"]),
        ({"model_params": {"temperature": 0, "max_retries": 2, "timeout_seconds": 600}}, ["--model-params", '{"temperature": 0, "max_retries": 2}']),
        ({"model_params": {"user": "${K}"}}, ["--model-params", '{"user": "${K}"}']),
        ({"k": 4, "attempt_strategy": "pass", "min_coverage": 0.5}, ["--k", "4", "--attempt-strategy", "pass", "--min-coverage", "0.5"]),
        ({"retry_pattern_list": ["a b", "${K}"], "max_retries": 0}, ["--max-retries", "0", "--retry-pattern-list", '["a b", "${K}"]']),
        ({"enable_analysis": False, "keep_environment": True}, ["--keep-environment", "--no-enable-analysis"]),
        ({"analysis_params": {"latency": {}}}, ["--analysis-params", '{"latency": {}}']),
        ({"execution_params": {"run_timeout_seconds": 9}}, ["--execution-params", '{"run_timeout_seconds": 9.0}']),
        ({"provider_limits": {"host_process": 2}, "env_open_qps": {"host_process": 0.5}}, ["--provider-limit", "host_process=2", "--env-open-qps", "host_process=0.5"]),
        ({"task_concurrency": 4, "timeout_seconds": 60, "cleanup_grace_seconds": 1.5}, ["--task-concurrency", "4", "--cleanup-grace-seconds", "1.5", "--timeout-seconds", "60"]),
        ({"run_name": "nightly"}, ["--run-name", "nightly"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)  # fmt: skip
def test_what_was_set_is_said_as_it_was_given(tmp_path, given, words):
    harness = given.get("harness", "openai_chat")
    said = finishing(tmp_path, {"K": "value-of-k"}, **given)
    assert sorted(said) == sorted([BASE[0], harness, *BASE[2:], *words])


def test_paths_lead_to_the_same_place_from_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"benchmark": "jsonl", "benchmark_params": {"path": "q.jsonl"}, "data_dir": "mine"}
    said = finishing(tmp_path, **given)
    assert json.loads(said[said.index("--benchmark-params") + 1]) == {"path": f"{tmp_path}/q.jsonl"}
    assert said[said.index("--data-dir") + 1] == str(tmp_path / "mine")


def test_what_is_stored_has_references_in_the_place_of_values(tmp_path):
    orchestration = run(
        tmp_path,
        {"K": "value-of-k", "URL": "http://h/v1?key=in-url", "MY_TOKEN": "in-token"},
        harness=SECRETIVE,
        harness_params={"api_key": "${K}", "headers": {"a": "x ${K}", "b": "${MY_TOKEN}"}},
        environment_params={"env_variables": {"A": "${K}"}},
        model_base_url="${URL}",
        model_params={"user": "${K}", "tags": ["${K}", "b"]},
        retry_pattern_list=["${K}"],
        log_file="${K}.log",
    )
    stored = written_request(orchestration.requests[0], orchestration)
    text = json.dumps(stored)
    for value in ("value-of-k", "in-url", "in-token"):
        assert value not in text
    assert stored["model"]["base_url"] == "${URL}"
    assert stored["model"]["params"] == {"user": "${K}", "tags": ["${K}", "b"]}
    assert stored["harness"]["params"]["headers"] == {"a": "x ${K}", "b": "${MY_TOKEN}"}
    assert stored["execution"]["retry_pattern_list"] == ["${K}"]
    assert json.loads(text) == stored


def test_a_request_made_by_hand_is_stored_without_credentials(tmp_path):
    orchestration = run(tmp_path)
    request = orchestration.requests[0]
    url = "http://me:pass-word@h/v1?sig=abc123"
    by_hand = attrs.evolve(
        request, model=attrs.evolve(request.model, base_url=url, written=None, counted=None)
    )
    stored = written_request(by_hand, attrs.evolve(orchestration, written_runtime=None))
    assert stored["model"]["base_url"] == "http://[secret]@h/v1?sig=[secret]"
