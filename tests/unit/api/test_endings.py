"""What the entry points make of an engine's result, and what they refuse before anything runs."""

import asyncio

import pytest

import agentcompass
from agentcompass import api
from agentcompass.api import endings
from agentcompass.errors import (
    ConfigurationError,
    EvaluationFailedError,
    EvaluationTimeoutError,
    NestedLoopError,
    PreflightError,
)
from agentcompass.records import OrchestrationResult, RequestOutcome


def _result(*outcomes, status="failed", ended_by=None):
    return OrchestrationResult(
        id="id",
        name="name",
        status=status,
        started_at="",
        finished_at="",
        requests={outcome.name: outcome for outcome in outcomes},
        ended_by=ended_by,
    )


def _outcome(name="a", status="failed", **rest):
    return RequestOutcome(name=name, status=status, **rest)


DONE = _outcome("done", "completed", result={"metrics": {}}, paths={})
NOT_READY = _outcome("not ready", exception=PreflightError("no docker"))


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (_result(DONE, status="completed"), 0),
        (_result(_outcome()), 1),
        (_result(DONE, _outcome(), status="partial_failure"), 1),
        (_result(_outcome(exception=ConfigurationError("no such file"))), 2),
        (_result(NOT_READY), 3),
        (_result(NOT_READY, _outcome("b", exception=PreflightError("no key"))), 3),
        (_result(NOT_READY, _outcome("b")), 1),
        (_result(NOT_READY, DONE, status="partial_failure"), 1),
        (_result(_outcome(status="timed_out"), status="timed_out", ended_by="timeout"), 124),
        (_result(_outcome(status="cancelled"), status="cancelled", ended_by="sigint"), 130),
        (_result(DONE, status="completed", ended_by="sigint"), 130),
        (_result(_outcome(status="cancelled"), status="cancelled", ended_by="sigterm"), 143),
        (_result(_outcome(), ended_by="store"), 1),
        (_result(), 1),
    ],
    ids=[
        "completed",
        "failed",
        "partly",
        "configuration",
        "not ready",
        "none ready",
        "failed for two reasons",
        "one not ready",
        "timeout",
        "interrupted",
        "interrupted at its end",
        "terminated",
        "disk full",
        "nothing",
    ],
)
def test_exit_codes(result, code):
    assert api.exit_code(result) == code


def test_a_completed_evaluation_is_its_dictionary():
    assert endings.single_result(_result(DONE, status="completed")) == {"metrics": {}}


def test_the_error_of_a_failed_evaluation_is_raised_itself():
    with pytest.raises(PreflightError) as caught:
        endings.single_result(_result(NOT_READY))
    assert caught.value is NOT_READY.exception


def test_a_timeout_carries_the_result_as_far_as_it_got():
    outcome = _outcome(
        status="timed_out", error="too late", result={"metrics": {}}, paths={"run_dir": "r"}
    )
    with pytest.raises(EvaluationTimeoutError, match="too late") as caught:
        endings.single_result(_result(outcome, status="timed_out", ended_by="timeout"))
    assert isinstance(caught.value, TimeoutError)
    assert (caught.value.result, caught.value.paths) == ({"metrics": {}}, {"run_dir": "r"})


def test_a_failure_without_an_error_of_its_own_is_an_evaluation_failure():
    with pytest.raises(EvaluationFailedError, match="the evaluation was failed"):
        endings.single_result(_result(_outcome()))


@pytest.mark.parametrize(
    ("ended_by", "kind"), [("sigint", KeyboardInterrupt), ("sigterm", SystemExit)]
)
def test_a_signal_that_ended_the_run_is_raised_to_the_program(ended_by, kind):
    cancelled = _outcome(status="cancelled")
    with pytest.raises(kind) as caught:
        endings.single_result(_result(cancelled, status="cancelled", ended_by=ended_by))
    if kind is SystemExit:
        assert caught.value.code == 143


def test_a_synchronous_call_in_a_loop_is_refused_before_its_arguments_are_looked_at():
    async def app():
        agentcompass.launch(None)

    with pytest.raises(NestedLoopError, match="async_launch"):
        asyncio.run(app())


def test_a_file_name_is_no_orchestration():
    with pytest.raises(ConfigurationError, match="agentcompass launch FILE"):
        agentcompass.launch("evaluations.yaml")


@pytest.mark.parametrize("name", ["on_progress", "on_request_finished"])
def test_a_callback_that_would_have_to_be_awaited_is_refused(name):
    async def callback(event):
        """Never awaited."""

    spec = agentcompass.OrchestrationSpec(
        requests=[
            agentcompass.RunRequestSpec(
                name="a",
                benchmark={"id": "humaneval"},
                harness={"id": "oracle"},
                model={"id": "none"},
            )
        ]
    )
    with pytest.raises(ConfigurationError, match=f"{name} must be a plain function"):
        agentcompass.launch(spec, **{name: callback})
