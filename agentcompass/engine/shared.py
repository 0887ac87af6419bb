"""What all requests of one orchestration share. Belongs to that run alone: there are no process globals."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import TypeAlias, final

from agentcompass.components import model_clients
from agentcompass.components.base import ModelClient, ModelEndpoints
from agentcompass.data import frozen
from agentcompass.engine.budget import Budget
from agentcompass.engine.control import Control
from agentcompass.engine.durable import Flow
from agentcompass.engine.jobs import Job
from agentcompass.engine.limits import Limits
from agentcompass.engine.scheduler import Scheduler
from agentcompass.errors import StoreError
from agentcompass.progress.events import EventSink
from agentcompass.records import JSON
from agentcompass.secrets import Scrubber
from agentcompass.spec.resolved import ModelConfig, Orchestration
from agentcompass.store.writer import Writer

_Caller: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""Protocols, and what varies in requests."""


@final
class Clients:
    """The model clients of an orchestration: one for each endpoint, shared by the requests that use it.

    Args:
        orchestration: Has the prices, and says whether exchanges are kept.
        scrubber: Knows the secrets.
    """

    def __init__(self, orchestration: Orchestration, scrubber: Scrubber) -> None:
        self._prices = orchestration.prices
        path = orchestration.runtime.record
        self.recorder = None if path is None else model_clients.open_recorder(path, scrubber)
        self._open: list[tuple[ModelConfig, _Caller, ModelClient]] = []
        self._endpoints: ModelEndpoints | None = None
        self.beside: Callable[[Callable[[], Awaitable[None]]], object] | None = None
        """Runs what goes on as long as the orchestration does; None: there is nobody to do that."""

    def get(
        self, config: ModelConfig, protocols: tuple[str, ...], varying: tuple[str, ...] = ()
    ) -> ModelClient:
        """Return the client for a model and who calls it.

        Args:
            config: Of the model.
            protocols: What the caller can use, best first.
            varying: As of `Harness.varying`.

        Raises:
            ConfigurationError: They have no protocol in common.
        """
        caller = (protocols, varying)
        for known, known_caller, client in self._open:
            if known == config and known_caller == caller:
                return client
        if self._endpoints is None:
            self._endpoints = model_clients.open_endpoints()
            if self.beside is not None:
                self.beside(self._endpoints.keep_in_step)
        client = model_clients.open_client(
            config,
            harness_protocols=protocols,
            prices=self._prices,
            recorder=self.recorder,
            endpoints=self._endpoints,
            varying=varying,
        )
        self._open.append((config, caller, client))
        return client

    def binding(self) -> Mapping[str, Mapping[str, JSON]]:
        """Return what holds calls back now, as `components.base.ModelEndpoints` says."""
        return {} if self._endpoints is None else self._endpoints.binding()

    async def aclose(self) -> None:
        """Close them all, each also when the one before failed or time is over."""
        async with AsyncExitStack() as closing:
            for _, _, client in self._open:
                closing.push_async_callback(client.aclose)


@final
@frozen(kw_only=True, eq=False)
class Shared:
    """Limits, writer, clients and handles of one orchestration."""

    orchestration: Orchestration
    control: Control
    emit: EventSink
    limits: Limits
    writer: Writer
    flow: Flow
    scrubber: Scrubber
    clients: Clients
    scheduler: Scheduler[Job]
    budget: Budget
    on_store_error: Callable[[StoreError], None]
    """Told when records can no longer be written: the run ends."""
