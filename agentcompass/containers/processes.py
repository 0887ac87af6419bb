"""Ending what runs in a container, by the best means there are, and with certainty.

On the engine's own machine it is done from outside (`outside`). Elsewhere a shell of the image does it (`inside`) and
the engine's view of the container shows whether it is done. Where neither works, the container is started anew, which
no process outlives and all files do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import trio

from agentcompass.containers import inside, life, outside
from agentcompass.containers.attach import CommandState
from agentcompass.containers.cgroups import Cgroups
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import TimeLimit

T = TypeVar("T")

_SECOND_LOOKS: Final = (0.05, 0.1, 0.2, 0.4, 0.8)


async def end_command(docker: Docker, state: CommandState, mark: str, *, seconds: float) -> int:
    """Kill the processes of one command, wherever they have gone; return how many there were.

    Found are those that have its mark in their environment, and all that descend from them: `setsid`, a double fork,
    an ignored signal or another user do not hide a process; an emptied environment does when its parents are gone.

    Args:
        docker: The engine.
        state: Of the command.
        mark: `NAME=value` in the environment that it was started with.
        seconds: For the whole.

    Raises:
        DockerError: They could not be ended (codes `processes-left`, `engine-timeout`, ...).
    """
    with TimeLimit(seconds, "end the processes of a command"):
        groups = await visible_cgroups(docker, state.container, state.pid)
        if groups is not None:
            root = 0 if state.is_over else state.pid
            return await _in_thread(
                docker, lambda check: outside.end_marked(groups, mark, root, seconds, check)
            )
        container = await life.inspect(docker, state.container)
        if container is None or not container.is_running:
            return 0
        n_ended, is_clean = 0, False
        # Only half of the time: where processes keep the machine busy, what looks for them is slow.
        with trio.move_on_after(seconds / 2):
            n_ended, is_clean = await _end_from_inside(docker, state, mark, seconds)
        if not is_clean:
            await life.restart(docker, state.container, seconds=seconds)
        return n_ended


async def end_all(docker: Docker, container: str, *, seconds: float) -> int:
    """Kill all but a container's own processes (`outside.strangers`); return how many there were.

    Elsewhere than on the engine's own machine the container is started anew if there are any: no program in it can be
    trusted to say that none is left.

    Raises:
        DockerError: They could not be ended, or the container does not run (code `container-died`).
    """
    with TimeLimit(seconds, "end the processes of a container"):
        state = await life.running(docker, container)
        groups = await visible_cgroups(docker, state.id, state.pid)
        if groups is not None:
            return await _in_thread(
                docker,
                lambda check: outside.end_strangers(
                    groups, state.pid, state.has_init, seconds, check
                ),
            )
        shown = await inside.listing(docker, container)
        parents = {process.pid: process.parent for process in shown or ()}
        count = len(outside.strangers(parents, state.pid, state.has_init))
        if count or shown is None:
            await life.restart(docker, container, seconds=seconds)
        return count


async def check_alive(docker: Docker, container: str) -> None:
    """Return if a container runs, and is not about to end.

    When it ends, its commands do so first, and the engine learns of its own end last; so after a command that was
    killed, the engine is asked for a while, unless it is seen from outside that the container lives.

    Raises:
        DockerError: It does not run (code `container-died`).
    """
    for pause in _SECOND_LOOKS:
        state = await life.running(docker, container)
        if await visible_cgroups(docker, state.id, state.pid) is not None:
            look = partial(outside.is_alive, state.pid)
            if await trio.to_thread.run_sync(look, limiter=docker.threads):
                return
        await trio.sleep(pause)
    await life.running(docker, container)


async def visible_cgroups(docker: Docker, container: str, pid: int) -> Cgroups | None:
    """Return a running container's groups if they can be seen from here and its processes be killed."""
    if not docker.is_here:
        return None
    if pid and (groups := await _in_thread(docker, lambda _check: Cgroups.of(pid, container))):
        return groups
    # That process has ended; the first one has not, if the container runs.
    state = await life.inspect(docker, container)
    if state is None or not state.is_running:
        return None
    return await _in_thread(docker, lambda _check: Cgroups.of(state.pid, state.id))


async def _end_from_inside(
    docker: Docker, state: CommandState, mark: str, seconds: float
) -> tuple[int, bool]:
    """Return how many were ended, and whether none is left."""
    total = 0
    tried: set[str] = set()
    waiting = [state.user]
    # Its own user first, who sees their environments; then those that some of them have become.
    while waiting:
        user = waiting.pop()
        tried.add(user)
        count = await inside.end_marked(docker, state.container, mark, user, seconds=seconds)
        total += count or 0
        shown = await inside.listing(docker, state.container)
        if shown is None:
            return total, count is not None
        left = {process.uid for process in shown if mark in process.text}
        if not left:
            return total, True
        waiting = sorted(left - tried)
    return total, False


async def _in_thread(docker: Docker, function: Callable[[Callable[[], None]], T]) -> T:
    return await trio.to_thread.run_sync(
        function, trio.from_thread.check_cancelled, limiter=docker.threads
    )
