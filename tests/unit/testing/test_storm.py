"""Faults mixed into answers: by their shares, and the same ones whatever the order of requests."""

import json
import threading

import httpx
import pytest

from agentcompass.testing import FakeEndpoint, Seen, Storm, chat
from agentcompass.testing.storm import FAULTS


def seen(text):
    body = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    return Seen(
        method="POST", target="/v1/chat/completions", headers={}, body=body, connection=0, number=0
    )


def test_without_shares_everything_is_answered():
    storm = Storm(chat("yes"))
    assert all(storm(seen(str(n))).json["choices"] for n in range(50))


def test_each_fault_happens_as_often_as_its_share_says():
    storm = Storm(chat("yes"), reset=0.2, rate_limited=0.1)
    for number in range(3000):
        storm(seen(str(number)))
    assert 500 < storm.happened["reset"] < 700
    assert 220 < storm.happened["rate_limited"] < 380
    assert set(storm.happened) == {"reset", "rate_limited"}


def test_what_becomes_of_a_request_does_not_depend_on_the_others():
    def fates(order):
        storm = Storm(chat("yes"), seed=7, server_error=0.5)
        return {text: storm(seen(text)).status for text in order}

    names = [str(number) for number in range(100)]
    assert fates(names) == fates(reversed(names))


def test_another_seed_brings_other_faults():
    def fates(seed):
        storm = Storm(chat("yes"), seed=seed, server_error=0.5)
        return [storm(seen(str(number))).status for number in range(100)]

    assert fates(1) != fates(2)


def test_a_request_that_is_made_again_can_fare_better():
    storm = Storm(chat("yes"), seed=3, server_error=0.5)
    assert {storm(seen("same")).status for _ in range(20)} == {200, 500}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_a_real_one(fault):
    storm = Storm(chat("yes"), slow_seconds=0.0, **{fault: 1.0})
    with FakeEndpoint(storm) as endpoint, httpx.Client(timeout=0.3) as client:
        try:
            answer = client.post(f"{endpoint.base_url}/chat/completions", json={"n": 1})
            outcome = answer.status_code
        except httpx.HTTPError as error:
            outcome = type(error)
    assert storm.happened == {fault: 1}
    expected = {
        "rate_limited": {429},
        "rate_limited_for_long": {429},
        "overloaded": {529},
        "server_error": {500},
        "bad_gateway": {502},
        "slow": {200},
        "silent": {httpx.ReadTimeout},
        "stalled": {httpx.ReadTimeout},
    }
    broken = {httpx.ReadError, httpx.RemoteProtocolError}
    assert outcome in expected.get(fault, broken)


def test_it_may_be_asked_from_many_threads():
    storm = Storm(chat("yes"), reset=0.5)
    threads = [
        threading.Thread(target=lambda: [storm(seen(str(n))) for n in range(200)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 600 < storm.happened["reset"] < 1000


@pytest.mark.parametrize(
    ("shares", "words"),
    [({"flood": 0.1}, "there is no fault 'flood'"), ({"reset": 1.1}, "no more than 1"),
     ({"reset": -0.1}, "parts of all requests")],
)  # fmt: skip
def test_shares_that_make_no_sense_are_refused(shares, words):
    with pytest.raises(ValueError, match=words):
        Storm(chat("yes"), **shares)
