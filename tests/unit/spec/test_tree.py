"""Native objects as trees of values with origins."""

import enum
from pathlib import Path

import attrs
import pytest

from agentcompass.secrets import Secret
from agentcompass.spec.problems import Problems
from agentcompass.spec.tree import MAX_DEPTH, Origin, at, from_python, kind_of
from agentcompass.spec.written import OrchestrationDefaults, OrchestrationSpec, RunRequestSpec

ORIGIN = Origin(layer="argument", where="argument x")


def _tree(value):
    problems = Problems()
    return from_python(value, ORIGIN, problems), [str(problem) for problem in problems]


def test_every_item_knows_its_path():
    node, problems = _tree({"a": [{"b": 1}]})
    leaf, path = at(node, ("a", 0, "b"))
    assert (leaf.data, path, problems) == (1, "a[0].b", [])


def test_a_path_that_leads_nowhere_ends_at_the_last_value_there_is():
    node, _ = _tree({"a": {"b": 1}})
    leaf, path = at(node, ("a", "c", "d"))
    assert leaf is node.get("a")
    assert path == "a.c.d"


def test_section_objects_are_mappings_of_what_is_given():
    spec = OrchestrationSpec(
        name="n",
        defaults=OrchestrationDefaults(harness={"id": "h"}),
        requests=[RunRequestSpec(name="a")],
    )
    node, problems = _tree(spec)
    assert problems == []
    assert {key for key, _ in node.items()} == {"version", "name", "defaults", "requests"}
    assert at(node, ("requests", 0, "name"))[0].data == "a"
    assert [key for key, _ in node.get("defaults").items()] == ["harness"]


def test_paths_and_enum_members_become_plain_and_secrets_stay():
    class Colour(enum.Enum):
        RED = "red"

    secret = Secret("abcdef")
    node, problems = _tree({"p": Path("/x"), "c": Colour.RED, "s": secret})
    assert [node.get(key).data for key in "pcs"] == ["/x", "red", secret]
    assert problems == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"a": object()}, "a: must be a plain value, not an object of builtins.object"),
        ({"a": {1, 2}}, "a: must be a plain value, not an object of builtins.set"),
        ({"a": b"x"}, "a: must be a plain value, not an object of builtins.bytes"),
        ({1: "x"}, "keys must be non-empty strings, not 1"),
        ({"": "x"}, "keys must be non-empty strings"),
    ],
    ids=["object", "set", "bytes", "number as key", "empty key"],
)
def test_what_is_no_plain_data_is_a_problem(value, words):
    _, problems = _tree(value)
    assert len(problems) == 1
    assert words in problems[0]


def test_a_structure_inside_itself_ends():
    loop = {}
    loop["again"] = loop
    _, problems = _tree(loop)
    assert len(problems) == 1
    assert f"nested more than {MAX_DEPTH} levels" in problems[0]


def test_kinds_are_named_for_people():
    names = [kind_of(value) for value in (None, True, 1, 1.5, "x", [1], {}, Secret("x"))]
    assert names == [
        "null", "a boolean", "an integer", "a number", "a string", "a list", "a mapping", "a string",
    ]  # fmt: skip


def test_nodes_are_immutable():
    node, _ = _tree({"a": 1})
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        node.data = {}
