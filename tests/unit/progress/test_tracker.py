from __future__ import annotations

import pytest

from agentcompass.metrics.intervals import wilson
from agentcompass.progress import events
from agentcompass.progress.state import OTHER_CAUSES
from agentcompass.progress.tracker import Tracker
from agentcompass.records import Usage
from support.scripted_run import (
    START,
    failed,
    finished,
    phase,
    prepared,
    request_finished,
    retried,
    started,
)


def tracked(*what):
    tracker = Tracker()
    for event in what:
        tracker.apply(event)
    return tracker


def test_verdicts_are_counted_and_reused_attempts_are_done():
    tracker = tracked(
        prepared(planned=10, reused=3),
        finished("a"),
        finished("b", 0.0),
        failed("c"),
        finished("d", verdict="skipped"),
    )
    state = tracker.requests["demo"]
    assert state.verdicts == {"graded": 2, "infra": 1, "cancelled": 0, "skipped": 1}
    assert (state.done, state.graded, state.fraction) == (7, 5, 0.7)


def test_an_execution_that_is_retried_is_no_verdict_yet():
    state = tracked(prepared(), failed("a", will_retry=True)).requests["demo"]
    assert (state.done, state.retried, state.causes["rate-limited"].count) == (0, 1, 1)


def test_the_score_of_a_binary_metric_has_a_wilson_interval():
    tracker = tracked(prepared(), *(finished(str(n), float(n < 3)) for n in range(8)))
    score = tracker.requests["demo"].running_score
    assert score.mean == 3 / 8
    assert score.interval == wilson(3, 8)


def test_the_score_of_a_scalar_metric_has_a_normal_interval():
    score = tracked(finished("a", 0.2), finished("b", 0.6)).requests["demo"].running_score
    low, high = score.interval
    assert score.mean == pytest.approx(0.4)
    assert (low, high) == pytest.approx((0.4 - 1.96 * 0.2, 0.4 + 1.96 * 0.2), rel=1e-3)


def test_one_scalar_value_has_no_interval():
    assert tracked(finished("a", 0.2)).requests["demo"].running_score.interval is None


def test_reused_attempts_count_in_the_running_score():
    tracker = tracked(prepared(reused=4, reused_score=0.75), finished("a", 0.0))
    score = tracker.requests["demo"].running_score
    assert (score.n, score.mean, score.interval) == (5, 0.6, wilson(3, 5))


def test_reused_scalar_scores_leave_the_spread_unknown():
    tracker = tracked(prepared(reused=4, reused_score=0.33), finished("a", 0.5), finished("b", 0.1))
    assert tracker.requests["demo"].running_score.interval is None


def test_a_score_that_is_not_finite_does_not_spoil_the_mean():
    tracker = tracked(finished("a", 1.0), finished("b", float("nan")))
    assert tracker.requests["demo"].running_score.mean == 1.0


def test_an_active_attempt_is_known_with_its_phase_and_age():
    tracker = tracked(
        started("a", at=START),
        phase("a", "run", at=START + 5),
        phase("a", "run", detail="model", at=START + 9),
        retried("a", at=START + 10),
    )
    attempt = tracker.active["demo", "a", 1]
    assert (attempt.phase, attempt.phase_started_at, attempt.detail) == ("run", START + 5, "model")
    assert attempt.model_retries == 1


def test_a_phase_after_the_end_does_not_bring_an_attempt_back():
    tracker = tracked(started("a"), finished("a"), phase("a", "close"))
    assert tracker.active == {}


def test_memory_does_not_grow_with_finished_attempts():
    tracker = tracked(prepared(planned=5000))
    for n in range(5000):
        tracker.apply(started(f"t{n}", at=START + n))
        tracker.apply(retried(f"t{n}", at=START + n))
        tracker.apply(failed(f"t{n}", code=f"cause-{n}", at=START + n))
    state = tracker.requests["demo"]
    assert tracker.active == {}
    assert len(state.causes) == 101
    assert state.causes[OTHER_CAUSES].count == 4900
    assert len(tracker._finishes) <= 256
    assert len(tracker._retries) <= 1024


