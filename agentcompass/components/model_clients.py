"""From a model's id and endpoint to the client that asks it; HTTP is not loaded before it is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from agentcompass.components.base import ModelClient, ModelEndpoints, ModelRecorder
from agentcompass.errors import UnknownComponentError
from agentcompass.secrets import Scrubber
from agentcompass.spec.resolved import ModelConfig

if TYPE_CHECKING:
    from agentcompass.components.models.catalog import ServedModel

REPLAY_PREFIX: Final = "replay:"
"""How the id of a model begins whose answers come from a recording."""


def open_client(
    config: ModelConfig,
    *,
    harness_protocols: Sequence[str],
    prices: Mapping[str, Mapping[str, float]],
    recorder: ModelRecorder | None = None,
    endpoints: ModelEndpoints | None = None,
    varying: Sequence[str] = (),
) -> ModelClient:
    """Open a model client, as `base.ModelOpener` says, without loading HTTP before it is needed."""
    from agentcompass.components import models  # noqa: PLC0415  HTTP is loaded when a run needs a model

    if config.served_version is not None:
        if config.id.startswith(REPLAY_PREFIX):
            return models.open_replay(
                config, harness_protocols=harness_protocols, prices=prices, varying=varying
            )
        return models.open_local(config, harness_protocols=harness_protocols, prices=prices)
    return models.open_client(
        config,
        harness_protocols=harness_protocols,
        prices=prices,
        recorder=cast("Any", recorder),
        endpoints=cast("Any", endpoints),
    )


def open_endpoints() -> ModelEndpoints:
    """Return the limits of the endpoints of a run, none as yet; see `net.endpoints`."""
    from agentcompass.net.endpoints import Endpoints  # noqa: PLC0415  as above

    return Endpoints()


def open_recorder(path: Path, scrubber: Scrubber) -> ModelRecorder:
    """Return what keeps the model exchanges of a run in a file; see `components.models.recording`."""
    from agentcompass.components.models.recording import Recorder  # noqa: PLC0415  as above

    return Recorder(path, scrubber)


def served_model(name: str) -> ServedModel | None:
    """Return the model of an id that this package serves itself; None if the id is not of that kind.

    Raises:
        UnknownComponentError: The id begins as those of local models do, and there is no such model.
        ConfigurationError: It names a recording that cannot be read.
    """
    if name.startswith(REPLAY_PREFIX):
        from agentcompass.components.models import recording  # noqa: PLC0415  as above

        return recording.served(name)
    from agentcompass.components.models import catalog  # noqa: PLC0415  nothing is imported before it is asked for

    if not name.startswith(catalog.PREFIX):
        return None
    try:
        return catalog.LOCAL_MODELS[name]
    except KeyError:
        raise UnknownComponentError("local model", name, catalog.LOCAL_MODELS) from None
