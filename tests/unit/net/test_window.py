"""How many calls an endpoint takes at once, over all who share it."""

import math

import pytest

from agentcompass.net.window import Findings, Window


def refused(window, cuts, *, is_binding=True, in_use=64, now=0.0):
    return window.refused(cuts, now, in_use=in_use, is_binding=is_binding)


def full(size, cap=64):
    """A window that was cut from `size`, and is confirmed."""
    window = Window(cap)
    window.used(size)
    refused(window, 0, is_binding=False)
    window.succeeded(1, 1.0, is_binding=False)
    return window


def test_it_starts_as_wide_as_it_may_be():
    assert Window(256).size == 256
    assert Window(256).interval_seconds(10, 5.0) == 0


def test_a_cut_takes_a_quarter():
    assert full(64).size == 48


@pytest.mark.parametrize("seconds", [1.0, 10.0, 60.0])
def test_a_round_of_calls_adds_a_thirty_second_part(seconds):
    window = full(64, cap=256)
    for _ in range(48):
        window.succeeded(1, seconds, is_binding=True)
    assert window.findings.grown == pytest.approx(2, rel=0.02)


def test_a_small_window_grows_by_one():
    window = full(4)
    assert window.size == 3
    for _ in range(3):
        window.succeeded(1, 5.0, is_binding=True)
    assert window.size == 4


def test_calls_that_take_no_time_do_not_make_it_grow_faster():
    window = full(4)
    for _ in range(100):
        window.succeeded(1, 0.0, is_binding=False)
    for _ in range(3):
        window.succeeded(1, 0.01, is_binding=True)
    assert window.size == 3


def test_it_does_not_grow_beyond_its_cap_and_forgets_nothing_there():
    window = full(8, cap=8)
    for _ in range(1000):
        window.succeeded(1, 1.0, is_binding=True)
    assert window.size == 8
    assert window.findings.grown == pytest.approx(2, abs=0.2)


def test_the_time_between_calls_is_that_of_a_call_divided_by_the_places():
    window = full(64)
    assert window.interval_seconds(48, 0) == pytest.approx(1 / (1.2 * 48))
    assert window.interval_seconds(24, 0) == pytest.approx(1 / (1.2 * 24))


def test_while_no_call_has_ended_they_take_as_long_as_the_oldest_has_run():
    window = Window(8)
    window.used(8)
    refused(window, 0)
    assert window.interval_seconds(1, 12.0) == pytest.approx(10)
    assert 0 < window.interval_seconds(1, 0.0) < 0.1


def test_a_refusal_while_it_is_full_cuts_all_of_it_and_else_what_was_used():
    for is_binding, size in ((True, 36), (False, 7)):
        window = full(64)
        window.used(10)
        assert refused(window, 1, is_binding=is_binding)
        assert window.size == size


def test_old_and_further_refusals_do_not_cut():
    window = full(64)
    assert not refused(window, 0)
    assert refused(window, 1)
    assert not refused(window, 2)
    assert not refused(window, 1)
    assert window.cuts == 2


# --- refusals that have nothing to do with how many calls there are


def narrowest():
    """A window of 64 places that was cut down to one, which was refused as often as it takes."""
    window = Window(64)
    window.learn([Findings(cuts=9, base=1.0, ceiling=1.0)])
    window.succeeded(9, 1.0, is_binding=False)
    while not window.is_loose:
        assert window.size <= 2
        refused(window, window.cuts, in_use=1, now=100.0)
        window.succeeded(window.cuts, 1.0, is_binding=False)
    return window


def test_refusals_that_go_on_at_the_narrowest_open_it_on_trial():
    window = narrowest()
    assert window.size == 64
    assert not window.is_proven


def test_a_pause_before_its_first_call_is_no_part_of_the_trial():
    window = narrowest()
    assert not trial(window, taken=0, seconds=50.0)
    assert not trial(window, taken=20, seconds=55.0)
    assert window.is_proven


def test_as_many_refusals_while_many_calls_were_in_flight_do_not():
    window = Window(64)
    window.learn([Findings(cuts=9, base=1.0, ceiling=1.0)])
    for _ in range(100):
        window.succeeded(window.cuts, 1.0, is_binding=False)
        refused(window, window.cuts, in_use=30)
    assert not window.is_loose


def trial(window, taken, seconds):
    """So many calls of a second are answered within a time, and then one is refused."""
    for _ in range(taken):
        window.succeeded(window.cuts, 1.0, is_binding=False)
    return refused(window, window.cuts, now=100.0 + seconds)


def test_it_stays_open_while_that_gets_more_done():
    window = narrowest()
    assert not trial(window, taken=0, seconds=0.0)  # it begins
    assert not trial(window, taken=5, seconds=1.0)  # too early to tell
    assert not window.is_proven
    assert not trial(window, taken=20, seconds=5.0)
    assert window.is_proven
    assert not trial(window, taken=20, seconds=10.0)
    assert trial(window, taken=1, seconds=20.0)
    assert (window.size, window.is_loose) == (1, False)


def test_where_it_gets_no_more_done_it_takes_twice_as_many_refusals_to_try_again():
    window = narrowest()
    trial(window, taken=0, seconds=0.0)
    assert trial(window, taken=2, seconds=5.0)
    assert (window.size, window.is_loose) == (1, False)
    refusals = 0
    while not window.is_loose:
        window.succeeded(window.cuts, 1.0, is_binding=False)
        refused(window, window.cuts, in_use=1)
        refusals += 1
    assert refusals == 12


def test_where_no_call_was_ever_taken_a_trial_proves_nothing():
    window = Window(64)
    refused(window, 0)
    while not window.is_loose:
        refused(window, window.cuts, in_use=1)
    assert refused(window, window.cuts, in_use=64)
    assert (window.is_loose, window.is_proven) == (False, False)


def test_the_others_learn_that_it_is_open():
    window, other = narrowest(), Window(64)
    other.learn([window.findings])
    assert other.is_loose
    trial(window, taken=0, seconds=0.0)
    trial(window, taken=20, seconds=5.0)
    other.learn([window.findings])
    assert other.is_proven


# --- shared


def test_the_newest_cut_of_anybody_counts():
    window = full(64)
    window.learn([Findings(cuts=3, base=9, ceiling=12, grown=2), Findings(cuts=0)])
    assert (window.cuts, window.size) == (3, 11)
    assert window.findings == Findings(cuts=3, base=9, ceiling=12)


def test_cuts_of_several_in_one_episode_are_one_cut_to_the_smallest():
    one, other = full(64), full(48)
    for _ in range(2):
        one_told, other_told = one.findings, other.findings
        one.learn([other_told])
        other.learn([one_told])
    assert one.cuts == other.cuts == 1
    assert one.size == other.size == 36


def test_growth_of_all_is_added_up():
    windows = [Window(64) for _ in range(3)]
    windows[0].used(16)
    refused(windows[0], 0)
    for _ in range(20):
        told = [window.findings for window in windows]
        for at, window in enumerate(windows):
            window.learn(told[:at] + told[at + 1 :])
            window.succeeded(1, 1.0, is_binding=True)
    assert {window.size for window in windows} == {windows[0].size}
    alone = Window(64)
    alone.learn([Findings(cuts=1, base=48, ceiling=64)])
    for _ in range(60):
        alone.succeeded(1, 1.0, is_binding=True)
    assert abs(alone.size - windows[0].size) <= 1


def test_without_others_nothing_changes():
    window = full(64)
    window.learn([])
    assert window.size == 48
    assert window.findings.base == 48
    assert Window(3).findings.base == math.inf
