"""The tested model, as the engine opens it and an attempt borrows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from agentcompass.components.base.loading import LoadContext
from agentcompass.components.messages import Message, Reply, Tool
from agentcompass.data import frozen
from agentcompass.records import JSON, Usage
from agentcompass.spec.resolved import ModelConfig


class Model(Protocol):
    """A model endpoint as a harness sees it: retries, limits and metering are behind it.

    Every call that reaches the endpoint is metered, also when its answer cannot be used. After the agent's phase
    has ended, calls raise `ModelError` with code `model-revoked`.
    """

    id: str
    protocol: str

    async def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        params: Mapping[str, JSON] | None = None,
    ) -> Reply:
        """Ask for the next message. `params` are added to, and win over, the user's model parameters.

        Raises:
            ModelError: After the retries; the code tells the cause (`rate-limited`, `server-error`, `connection-failed`,
                `stalled`, `bad-request`, `unauthorized`, `model-not-found`, `malformed-response`, `context-exceeded`, ...).
        """
        ...

    async def complete(
        self,
        prompt: str,
        *,
        stop: Sequence[str] = (),
        params: Mapping[str, JSON] | None = None,
    ) -> Reply:
        """Ask a base model to continue a text (`openai-completions`); errors as for `chat`."""
        ...


@frozen(kw_only=True)
class ModelRetry:
    """A call is tried again: told to whoever watches the attempt."""

    code: str
    message: str
    wait_seconds: float
    try_number: int
    """Of the try that failed, from 1."""


class Account(Protocol):
    """Who pays for the calls of an attempt."""

    def check(self) -> None:
        """Refuse a call that is about to be made, if nothing is left.

        Raises:
            ModelError: Nothing is (code `budget-spent`); the attempt is about to be ended.
        """

    def charge(self, usage: Usage) -> None:
        """Take note of what a call used, as soon as that is known."""


class AttemptModel(Model, Protocol):
    """The model lent to one attempt."""

    @property
    def usage(self) -> Usage:
        """Sum over the calls so far."""
        ...

    @property
    def asked(self) -> int:
        """Calls that the harness made, whatever came of them."""
        ...

    @property
    def replies(self) -> int:
        """Calls that gave the harness a reply."""
        ...

    def revoke(self) -> None:
        """Refuse every further call and cancel those in flight."""


class ModelClient(Protocol):
    """One endpoint for one run: connections, limits and prices shared by its attempts."""

    async def ready(self, ctx: LoadContext) -> None:
        """Make sure that there is an endpoint, which for a local model means to start it. Before the first `lend`.

        Raises:
            PreflightError: What it needs is not there, or it does not come up.
        """
        ...

    @property
    def knows_price(self) -> bool:
        """Whether what calls cost can be told."""
        ...

    def lend(
        self, on_retry: Callable[[ModelRetry], None], account: Account | None = None
    ) -> AttemptModel:
        """Return a model for one attempt.

        Args:
            on_retry: Told before each wait for another try.
            account: Asked before each call and charged after it; None: nobody keeps count.
        """
        ...

    async def aclose(self) -> None:
        """Close all connections, and end what `ready` started; also under cancellation."""


class ModelRecorder(Protocol):
    """Keeps what is said to endpoints and what they answer; made by `components.model_clients.open_recorder`."""

    def check(self) -> None:
        """Check that it can; blocking.

        Raises:
            ConfigurationError: It cannot.
        """


class ModelOpener(Protocol):
    """How the engine makes a client: `components.models.open_client`, reached through the registry."""

    def __call__(
        self,
        config: ModelConfig,
        *,
        harness_protocols: Sequence[str],
        prices: Mapping[str, Mapping[str, float]],
        recorder: ModelRecorder | None = None,
    ) -> ModelClient:
        """Choose the protocol both sides support; ConfigurationError if there is none."""
        ...
