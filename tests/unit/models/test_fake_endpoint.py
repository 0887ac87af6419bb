"""The endpoint that the other tests rely on."""

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from agentcompass.testing import FakeEndpoint, chat, error, no_answer
from agentcompass.testing.behaviours import BEHAVIOURS

TESTS_DIR = Path(__file__).parents[2]
BODY = json.dumps({"messages": [{"role": "user", "content": "hi"}]}).encode()


def post(url, body=BODY):
    request = urllib.request.Request(url, body, {"Authorization": "Bearer k"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as answer:
        return json.loads(answer.read())


def content(answer):
    return answer["choices"][0]["message"]["content"]


def test_a_list_is_used_in_order_and_its_last_for_ever():
    with FakeEndpoint([chat("a"), chat("b")]) as endpoint:
        assert [content(post(endpoint.url)) for _ in range(3)] == ["a", "b", "b"]


def test_requests_are_remembered_as_they_were():
    with FakeEndpoint() as endpoint:
        assert content(post(endpoint.base_url + "/x?y=1")) == "hi"
    seen = endpoint.requests[0]
    assert (seen.method, seen.target, seen.body, seen.number) == ("POST", "/v1/x?y=1", BODY, 0)
    assert seen.headers["authorization"] == "Bearer k"


@pytest.mark.parametrize("behaviour", [error(500), no_answer("close"), no_answer("reset")])
def test_failures_look_like_failures(behaviour):
    with FakeEndpoint(behaviour) as endpoint, pytest.raises(OSError):
        post(endpoint.url)


def test_stopping_ends_clients_that_wait():
    endpoint = FakeEndpoint(no_answer("stall")).start()
    outcome = []

    def ask():
        try:
            post(endpoint.url)
        except OSError as failed:
            outcome.append(failed)

    client = threading.Thread(target=ask)
    client.start()
    endpoint.wait_for_requests(1)
    endpoint.stop()
    client.join(timeout=10)
    assert len(outcome) == 1


def test_waiting_in_vain_says_what_is_there():
    with FakeEndpoint() as endpoint, pytest.raises(AssertionError, match="0 requests"):
        endpoint.wait_for_requests(1, timeout_seconds=0.01)


@pytest.mark.parametrize("name", sorted(BEHAVIOURS))
def test_every_named_behaviour_can_be_written(name):
    behaviour = BEHAVIOURS[name]
    for reaction in behaviour if isinstance(behaviour, list) else [behaviour]:
        assert callable(reaction) or b"".join(reaction.wire()).startswith(b"HTTP/1.1 ")


def start(*options, parent=()):
    environment = {**os.environ, "PYTHONPATH": str(TESTS_DIR)}
    command = [*parent, sys.executable, "-m", "agentcompass.testing", *options]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_as_a_process_it_prints_its_url_and_ends_on_sigterm(tmp_path):
    process = start("--behaviour", "echo", "--log", str(tmp_path / "log"))
    try:
        assert content(post(process.stdout.readline().strip())) == "hi"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.stdout.close()
    logged = json.loads((tmp_path / "log").read_text())
    assert json.loads(logged["body"]) == json.loads(BODY)


def test_as_a_process_it_ends_with_its_parent():
    process = start("--answer", "x", parent=["sh", "-c", '"$@" & wait', "sh"])
    try:
        assert process.stdout.readline().startswith("http://")
        process.terminate()
        process.wait(timeout=10)
        assert process.stdout.read() == ""  # its end of the pipe is closed: it has ended
    finally:
        process.kill()
        process.stdout.close()
