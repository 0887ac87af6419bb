"""A reward is a number from 0 to 1 in one of two files, and anything else is no reward."""

from __future__ import annotations

import pytest

from agentcompass.components.benchmarks.harbor import rewards
from agentcompass.errors import EvaluatorError


@pytest.mark.parametrize(
    ("text", "data", "value"),
    [
        (b"1", None, 1.0),
        (b"0\n", None, 0.0),
        (b" 0.25 \r\n", None, 0.25),
        (b"1e-1", None, 0.1),
        (None, b'{"reward": 1}', 1.0),
        (None, b'{"reward": 0.5, "seconds": 3}', 0.5),
        (b"1", b'{"reward": 1.0}', 1.0),
        (b"0.5", b'{"report": {"passed": 3}}', 0.5),
    ],
)
def test_a_reward_is_read(text, data, value):
    assert rewards.parse(text, data, "reward").value == value


def test_what_else_is_in_the_json_is_kept():
    reward = rewards.parse(None, b'{"reward": 1, "accuracy": 0.9, "note": "x"}', "reward")
    assert reward.metrics == {"accuracy": 0.9, "note": "x"}


def test_another_key_can_be_the_reward():
    assert rewards.parse(None, b'{"accuracy": 0.9, "seconds": 4}', "accuracy").value == 0.9


def test_no_file_is_no_reward():
    with pytest.raises(EvaluatorError, match=r"neither reward.txt nor reward.json") as caught:
        rewards.parse(None, None, "reward")
    assert caught.value.code == "no-reward"
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("text", "data", "sentence"),
    [
        (b"", None, "reward.txt is empty"),
        (b"\n", None, "reward.txt is empty"),
        (b"yes", None, "is no number: 'yes'"),
        (b"1 0", None, "is no number"),
        (b"nan", None, "is no number"),
        (b"inf", None, "is no number"),
        (b"1_0", None, "is no number"),
        ("\u0661".encode(), None, "is no number"),
        (b"\xff\xfe", None, "is no number"),
        (b"0x1", None, "is no number"),
        (b"1" * 400, None, "is no number"),
        (b"1.5", None, "is 1.5, which is not from 0 to 1"),
        (b"-0.1", None, "which is not from 0 to 1"),
        (b"1" * (rewards.MAX_BYTES + 1), None, "reward.txt is longer than"),
        (None, b"", "is no JSON"),
        (None, b"1", "is no object: 1"),
        (None, b"[1]", "is no object"),
        (None, b'{"reward": NaN}', "is no JSON: NaN"),
        (None, b'{"reward": 0, "reward": 1}', "is no JSON: it says something twice"),
        (None, b'{"reward": 1e999}', "is no JSON: 1e999"),
        (None, b'{"reward": true}', "'reward' is no number: True"),
        (None, b'{"reward": "1"}', "'reward' is no number: '1'"),
        (None, b'{"reward": null}', "'reward' is no number: None"),
        (None, b'{"accuracy": 1}', "has no 'reward', only accuracy"),
        (None, b"{}", "has no 'reward', only nothing"),
        (None, b"[" * 100_000, "is no JSON"),
        (None, b"\xff", "is no JSON"),
        (b"0", b'{"reward": 1}', "reward.txt says 0 and reward.json says 1"),
        (b"oops", b'{"reward": 1}', "is no number: 'oops'"),
    ],
)
def test_what_is_no_reward_is_never_a_score(text, data, sentence):
    with pytest.raises(EvaluatorError) as caught:
        rewards.parse(text, data, "reward")
    assert caught.value.code == "bad-reward"
    assert not caught.value.retryable
    assert sentence in caught.value.message
    assert len(caught.value.message) < 300