def test_tokens_and_money_of_retries_are_summed():
    tracker = tracked(
        failed("a", will_retry=True, usage=Usage(calls=1, input_tokens=10, cost_usd=0.5)),
        finished("a", execution=2, usage=Usage(calls=1, output_tokens=5, cost_usd=0.25)),
    )
    assert (tracker.usage.total_tokens, tracker.usage.cost_usd) == (15, 0.75)


def test_an_unknown_price_makes_the_sum_unknown():
    tracker = tracked(finished("a", usage=Usage(calls=1, cost_usd=None)))
    assert tracker.usage.cost_usd is None


def test_rate_and_time_left_follow_from_what_finished():
    tracker = tracked(prepared(planned=10), started("0", at=START))
    for n in range(4):
        tracker.apply(finished(str(n), at=START + 10 * (n + 1)))
    assert tracker.rate(START + 40) == pytest.approx(0.1)
    assert tracker.eta_seconds(START + 40) == pytest.approx(60)


def test_the_rate_falls_while_nothing_finishes():
    tracker = tracked(prepared(), started("a", at=START), finished("a", at=START + 1))
    assert tracker.rate(START + 100) == pytest.approx(0.01)


def test_the_rate_forgets_a_slow_beginning():
    tracker = tracked(prepared(planned=1000), started("0", at=START))
    for n in range(300):
        tracker.apply(finished(str(n), at=START + 10_000 + n))
    assert tracker.rate(START + 10_299) == pytest.approx(1.0)


def test_no_time_left_is_guessed_from_one_attempt():
    tracker = tracked(prepared(), started("a"), finished("a", at=START + 1))
    assert tracker.eta_seconds(START + 2) is None


def test_what_waits_is_summed_over_requests_and_ends_with_them():
    def waits(request, **waiting):
        return events.LimitsChanged(at=START, request=request, running=1, waiting=waiting)

    tracker = tracked(waits("one", retry=2), waits("two", retry=1, docker=5))
    assert tracker.waiting() == {"docker": 5, "retry": 3}
    tracker.apply(request_finished(request="two"))
    assert tracker.waiting() == {"retry": 2}


def test_retries_of_the_last_minute_are_counted_by_cause():
    tracker = tracked(
        retried("a", "old", at=START),
        retried("a", "stalled", at=START + 100),
        retried("b", at=START + 101),
        retried("b", at=START + 102),
    )
    assert tracker.recent_retries(START + 110) == {"rate-limited": 2, "stalled": 1}


def test_the_first_cleanup_notice_counts():
    def cleanup(reason):
        return events.CleanupStarted(at=START, reason=reason, sandboxes=3, grace_seconds=30)

    assert tracked(cleanup("timeout"), cleanup("sigint")).cleanup.reason == "timeout"


def test_kept_sandboxes_are_counted_but_only_the_first_are_remembered():
    tracker = Tracker()
    for n in range(50):
        tracker.apply(events.SandboxKept(at=START, task="t", attempt=1, name=f"s{n}", hint="enter"))
    assert (tracker.n_kept, len(tracker.kept)) == (50, 20)


def test_limits_that_hold_nobody_back_are_not_told():
    tracker = tracked(
        events.LimitsChanged(at=START, running=1, waiting={"retry": 0, "docker": 2}, sandboxes=3)
    )
    assert tracker.waiting() == {"docker": 2}
    assert tracker.sandboxes == 3


def test_the_grace_that_is_left_is_counted_from_the_first_notice():
    tracker = tracked(prepared())
    assert tracker.grace_left(START) is None
    for at in (10, 20):
        tracker.apply(
            events.CleanupStarted(at=START + at, reason="sigint", sandboxes=2, grace_seconds=30.0)
        )
    assert tracker.grace_left(START + 25) == 15
    assert tracker.grace_left(START + 99) == 0
    assert tracker.sandboxes == 2


def test_the_rate_counts_from_when_there_was_something_to_do():
    assert tracked(prepared(), finished("a", at=START + 10)).rate(START + 20) == 1 / 20
    assert (
        tracked(started("a", at=START + 5), finished("a", at=START + 10)).rate(START + 25) == 1 / 20
    )
