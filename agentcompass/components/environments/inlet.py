"""From a socket that listens in a sandbox to what a session lends: see `components.base.Session.listen`."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from agentcompass.components.base import Inlet


@asynccontextmanager
async def listening(made: socket.socket) -> AsyncIterator[Inlet]:
    """Accept connections of a socket during the block, and close it then.

    Args:
        made: Non-blocking; it listens on a port of 127.0.0.1.
    """
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(made))
    async with listener:
        host, port = made.getsockname()
        yield Inlet(host=host, port=port, listener=listener)
