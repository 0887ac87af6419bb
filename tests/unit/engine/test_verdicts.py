"""Whatever a component does ends in its own attempt's record, and never as a silent zero."""

import math
import time

import pytest
import trio

from agentcompass.components.base import AgentOutcome, Evaluation, Where
from agentcompass.engine.control import Control
from agentcompass.errors import EvaluatorError, ModelError, SandboxError
from agentcompass.testing import FakeEndpoint, chat, rate_limited
from support.requests import model_config
from support.scripted import ScriptedEnvironment, SyncHarness, path, run, scripted_request, tasks


def raiser(error):
    def script(*_args):
        raise error

    return script


def log(ran):
    return (ran.run_dir() / "run.log").read_text()


def stray_cancellation(*_args):
    """A `Cancelled` that belongs to a scope of the component's own and escapes it."""

    async def catch():
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await trio.lowlevel.checkpoint()
            except trio.Cancelled as cancelled:
                return cancelled
        raise AssertionError

    async def script():
        raise await catch()

    return script()


FAULTS = {
    "an exception": raiser(ValueError("boom")),
    "SystemExit": raiser(SystemExit(3)),
    "an exception group": raiser(ExceptionGroup("several", [OSError("one"), ValueError("two")])),
    "a base exception group": raiser(BaseExceptionGroup("odd", [SystemExit(1), ValueError("x")])),
    "a stray cancellation": stray_cancellation,
    "a generator's exit": raiser(GeneratorExit()),
    "its own infra error": raiser(SandboxError("no room", code="quota")),
    "an assertion": raiser(AssertionError("no")),
    "a memory error": raiser(MemoryError()),
    "recursion": raiser(RecursionError("deep")),
}


@pytest.mark.parametrize("phase", ["open", "prepare", "run", "collect", "evaluate"])
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_in_a_phase_is_that_attempts_record(tmp_path, phase, fault):
    script = FAULTS[fault]
    made = scripted_request(
        {"load": lambda: tasks(1), "where": Where.REUSE}
        | ({phase: script} if phase in ("prepare", "evaluate") else {}),
        {"sandbox": True} | ({"run": script} if phase == "run" else {}),
        {"opening": script} if phase == "open" else {"end": script} if phase == "collect" else {},
    )
    ran = await run(tmp_path, made)
    record = ran.record()
    assert record.verdict == "infra"
    assert record.failure.phase == phase
    assert record.metrics is None
    assert ran.outcome().status == "failed"
    assert ran.outcome().result["summary"]["coverage"] == 0
    assert not ScriptedEnvironment.existing
    assert not ran.leases()


async def test_one_attempts_fault_leaves_the_others_alone(tmp_path):
    def evaluate(task, outcome, _session):
        if task.id == "t1":
            raise EvaluatorError("no verdict")
        return Evaluation(metrics={"pass": 1})

    ran = await run(tmp_path, scripted_request({"load": lambda: tasks(6), "evaluate": evaluate}))
    verdicts = {record.task_id: record.verdict for record in ran.records()}
    assert verdicts.pop("t1") == "infra"
    assert set(verdicts.values()) == {"graded"}
    assert ran.outcome().result["summary"]["coverage"] == pytest.approx(5 / 6)


async def test_a_fault_in_the_plan_of_one_task_leaves_the_others_alone(tmp_path):
    def plan(task, plan):
        if task.id == "t0":
            raise KeyError("image")
        return plan

    ran = await run(tmp_path, scripted_request({"plan": plan}))
    assert sorted(record.verdict for record in ran.records()) == ["graded", "graded", "infra"]


async def test_an_interrupt_raised_by_a_component_is_a_fault_where_signals_are_watched(tmp_path):
    control = Control(1.0)
    control.owns_interrupts = True
    made = scripted_request({"load": lambda: tasks(1)}, {"run": raiser(KeyboardInterrupt())})
    ran = await run(tmp_path, made, control=control)
    assert ran.record().failure.code == "keyboard-interrupt"


async def test_an_interrupt_nobody_watches_for_ends_the_run(tmp_path):
    made = scripted_request({"load": lambda: tasks(1)}, {"run": raiser(KeyboardInterrupt())})
    with pytest.RaisesGroup(KeyboardInterrupt, flatten_subgroups=True, allow_unwrapped=True):
        await run(tmp_path, made)


@pytest.mark.parametrize(
    "metrics",
    [
        {},
        {"pass": math.nan},
        {"pass": math.inf},
        {"pass": 0.5},
        {"pass": "1"},
        {"pass": None},
        {"pass": 1, "other": 2},
        {"other": 1},
    ],
    ids=repr,
)
async def test_an_unsound_evaluation_is_no_zero(tmp_path, metrics):
    made = scripted_request(
        {"load": lambda: tasks(1), "evaluate": lambda *_: Evaluation(metrics=metrics)}
    )
    ran = await run(tmp_path, made)
    assert ran.record().failure.code == "bad-evaluation"


