"""Usage adds up; what is unknown stays unknown."""

from agentcompass.records import ExecutionRecord, Usage


def test_usage_of_several_calls_adds_up():
    first = Usage(
        calls=1,
        input_tokens=10,
        cached_tokens=4,
        cache_write_tokens=2,
        output_tokens=3,
        cost_usd=0.5,
    )
    second = Usage(
        calls=2,
        unmetered_calls=1,
        input_tokens=5,
        output_tokens=7,
        reasoning_tokens=6,
        cost_usd=0.25,
    )
    assert first + second == Usage(
        calls=3,
        unmetered_calls=1,
        input_tokens=15,
        cached_tokens=4,
        cache_write_tokens=2,
        output_tokens=10,
        reasoning_tokens=6,
        cost_usd=0.75,
    )
    assert sum([first, second], Usage()).total_tokens == 25


def test_one_unknown_price_makes_the_cost_unknown():
    assert (Usage(cost_usd=1.0) + Usage(cost_usd=None)).cost_usd is None
    assert (Usage(cost_usd=None) + Usage(cost_usd=1.0)).cost_usd is None


def test_executions_of_one_attempt_have_one_key():
    first, retry = (
        ExecutionRecord(task_id="t", attempt=2, execution=n, verdict="infra") for n in (1, 2)
    )
    assert first.key == retry.key == ("t", 2)
