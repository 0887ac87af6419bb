"""The components of a request are constructed and looked at before anything is done with them."""

import textwrap
from typing import ClassVar

import attrs
import pytest
import trio

from agentcompass.components.base import SandboxPlan, Where
from agentcompass.engine.parts import build, explained
from agentcompass.errors import ConfigurationError, EvaluationFailedError, SandboxError
from agentcompass.records import Metric
from support.scripted import ScriptedBenchmark, scripted, scripted_request, tasks

RECIPE = """
    import attrs
    from agentcompass.components.base import NoParams, Recipe
    from agentcompass.components.registry import register

    @register
    class Mine(Recipe[NoParams]):
        id = "{id}"
        description = "for tests"
        def __init__(self, params):
            super().__init__(params)
            {constructor}
        def matches(self, request):
            return {matches}
        def adjust(self, request, task, plan):
            return attrs.evolve(plan, image="{id}/" + task.id)
"""


class Declaring(ScriptedBenchmark):
    """A benchmark whose constructor sets what the class would declare."""

    id = "declaring"
    declared: ClassVar[dict] = {}

    def __init__(self, params):
        super().__init__(params)
        vars(self).update(self.declared)


def binary(**fields):
    return Metric(**({"name": "pass", "primary": True} | fields))


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"evaluates_in": "fresh"}, "evaluates_in is 'fresh', not a Where"),
        ({"metrics": (binary(name=7),)}, "a metric's name is 7, not a text"),
        ({"metrics": (binary(name=""),)}, "a metric's name is '', not a text"),
        ({"metrics": (binary(kind="colour"),)}, "metric 'pass' is of kind 'colour'"),
        ({"metrics": (binary(best=10.0),)}, "binary metric 'pass' goes from 0 to 1"),
        ({"metrics": ()}, "exactly one metric must be primary"),
        ({"metrics": (binary(), binary(name="b"))}, "exactly one metric must be primary"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_benchmark_declares_must_make_sense(declared, words, monkeypatch):
    monkeypatch.setattr(Declaring, "declared", declared)
    made = attrs.evolve(scripted_request(), benchmark=scripted(Declaring))
    with pytest.raises(ConfigurationError, match=f"benchmark 'declaring': {words}"):
        build(made, ())


# --- recipes


@pytest.fixture
def folder(tmp_path):
    def write(id_, matches="True", constructor="pass"):
        text = RECIPE.format(id=id_, matches=matches, constructor=constructor)
        (tmp_path / f"{id_}.py").write_text(textwrap.dedent(text))

    write("fits")
    write("other", matches="False")
    write("broken", constructor="1 / 0")
    write("leaving", matches="__import__('sys').exit(3)")
    return tmp_path


def built(folder, *enabled):
    made = scripted_request(enabled_recipes=enabled)
    return build(made, [folder]), made


def test_every_recipe_that_matches_is_used_and_broken_ones_are_left_out_with_a_note(folder, caplog):
    parts, _ = built(folder)
    assert [recipe.id for recipe in parts.recipes] == ["fits"]
    assert "recipe 'broken' is left out: ZeroDivisionError" in caplog.text
    assert "recipe 'leaving' is left out: SystemExit" in caplog.text
    assert parts.versions()["recipe:fits"] == "1"


def test_recipes_that_are_named_are_used_whatever_they_match(folder):
    parts, _ = built(folder, "other")
    assert [recipe.id for recipe in parts.recipes] == ["other"]


def test_a_recipe_that_is_named_and_broken_is_an_error(folder):
    with pytest.raises(EvaluationFailedError, match="recipe 'broken' could not be set up: ZeroDiv"):
        built(folder, "broken")


def test_a_recipe_that_is_named_and_not_there_is_an_error(folder):
    with pytest.raises(ConfigurationError, match="fit"):
        built(folder, "fit")


def test_a_recipe_that_asks_for_an_image_needs_an_environment_with_images(folder):
    parts, made = built(folder)
    assert parts.sandbox_plan(made, tasks(1)[0]).image == "fits/t0"  # nothing opens a sandbox
    parts.harness.needs_sandbox = True
    with pytest.raises(SandboxError, match="needs image 'fits/t0', and environment"):
        parts.sandbox_plan(made, tasks(1)[0])


def test_without_recipes_the_plan_is_the_benchmarks():
    made = scripted_request({"where": Where.FRESH})
    assert build(made, ()).sandbox_plan(made, tasks(1)[0]) == SandboxPlan()


# --- errors


@pytest.mark.parametrize("error", [ConfigurationError("bad"), KeyboardInterrupt()])
def test_what_explains_itself_is_raised_as_it_is(error):
    with pytest.raises(type(error)) as caught, explained("it could not be done"):
        raise error
    assert caught.value is error


async def test_a_cancellation_inside_a_component_s_nursery_stays_one():
    with trio.move_on_after(0) as scope, explained("it could not be done"):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
    assert scope.cancelled_caught
