"""What is found out about requests before they run, on the real components and without a trace."""

import attrs
import pytest
import trio

from agentcompass.components.base import Where
from agentcompass.engine.survey import SURVEY_SECONDS, survey
from agentcompass.errors import ConfigurationError, PreflightError
from support.requests import model_config, orchestration
from support.scripted import (
    ImagedEnvironment,
    ScriptedBenchmark,
    run,
    scripted,
    scripted_request,
    tasks,
)


class Images(ImagedEnvironment):
    """Has every image but those whose name begins with `no-`."""

    async def check_images(self, sources):
        return {one: None if one.name.startswith("no-") else 1 for one in sources}


class Broken(ImagedEnvironment):
    async def preflight(self):
        raise ZeroDivisionError("out of order")


class Unpullable(Images):
    async def check_images(self, sources):
        raise PreflightError("no-such-image cannot be pulled")


async def look(tmp_path, *requests, **runtime):
    found = await survey(orchestration(tmp_path / "results", *requests, **runtime))
    assert list(tmp_path.iterdir()) == [], "nothing was written"
    return found


def boxed(environment=Images, images=("a", "no-b", None), **fields):
    """A request of three tasks, each in the image of its turn."""
    plan = {f"t{n}": image for n, image in enumerate(images)}
    made = scripted_request(
        benchmark={"plan": lambda task, default: attrs.evolve(default, image=plan[task.id])},
        harness={"sandbox": True},
        **fields,
    )
    return attrs.evolve(made, environment=scripted(environment))


async def test_a_request_without_needs_has_its_numbers_only(tmp_path):
    (found,) = await look(tmp_path, scripted_request(k=4))
    assert (found.tasks, found.attempts, found.sandboxed) == (3, 12, 0)
    assert (found.images, found.missing_images) == ((), ())
    assert (found.is_reusing, found.reused, found.reused_from) == (False, 0, None)
    assert found.problems == ()


async def test_images_are_named_once_and_those_to_be_brought_are_told(tmp_path):
    (found,) = await look(tmp_path, boxed())
    assert (found.sandboxed, found.images, found.missing_images) == (
        3,
        ("a", "no-b", "own"),
        ("no-b",),
    )
    assert found.problems == ()


async def test_an_image_that_cannot_be_had_is_a_problem_and_the_others_are_named(tmp_path):
    (found,) = await look(tmp_path, boxed(Unpullable))
    assert (found.images, found.missing_images) == (("a", "no-b", "own"), None)
    assert "cannot be pulled" in found.problems[0].message


async def test_an_environment_that_breaks_is_a_problem_of_its_request_alone(tmp_path):
    good, bad = await look(tmp_path, scripted_request(), boxed(Broken))
    assert good.problems == ()
    (problem,) = bad.problems
    assert "ZeroDivisionError: out of order" in problem.message
    assert (bad.tasks, bad.images, bad.missing_images) == (3, ("a", "no-b", "own"), None)


async def test_an_environment_is_looked_at_although_the_tasks_could_not_be_loaded(tmp_path):
    def load():
        raise PreflightError("no data")

    made = scripted_request(benchmark={"load": load, "where": Where.FRESH})
    (found,) = await look(tmp_path, attrs.evolve(made, environment=scripted(Broken)))
    assert [type(problem).__name__ for problem in found.problems] == [
        "PreflightError",
        "EvaluationFailedError",
    ]
    assert (found.tasks, found.sandboxed, found.reused) == (None, None, None)


async def test_without_tasks_an_environment_that_nobody_needs_is_left_alone(tmp_path):
    def load():
        raise PreflightError("no data")

    made = scripted_request(benchmark={"load": load})
    (found,) = await look(tmp_path, attrs.evolve(made, environment=scripted(Broken)))
    assert len(found.problems) == 1


async def test_a_request_that_hangs_holds_nobody_up_for_ever(tmp_path, autojump_clock):
    began = trio.current_time()
    (found,) = await look(tmp_path, scripted_request(benchmark={"load": trio.sleep_forever}))
    assert trio.current_time() - began == SURVEY_SECONDS
    assert "not over after 120 seconds" in found.problems[0].message


async def test_a_component_that_cannot_be_made_is_a_problem(tmp_path):
    made = attrs.evolve(scripted_request(), benchmark=scripted(ScriptedBenchmark))
    broken = attrs.evolve(made.benchmark, id="support.scripted:NoSuchClass")
    (found,) = await look(tmp_path, attrs.evolve(made, benchmark=broken))
    assert isinstance(found.problems[0], ConfigurationError)
    assert found.tasks is None


async def test_a_harness_without_an_endpoint_is_a_problem(tmp_path):
    (found,) = await look(tmp_path, scripted_request(harness={"model": True}))
    assert "base URL" in found.problems[0].message
    assert found.tasks == 3


@pytest.mark.parametrize(("protocol", "words"), [("openai-chat", None), ("anthropic", "protocol")])
async def test_a_model_is_set_up_to_see_whether_harness_and_endpoint_fit(tmp_path, protocol, words):
    model = model_config(base_url="https://host/v1", api_protocol=(protocol,))
    (found,) = await look(tmp_path, scripted_request(harness={"model": True}, model=model))
    assert [words in problem.message for problem in found.problems] == ([True] if words else [])
    assert found.tasks == 3


async def test_a_plan_that_fails_is_a_problem_and_no_image_is_asked_for(tmp_path):
    made = scripted_request(
        benchmark={"plan": lambda task, _plan: {}[task.id]}, harness={"sandbox": True}
    )
    (found,) = await look(tmp_path, attrs.evolve(made, environment=scripted(Unpullable)))
    assert "could not be named: KeyError: 't0'" in found.problems[0].message
    assert len(found.problems) == 1
    assert (found.images, found.missing_images) == (None, None)


async def test_too_many_files_at_once_are_a_problem(tmp_path):
    made = scripted_request(benchmark={"load": lambda: tasks(100_000)}, harness={"sandbox": True})
    (found,) = await look(tmp_path, made, task_concurrency=10_000_000)
    assert any("open files" in problem.message for problem in found.problems)


async def test_what_an_earlier_run_has_is_counted_as_far_as_it_is_planned(tmp_path):
    earlier = scripted_request(name="same")
    ran = await run(tmp_path, earlier)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    fewer = scripted_request(benchmark={"load": lambda: tasks(2)}, name="same")
    again = [
        attrs.evolve(made, reuse=True, reuse_run_id=named)
        for made, named in ((earlier, None), (fewer, earlier.run_id), (earlier, "r7"))
    ]
    newest, named, unknown = await survey(
        attrs.evolve(orchestration(tmp_path, again[0]), requests=tuple(again))
    )
    assert ran.result.status == "completed"
    assert (newest.reused, newest.reused_from) == (3, earlier.run_id)
    assert (named.reused, named.reused_from) == (2, earlier.run_id)
    assert (unknown.reused, len(unknown.problems)) == (None, 1)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


async def test_what_components_have_to_say_is_kept(tmp_path):
    made = scripted_request(analysis_params={"no_such_analyzer": {}})
    (found,) = await look(tmp_path, made)
    assert "no_such_analyzer" in found.notes[0]


async def test_analyzers_that_are_switched_off_are_not_looked_at(tmp_path):
    made = scripted_request(analysis_params={"no_such_analyzer": {}}, enable_analysis=False)
    (found,) = await look(tmp_path, made)
    assert found.notes == ()
