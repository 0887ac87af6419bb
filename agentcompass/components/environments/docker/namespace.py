"""Sockets in the network name spaces of containers: made there by this process, which itself stays where it is.

That takes an engine on this machine, and root. A container needs no network for it: a loopback device each of them has.
"""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from collections.abc import Callable
from typing import Final

import trio

from agentcompass.containers import life
from agentcompass.containers.cgroups import Cgroups
from agentcompass.containers.client import Docker
from agentcompass.errors import SandboxError

BACKLOG: Final = 128
_CLONE_NEWNET: Final = 0x40000000


def is_possible() -> bool:
    """Whether this process may enter the network name spaces of containers; tried with its own. Blocking."""
    try:
        _in_namespace(f"/proc/{os.getpid()}/ns/net", lambda: None, lambda: None)
    except OSError:
        return False
    return True


async def can_listen(docker: Docker) -> bool:
    """Whether sockets can be made in an engine's containers."""
    return docker.is_here and await trio.to_thread.run_sync(is_possible, limiter=docker.threads)


async def listen_inside(docker: Docker, container: str) -> socket.socket:
    """Return a socket that listens on a free port of a container's own loopback device.

    Args:
        docker: The engine.
        container: Running; its name.

    Raises:
        SandboxError: It cannot be made (code `cannot-listen`), or the container has died (`container-died`).
    """
    state = await life.running(docker, container)
    made: list[socket.socket] = []

    def make() -> None:
        made.append(new_listener("127.0.0.1", 0))

    try:
        await trio.to_thread.run_sync(within, state.pid, state.id, make, limiter=docker.threads)
    except OSError as error:
        raise SandboxError(
            f"nothing can listen in the container {container}: {error}",
            code="cannot-listen",
            hint="That needs an engine on this machine, and root.",
        ) from error
    return made[0]


def within(pid: int, container: str, function: Callable[[], None]) -> None:
    """Call a function in the network name space of a container. Blocking.

    Args:
        pid: Of its first process.
        container: Its id.
        function: Makes sockets, which stay in that name space.

    Raises:
        OSError: It cannot be entered, or the function raised it.
    """
    _in_namespace(f"/proc/{pid}/ns/net", lambda: _check(pid, container), function)


def new_listener(address: str, port: int) -> socket.socket:
    """Return a non-blocking socket that listens where this thread is; port 0 stands for a free one."""
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


def _in_namespace(path: str, check: Callable[[], None], function: Callable[[], None]) -> None:
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
