"""Strict structuring: no coercion, every problem at once, each with its exact place."""

import enum
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest

from agentcompass.secrets import Secret
from agentcompass.spec.codec import (
    as_json,
    check_fields,
    structure,
    structure_settings,
    structure_value,
)
from agentcompass.spec.problems import Problems
from agentcompass.spec.ranges import Fraction, NonNegativeFloat, PositiveFloat, PositiveInt
from agentcompass.spec.references import References
from agentcompass.spec.tree import Origin, from_python
from agentcompass.spec.yaml import load_text
from support.configured import BrokenParams


class Colour(enum.Enum):
    RED = "red"
    TWO = 2


@attrs.frozen(kw_only=True)
class Inner:
    name: str
    count: PositiveInt = 1


@attrs.frozen(kw_only=True)
class Everything:
    integer: int = 0
    number: float = 0.0
    text: str = ""
    flag: bool = False
    names: tuple[str, ...] = ()
    counts: list[int] = attrs.field(factory=list)
    tags: frozenset[str] = frozenset()
    limits: Mapping[str, NonNegativeFloat] = attrs.field(factory=dict)
    free: Mapping[str, Any] = attrs.field(factory=dict)
    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()
    protocol: str | tuple[str, ...] | None = None
    maybe: PositiveInt | None = None
    word: Literal["auto", "plain"] = "auto"
    colour: Colour = Colour.RED
    path: Path | None = None
    pair: tuple[float, float] = (0.0, 0.0)
    either: int | float = 0
    key: Secret | None = None
    even: int = attrs.field(default=2, validator=attrs.validators.in_([2, 4]))
    least: int = attrs.field(default=2, validator=attrs.validators.ge(2))
    part: Fraction = 1.0
    factor: PositiveFloat = 1.0
    shade: Literal["dark", "light"] | str = "dark"  # noqa: PYI051  # the literal is tried first
    kinds: AbstractSet[str] = frozenset()
    several: tuple[int | str, ...] = ()
    gaps: tuple[int | None, ...] = ()


def _read(text, environ=None):
    problems = Problems()
    node = load_text(text, "f.yaml", "config file", problems)
    return References(environ or {}).follow(node), problems


def _structure(text, cls=Everything, environ=None):
    node, problems = _read(text, environ)
    return structure(node, cls, problems), [str(problem) for problem in problems]


def _problem(text, **options):
    value, problems = _structure(text, **options)
    assert value is None
    assert len(problems) == 1, problems
    return problems[0].removeprefix("f.yaml:")