@pytest.mark.parametrize("given", [None, 1.0, {"pass": 1}, True])
async def test_what_is_no_evaluation_is_no_zero(tmp_path, given):
    ran = await run(
        tmp_path, scripted_request({"load": lambda: tasks(1), "evaluate": lambda *_: given})
    )
    assert ran.record().failure.code == "bad-evaluation"


async def test_a_harness_that_returns_no_outcome_is_infra(tmp_path):
    ran = await run(tmp_path, scripted_request({"load": lambda: tasks(1)}, {"run": lambda *_: "x"}))
    assert ran.record().failure.code == "bad-outcome"


async def test_an_agent_out_of_time_is_graded_on_what_it_left(tmp_path):
    made = scripted_request(
        {"load": lambda: tasks(1), "evaluate": lambda *_: Evaluation(metrics={"pass": 1})},
        {"run": lambda *_: trio.sleep_forever(), "limit": 0.05},
    )
    record = (await run(tmp_path, made)).record()
    assert record.verdict == "graded"
    assert record.stopped_by == "timeout"
    assert record.metrics == {"pass": 1.0}


async def test_an_agent_that_turns_its_deadline_into_an_error_ran_out_of_time_all_the_same(
    tmp_path,
):
    async def stubborn(*_args):
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            raise RuntimeError("lost connection") from None

    made = scripted_request({"load": lambda: tasks(1)}, {"run": stubborn, "limit": 0.05})
    record = (await run(tmp_path, made)).record()
    assert record.stopped_by == "timeout"
    assert record.verdict == "graded"


async def test_a_plain_function_that_hangs_is_left_behind(tmp_path):
    made = scripted_request(
        {"load": lambda: tasks(1)},
        {"run": lambda *_: time.sleep(1.5), "limit": 0.1},
        harness_class=SyncHarness,
    )
    began = trio.current_time()
    record = (await run(tmp_path, made)).record()
    assert record.stopped_by == "timeout"
    assert trio.current_time() - began < 1.2


async def test_a_plain_function_gets_a_session_with_blocking_methods(tmp_path):
    def agent(_input, session, _model, emit):
        session.write_text("note", "hello")
        emit({"type": "note"})
        return AgentOutcome(answer=session.read_text("note"))

    made = scripted_request(
        {"load": lambda: tasks(1)}, {"run": agent, "sandbox": True}, harness_class=SyncHarness
    )
    assert (await run(tmp_path, made)).record().answer == "hello"


@pytest.mark.parametrize("phase", ["open", "prepare", "collect", "evaluate"])
async def test_every_phase_has_its_deadline(tmp_path, phase):
    def hang(*_args):
        return trio.sleep_forever()

    made = scripted_request(
        {"load": lambda: tasks(1), "where": Where.REUSE}
        | ({phase: hang} if phase in ("prepare", "evaluate") else {}),
        {"sandbox": True},
        {"opening": hang} if phase == "open" else {"end": hang} if phase == "collect" else {},
        **{f"{phase}_timeout_seconds": 0.05},
    )
    ran = await run(tmp_path, made)
    failure = ran.record().failure
    assert (failure.phase, failure.code) == (phase, f"{phase}-timeout")
    assert not ScriptedEnvironment.existing
    assert not ran.leases()


async def test_the_clock_of_a_phase_does_not_run_while_it_waits_for_a_limit(tmp_path):
    made = scripted_request(
        {"load": lambda: tasks(4)},
        {"sandbox": True, "run": lambda *_: trio.sleep(0.1)},
        run_timeout_seconds=0.3,
        open_timeout_seconds=0.3,
    )

    ran = await run(
        tmp_path,
        made,
        task_concurrency=4,
        provider_limits={path(ScriptedEnvironment): 1},
        env_open_qps={path(ScriptedEnvironment): 8.0},
    )
    assert {record.failure.code for record in ran.records()} == {"bad-outcome"}  # not a timeout
    assert ScriptedEnvironment.most == [1]


async def test_a_model_that_was_never_asked_is_no_zero(tmp_path):
    made = scripted_request(
        {"load": lambda: tasks(1)},
        {"model": True},
        model=model_config(base_url="http://127.0.0.1:9/v1", api_protocol=("openai-chat",)),
    )
    assert (await run(tmp_path, made)).record().failure.code == "no-model-call"


async def test_a_swallowed_endpoint_failure_is_no_zero(tmp_path):
    async def agent(task_input, _session, model, _emit):
        try:
            await model.chat(task_input.messages)
        except ModelError:
            return AgentOutcome(answer=None)
        raise AssertionError

    made = scripted_request(
        {"load": lambda: tasks(1)},
        {"model": True, "run": agent},
        model=model_config(
            base_url="http://127.0.0.1:9/v1", api_protocol=("openai-chat",), max_retries=0
        ),
    )
    record = (await run(tmp_path, made)).record()
    assert record.verdict == "infra"
    assert record.failure.code in ("no-model-answer", "no-model-call")


