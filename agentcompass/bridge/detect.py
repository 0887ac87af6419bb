"""What runs the caller: no event loop, trio, asyncio, or asyncio on top of trio.

The order of the questions is the point. `sniffio` knows the flavour of the code that asks, but it believes a
context variable that a thread may have inherited; the running loop cannot lie about the thread.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal, TypeAlias

import sniffio

if TYPE_CHECKING:
    import asyncio

Host: TypeAlias = Literal["none", "trio", "asyncio", "trio-asyncio"]


def current_host() -> Host:
    """Name what runs the calling code; a plain callback of an event loop counts as running on it."""
    try:
        library = sniffio.current_async_library()
    except sniffio.AsyncLibraryNotFoundError:
        library = "unknown"
    if library == "trio":
        return "trio"
    loop = _running_loop()
    if loop is None:
        return "none"
    return "trio-asyncio" if _belongs_to_trio(loop) else "asyncio"


def in_notebook() -> bool:
    """Whether the calling code belongs to a Jupyter kernel, in which an idle loop surrounds every cell."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return False
    return getattr(ipython.get_ipython(), "kernel", None) is not None


def _running_loop() -> asyncio.AbstractEventLoop | None:
    loaded = sys.modules.get("asyncio")
    if loaded is None:
        return None
    try:
        loop: asyncio.AbstractEventLoop = loaded.get_running_loop()
    except RuntimeError:
        return None
    return loop


def _belongs_to_trio(loop: asyncio.AbstractEventLoop) -> bool:
    loaded = sys.modules.get("trio_asyncio")
    return loaded is not None and isinstance(loop, loaded.BaseTrioEventLoop)
