"""A model client as tests open it: quick to try again, with a key, and with a list of the retries that were told."""

import attrs
import pytest

from agentcompass.components.base import AttemptModel, ModelClient
from agentcompass.components.messages import Message
from agentcompass.components.models import open_client
from agentcompass.components.models.calls import Timing
from agentcompass.errors import ModelError
from agentcompass.secrets import Secret
from agentcompass.spec.resolved import ModelConfig

KEY = "sk-live-0123456789abcdef"
PRICES = {"org/model": {"input": 1.0, "output": 10.0}}
QUICK = Timing(
    idle_seconds=5.0, backoff_base_seconds=0.001, backoff_cap_seconds=0.01, pause_seconds=0.001
)
RETRIES = 3


def config_for(endpoint, **changes):
    config = ModelConfig(
        id="org/model",
        base_url=getattr(endpoint, "base_url", endpoint),
        api_key=Secret(KEY),
        api_protocol=("auto",),
        params={},
        max_retries=RETRIES,
        timeout_seconds=30.0,
        max_connections=32,
    )
    return attrs.evolve(config, **changes)


class Opened:
    """A client, the model lent by it, and the retries that were told."""

    def __init__(
        self,
        endpoint,
        *,
        timing=QUICK,
        protocols=("openai-chat",),
        prices=PRICES,
        endpoints=None,
        recorder=None,
        **changes,
    ):
        config = config_for(endpoint, **changes)
        self.client: ModelClient = open_client(
            config,
            harness_protocols=protocols,
            prices=prices,
            recorder=recorder,
            endpoints=endpoints,
            timing=timing,
        )
        self.retries = []
        self.model: AttemptModel = self.client.lend(self.retries.append)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_exc):
        await self.client.aclose()

    async def say(self, words="hi", **options):
        return await self.model.chat([Message(role="user", content=words)], **options)

    async def fail(self, words="hi", **options):
        """Make a call that must fail, and return the error."""
        with pytest.raises(ModelError) as caught:
            await self.say(words, **options)
        return caught.value
