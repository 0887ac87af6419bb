"""`only`: a part of an orchestration runs, and what is wrong with the rest stops nobody."""

import pytest

from agentcompass.options import LaunchOptions
from agentcompass.plan.resolve import LaunchFlags, override_runtime
from support.resolving import launch, problems_of

FILE = """
defaults: {benchmark: {id: humaneval}, harness: {id: nop}}
requests:
- {name: small-a}
- {name: small-b}
- {name: large-a}
- {name: 'odd[1]'}
"""
BROKEN = (
    FILE
    + """- {name: broken, nope: 1, harness: {id: nothing}, execution: {k: 0}}
- {name: broken, model: {api_key: '${SURELY_UNSET}'}}
- {name: '${SURELY_UNSET}'}
- {harness: {id: nop}}
- text
"""
)


def _names(resolved):
    return [request.name for request in resolved.requests]


@pytest.mark.parametrize(
    ("only", "names"),
    [
        ("large-a", ["large-a"]),
        (["large-a", "small-a"], ["small-a", "large-a"]),
        (["*-a"], ["small-a", "large-a"]),
        (("small-?", "small-a"), ["small-a", "small-b"]),
        (["odd[1]"], ["odd[1]"]),
        (["*"], ["small-a", "small-b", "large-a", "odd[1]"]),
    ],
)
def test_names_and_patterns_choose_requests_in_the_order_of_the_file(tmp_path, only, names):
    assert _names(launch(FILE, tmp_path, only=only)) == names


def test_what_is_wrong_with_a_request_that_is_left_out_stops_nobody(tmp_path):
    assert _names(launch(BROKEN, tmp_path, only=["small-*"])) == ["small-a", "small-b"]


def test_what_is_wrong_with_a_request_that_is_asked_for_is_told(tmp_path):
    lines = problems_of(launch, BROKEN, tmp_path, only="broken")
    for words in (
        "requests[4].nope",
        "requests[4].execution.k",
        "requests[5].name: the name 'broken' is taken",
    ):
        assert any(words in line for line in lines), (words, lines)
    assert not any("requests[6]" in line or "requests[7]" in line for line in lines)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ("task_concurency: 3\n", "task_concurency: unknown key (did you mean 'task_concurrency'?)"),
        ("version: 2\n", "version: must be 1"),
        ("runtime: {progress: fancy}\n", "runtime.progress: must be one of"),
        ("matrix: {models: []}\n", "matrix.models: must be a list"),
    ],
)
def test_what_is_wrong_beside_the_requests_stops_all_of_them(tmp_path, wrong, problem):
    (line,) = problems_of(launch, wrong + BROKEN, tmp_path, only="small-a")
    assert problem in line


def test_what_is_wrong_with_the_defaults_stops_all_of_them(tmp_path):
    text = BROKEN.replace("{id: nop}}\nrequests", "{id: nop}, execution: {kk: 1}}\nrequests")
    (line,) = problems_of(launch, text, tmp_path, only="small-a")
    assert "defaults.execution.kk: unknown key" in line


@pytest.mark.parametrize(
    ("only", "problem"),
    [
        ("smal-a", "argument only: no request is called 'smal-a' (did you mean 'small-a'?)"),
        (["small-a", "tiny-*"], "argument only: no request is called 'tiny-*' (known: large-a, odd[1], small-a, small-b)"),
        ([], "argument only: must name at least one request"),
        (3, "argument only: must be a name or a list of names, not 3"),
        (["small-a", None], "argument only: must be a name or a list of names, not ['small-a', None]"),
    ],
)  # fmt: skip
def test_a_name_that_no_request_has_is_an_error_with_the_nearest_one(tmp_path, only, problem):
    assert problems_of(launch, FILE, tmp_path, only=only) == [problem]
    resolved = launch(FILE, tmp_path)
    options = LaunchOptions(only=only)
    assert problems_of(override_runtime, resolved, options, cwd=tmp_path, environ={}) == [problem]


def test_every_wrong_name_is_told_together_with_what_else_is_wrong(tmp_path):
    lines = problems_of(
        launch, "nmae: x\n" + FILE, tmp_path, only=["x*", "y*"], flags=LaunchFlags()
    )
    assert [line.split(": ")[0] for line in lines] == ["spec.yaml:1:1", "--only", "--only"]


def test_requests_of_a_matrix_can_be_chosen_by_the_names_they_get(tmp_path):
    text = "matrix: {harnesses: [nop, oracle], benchmarks: {code: humaneval, bad: unknown}}\n"
    assert _names(launch(text, tmp_path, only="code_*")) == ["code_nop", "code_oracle"]


def test_a_file_without_requests_is_told_as_without_only(tmp_path):
    assert "requests: is required" in problems_of(launch, "name: x\n", tmp_path, only="a")[0]
    (line,) = problems_of(launch, "requests: {a: 1}\n", tmp_path, only="a")
    assert "requests: must be a list" in line


def test_a_resolved_orchestration_can_be_run_in_part_too(tmp_path):
    resolved = launch(FILE, tmp_path)
    options = LaunchOptions(only="*-b", task_concurrency=2)
    part = override_runtime(resolved, options, cwd=tmp_path, environ={})
    assert (_names(part), part.runtime.task_concurrency) == (["small-b"], 2)
    assert len(resolved.requests) == 4
