"""What the components of a request need beyond the package itself: there, or installed, before anything else is asked of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import trio

from agentcompass.components.base import Component, LoadContext
from agentcompass.components.dependencies import ensure_there, is_there
from agentcompass.engine.foreign import call
from agentcompass.engine.parts import Parts, explained


async def get_ready(parts: Parts, context: LoadContext, threads: trio.CapacityLimiter) -> None:
    """Make sure that all components have what they need, and that the agent can work. Brings what is missing.

    Raises:
        ConfigurationError: A parameter of the harness is wrong.
        PreflightError: An extra is not there and may not be installed, or something else is missing.
    """
    await ensure_extras(parts, context, threads)
    await fetch_harness(parts, context, threads)


async def ensure_extras(parts: Parts, context: LoadContext, threads: trio.CapacityLimiter) -> None:
    """Make sure that the packages which components need are there, and that the harness can work; errors as of `get_ready`."""
    for kind, component in _used(parts):
        await ensure_there(kind, component, context)
    await check_harness(parts, threads)


async def fetch_harness(parts: Parts, context: LoadContext, threads: trio.CapacityLimiter) -> None:
    """Have the harness bring what its attempts share; errors as of its `fetch`."""
    if not parts.is_regrading:
        with explained(f"harness {parts.harness.id!r} could not get what it needs"):
            await call(parts.harness.fetch, context, threads=threads)


async def check_harness(parts: Parts, threads: trio.CapacityLimiter) -> None:
    """Ask the harness, whose extra is there, whether it can work; errors as of its `preflight`."""
    if not parts.is_regrading:
        with explained(f"harness {parts.harness.id!r} failed its preflight"):
            await call(parts.harness.preflight, threads=threads)


def lacking(parts: Parts) -> list[tuple[str, Component[Any]]]:
    """Return the components whose extra is not there, each with its kind."""
    return [(kind, component) for kind, component in _used(parts) if not is_there(component)]


def _used(parts: Parts) -> Iterator[tuple[str, Component[Any]]]:
    yield "benchmark", parts.benchmark
    if not parts.is_regrading:
        yield "harness", parts.harness
    yield "environment", parts.environment
    for recipe in parts.recipes:
        yield "recipe", recipe
