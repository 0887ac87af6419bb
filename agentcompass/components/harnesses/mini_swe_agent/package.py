"""Importing the package `mini-swe-agent` without what its import does beside.

That is a banner, a folder in the home directory, settings from a file there, and a handler that prints log messages. Its
model client, litellm, is not imported at all.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from agentcompass.components.harnesses.mini_swe_agent.config import PACKAGE, Config
from agentcompass.data import frozen
from agentcompass.errors import PreflightError

if TYPE_CHECKING:
    from agentcompass.components.harnesses.mini_swe_agent.driver import Drive

_LOCK: Final = threading.Lock()


@frozen(kw_only=True)
class Package:
    """What can be used once the package is imported."""

    Drive: type[Drive]
    rehearse: Callable[[Config], None]


def load() -> Package:
    """Import the package and what drives its agent; in a worker thread, since it takes half a second.

    Raises:
        PreflightError: It cannot be imported.
    """
    try:
        with _LOCK, _quiet():
            return Package(
                Drive=importlib.import_module(f"{__package__}.driver").Drive,
                rehearse=importlib.import_module(f"{__package__}.rehearsal").rehearse,
            )
    except ImportError as error:
        raise PreflightError(
            f"the package mini-swe-agent is installed, but not whole: {error}",
            hint="Install it again: `pip install --force-reinstall 'agentcompass[mini-swe-agent]'`.",
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """The block may import the package for the first time; nothing of its surroundings is changed afterwards."""
    if PACKAGE in sys.modules:
        yield
        return
    logger = logging.getLogger(PACKAGE)
    handlers, level = list(logger.handlers), logger.level
    with tempfile.TemporaryDirectory(prefix="agentcompass-") as folder:
        wanted = {"MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": folder}
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
            logger.handlers[:] = handlers
            logger.setLevel(level)
