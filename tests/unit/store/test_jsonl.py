import collections
import enum
import json
import math
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.secrets import Scrubber
from agentcompass.store import jsonl

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
text = st.text(alphabet=st.characters(exclude_categories=[]), max_size=20)
values = st.recursive(
    scalars | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=20,
)


def paired(value):
    """Two lone surrogates side by side are one character in JSON; nothing else changes on the way."""
    return json.loads(json.dumps(value))


@given(values)
def test_what_is_written_is_read_back(value):
    line = jsonl.encode(value)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert paired(jsonl.decode(line)) == paired(value)


@given(values)
def test_a_line_is_one_line_for_every_reader(value):
    assert len(jsonl.encode(value).decode().splitlines()) == 1


@pytest.mark.parametrize("text", ["a\u2028b", "a\x85b", "a\u2029b", "a\x1cb\x0cc", "\r\n"])
def test_characters_that_look_like_line_ends_survive(text):
    assert jsonl.decode(jsonl.encode([text])) == [text]


def test_lone_surrogates_are_escaped_and_come_back():
    line = jsonl.encode({"s": "a\ud800b\udcff\\"})
    assert line == b'{"s":"a\\ud800b\\udcff\\\\"}\n'
    assert jsonl.decode(line) == {"s": "a\ud800b\udcff\\"}


class Color(enum.StrEnum):
    RED = "red"


class Odd(str):
    __slots__ = ()

    def __str__(self):
        return "odd"


def test_relatives_of_json_types_become_the_real_ones():
    value = types.MappingProxyType(
        {"a": (1, 2), "b": collections.OrderedDict(x=1), Color.RED: Odd("plain")}
    )
    assert jsonl.decode(jsonl.encode(value)) == {"a": [1, 2], "b": {"x": 1}, "red": "plain"}


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, {"b": math.nan}]}, "$.a[1].b"),
        ({"a": math.inf}, "$.a"),
        ({"a": {1: "x"}}, "$.a"),
        ({"a": {None: "x"}}, "$.a"),
        ({"a": {True: "x"}}, "$.a"),
        ({"a": [b"bytes"]}, "$.a[0]"),
        ({"a": {"set": {1}}}, "$.a.set"),
        ({"a": Path("x")}, "$.a"),
        ({"a": 10**5000}, "$.a"),
        (collections.OrderedDict(x={2: 3}), "$.x"),
    ],
    ids=["nan", "inf", "int-key", "none-key", "bool-key", "bytes", "set", "path", "huge", "nested"],
)
def test_what_is_not_json_is_refused_with_its_place(value, path):
    with pytest.raises(jsonl.NotJSONError) as caught:
        jsonl.encode(value)
    assert caught.value.path == path


def test_a_value_that_contains_itself_is_refused():
    loop: list = []
    loop.extend([loop, loop])
    with pytest.raises(jsonl.NotJSONError, match="contains itself"):
        jsonl.encode(loop)


def test_nesting_that_readers_give_up_on_is_refused():
    deep: list = []
    for _ in range(jsonl.MAX_DEPTH + 1):
        deep = [deep]
    with pytest.raises(jsonl.NotJSONError, match="nested deeper"):
        jsonl.encode(deep)
    assert jsonl.decode(jsonl.encode(deep[0][0])) == deep[0][0]


@pytest.mark.parametrize("line", [b"NaN", b"[Infinity]", b'{"a":', b"\xff", b"[" * 100_000])
def test_reading_is_as_strict_as_writing(line):
    with pytest.raises(ValueError):
        jsonl.decode(line)


def test_secrets_are_removed_from_values_and_keys_in_every_encoding():
    scrubber = Scrubber()
    secret = 'sk-"quoted"\\1234'
    scrubber.register(secret)
    value = {"a": [secret, json.dumps({"k": secret})], secret: "x", "n": 5}
    line = jsonl.encode(value, scrubber.scrub).decode()
    assert "quoted" not in line
    assert json.loads(line)["a"][0] == "[secret]"


def test_a_secret_that_looks_like_structure_does_not_break_the_line():
    scrubber = Scrubber()
    scrubber.register("123456", '":{"type')
    value = {"a": 1234567, "b": {"type": "123456"}}
    assert jsonl.decode(jsonl.encode(value, scrubber.scrub)) == {
        "a": 1234567,
        "b": {"type": "[secret]"},
    }


def read(path):
    corrupt: list = []
    return list(jsonl.read_lines(path, corrupt.append)), corrupt


def test_a_torn_last_line_is_dropped_even_if_it_happens_to_be_json(tmp_path):
    path = tmp_path / "f"
    for tail in (b'{"a"', b"12", b"\x00\x00\x00"):
        path.write_bytes(b"[1]\n" + tail)
        assert read(path) == ([(1, [1])], [])


def test_a_corrupt_line_in_the_middle_is_told_with_its_number_and_skipped(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"[1]\n{broken\n[3]\n\n\xff\n[6]\n")
    values, corrupt = read(path)
    assert values == [(1, [1]), (3, [3]), (6, [6])]
    assert [line.number for line in corrupt] == [2, 4, 5]


def test_raw_line_separators_of_another_writer_do_not_split_a_line(tmp_path):
    path = tmp_path / "f"
    path.write_bytes('["a\u2028b\x85c"]\n'.encode())
    assert read(path) == ([(1, ["a\u2028b\x85c"])], [])


def test_a_file_that_is_not_there_has_no_lines(tmp_path):
    assert read(tmp_path / "none") == ([], [])


def test_forty_megabytes_in_one_value_are_a_line_like_any_other(tmp_path):
    path = tmp_path / "f"
    big = "x€" * 12_000_000
    path.write_bytes(jsonl.encode({"big": big}))
    [(_, value)], corrupt = read(path)
    assert value["big"] == big
    assert corrupt == []


def test_weight_sees_big_texts_wherever_they_are_and_takes_bounded_time():
    assert jsonl.weight({"a": [{"b": "x" * 10**6}]}) > 10**6
    assert jsonl.weight([[0] * 1000] * 100_000, max_nodes=100) < 10**8
