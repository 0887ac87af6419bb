"""What came of an export."""

from __future__ import annotations

from pathlib import Path

from agentcompass.data import frozen


@frozen(kw_only=True)
class Missing:
    """An attempt that is not among what was written."""

    task_id: str
    attempt: int
    reason: str


@frozen(kw_only=True)
class Exported:
    """What was written, and what was not."""

    directory: Path
    files: int
    """Documents; what belongs to them, such as images, not counted."""
    missing: tuple[Missing, ...] = ()
    corrupt_lines: int = 0
    """Of the journal, which could not be read."""
