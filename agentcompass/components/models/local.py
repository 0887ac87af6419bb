"""The client of a model that this package serves by itself: an endpoint that is started when it is first needed."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, final

import attrs
import trio

from agentcompass.components.base import Account, AttemptModel, LoadContext, ModelRetry
from agentcompass.components.dependencies import ensure_extra
from agentcompass.components.models.catalog import EXTRA, LOCAL_MODELS, SERVER_PACKAGE, LocalModel
from agentcompass.components.models.client import EndpointClient, open_client
from agentcompass.components.models.local_server import SERVERS, LocalServer, ServerPool
from agentcompass.components.models.protocols import choose_codec
from agentcompass.errors import ModelError
from agentcompass.spec.resolved import ModelConfig

CACHE_DIR: Final = "models"
"""Below the data directory."""


def open_local(
    config: ModelConfig,
    *,
    harness_protocols: Sequence[str],
    prices: Mapping[str, Mapping[str, float]],
    models: Mapping[str, LocalModel] = LOCAL_MODELS,
    servers: ServerPool = SERVERS,
) -> LocalClient:
    """Make the client of a local model for a run. Nothing is started before `ready`.

    Args:
        config: Which model, and what is sent with each call.
        harness_protocols: What the harness can use, best first.
        prices: As for `open_client`.
        models: By id; the one of `config` is there.
        servers: Where a running one is found, or started.

    Raises:
        ConfigurationError: Model and harness have no protocol in common.
    """
    choose_codec(config.api_protocol, harness_protocols, base_path="")
    opener = functools.partial(
        open_client, harness_protocols=tuple(harness_protocols), prices=prices
    )
    return LocalClient(models[config.id], config, opener, servers)


@final
class LocalClient:
    """A local model for one run (`components.base.ModelClient`); made by `open_local`."""

    def __init__(
        self,
        model: LocalModel,
        config: ModelConfig,
        opener: Callable[[ModelConfig], EndpointClient],
        servers: ServerPool,
    ) -> None:
        self._model = model
        self._config = config
        self._opener = opener
        self._servers = servers
        self._starting = trio.Lock()
        self._server: LocalServer | None = None
        self._endpoint: EndpointClient | None = None

    async def ready(self, ctx: LoadContext) -> None:
        """Start the model's server, unless one runs in this process already.

        Raises:
            PreflightError: The extra is not installed, or the server does not come up.
        """
        async with self._starting:
            if self._endpoint is None:
                await self._start(ctx)

    async def check_serving(self) -> None:
        """Check its server; see `components.base.ModelClient`."""
        if self._endpoint is not None:
            await self._endpoint.check_serving()

    @property
    def knows_price(self) -> bool:
        """Whether what calls cost can be told, which is so where somebody has set a price."""
        return self._endpoint is not None and self._endpoint.knows_price

    def lend(
        self, on_retry: Callable[[ModelRetry], None], account: Account | None = None
    ) -> AttemptModel:
        """Return a model for one attempt; see `components.base.ModelClient`.

        Raises:
            ModelError: Its server has died (code `local-model-died`).
        """
        if self._server is None or self._endpoint is None:
            raise AssertionError("`ready` comes first")
        if not self._server.is_running:
            raise ModelError(
                f"the process of the local model {self._config.id!r} has ended: {self._server.tail()}",
                code="local-model-died",
                retryable=False,
            )
        return self._endpoint.lend(on_retry, account)

    async def aclose(self) -> None:
        """Give the server back, which ends it if nobody else uses it, and close all connections."""
        # without a checkpoint before: also when there is no time left
        server, self._server = self._server, None
        if server is not None:
            self._servers.release(server)
        if self._endpoint is not None:
            await self._endpoint.aclose()

    async def _start(self, ctx: LoadContext) -> None:
        await ensure_extra(
            EXTRA,
            is_present=lambda: _is_installed(self._model),
            purpose=f"the model {self._model.id!r}",
            ctx=ctx,
        )
        self._server = await trio.to_thread.run_sync(self._take, ctx)
        # it answers one call at a time: the others wait in our queue, where waiting is no call's own time
        config = attrs.evolve(self._config, base_url=self._server.url, max_connections=1)
        self._endpoint = self._opener(config)

    def _take(self, ctx: LoadContext) -> LocalServer:
        return self._servers.take(
            self._model,
            weights_file(ctx.data_dir, self._model),
            check=trio.from_thread.check_cancelled,
            note=lambda text: trio.from_thread.run_sync(ctx.note, text),
        )


def weights_file(data_dir: Path, model: LocalModel) -> Path:
    """Return where the weights of a model are kept, by their version."""
    name = model.id.rpartition("/")[2]
    return data_dir.absolute() / CACHE_DIR / f"{name}-{model.sha256[:12]}.gguf"


def _is_installed(model: LocalModel) -> bool:
    return all(
        importlib.util.find_spec(name) is not None
        for name in (model.weights_package, SERVER_PACKAGE)
    )
