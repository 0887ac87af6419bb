"""Model protocols: the wire forms of one conversation, and the client that speaks them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentcompass.components.models.client import open_client as open_client

__all__ = ["open_client"]


def __getattr__(name: str) -> Any:
    """Load the client, and with it the HTTP library, when it is first asked for."""
    if name != "open_client":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agentcompass.components.models.client import open_client  # noqa: PLC0415  # see above

    return open_client
