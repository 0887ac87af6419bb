"""Reading YAML and JSON: positions, text as typed, and files on a bad day."""

import json
import math
import os
import time
from pathlib import Path

import pytest

from agentcompass.spec.problems import Problems
from agentcompass.spec.tree import at
from agentcompass.spec.yaml import MAX_BYTES, load_file, load_text


def _load(text, **options):
    problems = Problems()
    return load_text(text, "f.yaml", "config file", problems, **options), list(map(str, problems))


def _plain(node):
    if isinstance(node.data, dict):
        return {key: _plain(item) for key, item in node.items()}
    return [_plain(item) for item in node.data] if isinstance(node.data, tuple) else node.data


def _value(text):
    node, problems = _load(f"a: {text}\n")
    assert problems == []
    return node.get("a")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"), ("on", "on"), ("Yes", "Yes"), ("true", True), ("FALSE", False),
        ("~", None), ("null", None), ("", None), ("'null'", "null"),
        ("12", 12), ("-3", -3), ("0o17", 15), ("0x1F", 31), ("010", 10), ("1_000", "1_000"),
        ("1:30", "1:30"), ("2024-01-01", "2024-01-01"), ("1e3", 1000.0), (".5", 0.5), ("3.10", 3.1),
        ("!!str 3", "3"), ("!!int 3", 3), ("'3'", "3"), ("-.inf", -math.inf), ("=", "="),
        ("[1, [], {}]", [1, [], {}]),
    ],
)  # fmt: skip
def test_scalars_follow_the_core_schema(text, value):
    found = _plain(_value(text))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["3.10", "0123", "1e3", "True", "0x1F", ".inf"])
def test_the_typed_text_is_kept_for_fields_of_type_string(text):
    assert _value(text).text == text


def test_every_key_and_value_knows_its_line_and_column():
    node, _ = _load("a:\n  b: [1,\n    2]\n")
    item, path = at(node, ("a", "b", 1))
    assert (item.origin.where, path) == ("f.yaml:3:5", "a.b[1]")
    assert node.get("a").get("b").origin.key_where == "f.yaml:2:3"


def test_anchors_aliases_and_merge_keys_work_and_own_keys_win():
    node, problems = _load(
        "x-one: &one {a: 1, b: 1, c: 1}\nx-two: &two {b: 2, c: 2, d: 2}\n"
        "s:\n  <<: [*one, *two]\n  c: 3\nt: *one\n"
    )
    assert problems == []
    assert _plain(node) == {"s": {"a": 1, "b": 1, "d": 2, "c": 3}, "t": {"a": 1, "b": 1, "c": 1}}
    assert node.get("s").get("a").origin.path == "s.a"
    assert node.get("s").get("a").origin.where == "f.yaml:1:17"


def test_keys_for_anchors_are_ignored_at_the_top_only():
    node, _ = _load("x-a: 1\nb: {x-c: 2}\n")
    assert _plain(node) == {"b": {"x-c": 2}}


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "~\n", "---\n"])
def test_an_empty_document_is_an_empty_mapping(text):
    node, problems = _load(text)
    assert (_plain(node), problems) == ({}, [])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a\n", ["f.yaml:1:1", "mapping", "list"]),
        ("just text\n", ["mapping", "single value"]),
        ("a: 1\nb: 2\na: 3\n", ["f.yaml:3:1: a:", "twice", "f.yaml:1:1"]),
        ("a:\n\tb: 1\n", ["f.yaml:2:1", "line 2", "spaces, not tabs"]),
        ("a: [1, 2\n", ["f.yaml:2:1", "not valid YAML"]),
        ("a: *nobody\n", ["f.yaml:1:4", "undefined alias"]),
        ("a: 1\n---\nb: 2\n", ["not valid YAML", "another document"]),
        ("a: !!python/object/apply:os.system [x]\n", ["a:", "tag", "python/object"]),
        ("a: !mine 3\n", ["tag !mine"]),
        ("a: !!set {x}\n", ["tag !!set"]),
        ("? [a]\n: 1\n", ["keys must be"]),
        ("'': 1\n", ["keys must be"]),
        ("a: &a {b: *a}\n", ["a.b:", "back into itself"]),
        ("a: &a\n  <<: *a\n", ["`<<` takes mappings only"]),
        ("<<: 3\n", ["`<<` takes mappings only"]),
        ("a: \x01\n", ["not valid YAML"]),
        ('a: "\\q"\n', ["not valid YAML"]),
        ('a: "\\U0011FFFF"\n', ["not valid YAML", "range"]),
        ("a: " + "9" * 5000, ["a:", "too many digits"]),
        ("a: " + "[" * 60 + "]" * 60, ["50 levels"]),
        ("a: " + "[" * 1000, ["levels deep"]),
        ("%YAML 9.9\n--- {a: 1\n", ["not valid YAML"]),
    ],
)  # fmt: skip
def test_malformed_files_are_problems_with_a_place(text, words):
    _, problems = _load(text)
    assert len(problems) == 1, problems
    for word in words:
        assert word in problems[0]


