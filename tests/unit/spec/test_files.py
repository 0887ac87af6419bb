"""Orchestration files as objects and back: nothing is lost, and messages still name the lines of the file."""

import json
import pickle
import string
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agentcompass
from agentcompass.errors import ConfigurationError
from agentcompass.secrets import Secret
from agentcompass.spec.files import as_yaml, load_orchestration_spec
from agentcompass.spec.resolved import ExecutionConfig
from agentcompass.spec.written import (
    MatrixSection,
    ModelSection,
    OrchestrationDefaults,
    OrchestrationSpec,
    RunRequestSpec,
)
from support.resolving import launch, problems_of

FILE = """\
name: 3.10
task_concurrency: null
x-shared: &h {id: tool_loop, max_turns: 7}
runtime: {results_dir: out}
defaults:
  harness: *h
  model: {id: m, base_url: "${URL:-http://127.0.0.1:9/v1}", api_key: "${KEY}", params: {stop: [no, 3.10]}}
requests:
- {name: no, benchmark: {id: humaneval}, execution: {k: 2}, weight: 2.5}
- {name: on, benchmark: {id: humaneval}, harness: {max_turns: null}, execution: ~}
"""
MATRIX = "matrix: {models: [a, {id: b}], harnesses: {x: nop}, benchmarks: [humaneval], exclude: [{model: a}]}\n"


