"""What of an engine's failure the caller sees."""

import outcome
import pytest

from agentcompass.bridge.endings import bare, result_of


def test_a_value_is_returned():
    assert result_of(outcome.Value(3)) == 3


def test_a_lone_exception_loses_all_its_groups_and_has_no_context():
    error = ValueError("x")
    ending = outcome.Error(ExceptionGroup("outer", [ExceptionGroup("inner", [error])]))
    with pytest.raises(ValueError, match="x") as caught:
        result_of(ending)
    assert caught.value is error
    assert caught.value.__context__ is None


def test_an_interrupt_anywhere_in_a_group_wins():
    interrupt = KeyboardInterrupt()
    group = BaseExceptionGroup(
        "outer", [ValueError("x"), BaseExceptionGroup("inner", [OSError("y"), interrupt])]
    )
    assert bare(group) is interrupt


def test_several_exceptions_stay_together():
    group = ExceptionGroup("both", [ValueError("x"), OSError("y")])
    assert bare(group) is group
