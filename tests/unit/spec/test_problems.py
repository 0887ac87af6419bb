"""Problems: collected once, rendered together."""

import pytest

from agentcompass.errors import ConfigurationError
from agentcompass.spec.problems import MAX_SHOWN, Problem, Problems, join_path


def test_a_problem_reads_place_path_sentence():
    problem = Problem(where="a.yaml:7:3", path="execution.max_retrys", sentence="unknown key")
    assert str(problem) == "a.yaml:7:3: execution.max_retrys: unknown key"


def test_an_argument_has_no_path():
    assert str(Problem(where="--k", path="", sentence="must be at least 1")) == (
        "--k: must be at least 1"
    )


def test_of_one_value_the_first_problem_is_told():
    problems = Problems()
    problems.add("f:1:1", "a", "first")
    problems.add("f:1:1", "a", "second")
    problems.add("--k", "", "third")
    problems.add("--k", "", "fourth")
    assert [problem.sentence for problem in problems] == ["first", "third", "fourth"]
    assert len(problems) == 3


def test_without_problems_nothing_is_raised():
    Problems().raise_if_any()


def test_one_error_has_all_problems_as_text_and_as_data():
    problems = Problems()
    problems.add("f:1:1", "a", "is wrong")
    problems.add("f:2:1", "b", "is wrong")
    with pytest.raises(ConfigurationError) as caught:
        problems.raise_if_any()
    assert str(caught.value) == "f:1:1: a: is wrong\nf:2:1: b: is wrong"
    assert caught.value.exit_code == 2
    assert [problem.path for problem in caught.value.problems] == ["a", "b"]


def test_a_thousand_problems_are_counted_but_not_all_shown():
    problems = Problems()
    for number in range(1000):
        problems.add("f", f"a[{number}]", "is wrong")
    with pytest.raises(ConfigurationError) as caught:
        problems.raise_if_any()
    assert len(str(caught.value).splitlines()) == MAX_SHOWN + 1
    assert str(caught.value).endswith(f"and {1000 - MAX_SHOWN} more problems")
    assert len(caught.value.problems) == 1000


@pytest.mark.parametrize(
    ("base", "key", "path"),
    [
        ("", "a", "a"),
        ("a", "b-c", "a.b-c"),
        ("a", 0, "a[0]"),
        ("a", "b.c", "a['b.c']"),
        ("a", "", "a['']"),
        ("", "ü", "ü"),
        ("a", "1", "a['1']"),
    ],
)
def test_paths_are_unambiguous(base, key, path):
    assert join_path(base, key) == path
