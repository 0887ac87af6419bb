"""The benchmarks of SWE-bench: which tasks, in which images, and what an agent is told."""

import json

import pytest

from agentcompass.components.base import AgentOutcome, SandboxPlan
from agentcompass.components.benchmarks.swebench.benchmark import (
    SweBenchFull,
    SweBenchLite,
    SweBenchMultilingual,
    SweBenchVerified,
)
from agentcompass.components.recipes.swebench import SweBenchTestbed
from agentcompass.components.registry import load
from agentcompass.errors import ConfigurationError, InfraError, SandboxError
from support.components import context, make
from support.docker_sandboxes import docker_sandbox
from support.requests import component, request
from support.swebench import TRIVIAL_PATCH, trivial_image, trivial_row


@pytest.fixture
def rows():
    return [
        trivial_row(
            f"toy__calc-{number}", image=f"swebench/sweb.eval.x86_64.toy_1776_calc-{number}:latest"
        )
        for number in range(5)
    ]


@pytest.fixture
def loaded(tmp_path, rows):
    async def loaded(cls=SweBenchVerified, **params):
        path = tmp_path / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        benchmark = make(cls, dataset_path=str(path), **params)
        tasks = await benchmark.load_tasks(context(tmp_path / "data"))
        return benchmark, {task.id: task for task in tasks}

    return loaded


# --- tasks


async def test_a_row_becomes_a_task_of_its_project(loaded):
    benchmark, tasks = await loaded()
    task = tasks["toy__calc-0"]
    assert len(tasks) == 5
    assert task.category == "toy/calc"
    assert task.metadata["base_commit"] == "0" * 40
    assert task.evaluate_timeout_seconds == 2100.0
    assert len(benchmark.dataset_version()) == 64


async def test_tasks_are_chosen_by_id_number_and_seed(loaded):
    _, some = await loaded(sample_ids=["toy__calc-3", "toy__calc-1"])
    assert list(some) == ["toy__calc-1", "toy__calc-3"]
    _, first = await loaded(limit=2)
    assert list(first) == ["toy__calc-0", "toy__calc-1"]
    _, drawn = await loaded(limit=2, seed=1)
    assert list(drawn) != list(first)
    assert list(drawn) == list((await loaded(limit=2, seed=1))[1])


async def test_a_misspelt_id_is_told_with_the_nearest(loaded):
    with pytest.raises(ConfigurationError, match="did you mean 'toy__calc-1'"):
        await loaded(sample_ids=["toy_calc-1"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"eval_script": None}, "row 2.*has no eval_script, by which the package swebench grades"),
        ({"patch": ""}, "has no text patch"),
        ({"FAIL_TO_PASS": "nonsense"}, "has a FAIL_TO_PASS that is no list of names"),
        ({"FAIL_TO_PASS": []}, "has an empty FAIL_TO_PASS"),
        ({"instance_id": "toy__calc-0"}, "there are two rows with the id 'toy__calc-0'"),
        ({"image_assets": {"patch": [{"path": "x.png"}]}}, "SWE-bench Multimodal is not supported"),
        ({"log_parser": "parse_log_of_tomorrow"}, "toy__calc-1.*the log parser 'parse_log_of_"),
    ],
)
async def test_a_row_that_cannot_be_graded_is_told_before_anything_runs(
    loaded, rows, changes, words
):
    rows[1] |= changes
    with pytest.raises(ConfigurationError, match=words):
        await loaded()


@pytest.mark.parametrize(
    "cls", [SweBenchVerified, SweBenchLite, SweBenchFull, SweBenchMultilingual], ids=lambda c: c.id
)
def test_each_is_known_by_its_id_and_pins_a_commit_of_its_data(cls):
    assert load("benchmark", cls.id) is cls
    repository, commit = cls.published
    assert repository.startswith("SWE-bench/")
    assert len(bytes.fromhex(commit)) == 20


# --- sandboxes


async def test_the_image_is_that_of_the_row_with_its_prefix(loaded):
    benchmark, tasks = await loaded(image_prefix="registry.example.org/mirror/")
    plan = benchmark.plan(tasks["toy__calc-0"], SandboxPlan())
    name = "swebench/sweb.eval.x86_64.toy_1776_calc-0:latest"
    assert plan.image == f"registry.example.org/mirror/{name}"
    assert plan.workdir == "/testbed"
    assert plan.artifacts[0].endswith("/patch.diff")
    assert plan.network


async def test_without_one_in_the_row_or_for_another_machine_it_is_named_as_the_official_ones(
    loaded, rows
):
    rows[0] |= {"instance_id": "Toy__Calc-0", "image": None}
    benchmark, tasks = await loaded(architecture="arm64", network=False)
    plans = [benchmark.plan(task, SandboxPlan()) for task in tasks.values()]
    assert plans[0].image == "swebench/sweb.eval.arm64.toy_1776_calc-0:latest"
    assert plans[1].image == "swebench/sweb.eval.arm64.toy_1776_calc-1:latest"
    assert not plans[0].network


async def test_a_dockerfile_of_the_official_repository_of_tasks_can_make_the_image(
    loaded, tmp_path
):
    (tmp_path / "tasks/toy__calc-1").mkdir(parents=True)
    (tmp_path / "tasks/toy__calc-1/Dockerfile").touch()
    benchmark, tasks = await loaded(tasks_dir=str(tmp_path / "tasks"))
    assert benchmark.plan(tasks["toy__calc-0"], SandboxPlan()).build is None
    build = benchmark.plan(tasks["toy__calc-1"], SandboxPlan()).build
    assert build.context == tmp_path / "tasks/toy__calc-1"


