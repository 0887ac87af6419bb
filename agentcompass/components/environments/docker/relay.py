"""The way out of sandboxes that may reach a few hosts only.

Such a sandbox has no network: its name space holds a loopback device and nothing else, so that no packet, whoever makes
it, has anywhere to go. On that loopback device *this* process listens, with sockets that it made in the sandbox's
name space: an address for each allowed name (which the sandbox finds in its `/etc/hosts`), and its ports. What connects
there is connected on to that host, which is looked up outside of the sandbox.
"""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Final, final

import trio

from agentcompass.components.environments.docker.config import Relayed
from agentcompass.containers.cgroups import Cgroups
from agentcompass.errors import SandboxError

CONNECT_SECONDS: Final = 30.0
MAX_CONNECTIONS: Final = 64
"""Of one sandbox at once; further ones wait."""
BACKLOG: Final = 128
_CHUNK: Final = 64 * 1024
_BUSY_PAUSE: Final = 0.1
_CLONE_NEWNET: Final = 0x40000000


def is_possible() -> bool:
    """Whether this process may enter the network name spaces of containers; tried with its own."""
    try:
        _in_namespace(f"/proc/{os.getpid()}/ns/net", lambda: None)
    except OSError:
        return False
    return True


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
                _listening(address, port)
            )  # those that were made are closed if one fails

    try:
        _in_namespace(f"/proc/{pid}/ns/net", make, lambda: _check(pid, container))
    except OSError as error:
        for made in sockets:
            made.close()
        raise SandboxError(
            f"no relay for allowed_hosts can be set up: {error}", code="relay-failed"
        ) from error
    return Relay(hosts, sockets)


def _listening(address: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    return made


def _check(pid: int, container: str) -> None:
    if Cgroups.of(pid, container) is None:
        raise ProcessLookupError(f"process {pid} is not the container's")


def _in_namespace(
    path: str, function: Callable[[], None], check: Callable[[], None] = lambda: None
) -> None:
    """Call a function in a network name space: in a thread of its own, which then ends and needs no way back."""
    failure: list[OSError] = []

    def work() -> None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                check()  # what is open now stays that process's
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(fd, _CLONE_NEWNET):
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number))
            finally:
                os.close(fd)
            function()
        except OSError as error:
            failure.append(error)

    thread = threading.Thread(target=work, name="agentcompass-namespace")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]


async def _copy(source: trio.SocketStream, target: trio.SocketStream) -> None:
    try:
        while data := await source.receive_some(_CHUNK):
            await target.send_all(data)
        await target.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        # One side is gone: then the other has nobody to talk to.
        await source.aclose()
        await target.aclose()
