"""From a socket that listens to what programs connect to: see `components.base.Session.listen`."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from agentcompass.components.base import Inlet
from agentcompass.errors import SandboxError

BACKLOG: Final = 128
"""Connections that wait to be accepted."""


def listening_here() -> socket.socket:
    """Return a non-blocking socket that listens on a port of this machine's 127.0.0.1.

    Raises:
        SandboxError: There is none left (code `cannot-listen`).
    """
    try:
        made = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    except OSError as error:
        raise cannot_listen(str(error)) from error
    made.setblocking(False)
    return made


def cannot_listen(reason: str) -> SandboxError:
    """Return the error for a socket that cannot be made."""
    return SandboxError(f"nothing can listen: {reason}", code="cannot-listen")


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
