"""What may be used per minute."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcompass.net.rates import RateBucket, Rates


def drained(per_minute, amounts, start=0.0):
    """The times at which amounts are taken as early as possible."""
    bucket, now, times = RateBucket(per_minute), start, []
    for amount in amounts:
        now = bucket.ready_at(amount, now)
        bucket.take(amount, now)
        times.append(now)
    return times


@given(per_minute=st.integers(1, 2000), minutes=st.floats(1.0, 3.0))
def test_in_no_minute_are_more_taken_than_allowed(per_minute, minutes):
    times = drained(per_minute, [1] * (1 + int(per_minute * minutes)))
    for at in range(0, len(times) - per_minute, max(1, per_minute // 7)):
        assert times[at + per_minute] - times[at] >= 60 - 1e-3


@pytest.mark.parametrize("per_minute", [0.5, 1, 7, 60, 3000])
def test_what_is_allowed_is_used_up(per_minute):
    minutes = 20
    times = drained(per_minute, [1] * max(2, int(per_minute * minutes)))
    assert times[-1] <= 60 * minutes * 1.01


def test_a_reader_that_comes_late_loses_nothing_up_to_a_quarter_second():
    bucket, now, taken = RateBucket(60_000), 0.0, 0
    for _ in range(100):
        now += 0.2
        while bucket.ready_at(1, now) <= now:
            bucket.take(1, now)
            taken += 1
    assert taken == pytest.approx(1000 * now, rel=0.02)


def test_what_was_taken_too_much_is_owed_and_what_was_too_little_comes_back():
    bucket = RateBucket(60)
    bucket.take(1, 0.0)
    bucket.take(9, 0.0)
    assert bucket.ready_at(1, 0.0) == pytest.approx(10)
    bucket.take(-9, 0.0)
    assert bucket.ready_at(1, 0.0) == pytest.approx(1)
    bucket.take(-100, 0.0)
    bucket.take(1, 0.0)
    assert bucket.ready_at(1, 0.0) > 0


def test_a_share_is_what_one_wants_and_a_part_of_what_nobody_wants():
    bucket = RateBucket(600)
    bucket.share([math.inf, math.inf], 0.0)
    assert bucket._share == 300
    bucket.share([math.inf, 100.0], 0.0)
    assert bucket._share == 500
    bucket.share([100.0, 100.0], 0.0)
    assert bucket._share == 300
    bucket.share([math.inf], 0.0)
    assert bucket._share == 600


def test_recent_use_says_what_is_wanted():
    bucket = RateBucket(600)
    assert bucket.wanted(0.0, is_waited_for=False) == pytest.approx(1)
    for second in range(60):
        bucket.take(1, float(second))
    assert bucket.wanted(59.0, is_waited_for=False) == pytest.approx(90, rel=0.1)
    assert bucket.wanted(300.0, is_waited_for=False) == pytest.approx(1, rel=0.01)
    assert bucket.wanted(300.0, is_waited_for=True) == math.inf


def test_without_rates_everything_may_go_out_now():
    rates = Rates(None, None)
    rates.take(0.0, requests=5, tokens=1e9)
    assert rates.opening(1e9, 3.0) == (3.0, None)
    assert rates.wanted(3.0, "rpm") == (0.0, 0.0)


def test_it_says_which_rate_is_waited_for():
    rates = Rates(60, 6000)
    rates.take(0.0, requests=1, tokens=100)
    assert rates.opening(100, 0.0) == (pytest.approx(1), "rpm")
    rates.take(0.0, tokens=10_000)
    assert rates.opening(1, 1.0)[1] == "tpm"


@pytest.mark.parametrize("per_minute", [1, 30, 600, 60_000])
@pytest.mark.parametrize("minutes", [0, 0.1, 0.9])
def test_a_new_bucket_goes_on_where_another_stopped(per_minute, minutes):
    old, new = RateBucket(per_minute), RateBucket(per_minute)
    old.take(max(1, minutes * per_minute), 0.0)
    new.settle_at(old.settled_at(0.5, 0.0), 2.0)
    assert new.ready_at(1, 2.0) == pytest.approx(old.ready_at(1, 2.0))


def test_what_another_took_counts_for_no_more_than_a_minute():
    bucket = RateBucket(60)
    bucket.settle_at(1e9, 0.0)
    assert bucket.ready_at(1, 0.0) == pytest.approx(60)


def test_what_nobody_has_seen_counts_as_used_up():
    bucket = RateBucket(60)
    assert bucket.settled_at(0.0, 0.0) == 0.0
    assert bucket.settled_at(0.0, 5.0) == pytest.approx(6)
    bucket.take(1, 0.0)
    assert bucket.settled_at(100.0, 0.0) == 100.0
    assert bucket.settled_at(100.0, 5.0) == pytest.approx(106)
    bucket.take(10, 100.0)  # 9 are owed
    assert bucket.settled_at(100.0, 0.0) == pytest.approx(110)
    assert bucket.settled_at(100.0, 5.0) == pytest.approx(115)  # another of ten, meanwhile


# --- shared


def taken_together(per_minute, users, seconds, joins):
    """The times at which several take all they can; each joins at its time, and the others notice it a little later."""
    buckets, times, now = {}, [], 0.0
    while now < seconds:
        for user in range(users):
            if user not in buckets and joins[user] <= now:
                buckets[user] = RateBucket(per_minute)
                buckets[user].share([math.inf] * len(buckets), now, is_new=True)
        for user, bucket in buckets.items():
            known = [each for each in buckets if each == user or joins[each] + 0.5 <= now]
            bucket.share([math.inf] * len(known), now)
            while bucket.ready_at(1, now) <= now:
                bucket.take(1, now)
                times.append(now)
        now = min(now + 0.25, *(bucket.ready_at(1, now) for bucket in buckets.values()))
    return times


@given(
    each=st.integers(10, 200),
    joins=st.lists(st.floats(0, 90), min_size=2, max_size=4),
)
def test_several_together_take_no_more_in_any_minute_than_allowed(each, joins):
    per_minute = each * len(joins)
    times = taken_together(per_minute, len(joins), 180, [0.0, *joins[1:]])
    for first, last in zip(times, times[per_minute:], strict=False):
        assert last - first >= 60 - 0.01
    assert len(times) >= 0.85 * per_minute * 3


def test_whoever_joins_leaves_the_others_what_they_take_before_they_notice():
    bucket = RateBucket(600)
    assert bucket.share([math.inf, math.inf], 0.0, is_new=True)
    assert bucket.ready_at(1, 0.0) > 1
    alone = RateBucket(600)
    alone.share([math.inf], 0.0, is_new=True)
    assert alone.ready_at(1, 0.0) == 0.0


def test_a_share_is_not_kept_for_those_who_do_not_use_the_rate():
    bucket = RateBucket(600)
    bucket.share([1.0, 0.0, 0.0], 0.0)
    assert bucket._share == 600


def test_only_a_share_that_changed_much_is_news():
    bucket = RateBucket(600)
    assert bucket.share([math.inf, 100.0], 0.0)
    assert not bucket.share([math.inf, 110.0], 0.0)
    assert bucket.share([math.inf, 300.0], 0.0)
