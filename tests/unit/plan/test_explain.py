"""Configuration keys explained: value, origin, what was overridden, and what the key is for."""

import pytest

from agentcompass.plan.explain import (
    BUILT_IN,
    Overridden,
    config_docs,
    config_values,
    docs_of,
    explain,
)
from agentcompass.spec.written import OrchestrationSpec
from support.configured import BROKEN, SECRETIVE
from support.plugins import importable, write_distribution
from support.resolving import problems_of


@pytest.fixture
def files(tmp_path):
    (tmp_path / "agentcompass.yaml").write_text(
        "execution:\n  k: 2\n  max_retries: 3\nbenchmarks:\n  humaneval: {limit: 5}\n"
        "runtime: {provider_limits: {host_process: 2}}\n"
    )
    (tmp_path / "c.yaml").write_text(
        "execution: {k: 4, max_retries: null}\nprices: {m.1: {input: 2}}\n"
    )
    return {"cwd": tmp_path, "environ": {}, "config_path": "c.yaml"}


def test_a_value_is_explained_with_everything_it_overrode(files):
    found = explain("execution.k", **files)
    assert (found.value, found.origin) == (4, "config file (c.yaml:1:16)")
    assert found.overrode == (
        Overridden(value=2, origin="config file (agentcompass.yaml:2:6)"),
        Overridden(value=1, origin=BUILT_IN),
    )
    assert found.doc.flag == "--k"
    assert found.doc.type == "integer, at least 1, at most 10000"


def test_a_key_nobody_wrote_has_its_built_in_value(files):
    found = explain("runtime.task_concurrency", **files)
    assert (found.value, found.origin, found.overrode) == (32, BUILT_IN, ())


def test_a_null_shows_the_default_and_where_it_was_written(files):
    found = explain("execution.max_retries", **files)
    assert (found.value, found.origin) == (1, "config file (c.yaml:1:32)")
    assert found.overrode[0].value == 3


def test_fields_of_components_are_explained(files):
    found = explain("benchmarks.humaneval.limit", **files)
    assert (found.value, found.origin) == (5, "config file (agentcompass.yaml:5:22)")
    assert found.doc.doc


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("runtime.provider_limits", {"host_process": 2}),
        ("runtime.provider_limits.host_process", 2),
        ("prices['m.1'].input", 2),
        ("benchmarks.humaneval", {"limit": 5}),
    ],
)
def test_whole_mappings_and_their_items_are_explained(files, key, value):
    assert explain(key, **files).value == value


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("execution.max_retrys", "did you mean 'execution.max_retries'?"),
        ("nonsense", "unknown key 'nonsense'"),
        ("nope.x", "there is no section 'nope' (known: benchmarks, environments, execution, "),
        ("runtme.x", "there is no section 'runtme' (did you mean 'runtime'?)"),
        ("execution.qqqqqqqqqqqqqqqqq", "`agentcompass config docs` describes every key"),
        ("", "unknown key ''"),
        ("execution.k.deeper", "unknown key"),
        ("benchmarks.humaneval.limt", "did you mean 'benchmarks.humaneval.limit'?"),
        ("benchmarks.humanevl.limit", "unknown benchmark 'humanevl'"),
    ],
)
def test_an_unknown_key_is_an_error_with_the_nearest_one(files, key, words):
    (line,) = problems_of(explain, key, **files)
    assert words in line


def test_secrets_are_shown_as_references_or_masked(tmp_path):
    (tmp_path / "agentcompass.yaml").write_text(
        f"harnesses: {{'{SECRETIVE}': {{api_key: '${{K}}', session_token: clear123, headers: {{a: clear123}}}}}}\n"
    )
    values = config_values(cwd=tmp_path, environ={"K": "from-env"})
    shown = {each.key: each.value for each in values if each.key.startswith("harnesses")}
    assert shown == {
        f"harnesses['{SECRETIVE}'].api_key": "${K}",
        f"harnesses['{SECRETIVE}'].session_token": "[secret]",
        f"harnesses['{SECRETIVE}'].headers.a": "[secret]",
    }
    assert "from-env" not in repr(values)
    assert "clear123" not in repr(values)


def test_all_values_list_every_static_key_and_what_files_write_beside(files):
    keys = [each.key for each in config_values(**files)]
    assert len(keys) == len(set(keys))
    assert {
        "execution.k",
        "runtime.log_file",
        "benchmarks.humaneval.limit",
        "prices['m.1'].input",
    } <= set(keys)
    assert "runtime.provider_limits.host_process" not in keys


def test_a_broken_config_file_is_told(tmp_path):
    (tmp_path / "agentcompass.yaml").write_text("execution: {k: 0}\n")
    assert problems_of(explain, "execution.k", cwd=tmp_path, environ={}) == [
        "agentcompass.yaml:1:16: execution.k: must be at least 1, not 0"
    ]


def test_every_key_is_documented_with_type_and_default():
    docs = {doc.key: doc for doc in config_docs()}
    assert all(doc.doc and doc.type for doc in docs.values()), [
        d.key for d in docs.values() if not d.doc
    ]
    assert docs["execution.attempt_strategy"].type == "one of avg, pass"
    assert docs["execution.run_timeout_seconds"].type == "number, at least 0 or null"
    assert docs["runtime.provider_limits"].type == "mapping of integer, at least 0"
    assert docs["execution.min_coverage"].default == 1.0
    assert docs["benchmarks.jsonl.path"].is_required
    assert "benchmarks.humaneval.limit" in docs
    assert "benchmarks.humaneval.limit" not in {doc.key for doc in config_docs(components=False)}


def test_keys_of_sections_that_people_write_are_described_and_nothing_else():
    docs = {doc.key: doc for doc in docs_of("", OrchestrationSpec)}
    assert set(docs) == {
        "version", "name", "task_concurrency", "runtime", "defaults", "requests", "matrix",
    }  # fmt: skip
    assert docs["task_concurrency"].type == "integer or null"
    assert docs["defaults"].type == "OrchestrationDefaults or mapping of any value or null"


def test_a_broken_plug_in_has_no_keys_and_hides_nobody_elses(tmp_path):
    write_distribution(
        tmp_path,
        "broken-keys",
        modules={"broken_keys": "raise RuntimeError('at import')\n"},
        entry_points="[agentcompass.harnesses]\nbroken_keys = broken_keys:Nothing\n",
    )
    with importable(tmp_path):
        keys = [doc.key for doc in config_docs()]
    assert "harnesses.tool_loop.max_turns" in keys
    assert not any("broken_keys" in key for key in keys)


def test_a_component_whose_annotations_cannot_be_resolved_is_an_error_in_a_line(tmp_path):
    (line,) = problems_of(explain, f"harnesses['{BROKEN}'].value", cwd=tmp_path, environ={})
    assert "NowhereDefined" in line
