"""Components that return or raise what nobody expects: each costs its own attempt or request, and nothing else."""

import asyncio
import functools
import itertools
import json
import time

import attrs
import pytest
import trio

from agentcompass.components.base import AgentOutcome, Evaluation, Task
from agentcompass.errors import EvaluationTimeoutError
from support.scripted import (
    ScriptedBenchmark,
    ScriptedHarness,
    run,
    scripted_request,
    tasks,
)


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")

    __repr__ = __str__


def raiser(error):
    def script(*_args):
        raise error

    return script


OUTCOMES = {
    "details None": AgentOutcome(details=None),
    "details a list": AgentOutcome(details=[1]),
    "answer a number": AgentOutcome(answer=42),
    "stopped_by a list": AgentOutcome(stopped_by=["x"]),
}


@pytest.mark.parametrize("case", OUTCOMES)
async def test_an_outcome_of_the_wrong_kind_costs_its_own_attempt(tmp_path, case):
    def agent(task_input, *_args):
        return OUTCOMES[case] if task_input.prompt == "t0" else AgentOutcome(answer="right")

    ran = await run(tmp_path, scripted_request(harness={"run": agent}))
    verdicts = {record.task_id: record for record in ran.records()}
    assert verdicts["t0"].failure.code == "bad-outcome"
    assert verdicts["t1"].verdict == verdicts["t2"].verdict == "graded"


@pytest.mark.parametrize(
    "evaluation",
    [Evaluation(metrics={"pass": 1}, details=None), Evaluation(metrics=None), Evaluation(metrics={"pass": 1, 2: 3})],
    ids=["details None", "metrics None", "a metric without a name"],
)  # fmt: skip
async def test_an_evaluation_of_the_wrong_kind_is_no_grade(tmp_path, evaluation):
    made = scripted_request({"load": lambda: tasks(1), "evaluate": lambda *_: evaluation})
    assert (await run(tmp_path, made)).record().failure.code == "bad-evaluation"


@pytest.mark.parametrize("phase", ["plan", "prepare", "run", "evaluate"])
async def test_an_error_without_words_is_told_by_its_type(tmp_path, phase):
    script = raiser(Unspeakable())
    made = scripted_request(
        {"load": lambda: tasks(1)} | ({phase: script} if phase != "run" else {}),
        {"run": script} if phase == "run" else {},
    )
    ran = await run(tmp_path, made)
    assert ran.record().failure.code == "unspeakable"
    assert "Unspeakable" in ran.record().failure.message


STARTS = {
    "GeneratorExit": GeneratorExit(),
    "asyncio's cancellation": asyncio.CancelledError(),
    "a base exception of its own": type("Own", (BaseException,), {})("boom"),
    "a group with SystemExit": BaseExceptionGroup("g", [SystemExit(1), ValueError("x")]),
    "an error without words": Unspeakable(),
}


@pytest.mark.parametrize("where", ["load", "preflight"])
@pytest.mark.parametrize("case", STARTS)
async def test_a_request_that_cannot_start_fails_alone_whatever_it_raises(tmp_path, case, where):
    script = raiser(STARTS[case])
    bad = scripted_request(
        {"load": script} if where == "load" else {},
        {"sandbox": True},
        {"preflight": script} if where == "preflight" else {},
        name="bad",
    )
    ran = await run(tmp_path, bad, scripted_request(name="good"))
    assert ran.result.requests["bad"].status == "failed"
    assert ran.result.requests["good"].status == "completed"


class WordForWhere(ScriptedBenchmark):
    id = "word_for_where"

    def __init__(self, params):
        super().__init__(params)
        self.evaluates_in = "fresh"


async def test_a_benchmark_that_declares_nonsense_is_refused(tmp_path):
    made = scripted_request()
    wrong = attrs.evolve(made.benchmark, id=f"{__name__}:WordForWhere")
    import sys

    sys.modules.setdefault(__name__, sys.modules[WordForWhere.__module__])
    ran = await run(tmp_path, attrs.evolve(made, benchmark=wrong))
    assert "evaluates_in" in ran.outcome().error


async def test_a_summary_survives_cleanup_that_used_up_the_grace(tmp_path):
    made = scripted_request(
        {"load": lambda: tasks(4)},
        {"sandbox": True, "run": lambda task_input, *_: _right_or_slow(task_input)},
        {"closing": lambda: trio.sleep(5)},
    )
    calm = scripted_request({"load": lambda: tasks(2)}, name="calm")
    ran = await run(tmp_path, made, calm, grace=0.3, timeout_seconds=1.0, task_concurrency=8)
    outcome = ran.outcome()
    assert outcome.status == "timed_out"
    assert isinstance(outcome.exception, EvaluationTimeoutError)
    assert outcome.exception.result["summary"]["counts"]["planned"] == 4
    run_file = json.loads((ran.run_dir() / "run.json").read_text())
    assert run_file["status"] == "timed_out"
    assert (ran.run_dir() / "metrics.json").exists()
    assert ran.result.requests["calm"].result is not None


