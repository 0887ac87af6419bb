"""What a component may use to get what it needs before a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agentcompass.data import frozen


@frozen(kw_only=True)
class LoadContext:
    """What a benchmark may use to load its tasks, and a model to get ready."""

    data_dir: Path
    """Downloads and caches go below it."""
    auto_install_dependencies: bool = False
    may_download: bool = True
    """False in a dry run, which writes nothing: data that is not there is a PreflightError then."""
    note: Callable[[str], None] = lambda _text: None
    """Tells people about progress or something odd."""