def test_good_values_of_all_types_are_read():
    value, problems = _structure(
        "integer: 3\nnumber: 2\ntext: 3.10\nflag: true\nnames: [no, 0123]\ncounts: [1]\ntags: [b, a, a]\n"
        "limits: {docker: 2}\nfree: {a: [1, {b: null}, no]}\ninner: {name: on}\ninners: [{name: x, count: 2}]\n"
        "shade: pale\nkinds: [b]\nseveral: [1, a]\ngaps: [1, null]\nprotocol: [a]\nmaybe: 4\nword: plain\ncolour: 2\npath: a/b\npair: [1, 2.5]\neither: 1.5\nkey: s3cret\n"
    )
    assert problems == []
    assert value == Everything(
        integer=3, number=2.0, text="3.10", flag=True, names=("no", "0123"), counts=[1],
        tags=frozenset("ab"), limits={"docker": 2.0}, free={"a": [1, {"b": None}, "no"]},
        inner=Inner(name="on"), inners=(Inner(name="x", count=2),), protocol=("a",), maybe=4,
        shade="pale", kinds=frozenset("b"), several=(1, "a"), gaps=(1, None), word="plain", colour=Colour.TWO, path=Path("a/b"), pair=(1.0, 2.5), either=1.5, key=Secret("s3cret"),
    )  # fmt: skip
    assert type(value.number) is float


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("integer: 2.9", "1:10: integer: must be an integer, not a number: 2.9"),
        ("integer: 2.0", "1:10: integer: must be an integer, not a number: 2.0"),
        ("integer: true", "1:10: integer: must be an integer, not a boolean: true"),
        ("integer: '3'", "1:10: integer: must be an integer, not a string: '3'"),
        ("number: true", "1:9: number: must be a number, not a boolean: true"),
        ("number: .nan", "1:9: number: must be a finite number, not nan"),
        ("number: -.inf", "1:9: number: must be a finite number, not -inf"),
        ("number: 1" + "0" * 400, "1:9: number: is too large a number"),
        ("text: [a]", "1:7: text: must be a string, not a list"),
        ('text: "a\\0b"', "1:7: text: must not contain a NUL character"),
        ("flag: yes", "1:7: flag: must be true or false, not a string: 'yes' (write true or false)"),
        ("flag: 1", "1:7: flag: must be true or false, not an integer: 1"),
        ("names: abc", "1:8: names: must be a list, not a string: 'abc'"),
        ("names: {a: 1}", "1:8: names: must be a list, not a mapping"),
        ("counts: [1, x]", "1:13: counts[1]: must be an integer, not a string: 'x'"),
        ("tags: abc", "1:7: tags: must be a list, not a string: 'abc'"),
        ("limits: {docker: -1}", "1:18: limits.docker: must be at least 0, not -1"),
        ("limits: [1]", "1:9: limits: must be a mapping, not a list"),
        ("free: {a: [1, .inf]}", "1:15: free.a[1]: must be a finite number, not inf"),
        ("inner: {name: x, coun: 1}", "1:18: inner.coun: unknown key (did you mean 'count'?)"),
        ("inner: {count: 1}", "1:8: inner.name: is required"),
        ("inner: x", "1:8: inner: must be a mapping, not a string: 'x'"),
        ("inners: [{name: a}, {}]", "1:21: inners[1].name: is required"),
        ("inners: [{name: a, count: 0}]", "1:27: inners[0].count: must be at least 1, not 0"),
        ("protocol: [[a]]", "1:12: protocol[0]: must be a string, not a list"),
        ("maybe: 0", "1:8: maybe: must be at least 1, not 0"),
        ("word: fancy", "1:7: word: must be one of auto, plain, not 'fancy'"),
        ("word: 3", "1:7: word: must be one of auto, plain, not an integer: 3"),
        ("colour: blue", "1:9: colour: must be one of red, 2, not a string: 'blue'"),
        ("path: ''", "1:7: path: must be a path, not an empty string"),
        ("pair: [1]", "1:7: pair: must have 2 items, not 1"),
        ("either: x", "1:9: either: must be a number, not a string: 'x'"),
        ("least: 1", "1:8: least: 'least' must be >= 2: 1"),
        ("part: 1.5", "1:7: part: must be at most 1, not 1.5"),
        ("factor: 0", "1:9: factor: must be above 0, not 0"),
        ("itneger: 1", "1:1: itneger: unknown key (did you mean 'integer'?)"),
        ("kinds: abc", "1:8: kinds: must be a list, not a string: 'abc'"),
        ("several: [1, null]", "1:14: several[1]: must be a string, not null"),
        ('path: "a\\ud800b"', "1:7: path: has characters that no path can have"),
        (f"path: {'a' * 256}", "1:7: path: is too long for a path: at most 255 bytes a name and 4095 in all"),
        (f"path: {'a/' * 2050}", "1:7: path: is too long for a path: at most 255 bytes a name and 4095 in all"),
        ("text: ${NONE}", "1:7: text: the environment variable 'NONE' is not set"),
        ("integer: ${N}", "1:10: integer: must be an integer, not a string: '4'"),
    ],
)  # fmt: skip
def test_nothing_is_coerced_and_the_place_is_exact(text, problem):
    assert _problem(text, environ={"N": "4"}) == problem


def test_all_problems_of_a_document_are_told_at_once():
    _, problems = _structure(
        "integer: x\nflag: no\nlimits: {a: -1, b: x}\ninner: {count: 0, z: 1}\ncounts: [x, y]\nnope: 1\n"
    )
    assert len(problems) == 10


