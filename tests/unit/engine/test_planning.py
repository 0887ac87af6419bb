"""What is checked before a request leaves its first trace: tasks, the model, the place for results."""

import attrs
import pytest
import trio

from agentcompass.components.base import LoadContext, Task
from agentcompass.engine.planning import MIN_FREE_BYTES, check_model, check_room, load_tasks
from agentcompass.errors import ConfigurationError, EvaluationFailedError, PreflightError
from agentcompass.secrets import MASK, Secret
from support.mounts import small_disk
from support.requests import model_config
from support.scripted import (
    BenchmarkScript,
    HarnessScript,
    ScriptedBenchmark,
    ScriptedHarness,
    scripted_request,
    tasks,
)


async def loaded(tmp_path, load):
    benchmark = ScriptedBenchmark(BenchmarkScript(load=load))
    context = LoadContext(data_dir=tmp_path, auto_install_dependencies=False, note=print)
    return await load_tasks(benchmark, context, trio.CapacityLimiter(1))


async def test_tasks_may_come_one_by_one(tmp_path):
    assert await loaded(tmp_path, lambda: (task for task in tasks(3))) == tasks(3)


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("t0", "gave a str instead of a Task"),
        (Task(id=7), "task id 7 is not a non-empty text"),
        (Task(id="  "), "task id '  ' is not a non-empty text"),
        (Task(id="x" * 513), "is longer than 512 characters"),
        (Task(id="a\nb"), "has control characters"),
        (Task(id="/etc/passwd"), "looks like a path out of the run directory"),
        (Task(id="a\\..\\b"), "looks like a path out of the run directory"),
        (Task(id="a", category=3), "task 'a': category is int, not text"),
        (Task(id="a", category="(none)"), "category '\\(none\\)' stands for tasks without one"),
        (Task(id="a", run_timeout_seconds="9"), "run_timeout_seconds is '9', not a number"),
        (Task(id="a", evaluate_timeout_seconds=-1), "evaluate_timeout_seconds is -1, not"),
        (Task(id="a", run_timeout_seconds=float("nan")), "run_timeout_seconds is nan, not"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
async def test_a_task_that_is_none_is_refused(tmp_path, task, words):
    with pytest.raises((ConfigurationError, EvaluationFailedError), match=words):
        await loaded(tmp_path, lambda: [*tasks(1), task])


async def test_two_tasks_with_one_id_are_refused_before_the_rest_is_drawn(tmp_path):
    drawn = []

    def endless():
        while True:
            drawn.append(None)
            yield tasks(1)[0]

    with pytest.raises(ConfigurationError, match="two tasks have the id 't0'"):
        await loaded(tmp_path, endless)
    assert len(drawn) == 2


# --- the model


def model_of(**changes):
    return attrs.evolve(scripted_request(), model=model_config(**changes))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "needs a model endpoint, and 'test-model' has no base URL"),
        ({"base_url": f"https://{MASK}@host/v1"}, "URL or key of the model 'test-model' holds"),
        ({"base_url": "https://host/v1", "api_key": Secret(MASK)}, "holds .* not written down"),
    ],
    ids=["no-url", "masked-url", "masked-key"],
)
def test_a_harness_that_needs_a_model_needs_its_whole_address(changes, words):
    with pytest.raises(ConfigurationError, match=words):
        check_model(model_of(**changes), ScriptedHarness(HarnessScript(model=True)))
    check_model(model_of(**changes), ScriptedHarness(HarnessScript(model=False)))


@pytest.mark.parametrize("changes", [{"base_url": "https://host/v1"}, {"served_version": "1"}])
def test_an_endpoint_or_a_local_model_will_do(changes):
    check_model(model_of(**changes), ScriptedHarness(HarnessScript(model=True)))


# --- the place


def test_results_may_go_where_nothing_is_yet(tmp_path):
    check_room(tmp_path / "a" / "b" / "c")
    assert not (tmp_path / "a").exists()


def test_results_need_a_directory(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PreflightError, match=r"file is not a directory"):
        check_room(tmp_path / "file" / "results")


def test_results_need_room(tmp_path):
    size = f"size={MIN_FREE_BYTES // 2}"
    with (
        small_disk(tmp_path / "disk", size) as place,
        pytest.raises(PreflightError, match="only 8192 KiB are free"),
    ):
        check_room(place / "results")


def test_a_place_that_the_system_refuses_is_no_fault_of_ours(tmp_path):
    with pytest.raises(PreflightError, match="File name too long"):
        check_room(tmp_path / ("x" * 300))