def test_all_slips_of_one_file_are_told_together():
    _, problems = _load("a: !x 1\nb: 1\nb: 2\nc: &c [*c]\n")
    assert len(problems) == 3


def test_an_alias_bomb_is_refused_quickly():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    start = time.process_time()
    node, problems = _load("\n".join(lines))
    assert time.process_time() - start < 10
    assert node is None
    assert "more than 50000 values" in problems[0]


def _file(tmp_path, data, name="f.yaml"):
    path = tmp_path / name
    path.write_bytes(data)
    problems = Problems()
    return load_file(path, "config file", problems, name=name), list(map(str, problems))


def test_a_byte_order_mark_is_skipped(tmp_path):
    node, problems = _file(tmp_path, b"\xef\xbb\xbfa: 1\n")
    assert (_plain(node), problems) == ({"a": 1}, [])


def test_windows_line_ends_are_fine(tmp_path):
    node, _ = _file(tmp_path, b"a: 1\r\nb: x\r\n")
    assert _plain(node) == {"a": 1, "b": "x"}


def test_a_file_that_is_not_utf8_names_line_and_byte(tmp_path):
    node, problems = _file(tmp_path, b"a: 1\nb: caf\xe9\n")
    assert node is None
    assert problems == ["f.yaml:2: is not UTF-8: byte 0xe9"]


def test_a_file_of_three_megabytes_is_not_parsed(tmp_path):
    node, problems = _file(tmp_path, b"a: [" + b"1, " * MAX_BYTES + b"1]\n")
    assert node is None
    assert problems == ["f.yaml: is larger than 1 MiB"]


def test_a_directory_a_missing_file_and_a_nul_in_the_name_are_problems(tmp_path):
    problems = Problems()
    load_file(tmp_path, "config file", problems, name="d")
    load_file(tmp_path / "none", "config file", problems, name="n")
    load_file(tmp_path / "a\0b", "config file", problems, name="z")
    shown = list(map(str, problems))
    assert shown[:2] == ["d: is a directory, not a file", "n: there is no such file"]
    assert shown[2].startswith("z: cannot be read")


def test_a_file_that_may_not_be_read_is_a_problem(tmp_path, monkeypatch):
    path = tmp_path / "f.yaml"
    path.write_text("a: 1")
    path.chmod(0)
    if os.geteuid() == 0:  # root may read everything: a path through a file fails just so
        path = path / "below"
    problems = Problems()
    assert load_file(path, "config file", problems, name="f") is None
    assert [str(problem).startswith("f: cannot be read: ") for problem in problems] == [True]


def test_json_is_read_with_tabs_positions_and_astral_characters():
    text = json.dumps({"a": {"b": ["\U0001f600"]}}, indent="\t")
    node, problems = _load(text, is_json=True)
    assert problems == []
    item, _ = at(node, ("a", "b", 0))
    assert (item.data, item.origin.where) == ("\U0001f600", "f.yaml:4:4")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{'a': 1}", "f.yaml:1:2: is not JSON"),
        ('{"a": 1,}', "is not JSON"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": 1} x', "is not JSON"),
        ("[" * 100_000, "levels deep"),
        ('{"a": 1, "a": 2}', "a: the key stands here twice"),
        ("[1]", "mapping"),
    ],
)
def test_a_json_file_must_be_json(text, words):
    _, problems = _load(text, is_json=True)
    assert len(problems) == 1
    assert words in problems[0]


def test_a_pipe_is_no_file_and_nothing_waits_for_its_other_end(tmp_path):
    os.mkfifo(tmp_path / "f.yaml")
    problems = Problems()
    assert load_file(tmp_path / "f.yaml", "config file", problems) is None
    assert "is not a regular file" in str(next(iter(problems)))


def test_a_pipe_that_the_shell_gives_is_read():
    end, other = os.pipe()
    os.write(other, b"a: 1")
    os.close(other)
    problems = Problems()
    found = load_file(Path(f"/dev/fd/{end}"), "config file", problems)
    os.close(end)
    assert found.get("a").data == 1
