"""The one connection to the engine that all sandboxes of an environment share, and waiting for an engine that is away."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, final

import trio

from agentcompass.containers.client import Docker, connect
from agentcompass.containers.errors import DockerError
from agentcompass.containers.images import Images
from agentcompass.data import frozen

AWAY_CODES: Final = ("engine-unreachable", "engine-lost", "engine-timeout")
AWAY_SECONDS: Final = 180.0
"""How long an engine that is away in the middle of a run is waited for, before each sandbox."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0
_CLOSE_SECONDS: Final = 1.0
_PING_SECONDS: Final = 30.0


@final
@frozen(kw_only=True, eq=False)
class Connected:
    """An engine that answers."""

    docker: Docker
    images: Images


@final
class Engine:
    """Opens the connection when somebody uses it, and closes it when nobody does any more.

    Args:
        host: Its address; None: as the docker command finds it.
    """

    def __init__(self, host: str | None) -> None:
        self._host = host
        self._turn = trio.Lock()
        self._connected: Connected | None = None
        self._stack = AsyncExitStack()
        self._n_users = 0
        self._is_away = False

    @asynccontextmanager
    async def use(self) -> AsyncIterator[Connected]:
        """Give the connection for a block.

        Raises:
            DockerError: There is no engine, or none that answers.
        """
        self._n_users += 1
        try:
            yield await self._opened()
        finally:
            self._n_users -= 1
            if not self._n_users:
                with trio.move_on_after(_CLOSE_SECONDS, shield=True):
                    await self._close()

    async def awaited(self, tell: Callable[[str], None]) -> None:
        """Wait until the engine answers, at most `AWAY_SECONDS`.

        Args:
            tell: Told once, however many wait.

        Raises:
            DockerError: It does not.
        """
        deadline = trio.current_time() + AWAY_SECONDS
        pause = _FIRST_PAUSE
        while True:
            try:
                async with self.use() as connected:
                    await connected.docker.ping()
            except DockerError as error:
                if error.code not in AWAY_CODES or trio.current_time() > deadline:
                    raise
                if not self._is_away:
                    self._is_away = True
                    tell(f"waiting for the Docker engine: {error.message}")
            else:
                self._is_away = False
                return
            await trio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _opened(self) -> Connected:
        async with self._turn:
            if self._connected is None:
                docker = await self._stack.enter_async_context(
                    connect(self._host, seconds=_PING_SECONDS)
                )
                self._connected = Connected(docker=docker, images=Images(docker))
            return self._connected

    async def _close(self) -> None:
        async with self._turn:
            if not self._n_users:
                self._connected = None
                await self._stack.aclose()
