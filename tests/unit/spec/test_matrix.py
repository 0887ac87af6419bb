"""`matrix`: a cross product of components becomes requests, and what is wrong with it is told where it stands."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcompass.plan.advice import advise
from agentcompass.spec.dump import resolved_as_dict
from agentcompass.spec.matrix import AXES, expand_matrix
from agentcompass.spec.problems import Problems
from agentcompass.spec.tree import Origin, from_python, plain
from agentcompass.spec.written import MatrixSection, OrchestrationDefaults, OrchestrationSpec
from support.resolving import launch, problems_of

COMPARISON = """
defaults:
  model: {base_url: "http://127.0.0.1:9/v1", api_key: "${API_KEY}"}
matrix:
  models: [small, medium, large]
  harnesses: [openai_chat, {id: tool_loop, max_turns: 30}]
  benchmarks: {code: humaneval, sums: {id: jsonl, path: sums.jsonl}, words: {id: jsonl, path: words.jsonl}, both: {id: jsonl, path: both.jsonl}}
  exclude:
    - {model: large, benchmark: [sums, words]}
"""
ENVIRON = {"API_KEY": "key-123456"}
HEAD = "defaults: {model: {id: m, base_url: 'http://127.0.0.1:9/v1'}}\n"
MINIMAL = "{harnesses: [openai_chat, nop], benchmarks: [humaneval]"


def _names(text, tmp_path, **options):
    return [request.name for request in launch(text, tmp_path, ENVIRON, **options).requests]


def _problem(text, tmp_path):
    lines = problems_of(launch, text, tmp_path, ENVIRON)
    assert len(lines) == 1, lines
    return lines[0].removeprefix("spec.yaml:")


def test_a_comparison_of_three_models_two_harnesses_and_four_benchmarks_is_ten_lines(tmp_path):
    assert len(COMPARISON.strip().splitlines()) <= 10
    resolved = launch(COMPARISON, tmp_path, ENVIRON)
    assert len(resolved.requests) == 3 * 2 * 4 - 4
    by_name = {request.name: request for request in resolved.requests}
    request = by_name["medium_sums_tool_loop"]
    assert (request.model.id, request.model.api_key.reveal()) == ("medium", "key-123456")
    assert (request.harness.id, request.harness.params.max_turns) == ("tool_loop", 30)
    assert (request.benchmark.id, request.benchmark.params.path.name) == ("jsonl", "sums.jsonl")


def test_combinations_come_in_the_order_of_writing_the_last_axis_varying_fastest(tmp_path):
    text = HEAD + "matrix: {benchmarks: [humaneval], harnesses: [nop, oracle], models: [a, b]}\n"
    assert _names(text, tmp_path) == [
        "a_humaneval_nop", "b_humaneval_nop", "a_humaneval_oracle", "b_humaneval_oracle",
    ]  # fmt: skip


LABELS = st.sampled_from(["a", "b", "c d", "e*", "{x}"])
LISTS = st.lists(LABELS, min_size=1, max_size=3, unique=True)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(list(AXES)), LISTS, min_size=1), st.data())
def test_every_combination_that_is_not_excluded_is_one_request(axes, data):
    kept = [dict(zip(axes, labels, strict=True)) for labels in itertools.product(*axes.values())]
    left_out = data.draw(st.lists(st.sampled_from(kept), max_size=len(kept) - 1, unique_by=repr))
    exclude = [
        {AXES[axis]: label for axis, label in each.items() if label != "e*"} for each in left_out
    ]
    exclude = [rule for rule in exclude if rule]
    for rule in exclude:
        kept = [
            each
            for each in kept
            if any(each[axis] != rule[key] for axis, key in AXES.items() if key in rule)
        ]
    name = " ".join(f"{{{AXES[axis]}}}" for axis in axes)
    problems = Problems()
    document = {"matrix": {**axes, "exclude": exclude, "name": name}}
    made = expand_matrix(from_python(document, Origin(layer="", where="x"), problems), problems)
    if not kept:
        assert [problem.sentence for problem in problems] == ["leaves nothing to run"]
        return
    assert [str(problem) for problem in problems] == []
    assert plain(made)["requests"] == [
        {
            "name": " ".join(each.values()),
            **{AXES[axis]: {"id": label} for axis, label in each.items()},
        }
        for each in kept
    ]


def test_requests_stand_beside_it_and_come_first(tmp_path):
    text = (
        HEAD
        + f"matrix: {MINIMAL}}}\nrequests: [{{name: own, harness: {{id: nop}}, benchmark: {{id: humaneval}}}}]\n"
    )
    assert _names(text, tmp_path) == ["own", "humaneval_openai_chat", "humaneval_nop"]
    assert _names(text.replace("requests: [", "requests: [] #"), tmp_path) == [
        "humaneval_openai_chat",
        "humaneval_nop",
    ]


def test_what_it_says_beside_its_axes_is_said_for_each_of_its_requests(tmp_path):
    text = (
        HEAD + f"matrix: {MINIMAL}, execution: {{k: 3}}, weight: 2, output: {{run_name: night}},\n"
        "  environment: {id: host_process, shell: /bin/bash}}\n"
    )
    for request in launch(text, tmp_path).requests:
        assert (request.execution.k, request.weight, request.run_name) == (3, 2.0, "night")
        assert request.environment.params.shell == "/bin/bash"


def test_a_section_of_an_axis_inherits_from_the_defaults_as_that_of_a_request_does(tmp_path):
    text = (
        "defaults: {harness: {id: tool_loop, max_turns: 7}, model: {id: m, base_url: 'http://h/v1', params: {seed: 1}}}\n"
        "matrix: {benchmarks: [humaneval], harnesses: {same: , longer: {max_turns: 9}, other: openai_chat},\n"
        "  models: {cold: {params: {temperature: 0}}}}\n"
    )
    same, longer, other = launch(text, tmp_path).requests
    assert (same.harness.params.max_turns, longer.harness.params.max_turns) == (7, 9)
    assert (other.harness.id, other.harness.written) == ("openai_chat", {"system_prompt": None})
    assert same.name == "cold_humaneval_same"
    assert (same.model.id, same.model.params) == ("m", {"seed": 1, "temperature": 0})


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("{model} in {harness}", "m in nop"),
        ("${STAGE}-{harness}", "night-nop"),
        ("{harness}{{x}}", "nop{x}"),
        ("{environment}-{harness}", "host_process-nop"),
    ],
)
def test_names_follow_the_template_what_is_not_varied_included(tmp_path, template, name):
    text = (
        HEAD.replace("{model:", "{environment: {id: host_process}, model:")
        + f'matrix: {{harnesses: [nop], benchmarks: [humaneval], name: "{template}"}}\n'
    )
    (request,) = launch(text, tmp_path, {"STAGE": "night"}).requests
    assert request.name == name


def test_labels_are_the_text_as_it_was_typed_and_references_the_values(tmp_path):
    text = (
        HEAD
        + "matrix: {models: [3.10, no, '${M}'], harnesses: [nop], benchmarks: [humaneval], exclude: [{model: large}]}\n"
    )
    resolved = launch(text, tmp_path, {"M": "large"})
    assert [request.model.id for request in resolved.requests] == ["3.10", "no"]


@pytest.mark.parametrize(
    ("exclude", "left"),
    [
        ("[{model: a}]", ["b-nop", "b-oracle"]),
        ("[{model: a, harness: nop}]", ["a-oracle", "b-nop", "b-oracle"]),
        ("[{model: a, harness: nop}, {model: b, harness: oracle}]", ["a-oracle", "b-nop"]),
        ("[{harness: 'o*'}]", ["a-nop", "b-nop"]),
        ("[{model: [a, b], harness: nop}]", ["a-oracle", "b-oracle"]),
        ("null", ["a-nop", "a-oracle", "b-nop", "b-oracle"]),
    ],
)
def test_excluded_combinations_are_left_out(tmp_path, exclude, left):
    text = (
        f"matrix: {{models: [a, b], harnesses: [nop, oracle], benchmark: {{id: humaneval}},\n"
        f"  name: '{{model}}-{{harness}}', exclude: {exclude}}}\n"
    )
    assert _names(text, tmp_path) == left


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("modles: [a]", "5:3: matrix.modles: unknown key (did you mean 'models'?)"),
        ("models: []", "5:11: matrix.models: must be a list of ids or of sections with an id, or a mapping from labels to such"),
        ("models: a", "5:11: matrix.models: must be a list of ids or of sections with an id, or a mapping from labels to such"),
        ("models: [{base_url: 'http://h'}]", "5:12: matrix.models[0].id: is required, or a label before the section"),
        ("models: [null]", "5:12: matrix.models[0]: is required, or a label before the section"),
        ("models: [a, a]", "5:15: matrix.models[1]: the label 'a' is taken (first at spec.yaml:5:12): write a mapping from labels to sections"),
        ("models: [[a]]", "5:12: matrix.models[0]: must be a string, not a list"),
        ("models: [{id: a, base: x}]", "5:20: matrix.models[0].base: unknown key (did you mean 'base_url'?)"),
        ("environments: [dokker]", "5:18: matrix.environments[0]: unknown environment 'dokker' (did you mean 'docker'?)"),
        ("harness: {id: nop}", "5:3: matrix.harness: stands beside `harnesses`: write one of both"),
        ("name: '{harnes}'", "5:9: matrix.name: nothing is called {harnes} here (did you mean 'harness'?)"),
        ("name: '{environment}'", "5:9: matrix.name: nothing is called {environment} here (known: benchmark, harness, model)"),
        ("name: '{harness'", "5:9: matrix.name: a single `{` means nothing: write it twice for the character"),
        ("name: [a]", "5:9: matrix.name: must be a string, not a list"),
        ("name: ''", "5:9: matrix.name: two combinations are called '': harness=openai_chat benchmark=humaneval, and harness=nop benchmark=humaneval"),
        ("exclude: nop", "5:12: matrix.exclude: must be a list of mappings, not a string"),
        ("exclude: [nop]", "5:13: matrix.exclude[0]: must be a mapping of harness, benchmark to labels"),
        ("exclude: [{}]", "5:13: matrix.exclude[0]: must be a mapping of harness, benchmark to labels"),
        ("exclude: [{model: m}]", "5:14: matrix.exclude[0].model: unknown key (known: benchmark, harness)"),
        ("exclude: [{harness: npo}]", "5:23: matrix.exclude[0].harness: there is no 'npo' in this matrix (did you mean 'nop'?)"),
        ("exclude: [{harness: [1.5]}]", "5:24: matrix.exclude[0].harness[0]: there is no '1.5' in this matrix (known: nop, openai_chat)"),
        ("exclude: [{harness: null}]", "5:23: matrix.exclude[0].harness: must be a string, not null"),
        ("exclude: [{benchmark: '*'}]", "5:12: matrix.exclude: leaves nothing to run"),
        ("execution: {kk: 3}", "5:15: matrix.execution.kk: unknown key (did you mean 'k'?)"),
        ('models: {"a\\nb": x}', r"5:12: matrix.models['a\nb']: the label 'a\nb' must be a non-empty line of printable text"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_it_is_told_at_its_place(tmp_path, line, problem):
    text = f"{HEAD}matrix:\n  harnesses: [openai_chat, nop]\n  benchmarks: [humaneval]\n  {line}\n"
    assert _problem(text, tmp_path) == problem


@pytest.mark.parametrize(
    ("matrix", "problem"),
    [
        ("{}", "2:9: matrix: needs one of models, harnesses, benchmarks, environments"),
        ("3", "2:9: matrix: must be a mapping, not an integer"),
        ("{model: {id: a}}", "2:9: matrix: needs one of models, harnesses, benchmarks, environments"),
        ("{harnesses: [nop]}", "2:9: matrix.benchmark: is required"),
        ("null", "1:1: requests: is required: a list with at least one request"),
    ],
)  # fmt: skip
def test_a_matrix_that_is_none_is_told(tmp_path, matrix, problem):
    assert _problem(f"{HEAD}matrix: {matrix}\n", tmp_path) == problem


def test_its_mistakes_and_those_of_its_sections_are_told_together(tmp_path):
    text = (
        f"{HEAD}matrix: {MINIMAL}, exclude: [{{harness: npo}}], name: '{{x}}', execution: {{k: 0}}}}\n"
        "requests: [{name: a, nope: 1}]\n"
    )
    lines = problems_of(launch, text, tmp_path)
    for words in ("there is no 'npo'", "{x}", "matrix.execution.k", "requests[0].nope"):
        assert sum(words in line for line in lines) == 1, (words, lines)


def test_a_name_that_a_request_has_already_is_refused_where_the_names_are_made(tmp_path):
    text = f"{HEAD}requests: [{{name: humaneval_nop, harness: {{id: nop}}, benchmark: {{id: humaneval}}}}]\nmatrix: {MINIMAL}}}\n"
    assert _problem(text, tmp_path) == (
        "3:9: matrix.name: the name 'humaneval_nop' is taken (first at spec.yaml:2:19)"
    )


def test_labels_that_give_one_name_are_told_with_both_combinations(tmp_path):
    text = "matrix: {models: [a_b, a], harnesses: {x: nop, b_x: nop}, benchmark: {id: humaneval}, name: '{model}_{harness}'}\n"
    line = _problem(text, tmp_path)
    assert (
        "two combinations are called 'a_b_x': model=a_b harness=x, and model=a harness=b_x" in line
    )


def test_millions_of_combinations_are_refused_at_once(tmp_path):
    axis = ", ".join(f"m{n}" for n in range(300))
    text = f"matrix: {{models: [{axis}], harnesses: {{{', '.join(f'h{n}: nop' for n in range(300))}}}, benchmarks: [humaneval]}}\n"
    assert "makes 90,000 requests, and more than 10,000 are not accepted" in _problem(
        text, tmp_path
    )


def test_an_unset_variable_in_an_axis_is_told_as_such(tmp_path):
    text = f"{HEAD}matrix: {MINIMAL}, models: ['${{SURELY_UNSET}}']}}\n"
    assert _problem(text, tmp_path).endswith("the environment variable 'SURELY_UNSET' is not set")


def test_no_requests_list_is_needed_but_a_wrong_one_is_told(tmp_path):
    assert _problem(f"{HEAD}matrix: {MINIMAL}}}\nrequests: {{a: 1}}\n", tmp_path).endswith(
        "requests: must be a list of requests, not a mapping"
    )


def test_what_it_resolves_to_is_an_orchestration_without_a_matrix(tmp_path):
    plain = resolved_as_dict(launch(COMPARISON, tmp_path, ENVIRON))
    assert "matrix" not in plain
    assert len(plain["requests"]) == 20


def test_objects_and_dicts_are_matrices_too(tmp_path):
    given = dict(models=["a", "b"], harness={"id": "nop"}, benchmarks={"x": "humaneval"})
    defaults = OrchestrationDefaults(model={"base_url": "http://127.0.0.1:9/v1"})
    spec = OrchestrationSpec(defaults=defaults, matrix=MatrixSection(**given))
    resolved = launch(spec, tmp_path)
    assert [request.name for request in resolved.requests] == ["a_x", "b_x"]
    assert launch(OrchestrationSpec(defaults=defaults, matrix=given), tmp_path) == resolved


def test_two_labels_of_one_thing_are_an_evaluation_made_twice(tmp_path):
    text = "matrix: {harnesses: {one: nop, two: nop}, benchmarks: [humaneval]}\n"
    (caution,) = advise(launch(text, tmp_path)).cautions
    assert (caution.topic, caution.requests) == (
        "same-evaluation",
        ("humaneval_one", "humaneval_two"),
    )


@pytest.mark.parametrize(
    ("label", "problem"),
    [
        ('"${K:-k}"', "'${K:-k}' must not have references"),
        (r'"a\nb"', r"'a\nb' must be a non-empty line of printable text"),
        ('" "', "' ' must be a non-empty line of printable text"),
    ],
)
def test_a_label_that_cannot_be_in_a_name_is_told_where_it_stands(tmp_path, label, problem):
    text = f"{HEAD}matrix:\n  benchmarks: [humaneval]\n  harnesses:\n    good: nop\n    {label}: oracle\n"
    place, _, sentence = _problem(text, tmp_path).partition(": ")
    assert place == "6:5"
    assert f"the label {problem}" in sentence


def test_an_id_of_a_list_may_be_a_reference_and_is_then_the_label(tmp_path):
    text = f'{HEAD}matrix: {{models: ["${{K:-k}}"], harnesses: [nop], benchmarks: [humaneval]}}\n'
    assert _names(text, tmp_path) == ["k_humaneval_nop"]