async def test_after_its_phase_an_agent_can_neither_emit_nor_reach_the_model(tmp_path):
    kept = {}

    async def agent(_input, _session, model, emit):
        kept.update(model=model, emit=emit)
        return AgentOutcome(answer="right")

    async def evaluate(_task, _outcome, _session):
        with pytest.raises(ModelError):
            await kept["emit"]({"type": "late"})
        with pytest.raises(ModelError):
            await kept["model"].chat([])
        return Evaluation(metrics={"pass": 1})

    made = scripted_request({"load": lambda: tasks(1), "evaluate": evaluate}, {"run": agent})
    assert (await run(tmp_path, made)).record().verdict == "graded"


async def test_trouble_in_closing_does_not_undo_a_grade(tmp_path):
    made = scripted_request(
        {"load": lambda: tasks(1), "where": Where.REUSE},
        {"sandbox": True},
        {"closing": raiser(OSError("gone"))},
    )
    ran = await run(tmp_path, made)
    assert ran.record().verdict == "graded"
    assert not ScriptedEnvironment.existing, "what did not close was removed by name"
    assert not ran.leases()


async def test_an_interrupt_out_of_a_removal_does_not_undo_a_grade_where_signals_are_watched(
    tmp_path,
):
    control = Control(1.0)
    control.owns_interrupts = True
    made = scripted_request(
        {"load": lambda: tasks(1), "where": Where.REUSE},
        {"sandbox": True},
        {"closing": raiser(OSError("gone")), "removing": raiser(KeyboardInterrupt())},
    )
    ran = await run(tmp_path, made, control=control)
    assert ran.record().verdict == "graded"
    assert len(ran.leases()) == 1
    assert "task t0: after its grade: KeyboardInterrupt" in log(ran)


async def test_processes_that_the_agent_left_are_ended_and_counted_in_the_log(tmp_path):
    made = scripted_request({"load": lambda: tasks(1)}, {"sandbox": True}, {"end": lambda: 3})
    ran = await run(tmp_path, made)
    assert ran.record().verdict == "graded"
    assert "task t0: ended 3 processes the agent had left" in log(ran)


async def test_what_the_model_client_tries_again_is_told(tmp_path):
    async def agent(task_input, _session, model, _emit):
        return AgentOutcome(answer=(await model.chat(task_input.messages)).message.text)

    with FakeEndpoint([rate_limited(), chat("right")]) as endpoint:
        made = scripted_request(
            {"load": lambda: tasks(1)},
            {"model": True, "run": agent},
            model=model_config(base_url=endpoint.base_url, api_protocol=("openai-chat",)),
        )
        ran = await run(tmp_path, made)
    assert ran.record().metrics == {"pass": 1.0}
    (retried,) = ran.of("model_retried")
    assert (retried.task, retried.attempt, retried.code) == ("t0", 1, "rate-limited")


async def test_a_sandbox_that_breaks_in_use_ends_the_attempt_at_once(tmp_path):
    async def break_soon():
        await trio.sleep(0.05)
        raise ConnectionError("the daemon went away")

    made = scripted_request(
        {"load": lambda: tasks(1)},
        {"sandbox": True, "run": lambda *_: trio.sleep_forever()},
        {"using": break_soon},
    )
    ran = await run(tmp_path, made)
    assert ran.record().failure.code == "sandbox-died"
    assert ran.record().failure.phase == "run"
    assert not ran.leases()


async def test_a_sandbox_that_breaks_for_a_reason_of_its_own_is_told_by_that_and_closes_well(
    tmp_path,
):
    async def break_soon():
        await trio.sleep(0.05)
        raise SandboxError("it has written too much", code="storage-exceeded", retryable=False)

    made = scripted_request(
        {"load": lambda: tasks(1)},
        {"sandbox": True, "run": lambda *_: trio.sleep_forever()},
        {"using": break_soon},
    )
    ran = await run(tmp_path, made)
    failure = ran.record().failure
    assert (failure.code, failure.retryable) == ("storage-exceeded", False)
    assert "it has written too much" in failure.message
    assert "closing sandbox" not in log(ran)


async def test_a_task_that_needs_an_image_where_there_are_none_fails_alone(tmp_path):
    import attrs

    def plan(task, plan):
        return attrs.evolve(plan, image="x:1") if task.id == "t0" else plan

    made = scripted_request({"plan": plan}, {"sandbox": True})
    records = {record.task_id: record for record in (await run(tmp_path, made)).records()}
    assert records["t0"].failure.code == "unsupported-sandbox"
    assert records["t1"].verdict == "graded"
