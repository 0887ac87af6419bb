"""What is tried again, and when. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from agentcompass.records import Failure, Verdict
from agentcompass.spec.resolved import ExecutionConfig

MATCHED_LENGTH: Final = 2000
"""Characters of an error message that a user's pattern sees."""


def should_retry(
    verdict: Verdict, failure: Failure | None, execution: int, config: ExecutionConfig
) -> bool:
    """Say whether an attempt is executed again.

    Only an attempt without a grade is: one that ended for an infrastructure reason which another try can help, or
    whose code or message matches a pattern of `retry_pattern_list` (regular expressions, searched for).

    Args:
        verdict: How the execution ended.
        failure: Why, when not graded.
        execution: Which it was, from 1; `max_retries` more follow at most.
        config: The request's settings.
    """
    if verdict != "infra" or failure is None or execution > config.max_retries:
        return False
    if failure.retryable:
        return True
    texts = (failure.code, failure.message[:MATCHED_LENGTH])
    return any(re.search(pattern, text) for pattern in config.retry_pattern_list for text in texts)


def retry_delay(execution: int, config: ExecutionConfig, random: Callable[[], float]) -> float:
    """Return the seconds to wait before the next execution: exponential with full jitter.

    The wait is drawn from [min, min(max, min * 2^execution)], so that it is never shorter than the user's minimum.

    Args:
        execution: Which has just ended, from 1.
        config: Has the bounds, in seconds.
        random: Gives numbers in [0, 1).

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """
    low, high = config.retry_min_delay_seconds, config.retry_max_delay_seconds
    ceiling = min(high, low * 2.0 ** min(execution, 60))
    return low + random() * max(0.0, ceiling - low)
