"""What a container has used and been refused: memory, processor time, processes.

Read while it runs: the counters end with it. On the engine's own machine they are the kernel's; elsewhere the engine's
statistics, which have no kills and, on the second generation of control groups, no peak, and beside them what a shell
of the image can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, final

import trio

from agentcompass.containers import life
from agentcompass.containers.attach import ContainerCommand
from agentcompass.containers.cgroups import Cgroups, parse_table
from agentcompass.containers.client import Docker
from agentcompass.containers.errors import DockerError
from agentcompass.containers.processes import visible_cgroups
from agentcompass.containers.run import run
from agentcompass.containers.wire import Ask, path_of
from agentcompass.data import frozen

_INSIDE_SECONDS: Final = 10.0
_NANOSECONDS: Final = 1e9
_MICROSECONDS: Final = 1e6
_UNLIMITED: Final = 1 << 60
"""A limit beyond this is none."""
_COUNTERS: Final = """
cat /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control
echo peak $(cat /sys/fs/cgroup/memory.peak)
"""


@final
@frozen(kw_only=True)
class Figures:
    """Since the container was started; None where it is not known."""

    memory_peak_bytes: int | None = None
    """Files in the page cache included."""
    memory_limit_bytes: int | None = None
    """None: there is none."""
    cpu_seconds: float | None = None
    throttled_seconds: float | None = None
    """How long its processes, each counted, could have run but for its limit."""
    oom_kills: int | None = None
    """Processes that were killed since the limit of memory was reached: any, not only the main one."""
    refused_forks: int | None = None
    """How often the limit of processes refused one."""


async def read(docker: Docker, container: str) -> Figures:
    """Return a container's figures; all are None if it does not run.

    Raises:
        DockerError: The engine does not answer.
    """
    state = await life.inspect(docker, container)
    if state is None or not state.is_running:
        return Figures()
    seen = await seen_from_outside(docker, state)
    if seen is not None:
        return seen
    ask = Ask(
        "GET",
        path_of("containers", container, "stats"),
        f"give the figures of the container {container}",
        query={"stream": "0", "one-shot": "1"},
    )
    answer = await docker.call(ask)
    return _of_engine(answer, await _counted_inside(docker, container))


async def seen_from_outside(docker: Docker, state: life.ContainerState) -> Figures | None:
    """Return the figures of a running container if its machine is this one."""
    groups = await visible_cgroups(docker, state.id, state.pid)
    if groups is None:
        return None
    return await trio.to_thread.run_sync(_of_groups, groups, limiter=docker.threads)


def _of_groups(groups: Cgroups) -> Figures:
    unified = groups.table(("", "cpu.stat"))
    old = groups.table(("cpu", "cpu.stat"))
    events = groups.table(("", "memory.events"), ("memory", "memory.oom_control"))
    nanoseconds = groups.number(("cpuacct", "cpuacct.usage"))
    limit = groups.number(("", "memory.max"), ("memory", "memory.limit_in_bytes"))
    cpu = nanoseconds / _NANOSECONDS if nanoseconds is not None else None
    throttled = old["throttled_time"] / _NANOSECONDS if "throttled_time" in old else None
    if cpu is None and "usage_usec" in unified:
        cpu = unified["usage_usec"] / _MICROSECONDS
    if throttled is None and "throttled_usec" in unified:
        throttled = unified["throttled_usec"] / _MICROSECONDS
    return Figures(
        memory_peak_bytes=groups.number(
            ("", "memory.peak"), ("memory", "memory.max_usage_in_bytes")
        ),
        memory_limit_bytes=_limit(limit),
        cpu_seconds=cpu,
        throttled_seconds=throttled,
        oom_kills=events.get("oom_kill"),
        refused_forks=groups.table(("", "pids.events"), ("pids", "pids.events")).get("max"),
    )


def _of_engine(answer: Mapping[str, Any], inside: Mapping[str, int]) -> Figures:
    memory, cpu = answer.get("memory_stats") or {}, answer.get("cpu_stats") or {}
    used = (cpu.get("cpu_usage") or {}).get("total_usage")
    throttled = (cpu.get("throttling_data") or {}).get("throttled_time")
    return Figures(
        memory_peak_bytes=memory.get("max_usage") or inside.get("peak"),
        memory_limit_bytes=_limit(memory.get("limit")),
        cpu_seconds=used / _NANOSECONDS if used is not None else None,
        throttled_seconds=throttled / _NANOSECONDS if throttled is not None else None,
        oom_kills=inside.get("oom_kill"),
    )


async def _counted_inside(docker: Docker, container: str) -> Mapping[str, int]:
    output = bytearray()
    command = ContainerCommand(argv=["sh", "-c", _COUNTERS], user="0")
    try:
        await run(
            docker,
            container,
            command,
            stdout=output.extend,
            stderr=lambda _data: None,
            timeout=_INSIDE_SECONDS,
        )
    except DockerError:
        return {}
    return parse_table(output[: 64 * 1024].decode(errors="replace"))


def _limit(number: int | None) -> int | None:
    return number if number is not None and number < _UNLIMITED else None
