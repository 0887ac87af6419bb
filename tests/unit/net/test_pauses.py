"""When everybody leaves an endpoint alone."""

import random

import pytest

from agentcompass.net.pauses import Pauses


class Longest:
    def uniform(self, _low, high):
        return high


def refusals(pauses, *asked):
    return [pauses.refused(pauses.number, each) for each in asked]


def test_what_the_endpoint_asks_for_is_kept():
    assert refusals(Pauses(random=Longest()), 3.0) == [3.0]
    assert refusals(Pauses(random=Longest()), 0.0) == [0.0]


def test_five_pauses_without_a_hint_span_more_than_a_minute_even_at_their_shortest():
    class Shortest:
        def uniform(self, low, _high):
            return low

    waits = refusals(Pauses(random=Shortest()), *[None] * 6)
    assert sum(waits[:5]) > 50
    assert sum(waits) > 60


def test_a_hint_that_proves_wrong_again_and_again_is_not_trusted_for_ever():
    waits = refusals(Pauses(random=Longest()), *[0.0] * 8)
    assert waits == pytest.approx([0, 0.125, 0.5, 2, 8, 32, 60, 60])


def test_a_refusal_of_a_call_from_before_the_pause_adds_only_what_it_asks():
    pauses = Pauses(random=Longest())
    pauses.refused(0, None)
    assert pauses.refused(0, None) == 0
    assert pauses.refused(0, 7.0) == 7.0
    assert pauses.number == 1


def test_pauses_are_random_within_half_of_their_length():
    waits = [Pauses(random=random.Random(seed)).refused(0, None) for seed in range(100)]
    assert all(0.25 <= wait <= 0.5 for wait in waits)
    assert len(set(waits)) > 90


def test_only_a_later_end_is_news():
    pauses = Pauses()
    assert pauses.extend(10.0, now=5.0)
    assert not pauses.extend(9.0, now=5.0)
    assert not pauses.extend(20.0, now=20.0)
    assert pauses.left_seconds(7.0) == 3.0
    assert pauses.left_seconds(11.0) == 0.0


def test_however_many_there_are_none_is_longer_than_the_longest():
    pauses = Pauses(random=Longest(), first_seconds=1e-3, longest_seconds=0.01)
    assert max(refusals(pauses, *[None] * 2000)) == 0.01
