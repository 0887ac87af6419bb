"""Ending what runs in a container, by the best means there are, and with certainty.

On the engine's own machine it is done from outside (`outside`). Elsewhere a shell of the image does it (`inside`) and
the engine's view of the container shows whether it is done. Where neither works, the container is started anew, which
no process outlives and all files do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

import trio

from agentcompass.containers import inside, life, outside, untouched
from agentcompass.containers.attach import CommandState
from agentcompass.containers.cgroups import Cgroups
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError, TimeLimit

T = TypeVar("T")

SETTLE_SECONDS: Final = 2.0
"""For the processes of a container that has just been started to come to where they wait."""
_UNTOUCHED_SECONDS: Final = 0.5
"""For a process that waits to come back to where it does; it is busy for a moment when it has an orphan to reap."""
_PAUSE: Final = 0.002
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


async def note(docker: Docker, state: life.ContainerState) -> Mapping[int, untouched.Waiting]:
    """Return how the own processes of a container wait, by pid, before anything else runs in it.

    Args:
        docker: The engine.
        state: Of a container that was just started, whose main process only waits.

    Returns:
        Nothing if they cannot be looked at from here.

    Raises:
        DockerError: It has ended (codes of `endings.died`).
    """
    groups = await visible_cgroups(docker, state.id, state.pid)
    count = 1 + state.has_init
    noted = await _in_thread(docker, lambda check: _noted(groups, count, check)) if groups else {}
    if not noted:
        await life.running(docker, state.name)
    return noted


def _noted(
    groups: Cgroups, count: int, check: Callable[[], None]
) -> Mapping[int, untouched.Waiting]:
    deadline = time.monotonic() + SETTLE_SECONDS
    while len(pids := groups.pids()) != count:
        check()
        if not pids or time.monotonic() > deadline:
            return {}
        time.sleep(_PAUSE)
    found = {pid: untouched.settled(pid, deadline - time.monotonic()) for pid in pids}
    noted = {pid: waiting for pid, waiting in found.items() if waiting is not None}
    return noted if len(noted) == count else {}


async def end_all(
    docker: Docker,
    container: str,
    *,
    seconds: float,
    noted: Mapping[int, untouched.Waiting] | None = None,
) -> int:
    """Kill all but a container's own processes, and return how many there were.

    Its own are those of `noted`, and they must go on waiting as they did. Where nothing was noted they are those of
    `outside.strangers`. Elsewhere than on the engine's own machine the container is started anew if there are any
    others: no program in it can be trusted to say that none is left.

    Args:
        docker: The engine.
        container: Running.
        seconds: For the whole.
        noted: As of `note`; None or nothing: what its main process does is not known.

    Raises:
        DockerError: They could not be ended, the container does not run (codes of `endings.died`), or one of its own
            is not as it was (`taken-over`).
    """
    with TimeLimit(seconds, "end the processes of a container"):
        state = await life.running(docker, container)
        groups = await visible_cgroups(docker, state.id, state.pid)
        if groups is None:
            shown = await inside.listing(docker, container)
            parents = {process.pid: process.parent for process in shown or ()}
            count = len(outside.strangers(parents, state.pid, state.has_init))
            if count or shown is None:
                await life.restart(docker, container, seconds=seconds)
            return count
        if not noted:
            return await _in_thread(
                docker,
                lambda check: outside.end_strangers(
                    groups, state.pid, state.has_init, seconds, check
                ),
            )
        count = await _in_thread(
            docker, lambda check: outside.end_others(groups, noted, seconds, check)
        )
        if not await _in_thread(docker, lambda _check: _are_untouched(noted)):
            raise _taken_over(container)
        return count


async def start_anew(
    docker: Docker, container: str, noted: Mapping[int, untouched.Waiting], *, seconds: float
) -> Mapping[int, untouched.Waiting]:
    """Start a container anew whose own processes are not as they were, and return how the new ones wait.

    Its files are as programs in it have left them, that of its main process included.

    Raises:
        DockerError: The new ones are other programs than the first (code `taken-over`), cannot be looked at
            (`processes-left`), or could not be started.
    """
    await life.restart(docker, container, seconds=seconds)
    now = await note(docker, await life.running(docker, container))
    if not now:
        raise DockerError(
            f"the processes of the container {container} cannot be looked at any more",
            code="processes-left",
        )
    if _programs(now) != _programs(noted):
        raise _taken_over(container)
    return now


def _programs(noted: Mapping[int, untouched.Waiting]) -> set[frozenset[tuple[int, int]]]:
    return {waiting.programs for waiting in noted.values()}


def _are_untouched(noted: Mapping[int, untouched.Waiting]) -> bool:
    return all(
        untouched.is_untouched(pid, waiting, _UNTOUCHED_SECONDS) for pid, waiting in noted.items()
    )


def _taken_over(container: str) -> DockerError:
    return DockerError(
        f"the main process of the container {container} is not as it was: "
        "a program in it may have taken it over",
        code="taken-over",
    )


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
