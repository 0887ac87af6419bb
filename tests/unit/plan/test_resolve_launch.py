"""Orchestrations: inheritance, objects instead of files, what the command line adds, and bad days."""

import json
from pathlib import Path

import pytest

from agentcompass import errors
from agentcompass.options import LaunchOptions
from agentcompass.plan.resolve import LaunchFlags
from agentcompass.secrets import Secret
from agentcompass.spec.dump import resolved_as_dict
from agentcompass.spec.resolved import ExecutionConfig
from agentcompass.spec.written import (
    ModelSection,
    OrchestrationDefaults,
    OrchestrationSpec,
    OutputSection,
    ReuseSection,
    RunRequestSpec,
)
from support.configured import HARNESS
from support.resolving import launch, problems_of

DEFAULTS = """
defaults:
  benchmark: {id: humaneval}
  harness: {id: openai_chat}
  model: {id: m, base_url: 'http://127.0.0.1:9/v1', api_key: key123, params: {temperature: 0, top_p: 1}}
"""


def _spec(**fields):
    return OrchestrationSpec(
        defaults=OrchestrationDefaults(
            benchmark={"id": "humaneval"},
            harness={"id": "openai_chat"},
            model=ModelSection(id="m", base_url="http://127.0.0.1:9/v1", api_key=Secret("key123")),
        ),
        **fields,
    )


def test_section_objects_and_dicts_are_the_same(tmp_path):
    objects = _spec(
        name="n",
        task_concurrency=3,
        requests=[
            RunRequestSpec(
                name="a",
                weight=2,
                execution=ExecutionConfig(k=2),
                runtime=ReuseSection(reuse=True),
                output=OutputSection(run_name="f"),
            ),
        ],
    )
    dicts = _spec(
        name="n",
        task_concurrency=3,
        requests=[
            {
                "name": "a",
                "weight": 2.0,
                "execution": {"k": 2},
                "runtime": {"reuse": True},
                "output": {"run_name": "f"},
            },
        ],
    )
    first = launch(objects, tmp_path)
    assert first == launch(dicts, tmp_path)
    (request,) = first.requests
    assert (first.name, first.runtime.task_concurrency) == ("n", 3)
    assert (request.weight, request.execution.k, request.reuse, request.run_name) == (
        2.0,
        2,
        True,
        "f",
    )
    assert request.model.api_key.reveal() == "key123"


def test_wrong_objects_are_told_with_their_path(tmp_path):
    spec = _spec(
        version=2,
        runtime={"results_dirr": "x"},
        requests=[
            RunRequestSpec(name="a", benchmark={"id": "humaneval", "limit": 0}),
            RunRequestSpec(name="a", execution={"k": object()}),
            {"harness": {"id": "nope"}},
            "text",
        ],
    )
    assert problems_of(launch, spec, tmp_path)[0].startswith(
        "OrchestrationSpec: requests[1].execution.k: must be a plain value"
    )
    lines = problems_of(launch, spec, tmp_path)
    for words in (
        "OrchestrationSpec: version: must be 1",
        "OrchestrationSpec: runtime.results_dirr: unknown key (did you mean 'results_dir'?)",
        "OrchestrationSpec: requests[0].benchmark.limit: must be at least 1, not 0",
        "OrchestrationSpec: requests[1].name: the name 'a' is taken (first at requests[0].name)",
        "OrchestrationSpec: requests[2].name: is required",
        "OrchestrationSpec: requests[2].harness.id: unknown harness 'nope'",
        "OrchestrationSpec: requests[3]: must be a mapping, not a string",
    ):
        assert any(line.startswith(words) for line in lines), (words, lines)


def test_a_request_merges_deeply_over_the_defaults(tmp_path):
    resolved = launch(
        DEFAULTS + "  execution: {k: 2, max_retries: 4}\n"
        "requests:\n- {name: a}\n- {name: b, model: {id: other, params: {top_p: null, seed: 1}}, execution: {k: 3}}\n",
        tmp_path,
    )
    a, b = resolved.requests
    assert (a.model.id, a.model.params) == ("m", {"temperature": 0, "top_p": 1})
    assert (b.model.id, b.model.base_url) == ("other", a.model.base_url)
    assert b.model.params == {"temperature": 0, "seed": 1}
    assert (b.execution.k, b.execution.max_retries) == (3, 4)


