"""Orchestration files, good and bad, each with what must come of it."""

import json
import shutil
from pathlib import Path

import pytest

from agentcompass.components.harnesses.tool_loop.loop import ToolLoopParams
from agentcompass.spec.dump import resolved_as_dict
from agentcompass.spec.files import as_yaml, load_orchestration_spec
from support.resolving import STAMP, launch, problems_of

FOLDER = Path(__file__).parents[2] / "data" / "orchestration"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
BAD = sorted(name for name, case in EXPECTED.items() if not case["ok"])
GOOD = sorted(name for name, case in EXPECTED.items() if case["ok"])


def _copied(name, tmp_path):
    """The file of a case, in a folder of its own."""
    return Path(shutil.copy(FOLDER / f"{name}.yaml", tmp_path))


def _resolved(name, tmp_path):
    return launch(_copied(name, tmp_path), tmp_path)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_an_error_that_names_file_and_fault_and_nothing_is_written(name, tmp_path):
    path = _copied(name, tmp_path)
    lines = problems_of(launch, path, tmp_path)
    assert all(line.startswith(f"{name}.yaml:") for line in lines)
    for words in EXPECTED[name]["mentions"]:
        assert words in "\n".join(lines)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_file_resolves_and_so_does_what_it_resolved_to(name, tmp_path):
    first = _resolved(name, tmp_path)
    again = tmp_path / "again.json"
    again.write_text(json.dumps(resolved_as_dict(first)))
    second = resolved_as_dict(launch(again, tmp_path))
    assert {**resolved_as_dict(first), "x-notes": None} == {**second, "x-notes": None}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_file_read_as_an_object_and_written_again_resolves_alike(name, tmp_path):
    path = _copied(name, tmp_path)
    spec = load_orchestration_spec(path)
    again = tmp_path / "again.yaml"
    again.write_text(as_yaml(spec))
    first = launch(path, tmp_path)
    assert launch(spec, tmp_path) == first
    assert launch(again, tmp_path) == first


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_read_as_an_object_is_refused_at_the_same_place(name, tmp_path):
    path = _copied(name, tmp_path)

    def read_and_launch():
        launch(load_orchestration_spec(path), tmp_path)

    found = problems_of(read_and_launch)[0].replace(f"{tmp_path}/", "")
    assert found == problems_of(launch, path, tmp_path)[0]


def test_every_file_has_an_expectation():
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(EXPECTED)


def test_a_duplicate_key_is_told_with_both_lines(tmp_path):
    assert problems_of(launch, _copied("16-duplicate-yaml-key", tmp_path), tmp_path) == [
        "16-duplicate-yaml-key.yaml:2:1: name: the key stands here twice (first at 16-duplicate-yaml-key.yaml:1:1)"
    ]


def test_a_shared_runtime_has_no_reuse_and_the_message_says_where_it_goes(tmp_path):
    (line,) = problems_of(launch, _copied("20-reuse-in-runtime", tmp_path), tmp_path)
    assert "`defaults.runtime` or `requests[].runtime`" in line


def test_three_errors_are_told_in_one_run_with_their_lines(tmp_path):
    lines = problems_of(launch, _copied("22-three-errors-at-once", tmp_path), tmp_path)
    assert [line.split(":")[1] for line in lines] == ["1", "2", "3"]


def test_names_that_look_like_booleans_and_numbers_are_text(tmp_path):
    resolved = _resolved("31-ok-norway", tmp_path)
    assert (resolved.name, [r.name for r in resolved.requests]) == ("no", ["on", "3.10"])


def test_a_default_stands_in_for_an_unset_variable(tmp_path):
    assert _resolved("33-ok-default-variable", tmp_path).requests[0].model.id == "fallback-model"


def test_an_escaped_reference_reaches_the_endpoint_as_it_is(tmp_path):
    assert _resolved("34-ok-escaped", tmp_path).requests[0].model.params["stop"] == ["${HOME}"]


def test_another_id_drops_the_inherited_fields_and_says_so(tmp_path):
    resolved = _resolved("35-ok-other-id-drops-fields", tmp_path)
    a, b = resolved.requests
    assert a.harness.params.max_turns == 7
    assert (b.harness.id, b.harness.written) == ("openai_chat", {"system_prompt": None})
    assert resolved.notes == (
        "request 'b' names another harness than `defaults`: max_turns of `defaults.harness` not inherited",
    )


def test_a_null_takes_a_field_back_to_its_default(tmp_path):
    request = _resolved("36-ok-null-resets", tmp_path).requests[0]
    assert request.harness.params.max_turns == ToolLoopParams().max_turns


def test_what_nobody_named_gets_the_time_and_chance(tmp_path):
    resolved = _resolved("30-ok-minimal", tmp_path)
    assert resolved.id == resolved.name == resolved.requests[0].run_id == STAMP
    assert not resolved.requests[0].run_id_is_given
    assert not resolved.is_single
