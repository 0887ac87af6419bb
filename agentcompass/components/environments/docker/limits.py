"""Limits that an engine or its machine cannot keep, told once before anything starts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from agentcompass.components.base import Resources

LEAST_MEMORY_MB: Final = 6
"""Docker's own floor (moby, daemon/daemon_unix.go: `linuxMinMemory`)."""
LEAST_CPUS: Final = 0.01


def limit_problems(info: Mapping[str, Any], asked: Resources, address: object) -> Iterator[str]:
    """Give what the engine would refuse for each sandbox.

    Args:
        info: What it says of itself.
        asked: Limits for every sandbox.
        address: Of the engine, for people.
    """
    for is_asked, key, what in (
        (asked.memory_mb, "MemoryLimit", "memory"),
        (asked.cpus, "CpuCfsQuota", "processors"),
        (asked.pids, "PidsLimit", "processes"),
    ):
        if is_asked and info.get(key) is False:
            yield f"the Docker engine at {address} cannot limit {what}"
    n_cpus = info.get("NCPU")
    if asked.cpus is not None and isinstance(n_cpus, int) and asked.cpus > n_cpus > 0:
        yield f"cpus {asked.cpus:g} is more than the {n_cpus} processors of the engine at {address}"
    if asked.cpus is not None and asked.cpus < LEAST_CPUS:
        yield f"cpus {asked.cpus:g} is less than an engine can give: {LEAST_CPUS:g}"
    if asked.memory_mb is not None and asked.memory_mb < LEAST_MEMORY_MB:
        yield f"memory_mb {asked.memory_mb} is less than an engine can give: {LEAST_MEMORY_MB}"
