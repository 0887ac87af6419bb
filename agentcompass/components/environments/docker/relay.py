"""The way out of sandboxes that may reach a few hosts only.

Such a sandbox has no network: its name space holds a loopback device and nothing else, so that no packet, whoever makes
it, has anywhere to go. On that loopback device *this* process listens, with sockets that it made in the sandbox's
name space: an address for each allowed name (which the sandbox finds in its `/etc/hosts`), and its ports. What connects
there is connected on to that host, which is looked up outside of the sandbox.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final, final

import trio

from agentcompass.components.environments.docker import namespace
from agentcompass.components.environments.docker.config import Relayed
from agentcompass.errors import SandboxError

CONNECT_SECONDS: Final = 30.0
MAX_CONNECTIONS: Final = 64
"""Of one sandbox at once; further ones wait."""
_CHUNK: Final = 64 * 1024
_BUSY_PAUSE: Final = 0.1


@final
class Relay:
    """Listens in one sandbox.

    Args:
        hosts: That may be reached.
        sockets: Listening, one for each port of each host.
    """

    def __init__(self, hosts: Sequence[Relayed], sockets: Sequence[socket.socket]) -> None:
        targets = [(one.host.host, port) for one in hosts for port in one.host.ports]
        self._places = list(zip(targets, sockets, strict=True))
        # Taken before a connection is: a sandbox must not use up the descriptors of this process.
        self._free = trio.Semaphore(MAX_CONNECTIONS + len(self._places))

    async def serve(self) -> None:
        """Connect what comes, until cancelled."""
        async with trio.open_nursery() as nursery:
            for (host, port), listening in self._places:
                listener = trio.SocketListener(trio.socket.from_stdlib_socket(listening))
                nursery.start_soon(self._accept, nursery, listener, host, port)

    async def _accept(
        self, nursery: trio.Nursery, listener: trio.SocketListener, host: str, port: int
    ) -> None:
        async with listener:
            while True:
                await self._free.acquire()
                try:
                    inner = await listener.accept()
                except OSError:  # no descriptor is left: others will be closed
                    self._free.release()
                    await trio.sleep(_BUSY_PAUSE)
                else:
                    nursery.start_soon(self._connect, inner, host, port)

    async def _connect(self, inner: trio.SocketStream, host: str, port: int) -> None:
        try:
            async with inner:
                try:
                    with trio.fail_after(CONNECT_SECONDS):
                        outer = await trio.open_tcp_stream(host, port)
                except (OSError, trio.TooSlowError):
                    return  # the sandbox sees its connection closed
                async with outer, trio.open_nursery() as nursery:
                    nursery.start_soon(_copy, inner, outer)
                    nursery.start_soon(_copy, outer, inner)
        finally:
            self._free.release()


def listen(hosts: Sequence[Relayed], pid: int, container: str) -> Relay:
    """Make the listening sockets. Blocking.

    Args:
        hosts: That may be reached.
        pid: Of the container's first process.
        container: Its id.

    Raises:
        SandboxError: It cannot be done (code `relay-failed`).
    """
    sockets: list[socket.socket] = []
    places = [(one.address, port) for one in hosts for port in one.host.ports]

    def make() -> None:
        for address, port in places:
            sockets.append(
                namespace.new_listener(address, port)
            )  # those that were made are closed if one fails

    try:
        namespace.within(pid, container, make)
    except OSError as error:
        for made in sockets:
            made.close()
        raise SandboxError(
            f"no relay for allowed_hosts can be set up: {error}", code="relay-failed"
        ) from error
    return Relay(hosts, sockets)


async def _copy(source: trio.SocketStream, target: trio.SocketStream) -> None:
    try:
        while data := await source.receive_some(_CHUNK):
            await target.send_all(data)
        await target.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        # One side is gone: then the other has nobody to talk to.
        await source.aclose()
        await target.aclose()
