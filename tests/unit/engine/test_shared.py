"""The model clients that requests share."""

from __future__ import annotations

import attrs
import pytest
import trio

from agentcompass.engine.shared import Clients
from agentcompass.secrets import Scrubber
from support.requests import model_config, orchestration
from support.scripted import HarnessScript, ScriptedHarness


class Closing:
    """A client that says when it is closed, and then waits or fails."""

    def __init__(self, log, error=None):
        self.log, self.error = log, error

    async def aclose(self):
        self.log.append(self)
        await trio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error


def clients_with(tmp_path, *clients):
    shared = Clients(orchestration(tmp_path), Scrubber())
    shared._open = [(model_config(), (), client) for client in clients]
    return shared


async def test_every_client_is_closed_also_when_there_is_no_time_left(tmp_path):
    log = []
    shared = clients_with(tmp_path, *(Closing(log) for _ in range(3)))
    with trio.CancelScope() as scope:
        scope.cancel()
        await shared.aclose()
    assert len(log) == 3


async def test_every_client_is_closed_also_when_one_fails(tmp_path):
    log = []
    shared = clients_with(tmp_path, Closing(log), Closing(log, OSError("gone")), Closing(log))
    with pytest.raises(OSError, match="gone"):
        await shared.aclose()
    assert len(log) == 3


async def test_requests_with_one_model_and_like_harnesses_share_a_client(tmp_path):
    shared = Clients(orchestration(tmp_path), Scrubber())
    config, harness = (
        model_config(base_url="http://127.0.0.1:9/v1"),
        ScriptedHarness(HarnessScript()),
    )
    try:
        assert shared.get(config, harness.protocols) is shared.get(config, harness.protocols)
    finally:
        await shared.aclose()


async def test_another_model_or_another_kind_of_harness_has_a_client_of_its_own(tmp_path):
    class Other(ScriptedHarness):
        protocols = ("openai-completions", "openai-chat")

    shared = Clients(orchestration(tmp_path), Scrubber())
    config = model_config(base_url="http://127.0.0.1:9/v1")
    plain = ScriptedHarness(HarnessScript())
    try:
        clients = {
            shared.get(config, plain.protocols),
            shared.get(config, Other.protocols),
            shared.get(attrs.evolve(config, timeout_seconds=1.0), plain.protocols),
        }
        assert len(clients) == 3
    finally:
        await shared.aclose()