def test_layers_go_from_config_file_over_defaults_and_request_to_arguments(tmp_path):
    (tmp_path / "agentcompass.yaml").write_text(
        "execution: {k: 2, max_retries: 2, min_coverage: 0.2}\nruntime: {task_concurrency: 2, log_level: ERROR, progress: none}\n"
        "benchmarks: {humaneval: {limit: 2, timeout_seconds: 2}}\n"
    )
    text = (
        "task_concurrency: 3\nruntime: {log_level: WARNING}\n"
        + DEFAULTS
        + "  execution: {max_retries: 3, min_coverage: 0.3}\n"
        "requests:\n- {name: a, execution: {min_coverage: 0.4}, benchmark: {limit: 4}}\n"
    )
    resolved = launch(text, tmp_path, task_concurrency=5)
    execution, benchmark = resolved.requests[0].execution, resolved.requests[0].benchmark.params
    assert (execution.k, execution.max_retries, execution.min_coverage) == (2, 3, 0.4)
    assert (benchmark.limit, benchmark.timeout_seconds) == (4, 2.0)
    runtime = resolved.runtime
    assert (runtime.task_concurrency, runtime.log_level, runtime.progress) == (5, "WARNING", "none")
    assert launch(text, tmp_path).runtime.task_concurrency == 3


def test_config_files_speak_to_the_component_that_runs_whoever_names_it(tmp_path):
    (tmp_path / "agentcompass.yaml").write_text(
        f"harnesses: {{openai_chat: {{system_prompt: Brief.}}, '{HARNESS}': {{max_turns: 4}}}}\n"
    )
    text = DEFAULTS + f"requests: [{{name: a}}, {{name: b, harness: {{id: '{HARNESS}'}}}}]\n"
    a, b = launch(text, tmp_path).requests
    assert (a.harness.params.system_prompt, b.harness.params.max_turns) == ("Brief.", 4)


def test_lists_and_scalars_of_a_request_replace_those_of_the_defaults(tmp_path):
    text = (
        f"{DEFAULTS}  execution: {{retry_pattern_list: [a, b], analysis_params: {{token_use: {{enabled: false}}}}}}\n"
        "requests: [{name: a, execution: {retry_pattern_list: [c], analysis_params: {latency: {}}}}]\n"
    )
    execution = launch(text, tmp_path).requests[0].execution
    assert execution.retry_pattern_list == ("c",)
    assert set(execution.analysis_params) == {"token_use", "latency"}


def test_the_version_is_1_if_nobody_says_so(tmp_path):
    text = DEFAULTS + "requests: [{name: a}]\n"
    for version in ("", "version: 1\n", "version: ~\n"):
        assert launch(version + text, tmp_path).requests[0].name == "a"


def test_a_reference_may_stand_anywhere_in_a_text_and_stays_one_in_what_is_written(tmp_path):
    text = (
        DEFAULTS.replace("127.0.0.1:9", "${HOST}:${PORT:-9}") + "requests: [{name: 'at-${HOST}'}]\n"
    )
    resolved = launch(text, tmp_path, {"HOST": "localhost"})
    (request,) = resolved.requests
    assert (request.name, request.model.base_url) == ("at-localhost", "http://localhost:9/v1")
    assert (
        resolved_as_dict(resolved)["requests"][0]["model"]["base_url"]
        == "http://${HOST}:${PORT:-9}/v1"
    )


def test_an_unset_variable_is_told_with_its_name_its_line_and_its_path_if_it_is_used(tmp_path):
    text = DEFAULTS.replace("key123", "'${SURELY_UNSET}'")
    assert problems_of(launch, f"{text}requests: [{{name: a}}]\n", tmp_path) == [
        "spec.yaml:5:62: defaults.model.api_key: the environment variable 'SURELY_UNSET' is not set"
    ]
    other = "requests: [{name: a, model: {api_key: own}}]\n"
    assert launch(text + other, tmp_path).requests[0].model.api_key.reveal() == "own"


def test_a_null_takes_a_config_file_s_value_away_too(tmp_path):
    (tmp_path / "agentcompass.yaml").write_text(
        "execution: {k: 2}\nruntime: {task_concurrency: 2}\n"
    )
    text = f"task_concurrency: null\n{DEFAULTS}  execution: {{k: ~}}\nrequests: [{{name: a}}]\n"
    resolved = launch(text, tmp_path)
    assert (resolved.requests[0].execution.k, resolved.runtime.task_concurrency) == (1, 32)


def test_a_null_section_forgets_what_was_inherited(tmp_path):
    lines = problems_of(launch, f"{DEFAULTS}requests: [{{name: a, harness: null}}]\n", tmp_path)
    assert lines == ["spec.yaml:6:31: requests[0].harness: is required"]


