"""The way from the thread of a synchronous agent to the task that waits for it.

What the agent asks for runs in that task, in its cancel scopes: a deadline or a Ctrl-C reaches it there, and then raises in
the thread. An agent that swallows this gets no further: whatever it asks for next raises again.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import trio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def threads() -> trio.CapacityLimiter:
    """Return a limiter for agents: each has a thread of its own, and how many there are is the engine's to say."""
    return trio.CapacityLimiter(math.inf)


async def in_thread(agent: Callable[[], T], limiter: trio.CapacityLimiter, name: str) -> T:
    """Let an agent work in a worker thread, and wait for its end, also when this task is cancelled.

    Args:
        agent: Uses `call` for everything that takes time.
        limiter: Of `threads`.
        name: Of the thread.
    """
    return await trio.to_thread.run_sync(agent, limiter=limiter, thread_name=name)


def call(function: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    """Call an async function in the task that waits for this thread.

    Raises:
        trio.Cancelled: That task is cancelled, now or already before.
    """
    return trio.from_thread.run(_unless_cancelled, function, args)


async def _unless_cancelled(function: Callable[[*Ts], Awaitable[T]], args: tuple[*Ts]) -> T:
    await trio.lowlevel.checkpoint_if_cancelled()
    return await function(*args)
