"""What is tried again, and after how long."""

import pytest

from agentcompass.engine.retry import retry_delay, should_retry
from agentcompass.records import Failure
from support.requests import execution_config


def failure(code="sandbox-failed", message="it broke", *, retryable=True):
    return Failure(phase="run", code=code, message=message, retryable=retryable)


@pytest.mark.parametrize("verdict", ["graded", "cancelled", "skipped"])
def test_only_infrastructure_failures_are_tried_again(verdict):
    assert not should_retry(verdict, failure(), 1, execution_config(max_retries=9))


def test_there_are_at_most_max_retries_more():
    config = execution_config(max_retries=2)
    assert [should_retry("infra", failure(), n, config) for n in (1, 2, 3)] == [True, True, False]


def test_zero_retries_means_none():
    assert not should_retry("infra", failure(), 1, execution_config(max_retries=0))


def test_what_no_retry_can_help_is_not_tried_again():
    assert not should_retry("infra", failure(retryable=False), 1, execution_config())


@pytest.mark.parametrize("pattern", ["unauth.*", "key was REVOKED|revoked"])
def test_a_pattern_of_the_user_overrides_that_by_code_or_message(pattern):
    config = execution_config(retry_pattern_list=(pattern,))
    refused = failure("unauthorized", "the key was revoked", retryable=False)
    assert should_retry("infra", refused, 1, config)


def test_a_pattern_sees_the_beginning_of_a_long_message_only():
    config = execution_config(retry_pattern_list=("needle",))
    long = failure(message="x" * 1_000_000 + "needle", retryable=False)
    assert not should_retry("infra", long, 1, config)


def test_the_delay_lies_between_the_users_bounds_and_grows():
    config = execution_config(retry_min_delay_seconds=5.0, retry_max_delay_seconds=60.0)
    longest = [retry_delay(n, config, lambda: 0.999999) for n in range(1, 7)]
    assert [round(delay) for delay in longest] == [10, 20, 40, 60, 60, 60]
    assert all(retry_delay(n, config, lambda: 0.0) == 5 for n in range(1, 7))
    assert retry_delay(10_000, config, lambda: 0.5) <= 60