def test_the_command_line_s_run_id_is_that_of_every_request(tmp_path):
    text = DEFAULTS + "requests: [{name: a, output: {run_id: x, run_name: f}}, {name: b}]\n"
    resolved = launch(text, tmp_path, flags=LaunchFlags(run_id="mine"))
    assert [r.run_id for r in resolved.requests] == ["mine", "mine"]
    assert resolved.requests[0].run_name == "f"
    lines = problems_of(launch, text, tmp_path, flags=LaunchFlags(run_id="../x"))
    assert set(lines) == {lines[0]}
    assert lines[0].startswith("--run-id: must be usable as the name of one folder")


def test_the_command_line_s_reuse_is_a_default_that_a_request_may_override(tmp_path):
    text = DEFAULTS + "requests: [{name: a}, {name: b, runtime: {reuse: false}}]\n"
    resolved = launch(text, tmp_path, flags=LaunchFlags(reuse=True))
    assert [r.reuse for r in resolved.requests] == [True, False]


def test_the_command_line_s_additions_hide_no_mistake_of_the_file(tmp_path):
    text = "defaults: {}\nrequests: [{nmae: a}]\n"
    flags = LaunchFlags(run_id="x", reuse=True)
    lines = problems_of(launch, text, tmp_path, flags=flags)
    assert lines[0].startswith("spec.yaml:2:13: requests[0].nmae: unknown key")
    assert "spec.yaml:2:12: requests[0].name: is required" in lines


def test_flags_are_named_in_messages(tmp_path):
    text = DEFAULTS + "requests: [{name: a}]\n"
    lines = problems_of(launch, text, tmp_path, flags=LaunchFlags(), task_concurrency=0)
    assert lines == ["--task-concurrency: must be at least 1, not 0"]


def test_fractional_time_limits_are_fine_here(tmp_path):
    resolved = launch(DEFAULTS + "requests: [{name: a}]\n", tmp_path, timeout_seconds=0.5)
    assert resolved.runtime.timeout_seconds == 0.5


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("runtime: {task_concurrency: 3}\n", "runtime.task_concurrency: belongs to the top level"),
        ("x: 1\n", "x: unknown key"),
        ("runtime: 3\n", "runtime: must be a mapping, not an integer"),
    ],
)
def test_misplaced_and_unknown_keys_at_the_top(tmp_path, text, problem):
    lines = problems_of(launch, f"{text}{DEFAULTS}requests: [{{name: a}}]\n", tmp_path)
    assert len(lines) == 1, lines
    assert problem in lines[0]


@pytest.mark.parametrize(
    ("request_text", "problem"),
    [
        ("runtime: {results_dir: x}", "requests[0].runtime.results_dir: concerns all requests: write it under the top-level"),
        ("runtime: {task_concurrency: 3}", "requests[0].runtime.task_concurrency: belongs to the top level"),
        ("benchmark: humaneval", "requests[0].benchmark: must be a mapping with an `id`, not a string"),
        ("model: {temperature: 0}", "requests[0].model.temperature: unknown key (known: api_key, api_protocol, base_url, id, params)"),
        ("model: {params: 3}", "requests[0].model.params: must be a mapping, not an integer: 3"),
        ("weight: 0", "requests[0].weight: must be above 0, not 0"),
        ("weight: true", "requests[0].weight: must be a number, not a boolean: true"),
        ("output: {run_id: ''}", "requests[0].output.run_id: must be usable as the name of one folder"),
        ("execution: {retry_max_delay_seconds: 1}", "requests[0].execution.retry_max_delay_seconds: the shortest retry delay, 5 seconds, is longer than the longest, 1"),
        ("execution: {retry_min_delay_seconds: 70}", "requests[0].execution.retry_min_delay_seconds: the shortest retry delay, 70 seconds"),
        ("execution: [1]", "requests[0].execution: must be a mapping, not a list"),
    ],
)  # fmt: skip
def test_misplaced_and_wrong_keys_of_requests(tmp_path, request_text, problem):
    lines = problems_of(launch, f"{DEFAULTS}requests: [{{name: a, {request_text}}}]\n", tmp_path)
    assert len(lines) == 1, lines
    assert problem in lines[0]


@pytest.mark.parametrize("name", ["''", "' '", '"a\\nb"', "[a]", "{a: 1}"])
def test_a_name_is_a_line_of_text(tmp_path, name):
    (line,) = problems_of(launch, f"{DEFAULTS}requests: [{{name: {name}}}]\n", tmp_path)
    assert "requests[0].name" in line


def test_a_component_without_an_id_is_told_where_its_section_stands(tmp_path):
    text = "requests: [{name: a, benchmark: {id: humaneval}, harness: {max_turns: 3}}]\n"
    assert problems_of(launch, text, tmp_path) == [
        "spec.yaml:1:59: requests[0].harness.id: is required"
    ]


def test_null_defaults_are_none(tmp_path):
    text = "defaults:\nrequests: [{name: a, benchmark: {id: humaneval}, harness: {id: nop}}]\n"
    assert launch(text, tmp_path).requests[0].harness.id == "nop"


