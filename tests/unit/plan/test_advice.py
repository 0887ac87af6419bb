"""What a person should know before an orchestration runs."""

from collections.abc import Mapping

import attrs
import pytest

from agentcompass.components.base import Benchmark
from agentcompass.plan.advice import Credential, advise
from agentcompass.records import Metric
from support.configured import SECRETIVE
from support.resolving import launch, run

JUDGED = f"{__name__}:Judged"
HEAD = """
defaults:
  benchmark: {id: humaneval}
  harness: {id: openai_chat}
  model: {id: m, base_url: 'http://127.0.0.1:9/v1', api_key: '${KEY:-}'}
"""


@attrs.frozen(kw_only=True)
class JudgedParams:
    judge_model: str = "another"
    judges: tuple[Mapping[str, str], ...] = ()
    label: str = "none"


class Judged(Benchmark[JudgedParams]):
    id = "judged"
    Params = JudgedParams
    metrics = (Metric(name="ok", primary=True),)

    async def load_tasks(self, context):
        raise AssertionError("nothing is loaded")

    async def prepare(self, task, session):
        raise AssertionError("nothing is run")

    async def evaluate(self, task, outcome, session):
        raise AssertionError("nothing is run")


def _advice(requests, tmp_path, environ=None, *, top="", **given):
    text = f"{top}{HEAD}requests: [{requests}]\n"
    return advise(launch(text, tmp_path, environ or {"KEY": "key-123456"}, **given))


def _cautions(requests, tmp_path, **options):
    found = _advice(requests, tmp_path, **options).cautions
    return [(caution.topic, caution.requests, caution.sentence) for caution in found]


def test_an_ordinary_orchestration_gives_no_caution(tmp_path):
    assert _cautions("{name: a}, {name: b, model: {id: n}}", tmp_path) == []


# --- the same evaluation twice


def test_requests_that_differ_in_name_and_limits_only_evaluate_the_same_thing(tmp_path):
    (found,) = _cautions(
        "{name: a}, {name: x, execution: {k: 2}}, {name: b, execution: {max_retries: 3}}, {name: c, weight: 2}",
        tmp_path,
    )
    assert found[:2] == ("same-evaluation", ("a", "b", "c"))


@pytest.mark.parametrize(
    "change",
    ["benchmark: {limit: 3}", "model: {params: {seed: 1}}", "harness: {system_prompt: x}", "execution: {k: 2}"],
)  # fmt: skip
def test_requests_that_differ_in_what_is_evaluated_are_fine(tmp_path, change):
    assert _cautions(f"{{name: a}}, {{name: b, {change}}}", tmp_path) == []


def test_requests_that_differ_in_a_secret_only_evaluate_the_same_thing(tmp_path):
    requests = "{name: a, model: {api_key: first-key}}, {name: b, model: {api_key: other-key}}"
    assert [found[0] for found in _cautions(requests, tmp_path)] == ["same-evaluation"]


# --- judges


@pytest.mark.parametrize(
    ("benchmark", "path"),
    [
        ("judge_model: m", "benchmark.judge_model"),
        ("judges: [{model: other}, {model: m}]", "benchmark.judges[1].model"),
    ],
)
def test_a_judge_that_is_the_evaluated_model_is_told(tmp_path, benchmark, path):
    requests = f"{{name: a, benchmark: {{id: '{JUDGED}', {benchmark}}}}}"
    assert _cautions(requests, tmp_path) == [
        ("own-judge", ("a",), f"{path} is 'm', the model that is evaluated: it judges itself")
    ]


def test_another_judge_and_other_fields_of_that_value_are_fine(tmp_path):
    assert _cautions(f"{{name: a, benchmark: {{id: '{JUDGED}', label: m}}}}", tmp_path) == []


# --- limits that limit nothing


@pytest.mark.parametrize(
    ("runtime", "sentences"),
    [
        ("{provider_limits: {host_process: 4}}", ["runtime.provider_limits.host_process limits nothing: it is 4, and task_concurrency is 4"]),
        ("{provider_limits: {host_process: 3}, env_open_qps: {host_process: 100}}", []),
        ("{provider_limits: {host_process: 0}}", []),
        ("{timeout_seconds: 0}", []),
    ],
)  # fmt: skip
def test_a_limit_that_can_never_bind_is_told(tmp_path, runtime, sentences):
    found = _cautions("{name: a}", tmp_path, top=f"task_concurrency: 4\nruntime: {runtime}\n")
    assert found == [("idle-limit", (), sentence) for sentence in sentences]


def test_a_limit_of_an_environment_nobody_uses_is_told(tmp_path):
    requests = "{name: a, environment: {id: 'agentcompass.components.environments.host_process:HostProcess'}}"
    top = "runtime: {env_open_qps: {host_process: 2}, provider_limits: {host_process: 2}}\n"
    assert [sentence for _, _, sentence in _cautions(requests, tmp_path, top=top)] == [
        "runtime.provider_limits.host_process limits nothing: no request uses this environment",
        "runtime.env_open_qps.host_process limits nothing: no request uses this environment",
    ]


