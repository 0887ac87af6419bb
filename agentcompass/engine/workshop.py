"""What all attempts of one request share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

from agentcompass.components.base import ModelClient
from agentcompass.data import frozen
from agentcompass.engine.clock import wall_clock
from agentcompass.engine.control import Control
from agentcompass.engine.durable import Flow
from agentcompass.engine.limits import Limits
from agentcompass.engine.parts import Parts
from agentcompass.engine.sandbox import SandboxHouse
from agentcompass.plan.regrade import Earlier
from agentcompass.progress.events import Event, EventSink, Notice
from agentcompass.spec.resolved import Request
from agentcompass.store.run import RunStore


@final
@frozen(kw_only=True, eq=False)
class Workshop:
    """What all attempts of one request share."""

    request: Request
    parts: Parts
    client: ModelClient | None
    """None when the harness needs no model."""
    judge: ModelClient | None
    """None when the benchmark asks no model."""
    house: SandboxHouse
    provider: str | None
    """The environment whose places attempts need; None if they open no sandbox."""
    store: RunStore
    limits: Limits
    control: Control
    flow: Flow
    """Holds producers back while the disk is behind."""
    emit: EventSink
    earlier: Mapping[tuple[str, int], Earlier] | None = None
    """What is evaluated again, by (task id, attempt); None: agents work."""

    def tell(self, kind: Callable[..., Event], **fields: Any) -> None:
        """Emit an event of this request."""
        self.emit(kind(at=wall_clock(), request=self.request.name, **fields))

    def inform(self, text: str) -> None:
        """Tell people what is being done for this request that takes its time."""
        self.tell(Notice, level="info", text=text)

    def warn(self, text: str) -> None:
        """Tell people something about this request that is not as it should be."""
        self.tell(Notice, level="warning", text=text)