@pytest.mark.parametrize("text", ["name: x\n", "requests: {a: 1}\n"])
def test_a_run_id_for_requests_that_there_are_not_changes_no_message(tmp_path, text):
    without = problems_of(launch, text, tmp_path, flags=LaunchFlags())
    assert problems_of(launch, text, tmp_path, flags=LaunchFlags(run_id="x")) == without


def test_a_bad_default_is_told_once_and_where_it_stands(tmp_path):
    text = DEFAULTS.replace("id: humaneval", "id: humaneval, limt: 3")
    lines = problems_of(launch, f"{text}requests: [{{name: a}}, {{name: b}}]\n", tmp_path)
    assert lines == ["spec.yaml:3:30: defaults.benchmark.limt: unknown key (did you mean 'limit'?)"]


def test_a_value_that_every_request_overrides_must_still_be_right(tmp_path):
    text = f"{DEFAULTS}  execution: {{k: many}}\nrequests: [{{name: a, execution: {{k: 1}}}}]\n"
    (line,) = problems_of(launch, text, tmp_path)
    assert "defaults.execution.k: must be an integer" in line


def test_fields_written_for_one_component_do_not_reach_another(tmp_path):
    text = DEFAULTS + f"requests: [{{name: a, harness: {{id: '{HARNESS}', label: no}}}}]\n"
    request = launch(text, tmp_path).requests[0]
    assert request.harness.params.label == "no"


def test_a_config_file_and_the_orchestration_tell_their_mistakes_together(tmp_path):
    (tmp_path / "c.yaml").write_text("execution: {k: 0}\n")
    text = f"version: 2\n{DEFAULTS}requests: [{{name: a}}]\n"
    lines = problems_of(launch, text, tmp_path, config_path="c.yaml")
    assert [line.split(":")[0] for line in lines] == ["c.yaml", "spec.yaml"]


def test_a_json_file_is_an_orchestration_too(tmp_path):
    spec = {
        "requests": [
            {
                "name": "a",
                "benchmark": {"id": "humaneval"},
                "harness": {"id": "nop"},
            }
        ]
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec, indent="\t"))
    resolved = launch(Path("spec.json"), tmp_path)
    assert resolved.requests[0].model.id == "none"


def test_a_missing_model_is_missed_if_the_harness_calls_one(tmp_path):
    text = "requests: [{name: a, benchmark: {id: humaneval}, harness: {id: openai_chat}}]\n"
    assert problems_of(launch, text, tmp_path) == [
        "spec.yaml:1:12: requests[0].model: is required: the harness calls a model"
    ]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff\xfe", "is not UTF-8"),
        (b"a: " + b"x" * 3_000_000, "is larger than 1 MiB"),
        (b"name: \0\n", "is not valid YAML"),
        (b"requests: &r [{name: a, benchmark: *r}]\n", "leads back into itself"),
        (b"requests: " + b"[" * 1000, "levels deep"),
        (b"requests: [{name: a, benchmark: {id: \"a\\0b\"}}]\n", "must not contain a NUL"),
        (b"name: ${SELF}\nrequests: [{name: a, harness: {id: nop}, benchmark: {id: '${SELF}'}}]\n", "unknown benchmark '${SELF}'"),
    ],
    ids=["encoding", "size", "nul byte", "circle", "depth", "nul escape", "reference to itself"],
)  # fmt: skip
def test_files_of_a_bad_day_are_errors_in_a_line(tmp_path, data, words):
    (tmp_path / "s.yaml").write_bytes(data)
    lines = problems_of(launch, Path("s.yaml"), tmp_path, {"SELF": "${SELF}"})
    assert any(words in line for line in lines), lines
    assert all(line.startswith("s.yaml") for line in lines)
    assert len("\n".join(lines)) < 2000


def test_a_missing_file_and_a_directory_are_errors(tmp_path):
    assert problems_of(launch, Path("none.yaml"), tmp_path) == ["none.yaml: there is no such file"]
    assert problems_of(launch, tmp_path, tmp_path) == [".: is a directory, not a file"]


def test_hundreds_of_wrong_requests_are_told_in_few_lines(tmp_path):
    spec = _spec(requests=[{"name": f"r{n}", "nope": 1} for n in range(500)])
    lines = problems_of(launch, spec, tmp_path)
    assert len(lines) == 51
    assert lines[-1] == "... and 450 more problems"


def test_launch_options_hold_no_request_settings(tmp_path):
    with pytest.raises(TypeError):
        LaunchOptions(k=3)
    assert issubclass(errors.ConfigurationError, ValueError)
