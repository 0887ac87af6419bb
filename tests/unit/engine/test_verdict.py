"""From what a component returned or raised to a verdict. How attempts end by it: `test_verdicts.py`."""

import errno
import math

import pytest
import trio

from agentcompass.components.base import AgentOutcome, Evaluation
from agentcompass.engine.verdict import (
    DIED,
    checked,
    checked_outcome,
    failure_from,
    has_interrupt,
    is_sandbox_death,
    most_telling,
)
from agentcompass.errors import EvaluatorError, InfraError, SandboxError
from agentcompass.records import Metric

PASS = Metric(name="pass", primary=True)
SCORE = Metric(name="score", kind="scalar", worst=0.0, best=10.0)
FREE = Metric(name="free", kind="scalar", worst=None, best=None)


def test_numbers_of_the_declared_kinds_become_floats():
    given = Evaluation(metrics={"pass": True, "score": 7, "free": -1e9})
    assert checked(given, (PASS, SCORE, FREE)).metrics == {"pass": 1.0, "score": 7.0, "free": -1e9}


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({}, "gave no value for metric 'pass'"),
        ({"pass": 1, "b": 2, "a": 3}, "gave undeclared metrics: 'a', 'b'"),
        ({"pass": "1"}, "metric 'pass' is str, not a number"),
        ({"pass": math.nan}, "metric 'pass' is nan"),
        ({"pass": -math.inf}, "metric 'pass' is -inf"),
        ({"pass": 2}, "metric 'pass' is 2, outside its scale 0 to 1"),
        ({"pass": 0.5}, "metric 'pass' is binary but its value is 0.5"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_sound_value_is_no_grade(metrics, words):
    with pytest.raises(EvaluatorError, match=words) as caught:
        checked(Evaluation(metrics=metrics), (PASS,))
    assert (caught.value.code, caught.value.retryable) == ("bad-evaluation", False)


@pytest.mark.parametrize("value", [1e101, -1e101])
def test_a_number_that_no_sum_can_hold_is_no_grade(value):
    with pytest.raises(EvaluatorError, match="which no sum or variance can hold"):
        checked(Evaluation(metrics={"free": value}), (FREE,))


@pytest.mark.parametrize("name", ["metrics", "details"])
def test_an_evaluation_whose_parts_are_no_mapping_is_none(name):
    given = Evaluation(**({"metrics": {"pass": 1}} | {name: [1]}))
    with pytest.raises(EvaluatorError, match=f"the evaluation's {name} are no mapping"):
        checked(given, (PASS,))


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (None, "NoneType, not an AgentOutcome"),
        (AgentOutcome(answer=42), "an outcome whose answer is int"),
        (AgentOutcome(stopped_by=1), "an outcome whose stopped_by is int"),
        (AgentOutcome(details="x"), "an outcome whose details is str"),
    ],
    ids=["none", "answer", "stopped-by", "details"],
)
def test_what_is_no_outcome_is_told(outcome, words):
    with pytest.raises(InfraError, match=f"the harness returned {words}"):
        checked_outcome(outcome)


# --- failures


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyError("image"), "key-error", "KeyError: 'image'"),
        (OSError(errno.ENOSPC, "No space left on device"), "disk-full", "No space left"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "disk-full", "quota exceeded"),
        (OSError(errno.EIO, "I/O error"), "oserror", "I/O error"),
        (SandboxError("no room", code="quota"), "quota", "no room"),
        (InfraError("", code="silent"), "silent", "InfraError"),
        (SystemExit(3), "system-exit", "SystemExit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_failure_has_the_code_of_its_error_and_its_own_words(error, code, message):
    failure = failure_from(error, "run")
    assert (failure.phase, failure.code) == ("run", code)
    assert message in failure.message


def test_a_long_message_is_cut_between_words_since_half_a_secret_would_not_be_found():
    message = failure_from(ValueError("word " * 1000), "run").message
    assert 1990 < len(message) <= 2000
    assert message.endswith("word ...")
    assert failure_from(ValueError("x" * 10_000), "run").message == "ValueError: ..."


def test_a_hopeless_error_is_not_tried_again():
    assert not failure_from(InfraError("no", code="no", retryable=False), "run").retryable
    assert failure_from(ValueError("no"), "run").retryable


async def test_a_cancellation_that_escaped_its_scope_is_named():
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            failure = failure_from(cancelled, "run")
            raise
    assert failure.code == "stray-cancellation"


@pytest.mark.parametrize(
    ("errors", "telling"),
    [
        ([KeyError("x"), SandboxError("no room")], SandboxError),
        ([KeyboardInterrupt(), SystemExit(1), KeyError("x")], KeyError),
        ([KeyboardInterrupt(), SystemExit(1)], SystemExit),
        ([GeneratorExit(), KeyboardInterrupt()], KeyboardInterrupt),
        ([GeneratorExit()], GeneratorExit),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_of_a_group_the_error_that_says_most_is_told(errors, telling):
    group = BaseExceptionGroup("outer", [BaseExceptionGroup("inner", errors)])
    assert type(most_telling(group)) is telling


def test_an_interrupt_and_the_death_of_a_sandbox_are_seen_in_a_group():
    group = BaseExceptionGroup("both", [KeyboardInterrupt(), SandboxError("gone", code=DIED)])
    assert has_interrupt(group)
    assert is_sandbox_death(group)
    assert not has_interrupt(SandboxError("gone", code=DIED))
    assert not is_sandbox_death(SandboxError("no room", code="quota"))
