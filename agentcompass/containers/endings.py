"""How a container came to its end: by what is in it, or by somebody else, as far as the engine can tell.

From inside nobody can end a container but by ending its main process, and of that the engine knows only the exit code,
which is the same when somebody else has it killed. But whoever asks the engine for that is in the engine's list of
events. That list is short and begins anew with the engine; so what it does not show for certain is left open.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from agentcompass.containers.attach import CANNOT_START
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.containers.wire import Ask

if TYPE_CHECKING:
    from agentcompass.containers.life import ContainerState

BACK_SECONDS: Final = 2.0
"""How far before a death the list must reach, if not to the container's start: a kill is in it before the death is."""
_LATE_SECONDS: Final = (0.2, 2.0)
"""How much later than the death it may be in the list, mostly and at most; for that time the engine is waited for."""
_SIGNALLED: Final = 128
"""Exit codes beyond are those of a main process that a signal has ended; any other may be its own."""
_SECONDS: Final = 10.0
_MAX_BYTES: Final = 8 * 1024 * 1024
_NANOSECONDS: Final = 1_000_000_000


async def died(docker: Docker, state: ContainerState) -> DockerError:
    """Return what is to be said of a container that does not run.

    Its code is `ended-from-inside` if something in it has ended it, `memory-exceeded` if it used up the memory that
    was its own, `no-such-program` if its main process could not be started: what another try would only repeat. In all
    other cases it is `container-died`.
    """
    cause, code = "", "container-died"
    if state.is_oom_killed and state.memory_limit_bytes:
        cause, code = " (it used up its memory)", "memory-exceeded"
    elif state.is_oom_killed:
        cause = " (memory ran out)"
    elif state.error:
        cause = f" ({state.error})"
    elif state.exit_code in CANNOT_START:
        cause, code = " (its main process could not be started)", "no-such-program"
    elif state.exit_code > _SIGNALLED and await _is_from_inside(docker, state):
        cause, code = " (a program in it has ended it)", "ended-from-inside"
    return DockerError(
        f"the container {state.name} is not running: {state.status}, exit code {state.exit_code}{cause}",
        code=code,
    )


async def _is_from_inside(docker: Docker, state: ContainerState) -> bool:
    try:
        ended_at = datetime.fromisoformat(state.finished_at).timestamp()
        for seconds in _LATE_SECONDS:
            is_so = is_from_inside(await _events(docker, ended_at + seconds), state.id)
            if is_so is not None:
                return is_so
    except (DockerError, ValueError):
        pass
    return False


def is_from_inside(events: Sequence[Mapping[str, Any]], container: str) -> bool | None:
    """Whether a list of events shows that nobody outside has ended a container. Pure.

    Args:
        events: As the engine tells them, the oldest first.
        container: Its id.

    Returns:
        None if its end is not in the list.
    """
    own: list[str] = []
    begin = int(events[0].get("timeNano") or 0) if events else 0
    died_at, has_start = 0, False
    for event in events:
        if (event.get("Actor") or {}).get("ID") != container:
            continue
        action = str(event.get("Action"))
        if action == "start":
            own, has_start = [], True
        own.append(action)
        if action == "die":
            died_at = int(event.get("timeNano") or 0)
    if "die" not in own:
        return None
    reaches_back = has_start or died_at - begin >= BACK_SECONDS * _NANOSECONDS
    return reaches_back and "kill" not in own


async def _events(docker: Docker, until: float) -> Sequence[Mapping[str, Any]]:
    """Return the engine's events up to a moment of its own clock."""
    query = {"since": "1", "until": f"{until:.3f}"}
    ask = Ask(
        "GET", "/events", "list its events", query=query, seconds=_SECONDS, silence_seconds=_SECONDS
    )
    async with docker.stream(ask) as body:
        text = await body.read(_MAX_BYTES)
    return [json.loads(line) for line in text.splitlines() if line.strip()]