def test_the_recipe_puts_the_project_s_environment_first_for_every_command():
    recipe = make(SweBenchTestbed)
    parts = component("harness", "nop"), component("environment", "docker")
    python = request(component("benchmark", "swebench_verified"), *parts)
    assert recipe.matches(python)
    assert not recipe.matches(request(component("benchmark", "swebench_multilingual"), *parts))
    plan = recipe.adjust(python, None, SandboxPlan())
    assert plan.env["PATH"].startswith("/opt/miniconda3/envs/testbed/bin:")
    assert plan.env["PATH"].endswith("/usr/bin:/sbin:/bin")
    own = SandboxPlan(env={"PATH": "/own"})
    assert recipe.adjust(python, None, own) == own


# --- what the agent is told, in a container

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module", autouse=True)
def image():
    """Made before any event loop runs."""
    return trivial_image()


async def inside(benchmark, task, act):
    """Do something in a container of the image; errors come as themselves."""
    async with docker_sandbox(image=trivial_image()) as session:
        try:
            return await act(session)
        except InfraError as error:
            failure = error
    raise failure


async def test_the_agent_is_told_the_issue_and_the_place_and_nothing_else(loaded):
    benchmark, tasks = await loaded()
    task = tasks["toy__calc-0"]
    told = await inside(benchmark, task, lambda session: benchmark.prepare(task, session))
    text = told.prompt
    assert "add(3, 2) is 1." in text
    assert "/testbed" in text
    for secret in ("HINT", "a + b", "test_calc", task.data.base_commit):
        assert secret not in text


async def test_agents_with_an_instruction_of_their_own_get_the_bare_issue(loaded):
    benchmark, tasks = await loaded()
    task = tasks["toy__calc-0"]
    told = await inside(benchmark, task, lambda session: benchmark.prepare(task, session))
    assert told.statement == "add(3, 2) is 1."


@pytest.mark.parametrize(
    ("submission", "answer", "resolved", "origin"),
    [
        ("auto", "a patch", 1.0, "answer"),
        ("auto", "I have mended it.", 0.0, "repository"),
        ("auto", None, 0.0, "repository"),
        ("repository", "a patch", 0.0, "repository"),
        ("answer", "I have mended it.", 0.0, "answer"),
        ("answer", None, 0.0, "answer"),
    ],
)
async def test_an_answer_that_is_a_patch_is_what_is_judged(
    loaded, submission, answer, resolved, origin
):
    benchmark, tasks = await loaded(submission=submission)
    task = tasks["toy__calc-0"]
    said = task.data.patch.rstrip("\n") if answer == "a patch" else answer

    async def work(session):
        await benchmark.prepare(task, session)
        await benchmark.collect(task, session)
        return await benchmark.evaluate(task, AgentOutcome(answer=said), session)

    evaluation = await inside(benchmark, task, work)
    assert evaluation.metrics["resolved"] == resolved
    assert evaluation.details["patch_from"] == origin


async def test_the_reference_patch_is_applied_collected_and_resolves(loaded):
    benchmark, tasks = await loaded()
    task = tasks["toy__calc-0"]

    async def work(session):
        await benchmark.prepare(task, session)
        outcome = await benchmark.solve(task, session)
        await benchmark.collect(task, session)
        return await benchmark.evaluate(task, outcome, session)

    # in the sandbox where it was applied already, which the official program takes for applied, too
    evaluation = await inside(benchmark, task, work)
    assert evaluation.metrics["submitted"] == 1.0


async def test_a_reference_patch_that_does_not_apply_is_no_verdict(loaded, rows):
    rows[0]["patch"] = TRIVIAL_PATCH.replace("a - b", "a / b")
    benchmark, tasks = await loaded()
    task = tasks["toy__calc-0"]

    async def work(session):
        await benchmark.prepare(task, session)
        await benchmark.solve(task, session)

    with pytest.raises(InfraError) as caught:
        await inside(benchmark, task, work)
    assert caught.value.code == "reference-solution-failed"


@pytest.mark.parametrize(
    ("directory", "spoil", "code"),
    [
        ("/nowhere", "true", "no-repository"),
        ("/testbed", "rm /usr/bin/git", "git-missing"),
        ("/testbed", "echo rubbish > /testbed/.git/HEAD", "repository-not-prepared"),
    ],
    ids=["no directory", "no git", "broken repository"],
)
async def test_an_image_that_does_not_do_is_told_before_the_agent_starts(
    loaded, directory, spoil, code
):
    benchmark, tasks = await loaded(repository_dir=directory)
    task = tasks["toy__calc-0"]

    async def work(session):
        await session.exec(spoil, cwd="/")
        await benchmark.prepare(task, session)

    with pytest.raises(InfraError) as caught:
        await inside(benchmark, task, work)
    assert caught.value.code == code


async def test_an_agent_that_removes_what_its_work_is_compared_with_gets_no_verdict(loaded):
    benchmark, tasks = await loaded()
    task = tasks["toy__calc-0"]

    async def work(session):
        await benchmark.prepare(task, session)
        await session.exec("rm -rf /var/tmp/*")
        await benchmark.collect(task, session)

    with pytest.raises(InfraError) as caught:
        await inside(benchmark, task, work)
    assert caught.value.code == "base-gone"


async def test_without_a_sandbox_or_a_patch_there_is_no_verdict(loaded):
    benchmark, tasks = await loaded()
    task = tasks["toy__calc-0"]
    with pytest.raises(SandboxError, match="was given none"):
        await benchmark.prepare(task, None)
    with pytest.raises(InfraError) as caught:
        await inside(
            benchmark, task, lambda session: benchmark.evaluate(task, AgentOutcome(), session)
        )
    assert caught.value.code == "no-patch"