async def _right_or_slow(task_input):
    if task_input.prompt != "t0":
        await trio.sleep_forever()
    return AgentOutcome(answer="right")


@pytest.mark.parametrize("size", [1, 200_000])
async def test_a_step_is_recorded_as_it_was_when_it_was_emitted(tmp_path, size):
    async def agent(_input, _session, _model, emit):
        messages = []
        for number in range(20):
            messages.append("x" * size)
            if size > 1 and number > 3:
                break
            await emit({"type": "turn", "messages": messages})
            messages.append("later")
        return AgentOutcome(answer="right")

    ran = await run(tmp_path, scripted_request({"load": lambda: tasks(1)}, {"run": agent}))
    (file,) = ran.run_dir().rglob("trajectory.jsonl")
    lengths = [len(json.loads(line)["messages"]) for line in file.read_text().splitlines()]
    assert lengths == [2 * number + 1 for number in range(len(lengths))]
    assert len(lengths) >= 4


async def test_details_are_recorded_as_they_were_when_they_were_given(tmp_path):
    shared = {"seen": []}

    def evaluate(task, *_args):
        shared["seen"].append(task.id)
        return Evaluation(metrics={"pass": 1}, details=shared)

    made = scripted_request({"load": lambda: tasks(6), "evaluate": evaluate})
    ran = await run(tmp_path, made, task_concurrency=1)
    assert sorted(len(record.details["seen"]) for record in ran.records()) == [1, 2, 3, 4, 5, 6]


async def test_tasks_that_never_end_are_not_drawn_for_ever(tmp_path):
    drawn = 0

    def endless():
        nonlocal drawn
        for drawn in itertools.count():
            time.sleep(0.001)
            yield Task(id=f"t{drawn}")

    ran = await run(tmp_path, scripted_request({"load": endless}), timeout_seconds=0.3)
    assert ran.outcome().status == "timed_out"
    await trio.sleep(0.1)
    seen = drawn
    await trio.sleep(0.2)
    assert drawn == seen


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


class Decorated(ScriptedHarness):
    id = "decorated"

    @decorated
    async def run(self, task_input, session, model, emit):
        await emit({"type": "x"})
        return AgentOutcome(answer="right")


async def test_a_decorated_async_method_is_async(tmp_path):
    import sys

    sys.modules.setdefault("decorated_plugin", sys.modules[Decorated.__module__])
    made = scripted_request({"load": lambda: tasks(1)})
    harness = attrs.evolve(made.harness, id="decorated_plugin:Decorated")
    ran = await run(tmp_path, attrs.evolve(made, harness=harness))
    assert ran.record().verdict == "graded"


class Silent(Exception):
    def __str__(self):
        raise SystemExit(0)

    __repr__ = __str__


class Unmeasurable(str):
    __slots__ = ()

    def __len__(self):
        raise RuntimeError("no length")


@pytest.mark.parametrize("phase", ["run", "evaluate", "opening", "closing"])
async def test_an_error_whose_text_ends_programs_ends_its_attempt_alone(tmp_path, phase):
    script = raiser(Silent())
    bad = scripted_request(
        {"load": lambda: tasks(1)} | ({"evaluate": script} if phase == "evaluate" else {}),
        {"sandbox": True} | ({"run": script} if phase == "run" else {}),
        {phase: script} if phase in ("opening", "closing") else {},
        name="bad",
    )
    ran = await run(tmp_path, bad, scripted_request(name="good"))
    assert ran.result.requests["good"].status == "completed"
    assert ran.record(0).verdict == ("graded" if phase == "closing" else "infra")


async def test_an_answer_that_cannot_be_measured_is_only_text(tmp_path):
    made = scripted_request(
        {"load": lambda: tasks(1)}, {"run": lambda *_: AgentOutcome(answer=Unmeasurable("right"))}
    )
    record = (await run(tmp_path, made)).record()
    assert (record.verdict, record.answer) == ("graded", "right")


@pytest.mark.parametrize("phase", ["run", "evaluate"])
async def test_details_that_are_no_json_say_where(tmp_path, phase):
    details = {"deep": [{"x": object()}]}
    made = scripted_request(
        {"load": lambda: tasks(1)}
        | ({"evaluate": lambda *_: Evaluation(metrics={"pass": 1}, details=details)} if phase == "evaluate" else {}),
        {"run": lambda *_: AgentOutcome(details=details)} if phase == "run" else {},
    )  # fmt: skip
    failure = (await run(tmp_path, made)).record().failure
    assert (failure.phase, failure.code) == (phase, "unwritable-record")
    assert "details that are not JSON at " in failure.message
    assert "x" in failure.message


async def test_details_that_are_no_json_are_told(tmp_path):
    made = scripted_request(
        {
            "load": lambda: tasks(1),
            "evaluate": lambda *_: Evaluation(metrics={"pass": 1}, details={"x": Unmeasurable("y"), "z": object()}),
        }
    )  # fmt: skip
    record = (await run(tmp_path, made)).record()
    assert record.verdict == "infra"