def test_a_deadline_longer_than_the_whole_is_told_once_for_all_requests(tmp_path):
    found = _cautions(
        "{name: a, execution: {run_timeout_seconds: 90}}, {name: b, execution: {k: 2, run_timeout_seconds: 90}}, {name: c, model: {id: n}}",
        tmp_path,
        top="runtime: {timeout_seconds: 60}\n",
    )
    assert found == [
        ("idle-limit", ("a", "b"), "execution.run_timeout_seconds is 90, and the whole may take 60 seconds")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("request_text", "sentence"),
    [
        ("execution: {max_retries: 0, retry_pattern_list: [x]}", "execution.retry_pattern_list has no effect: max_retries is 0"),
        ("execution: {max_retries: 0, retry_min_delay_seconds: 1}", "execution.retry_min_delay_seconds has no effect: max_retries is 0"),
        ("execution: {attempt_strategy: pass}", "execution.attempt_strategy has no effect: k is 1"),
        ("execution: {enable_analysis: false, analysis_params: {latency: {}}}", "execution.analysis_params has no effect: enable_analysis is false"),
        ("runtime: {reuse: false, reuse_run_id: x}", "runtime.reuse_run_id has no effect: reuse is false"),
        ("weight: 2", "weight has no effect: there is no other request"),
    ],
)  # fmt: skip
def test_a_setting_that_has_no_effect_is_told(tmp_path, request_text, sentence):
    found = _cautions(f"{{name: a, {request_text}}}", tmp_path)
    assert found == [("idle-setting", ("a",), sentence)]


# --- credentials


@pytest.mark.parametrize(
    ("key", "environ", "reference", "is_present"),
    [
        ("${KEY:-}", {"KEY": "key-123456"}, "${KEY}", True),
        ("${KEY:-}", {"KEY": ""}, "${KEY}", False),
        ("${KEY:-}", {"X": ""}, "${KEY}", False),
        ("in-clear", {}, None, True),
        ("", {}, None, False),
    ],
)
def test_the_key_of_an_endpoint_is_named_by_its_reference_present_or_not(
    tmp_path, key, environ, reference, is_present
):
    found = advise(run(tmp_path, environ, model_api_key=key)).credentials
    (name,) = (credential.requests for credential in found)
    assert found == (
        Credential(path="model.api_key", reference=reference, is_present=is_present, requests=name),
    )


def test_an_endpoint_without_a_key_is_told_and_what_calls_no_endpoint_is_not(tmp_path):
    (missing,) = advise(run(tmp_path)).credentials
    assert (missing.path, missing.reference, missing.is_present) == ("model.api_key", None, False)
    assert advise(run(tmp_path, harness="nop")).credentials == ()
    local = dict(model="local/gemma-3-270m", model_base_url=None)
    assert advise(run(tmp_path, **local)).credentials == ()


def test_secrets_of_components_and_headers_are_credentials_too(tmp_path):
    resolved = run(
        tmp_path,
        {"K": "key-123456", "T": ""},
        harness=SECRETIVE,
        harness_params={
            "api_key": "${K}",
            "session_token": "${T}",
            "headers": {"Authorization": "Bearer ${K}", "Accept": "x"},
        },
        environment_params={"env_variables": {"SERVICE_TOKEN": "Token ${T}", "PLAIN": "1"}},
    )
    found = advise(resolved).credentials
    assert [(each.path, each.reference, each.is_present) for each in found] == [
        ("harness.api_key", "${K}", True),
        ("harness.session_token", "${T}", False),
        ("harness.headers.Authorization", "Bearer ${K}", True),
        ("environment.env_variables.SERVICE_TOKEN", "Token ${T}", False),
    ]


def test_a_secret_that_nobody_gives_is_none_that_is_missing(tmp_path):
    resolved = run(tmp_path, harness=SECRETIVE, harness_params={"api_key": "in-clear-1"})
    (found,) = advise(resolved).credentials
    assert (found.path, found.reference, found.is_present) == ("harness.api_key", None, True)


def test_secrets_in_parameters_of_the_model_are_credentials(tmp_path):
    params = {"extra_headers": {"X-Api-Key": "${K}"}, "passwords": ["${K}", "in-clear-1"]}
    found = advise(run(tmp_path, {"K": "key-123456"}, model_params=params)).credentials
    assert [(each.path, each.reference, each.is_present) for each in found] == [
        ("model.api_key", None, False),
        ("model.params.extra_headers.X-Api-Key", "${K}", True),
        ("model.params.passwords[0]", "${K}", True),
        ("model.params.passwords[1]", None, True),
    ]


def test_a_credential_of_several_requests_is_told_once_with_all_of_them(tmp_path):
    requests = "{name: a}, {name: b, model: {id: n}}, {name: c, harness: {id: nop}}"
    (found,) = _advice(requests, tmp_path).credentials
    assert found.requests == ("a", "b")


def test_advice_tells_no_secret_value(tmp_path):
    advice = _advice("{name: a}, {name: b, model: {api_key: other-key-1}}", tmp_path)
    assert "key-123456" not in repr(advice)
    assert "other-key-1" not in repr(advice)
