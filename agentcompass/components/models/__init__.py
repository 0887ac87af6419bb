"""Model protocols: the wire forms of one conversation, and the client that speaks them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from agentcompass.components.models.client import open_client as open_client
    from agentcompass.components.models.local import open_local as open_local
    from agentcompass.components.models.replay import open_replay as open_replay

__all__ = ["open_client", "open_local", "open_replay"]

_MODULES: Final[Mapping[str, str]] = {
    "open_client": "client",
    "open_local": "local",
    "open_replay": "replay",
}


def __getattr__(name: str) -> Any:
    """Load the client, and with it the HTTP library, when it is first asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
