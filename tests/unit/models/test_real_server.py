"""All protocols against a server that others wrote: llama.cpp, which has each of them, with a real model."""

import pytest

from agentcompass.components.messages import Message
from agentcompass.components.models import local_child
from agentcompass.components.models.local import weights_file
from agentcompass.components.models.local_server import ServerPool
from support.conversation import TOOLS, foreign_reply
from support.local_model import GEMMA
from support.opened import Opened

pytestmark = pytest.mark.slow

LIMITS = {
    "openai-chat": "max_tokens",
    "openai-responses": "max_output_tokens",
    "anthropic": "max_tokens",
}
FRANCE = (
    Message(role="system", content="Be brief."),
    Message(role="user", content="The capital of France is"),
)
SHORT = 4


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Of a server of the local model."""
    file = weights_file(tmp_path_factory.mktemp("data"), GEMMA)
    local_child.assemble(file, GEMMA.weights_package, GEMMA.sha256)
    pool = ServerPool()
    server = pool.take(GEMMA, file, check=lambda: None, note=lambda _: None, limit_seconds=60.0)
    yield server.url
    pool.release(server)


def opened(url, protocol, **params):
    params = {LIMITS[protocol]: SHORT, "temperature": 0, **params}
    return Opened(url, protocols=(protocol,), params=params, timeout_seconds=90.0)


@pytest.mark.parametrize("protocol", LIMITS)
async def test_a_reply_is_the_same_streamed_and_whole_and_can_be_sent_back(protocol, url):
    replies = []
    for is_streamed in (False, True):
        async with opened(url, protocol, stream=is_streamed) as client:
            replies.append(await client.model.chat(FRANCE))
    whole, streamed = replies
    assert whole.message.text == streamed.message.text != ""
    assert (whole.usage, whole.stop_reason) == (streamed.usage, streamed.stop_reason)
    assert whole.usage.unmetered_calls == 0
    assert whole.usage.input_tokens > 10
    assert whole.usage.output_tokens == SHORT
    async with opened(url, protocol) as client:
        again = (*FRANCE, whole.message, Message(role="user", content="And of Spain?"))
        longer = await client.model.chat(again)
        assert longer.usage.input_tokens > whole.usage.input_tokens
        assert not client.retries


@pytest.mark.parametrize("protocol", LIMITS)
async def test_calls_and_their_results_are_accepted(protocol, url):
    reply = foreign_reply()
    results = [
        Message(role="tool", content="ok", tool_call_id=each.id) for each in reply.tool_calls
    ]
    async with opened(url, protocol) as client:
        last = Message(role="user", content="Go on.")
        said = await client.model.chat((*FRANCE, reply, *results, last), tools=TOOLS)
    assert said.usage.output_tokens == SHORT


@pytest.mark.parametrize("protocol", LIMITS)
async def test_an_error_has_a_code(protocol, url):
    async with opened(url, protocol) as client:
        failed = await client.fail(words="word " * 20_000)
    assert failed.code == "context-exceeded"
