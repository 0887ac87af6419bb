"""The only door to trio-asyncio.

Its import replaces `asyncio.new_event_loop` for the whole process: from then on every `asyncio.run()`, in any
thread, runs on a greenlet loop that is about ten times slower. Putting the function back restores the host's
loops and leaves trio-asyncio's own (`open_loop`) working.
"""

from __future__ import annotations

import sys
import warnings
from types import ModuleType


def import_trio_asyncio() -> ModuleType:
    """Import trio-asyncio without changing what loops other code gets.

    A process that has imported it already keeps what it has: that was its own choice.
    """
    loaded = sys.modules.get("trio_asyncio")
    if loaded is not None:
        return loaded
    import asyncio  # noqa: PLC0415  # the process may not use it otherwise

    new_event_loop = asyncio.new_event_loop
    with warnings.catch_warnings():
        # it subclasses what later versions of Python deprecate
        warnings.simplefilter("ignore", DeprecationWarning)
        import trio_asyncio  # noqa: PLC0415, TID251  # this is the door
    asyncio.new_event_loop = asyncio.events.new_event_loop = new_event_loop
    module: ModuleType = trio_asyncio
    return module