def test_a_secret_is_never_shown_in_a_problem():
    problems = Problems()
    node = from_python({"max_turns_key": "sk-hidden"}, Origin(layer="", where="x"), problems)
    node = References({}).follow(node)
    structure_value(node.get("max_turns_key"), int, problems)
    assert len(problems) == 1
    assert "sk-hidden" not in str(*problems)


def test_a_validator_does_not_tell_a_secret_either():
    @attrs.frozen(kw_only=True)
    class Keyed:
        api_key: str = attrs.field(validator=attrs.validators.matches_re("sk-.*"))

    _, problems = _structure("api_key: hidden-key\n", cls=Keyed)
    assert len(problems) == 1
    assert problems[0].startswith("f.yaml:1:10: api_key: ")
    assert "hidden-key" not in problems[0]


def test_a_secret_keeps_its_reference():
    value, _ = _structure("key: ${MY_KEY}", environ={"MY_KEY": "abc"})
    assert value.key.reveal() == "abc"
    assert value.key.reference == "${MY_KEY}"


def test_a_secret_in_a_field_of_text_is_its_value():
    problems = Problems()
    node = from_python({"text": Secret("abc")}, Origin(layer="", where="x"), problems)
    assert structure(node, Everything, problems).text == "abc"


def test_null_means_the_default_of_the_class_also_inside():
    value, problems = _structure("integer: null\ninner: {name: x, count: ~}\nlimits: {a: null}\n")
    assert problems == []
    assert value == Everything(inner=Inner(name="x"))


def test_settings_that_are_right_survive_those_that_are_not():
    node, problems = _read("integer: x\nnumber: 3\nnope: 1\n")
    assert structure_settings(node, Everything, problems) == Everything(number=3.0)
    assert len(problems) == 2


def test_checking_alone_misses_nothing_that_is_absent_and_leaves_faults_to_who_uses_them():
    node, problems = _read("count: 0\nname: ${NONE}\n")
    check_fields(node, Inner, problems)
    assert [problem.path for problem in problems] == ["count"]
    check_fields(_read("count: 2")[0], Inner, problems)
    assert len(problems) == 1


def test_a_misplaced_key_is_told_where_it_belongs_and_only_that():
    node, problems = _read("count: 1\nname: x\n")
    check_fields(node, Inner, problems, elsewhere={"name": "belongs to the top"})
    assert [str(problem) for problem in problems] == ["f.yaml:2:1: name: belongs to the top"]


def test_a_class_whose_annotations_cannot_be_resolved_is_a_problem_not_a_crash():
    value, problems = _structure("value: 1", cls=BrokenParams)
    assert value is None
    assert "NowhereDefined" in problems[0]


def test_a_type_that_cannot_be_read_is_a_problem_not_a_crash():
    @attrs.frozen(kw_only=True)
    class Odd:
        value: memoryview

    value, problems = _structure("value: 1", cls=Odd)
    assert value is None
    assert len(problems) == 1


def test_native_values_are_as_strict_as_those_of_files():
    problems = Problems()
    origin = Origin(layer="argument", where="argument x")
    node = from_python({"text": 3, "number": math.nan, "names": ("a",)}, origin, problems)
    structure(node, Everything, problems)
    assert sorted(str(problem) for problem in problems) == [
        "argument x: number: must be a finite number, not nan",
        "argument x: text: must be a string, not an integer: 3",
    ]


def test_typed_values_become_plain_json():
    value = Everything(
        tags=frozenset("ba"), path=Path("x"), key=Secret("abc", "${K}"), colour=Colour.TWO,
        inner=Inner(name="n"), names=("a",),
    )  # fmt: skip
    plain = as_json(value)
    assert plain["tags"] == ["a", "b"]
    assert (plain["path"], plain["key"], plain["colour"]) == ("x", "${K}", 2)
    assert (plain["inner"], plain["names"]) == ({"name": "n", "count": 1}, ["a"])
