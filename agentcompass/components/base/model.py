"""The tested model, as the engine opens it and an attempt borrows it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from agentcompass.components.base.loading import LoadContext
from agentcompass.components.base.session import Session
from agentcompass.components.messages import Message, Reply, Tool
from agentcompass.data import frozen
from agentcompass.errors import ModelError
from agentcompass.records import JSON, Usage
from agentcompass.spec.resolved import ModelConfig

GATEWAY_CONNECTIONS: Final = 16
"""Of the programs in one sandbox to their gateway, at once; further ones wait."""


@frozen(kw_only=True)
class ServedCall:
    """A model call that a program in the sandbox has made, when it is over."""

    seconds: float
    """From its request to the end of the answer, retries and waiting for a connection included."""
    reply: Reply | None = None
    """None: there was none, or none that can be read; the program may have made more of it."""
    error: ModelError | None = None
    """Why there was none."""


class Gateway(Protocol):
    """Where programs in the sandbox reach the model."""

    url: str
    """As they see it: `http://HOST:PORT`. The paths are those of the protocol, with or without `/v1`."""
    key: str
    """What they authenticate with, as a bearer token or as `x-api-key`. It is good for nothing else."""

    @property
    def in_flight(self) -> int:
        """Calls that are being answered."""
        ...

    @property
    def is_exhausted(self) -> bool:
        """Whether a call was refused since there had been `max_calls`."""
        ...


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

    def serve(
        self,
        session: Session | None,
        *,
        on_call: Callable[[ServedCall], Awaitable[None]] | None = None,
        max_calls: int | None = None,
    ) -> AbstractAsyncContextManager[Gateway]:
        """Let programs call the model by themselves, during the block, in this model's protocol.

        Their calls are limited, retried, metered and accounted for as those of `chat`; answers are streamed as they come.
        The key dies at the deadline that is in force here, when the block is cancelled, and when it is left: what is in
        flight is cut then, and who asks once more is told 401. Whoever starts a program inside the block ends it there.

        Args:
            session: Of the sandbox where they run; None: on this machine, such as a library that the harness uses.
            on_call: Told of each call that is over.
            max_calls: Replies after which the block is cancelled, and left as if it had ended by itself.

        Raises:
            ModelError: A call has failed in a way that no other call would mend, as `chat` raises it: the block was
                cancelled. A conversation too long for the model, a request that it cannot understand, and an answer that
                broke off in the middle are left to the program.
            SandboxError: They cannot be given a way (code `cannot-listen`).
        """
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

    def hold(self, is_held: bool) -> None:
        """Take note that all calls of the attempt wait now, for a limit or for another try; or that they do no longer.

        The attempt's time does not run meanwhile.
        """


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

    async def check_serving(self) -> None:
        """Check that programs can be served (`Model.serve`), as far as that can be seen without a call. After `ready`.

        Raises:
            PreflightError: The endpoint does not speak their protocol, or there is none.
        """

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


class ModelEndpoints(Protocol):
    """The limits of all endpoints of a run (`net.endpoints.Endpoints`); made by `components.model_clients.open_endpoints`."""

    def binding(self) -> Mapping[str, Mapping[str, JSON]]:
        """Return what holds calls back now, by the host of the endpoint: the fields of `net.endpoint_limits.Use`."""
        ...

    async def keep_in_step(self) -> None:
        """Share the limits with other runs on this machine, until cancelled."""


class ModelOpener(Protocol):
    """How the engine makes a client: `components.models.open_client`, reached through the registry."""

    def __call__(
        self,
        config: ModelConfig,
        *,
        harness_protocols: Sequence[str],
        prices: Mapping[str, Mapping[str, float]],
        recorder: ModelRecorder | None = None,
        endpoints: ModelEndpoints | None = None,
        varying: Sequence[str] = (),
    ) -> ModelClient:
        """Choose the protocol both sides support; ConfigurationError if there is none. `varying` is of the harness."""
        ...
