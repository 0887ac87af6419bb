"""Hosting on a trio-asyncio loop: the engine is a task of the trio run that carries the caller's loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import outcome

from agentcompass.bridge.callbacks import Sink
from agentcompass.bridge.endings import result_of
from agentcompass.bridge.native import run_in_task
from agentcompass.bridge.quiet import import_trio_asyncio
from agentcompass.bridge.threaded import cancellation_while
from agentcompass.engine.control import Control

if TYPE_CHECKING:
    from agentcompass.bridge import Main

T = TypeVar("T")


async def run_inside(main: Main[T], control: Control, on_event: Sink) -> T:
    """Run the engine in a trio task of the running trio-asyncio loop.

    The loop must be named: on the loop that `asyncio.run` uses after a plain import of trio-asyncio, the context
    variable that would tell it is not set.

    Args:
        main: The engine.
        control: Told when the asyncio task is cancelled, and when trio cancels the loop around it.
        on_event: Called in place.
    """
    on_trio = import_trio_asyncio().trio_as_aio(run_in_task, loop=asyncio.get_running_loop())
    done: asyncio.Future[T] = on_trio(main, control, on_event)
    cancelled = await cancellation_while(done, control)
    ending = outcome.capture(done.result)
    if cancelled is not None:
        raise cancelled from (ending.error if isinstance(ending, outcome.Error) else None)
    return result_of(ending)
