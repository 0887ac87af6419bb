"""How many tokens a call will use, before it is made."""

import pytest

from agentcompass.components.models.estimate import TokenEstimate
from agentcompass.records import Usage


def body(text="word " * 800, **more):
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


def test_a_first_guess_is_a_quarter_of_the_characters_and_a_usual_answer():
    assert TokenEstimate().of(body()) == pytest.approx(1500, rel=0.02)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_an_answer_is_not_expected_to_be_longer_than_it_may(name):
    assert TokenEstimate().of(body(**{name: 10})) == pytest.approx(1010, rel=0.02)
    assert TokenEstimate().of(body(**{name: 100_000})) == pytest.approx(1500, rel=0.02)


@pytest.mark.parametrize("limit", [None, "many", -5, 0, True])
def test_a_limit_that_is_none_changes_nothing(limit):
    assert TokenEstimate().of(body(max_tokens=limit)) > 1400


def test_it_learns_from_what_calls_used():
    estimate = TokenEstimate()
    for _ in range(50):
        estimate.learn(Usage(calls=1, input_tokens=2000, output_tokens=50), body())
    assert estimate.of(body()) == pytest.approx(2050, rel=0.05)
    assert estimate.typical == pytest.approx(2050)


def test_calls_that_told_no_usage_teach_nothing():
    estimate = TokenEstimate()
    estimate.learn(Usage(calls=1, unmetered_calls=1), body())
    assert estimate.of(body()) == TokenEstimate().of(body())
    assert estimate.typical == 0


def test_absurd_usage_does_not_make_it_absurd():
    estimate = TokenEstimate()
    for tokens in (1, 10**9):
        for _ in range(100):
            estimate.learn(Usage(calls=1, input_tokens=tokens, output_tokens=1), body())
    assert 10 < estimate.of(body()) < 100_000


def test_an_image_in_a_message_is_not_counted_by_its_letters():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4_000_000}}
    assert TokenEstimate().of({"messages": [{"role": "user", "content": [image]}]}) < 3000


def test_without_what_was_asked_only_the_mean_is_learned():
    estimate = TokenEstimate()
    estimate.learn(Usage(calls=1, input_tokens=9000, output_tokens=500))
    assert estimate.typical == 9500
    assert estimate.of(body()) == TokenEstimate().of(body())
