"""Tables of the reference. That those in docs/ are up to date is for tests/test_documents.py."""

from __future__ import annotations

import attrs
import pytest

from agentcompass.cli import reference, reference_files
from agentcompass.cli.help import with_pages
from agentcompass.cli.reference import render
from agentcompass.components import registry
from agentcompass.components.registry import BUILTINS, Builtin


@attrs.frozen(kw_only=True)
class Described:
    count: int = 3
    """How many | at most; None: all."""
    name: str
    """What it is called."""
    _source: str | None = None


@attrs.frozen(kw_only=True)
class Undescribed:
    silent: int = 1


def test_a_setting_has_its_type_its_default_and_its_meaning_required_ones_first(monkeypatch):
    monkeypatch.setitem(reference.SECTIONS, "made", Described)
    assert render("keys", "made").splitlines() == [
        "| key | type | default | meaning |",
        "|---|---|---|---|",
        "| `name` | string | required | What it is called. |",
        "| `count` | integer | `3` | How many \\| at most; null: all. |",
    ]


@pytest.mark.parametrize(
    ("table", "kind"), [(reference.SECTIONS, "keys"), (reference_files.OBJECTS, "fields")]
)
def test_a_field_that_nobody_describes_is_an_error(monkeypatch, table, kind):
    monkeypatch.setitem(table, "made", Undescribed)
    with pytest.raises(KeyError, match="silent is described nowhere"):
        render(kind, "made")


def test_a_block_is_renewed_and_the_text_around_it_is_left():
    text = "before\n<!-- components: harness -->\nold\n<!-- end -->\nafter <!-- a remark -->\n"
    renewed = with_pages(text)
    assert renewed.startswith("before\n<!-- components: harness -->\n| harness | what it is |\n")
    assert renewed.endswith("|\n<!-- end -->\nafter <!-- a remark -->\n")
    assert with_pages(renewed) == renewed


def test_a_block_that_asks_for_what_there_is_not_is_an_error():
    for words in ("tables: of contents", "keys: exekution", "fields: nothing.json"):
        with pytest.raises(KeyError):
            with_pages(f"<!-- {words} -->\n<!-- end -->\n")


def test_what_all_components_of_a_kind_share_stands_once():
    lines = render("params", "analyzer").splitlines()
    (shared,) = [line for line in lines if "`enabled`" in line]
    assert shared.startswith("| all | `enabled` | true or false | `true` | ")
    assert any(line.startswith("| `latency` | `floor_seconds` |") for line in lines)


@pytest.mark.parametrize("kind", sorted(BUILTINS))
def test_the_parameters_of_every_built_in_are_described(kind):
    for name in BUILTINS[kind]:
        render("params", f"{kind} {name}")


def test_a_new_component_is_in_the_list_of_its_kind(monkeypatch):
    built_in = {**BUILTINS["harness"], "mine": Builtin("x:Mine", "Does what I want")}
    monkeypatch.setattr(registry, "BUILTINS", {**BUILTINS, "harness": built_in})
    assert "| `mine` | Does what I want |" in render("components", "harness")


def test_every_exit_code_and_exception_is_told():
    codes = [line.split(" | ")[0] for line in render("exit-codes", "").splitlines()[2:]]
    assert codes == ["| 0", "| 1", "| 2", "| 3", "| 124", "| 129", "| 130", "| 143"]
    assert "| `EvaluationTimeoutError` | `EvaluationError`, `TimeoutError` |" in render(
        "exceptions", ""
    )


def test_fields_lead_to_the_objects_they_hold():
    assert "| `failure` | [failure](#failure) or null |" in render("fields", "attempts.jsonl")
    assert "| `metrics` | list of [metric](#metric) |" in render("fields", "plan.json")
    assert "| `requests` | mapping of [request entry](#request-entry) |" in render(
        "fields", "orchestration.json"
    )