def _loaded(text, tmp_path, name="spec.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return load_orchestration_spec(path)


def _again(spec, tmp_path):
    return _loaded(as_yaml(spec), tmp_path, "again.yaml")


# --- what is read


def test_sections_are_dicts_in_objects_as_the_file_says(tmp_path):
    spec = _loaded(FILE, tmp_path)
    assert spec == OrchestrationSpec(
        name="3.10",
        runtime={"results_dir": "out"},
        defaults=OrchestrationDefaults(
            harness={"id": "tool_loop", "max_turns": 7},
            model={
                "id": "m",
                "base_url": "${URL:-http://127.0.0.1:9/v1}",
                "api_key": "${KEY}",
                "params": {"stop": ["no", 3.1]},
            },
        ),
        requests=[
            RunRequestSpec(
                name="no", benchmark={"id": "humaneval"}, execution={"k": 2}, weight=2.5
            ),
            RunRequestSpec(name="on", benchmark={"id": "humaneval"}, harness={"max_turns": None}),
        ],
    )


def test_a_matrix_is_read_as_it_is_written(tmp_path):
    assert _loaded(MATRIX, tmp_path) == OrchestrationSpec(
        matrix=MatrixSection(
            models=["a", {"id": "b"}],
            harnesses={"x": "nop"},
            benchmarks=["humaneval"],
            exclude=[{"model": "a"}],
        )
    )


def test_json_is_read_alike(tmp_path):
    spec = {"name": "n", "requests": [{"name": "a", "benchmark": {"id": "humaneval"}}]}
    loaded = _loaded(json.dumps(spec), tmp_path, "spec.json")
    assert loaded == _loaded(json.dumps(spec), tmp_path)
    assert loaded.requests[0].benchmark == {"id": "humaneval"}


def test_it_is_a_public_name():
    assert agentcompass.load_orchestration_spec is load_orchestration_spec


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("requests: [{name: a}]\ntask_concurrency: 0\n", ":2:19: task_concurrency: must be at least 1, not 0"),
        ("requests: [{name: a, nope: 1}]\n", ":1:22: requests[0].nope: unknown key"),
        ("requests: [{name: a}, {name: a}]\n", ":1:30: requests[1].name: the name 'a' is taken"),
        ("matrix: {modles: [a]}\n", ":1:10: matrix.modles: unknown key (did you mean 'models'?)"),
        ("runtime: {progress: fancy}\nrequests: [{name: a}]\n", ":1:21: runtime.progress: must be one of"),
        ("requests: [{name: a}\n", "is not valid YAML"),
        ("- a\n", ":1:1: must be a mapping at the top, not a list"),
        ("", ": requests: is required"),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_told_with_its_line(tmp_path, text, problem):
    (tmp_path / "s.yaml").write_text(text)
    lines = problems_of(load_orchestration_spec, tmp_path / "s.yaml")
    assert lines[0].startswith(str(tmp_path / "s.yaml"))
    assert problem in "\n".join(lines)


def test_what_depends_on_references_is_left_to_the_launch(tmp_path):
    text = (
        "name: ${A}\ntask_concurrency: 2\nruntime: {progress: '${P}'}\n"
        "requests: [{name: '${B}'}, {name: '${C}'}, {name: '${B:-x}'}]\n"
        "matrix: {models: ['${M}', '${N:-x}'], harnesses: [nop], name: '${T}{model}', exclude: [{model: x}, {model: '${O}'}]}\n"
    )
    spec = _loaded(text, tmp_path)
    assert [request.name for request in spec.requests] == ["${B}", "${C}", "${B:-x}"]
    assert spec.runtime == {"progress": "${P}"}


@pytest.mark.parametrize("path", [None, 3, ["a.yaml"]])
def test_what_is_no_path_is_refused_as_one(path):
    with pytest.raises(ConfigurationError, match="a path is needed"):
        load_orchestration_spec(path)


def test_a_missing_file_is_told(tmp_path):
    (line,) = problems_of(load_orchestration_spec, str(tmp_path / "none.yaml"))
    assert line == f"{tmp_path}/none.yaml: there is no such file"


# --- what comes of it


def test_launched_as_an_object_it_is_what_the_file_is(tmp_path):
    environ = {"KEY": "key-123456"}
    (tmp_path / "agentcompass.yaml").write_text(
        "runtime: {task_concurrency: 3}\nexecution: {k: 4}\n"
    )
    spec = _loaded(FILE, tmp_path)
    resolved = launch(spec, tmp_path, environ)
    assert resolved == launch(Path("spec.yaml"), tmp_path, environ)
    assert resolved.runtime.task_concurrency == 32  # the file's null hides the configuration file
    assert [request.execution.k for request in resolved.requests] == [2, 1]
    assert launch(_again(spec, tmp_path), tmp_path, environ) == resolved


@pytest.mark.parametrize("field", ["label: 3.10", "label: 007", "label: 1e3"])
def test_text_that_looks_like_a_number_stays_as_it_was_typed(tmp_path, field):
    text = (
        "requests:\n- {name: a, benchmark: {id: humaneval}, model: {id: m, base_url: 'http://h/v1'},\n"
        f"   harness: {{id: 'support.configured:TurnLoop', {field}}}}}\n"
    )
    typed = field.removeprefix("label: ")
    for spec in (_loaded(text, tmp_path), _again(_loaded(text, tmp_path), tmp_path)):
        assert launch(spec, tmp_path).requests[0].harness.params.label == typed


def test_what_is_not_changed_is_told_with_its_line_and_what_is_changed_with_its_path(tmp_path):
    text = (
        "requests:\n- {name: a, benchmark: {id: humanevl}, harness: {id: nop}}\n"
        "- {name: b, benchmark: {id: humanevl}, harness: {id: nop}}\n"
    )
    spec = _loaded(text, tmp_path)
    second = attrs.evolve(spec.requests[1], harness={"id": "npo"})
    changed = attrs.evolve(spec, requests=[second], task_concurrency=0)
    lines = problems_of(launch, changed, tmp_path)
    file = tmp_path / "spec.yaml"
    for start in (
        f"{file}:3:29: requests[1].benchmark.id: unknown benchmark 'humanevl'",
        "OrchestrationSpec: requests[0].harness.id: unknown harness 'npo'",
        "OrchestrationSpec: task_concurrency: must be at least 1",
    ):
        assert any(line.startswith(start) for line in lines), (start, lines)


def test_a_null_of_the_file_ends_when_a_value_takes_its_place(tmp_path):
    spec = attrs.evolve(_loaded(FILE, tmp_path), task_concurrency=5)
    assert launch(spec, tmp_path, {"KEY": "k"}).runtime.task_concurrency == 5
    assert "task_concurrency: 5" in as_yaml(spec)


def test_a_list_that_became_shorter_is_taken_as_new(tmp_path):
    spec = _loaded(FILE, tmp_path)
    model = {**spec.defaults.model, "params": {"stop": ["a"]}}
    spec = attrs.evolve(spec, defaults=attrs.evolve(spec.defaults, model=model))
    resolved = launch(spec, tmp_path, {"KEY": "key-123456"})
    assert resolved.requests[0].model.params == {"stop": ["a"]}


def test_it_can_be_pickled_and_compared(tmp_path):
    spec = _loaded(FILE, tmp_path)
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert "_source" not in repr(spec)


@pytest.mark.parametrize("text", [FILE, MATRIX])
def test_taken_apart_by_attrs_and_put_together_it_is_what_it_was(tmp_path, text):
    spec = _loaded(text, tmp_path)
    again = OrchestrationSpec(**attrs.asdict(spec))
    assert _again(again, tmp_path) == _again(spec, tmp_path)
    if spec.requests:
        environ = {"KEY": "key-123456"}
        assert launch(again, tmp_path, environ) == launch(spec, tmp_path, environ)


# --- round trips

WORDS = st.text(
    string.ascii_letters + string.digits + " ._-/é\U0001f600\"'#:{}[]&*!|>%@`,?",
    min_size=1,
    max_size=9,
)
NAMES = WORDS.filter(lambda text: text.strip() and text.isprintable())
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(-1e300, 1e300) | st.text(max_size=9)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=6
)  # fmt: skip
FIELDS = st.dictionaries(
    WORDS.filter(lambda key: key not in {"id", "name", "params"}), VALUES, max_size=3
)
COMPONENTS = st.builds(lambda fields, name: {"id": name, **fields}, FIELDS, NAMES) | FIELDS
MODELS = st.fixed_dictionaries(
    {},
    optional={
        "id": NAMES,
        "base_url": WORDS,
        "api_key": st.just("${KEY}") | WORDS,
        "api_protocol": st.sampled_from(["auto", "openai-chat"]) | st.lists(st.just("auto")),
        "params": FIELDS,
    },
)
EXECUTION = st.fixed_dictionaries(
    {},
    optional={
        "k": st.integers(1, 10_000) | st.none(),
        "min_coverage": st.floats(0, 1),
        "retry_pattern_list": st.lists(WORDS, max_size=2),
        "keep_environment": st.booleans(),
        "analysis_params": st.dictionaries(WORDS, FIELDS, max_size=2),
    },
)
SECTIONS = {
    "benchmark": COMPONENTS,
    "harness": COMPONENTS,
    "environment": COMPONENTS,
    "model": MODELS,
    "execution": EXECUTION,
    "runtime": st.fixed_dictionaries({}, optional={"reuse": st.booleans(), "reuse_run_id": NAMES}),
    "output": st.fixed_dictionaries({}, optional={"run_name": NAMES, "run_id": NAMES}),
}
OPTIONAL = {key: st.none() | value for key, value in SECTIONS.items()}
WEIGHTS = st.none() | st.integers(1, 9) | st.floats(0.1, 9)
REQUESTS = st.lists(
    st.builds(RunRequestSpec, name=NAMES, weight=WEIGHTS, **OPTIONAL),
    min_size=1,
    max_size=3,
    unique_by=lambda request: request.name,
)
MATRICES = st.builds(
    MatrixSection,
    models=st.lists(NAMES, min_size=1, max_size=3, unique=True),
    harnesses=st.dictionaries(NAMES, NAMES | COMPONENTS, min_size=1, max_size=2),
    name=st.just("matrix {model} | {harness}"),
    weight=WEIGHTS,
    execution=st.none() | EXECUTION,
)
SPECS = st.builds(
    OrchestrationSpec,
    name=st.none() | NAMES,
    task_concurrency=st.none() | st.integers(1, 10**6),
    runtime=st.none()
    | st.fixed_dictionaries(
        {}, optional={"timeout_seconds": st.floats(0, 1e9), "provider_limits": st.dictionaries(NAMES, st.integers(0, 9))}
    ),
    defaults=st.none() | st.builds(OrchestrationDefaults, **OPTIONAL),
    requests=REQUESTS,
    matrix=st.none() | MATRICES,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(SPECS)
def test_a_specification_written_as_yaml_and_read_again_is_the_same(tmp_path_factory, spec):
    assert _again(spec, tmp_path_factory.getbasetemp()) == spec


def test_a_file_written_again_says_the_same(tmp_path):
    spec = _loaded(FILE + MATRIX, tmp_path)
    text = as_yaml(spec)
    assert "name: 3.10\n" in text
    assert "task_concurrency: null\n" in text
    assert as_yaml(_again(spec, tmp_path)) == text


def test_objects_are_written_as_a_file_would_have_them(tmp_path):
    spec = OrchestrationSpec(
        runtime={"results_dir": Path("out")},
        requests=(
            RunRequestSpec(
                name="a",
                execution=ExecutionConfig(retry_pattern_list=("x",)),
                model=ModelSection(
                    id="m", api_key=Secret("clear"), params={"headers": Secret("v", "${V}")}
                ),
            ),
        ),
    )
    (request,) = _again(spec, tmp_path).requests
    assert request.execution["retry_pattern_list"] == ["x"]
    assert request.model == {"id": "m", "api_key": "[secret]", "params": {"headers": "${V}"}}
    assert as_yaml(spec).startswith(
        "version: 1\nruntime:\n  results_dir: out\nrequests:\n  - name: a\n"
    )


def test_a_foreign_object_cannot_be_written():
    spec = OrchestrationSpec(requests=[RunRequestSpec(name="a", harness={"id": object()})])
    assert problems_of(as_yaml, spec) == [
        "OrchestrationSpec: requests[0].harness.id: must be a plain value, not an object of builtins.object"
    ]
