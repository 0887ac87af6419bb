"""What is written as YAML is read again exactly."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcompass.secrets import Secret
from agentcompass.spec.problems import Problems
from agentcompass.spec.tree import plain
from agentcompass.spec.yaml import load_text
from agentcompass.spec.yaml_writer import to_yaml

TEXT = st.text(max_size=12) | st.sampled_from(
    ["no", "Yes", "~", "null", "3.10", "0123", "1e3", "0x1F", ".inf", "=", "<<", "- a", "a: b", "a #b", "#", "&a", "*a",
     "!t", "%", "@", "`", "a:", "[", "{}", "|", ">", "---", "...", "\n", " a", "a ", "\t", "a\\b", '"', "'", "\ud800",
     "\x85", "\u2028", "\ufeff", "\x7f", "\x00", "\U0001f600", "\U0001d518\ud83d", "2024-01-01", "1_000", "1:30", "http://h:1/v1?a=b#c"]
)  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(TEXT.filter(bool), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=400, deadline=None)
@given(
    st.dictionaries(TEXT.filter(lambda key: key and not key.startswith("x-")), VALUES, min_size=1)
)
def test_any_json_value_is_read_again_as_it_was(value):
    problems = Problems()
    node = load_text(to_yaml(value), "f.yaml", "x", problems)
    assert [str(problem) for problem in problems] == []
    found = plain(node)
    assert repr(found) == repr(value)


def test_it_is_written_in_blocks_and_without_needless_quotes():
    value = {
        "a": {"b": [1, [2, 3], {"c": "some words", "d": []}], "e": {}},
        "f": None,
        "g": (True, -0.0),
    }
    assert to_yaml(value) == (
        "a:\n  b:\n    - 1\n    - - 2\n      - 3\n    - c: some words\n      d: []\n  e: {}\n"
        "f: null\ng:\n  - true\n  - -0.0\n"
    )


@pytest.mark.parametrize(
    "word", ["no", "ON", "y", "NULL", "~", "12", "1.5", "", "a: b", "${X}", "a\nb"]
)
def test_what_a_reader_could_take_for_something_else_is_quoted(word):
    assert to_yaml(word).startswith('"')


@pytest.mark.parametrize(
    "word", ["gpt-4o", "http://h:1/v1", "Answer briefly.", "a/b:c", "_x", "/bin/sh", "mail@host"]
)
def test_ordinary_words_are_not(word):
    assert to_yaml(word) == f"{word}\n"


def test_a_tree_keeps_numbers_as_they_were_typed():
    text = "a: 3.10\nb: 0x1F\nc: [1e3, 007]\n"
    node = load_text(text, "f", "x", Problems())
    assert to_yaml(node) == "a: 3.10\nb: 0x1F\nc:\n  - 1e3\n  - 007\n"


def test_a_secret_is_written_as_its_reference_or_masked():
    assert to_yaml([Secret("value", "${KEY}"), Secret("value")]) == '- "${KEY}"\n- "[secret]"\n'
