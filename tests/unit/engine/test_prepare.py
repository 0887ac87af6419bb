"""What is found out, and said, before a request's first attempt."""

from functools import partial

import attrs
import pytest
import trio

from agentcompass.components.base import AgentOutcome, Where
from agentcompass.errors import PreflightError
from support.scripted import (
    ImagedEnvironment,
    ScriptedBenchmark,
    ScriptedEnvironment,
    path,
    run,
    scripted,
    scripted_request,
    tasks,
)


class Imaged(ImagedEnvironment):
    """A provider of two images: `there`, and `absent`, which it would have to bring."""

    id = "imaged"

    async def check_images(self, sources):
        if unknown := {one.name for one in sources} - {"there", "absent", "own"}:
            raise PreflightError(f"there is no image {min(unknown)!r}")
        return {one: None if one.name == "absent" else 1 for one in sources}

    async def fetch(self, plan, note):
        if plan.image == "absent":
            note("pulling absent")


class SecondBoxed(ScriptedBenchmark):
    """Only its second task is evaluated in a sandbox."""

    id = "secondboxed"

    def needs_evaluation_sandbox(self, task):
        return task.id == "t1"


def of_images(*images, agent=None, environment=Imaged, **benchmark):
    """A request with a task for each image; None stands for a plan that fails."""

    def plan(task, plan):
        image = images[int(task.id[1:])]
        if image is None:
            raise KeyError(task.id)
        return attrs.evolve(plan, image=image)

    made = scripted_request(
        {"load": lambda: tasks(len(images)), "plan": plan, **benchmark},
        {"sandbox": True} | ({"run": agent} if agent else {}),
    )
    return attrs.evolve(made, environment=scripted(environment))


def notices(ran):
    return [event.text for event in ran.of("notice")]


async def test_how_many_images_are_missing_is_said_first(tmp_path):
    ran = await run(tmp_path, of_images("there", "absent", "there"))
    assert notices(ran) == ["1 of 2 images must be pulled or built first", "pulling absent"]
    assert [event.kind for event in ran.events[:2]] == ["notice", "run_prepared"]


async def test_where_no_image_is_missing_nothing_is_said(tmp_path):
    ran = await run(tmp_path, of_images("there", ""))
    assert notices(ran) == []
    assert ran.outcome().status == "completed"


async def test_an_image_that_cannot_be_had_is_said_before_anything_costs(tmp_path):
    ran = await run(tmp_path, of_images("there", "nowhere"))
    assert isinstance(ran.outcome().exception, PreflightError)
    assert "there is no image 'nowhere'" in ran.outcome().error
    assert not ran.run_dir().exists()
    assert not ScriptedEnvironment.log


async def test_a_plan_that_fails_is_told_beforehand_and_fails_its_own_attempts(tmp_path):
    ran = await run(tmp_path, of_images(None, "there"))
    assert notices(ran) == ["1 task cannot have a sandbox and will fail: t0: KeyError: 't0'"]
    assert {r.task_id: r.verdict for r in ran.records()} == {"t0": "infra", "t1": "graded"}


async def test_where_every_plan_fails_no_image_is_asked_for(tmp_path):
    ran = await run(tmp_path, of_images(None, None))
    (notice,) = notices(ran)
    assert notice.startswith("2 tasks cannot have a sandbox and will fail: t0: ")
    assert {record.verdict for record in ran.records()} == {"infra"}


@pytest.mark.parametrize(
    ("images", "status"), [(("nowhere", "there"), "completed"), (("there", "nowhere"), "failed")]
)
async def test_only_tasks_with_a_sandbox_need_an_image(tmp_path, images, status):
    made = attrs.evolve(of_images(*images, where=Where.FRESH), harness=scripted_request().harness)
    params = made.benchmark.params
    only_second = attrs.evolve(made.benchmark, id=path(SecondBoxed), params=params)
    ran = await run(tmp_path, attrs.evolve(made, benchmark=only_second))
    assert ran.outcome().status == status


async def test_a_provider_that_cannot_look_at_its_images_fails_the_request_by_name(tmp_path):
    class Blind(Imaged):
        async def check_images(self, sources):
            raise ConnectionError("no daemon")

    globals()["Blind"] = Blind
    Blind.__qualname__ = "Blind"
    ran = await run(tmp_path, of_images("there", environment=Blind))
    assert "Blind' could not look at its images: ConnectionError: no daemon" in ran.outcome().error


# --- the rate of opening


@pytest.mark.parametrize(
    ("environment", "where", "waits"),
    [
        (ScriptedEnvironment, Where.NOWHERE, False),
        (ScriptedEnvironment, Where.REUSE, False),
        (ScriptedEnvironment, Where.FRESH, True),
        (Imaged, Where.NOWHERE, True),
    ],
    ids=["one-sandbox", "the-agents-sandbox", "two-sandboxes", "an-image-first"],
)
async def test_attempts_wait_for_their_turn_without_a_slot_where_they_begin_by_opening(
    tmp_path, environment, where, waits
):
    made = of_images(*[""] * 3, environment=environment, where=where)
    ran = await run(tmp_path, made, env_open_qps={path(environment): 20.0}, task_concurrency=3)
    details = [event.detail for event in ran.of("phase_started") if event.phase == "open"]
    assert ("the open rate" in details) is waits
    assert ran.outcome().status == "completed"


async def test_who_waits_for_its_turn_leaves_the_slots_to_others(tmp_path):
    most, running, left = 0, 0, 20
    over = trio.Event()

    async def agent(*_args):
        nonlocal most, running, left
        running, left = running + 1, left - 1
        most = max(most, running)
        await trio.sleep(0.01)
        running -= 1
        if not left:
            over.set()
        return AgentOutcome(answer="right")

    async def end_with_the_quick_one(control):
        await over.wait()
        control.cancel_now("caller")

    slow = of_images("", "", environment=ScriptedEnvironment)
    quick = scripted_request({"load": partial(tasks, left)}, {"run": agent}, name="quick")
    await run(
        tmp_path,
        slow,
        quick,
        env_open_qps={path(ScriptedEnvironment): 0.001},
        task_concurrency=2,
        beside=end_with_the_quick_one,
    )
    assert most == 2
