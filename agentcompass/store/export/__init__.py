"""Runs in the forms of other tools: `FORMATS` names them, and `export_run` writes one.

A form reads a run and writes files below a directory; it changes nothing of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError, StoreError, did_you_mean
from agentcompass.store.export.atif_files import write_atif
from agentcompass.store.export.result import Exported
from agentcompass.store.export.swebench import write_swebench
from agentcompass.store.files import explained, make_directory
from agentcompass.store.reader import StoredRun

Write: TypeAlias = Callable[[StoredRun, Path], Exported]
"""Takes a run and an existing directory."""


@frozen(kw_only=True)
class Form:
    """A form in which a run can be had."""

    description: str
    write: Write


FORMATS: Final[Mapping[str, Form]] = {
    "atif": Form(
        description="trajectories as Harbor interchanges them (ATIF 1.7), a file for each attempt",
        write=write_atif,
    ),
    "swebench": Form(
        description="patches as SWE-bench evaluates them (predictions.jsonl)",
        write=write_swebench,
    ),
}


def export_run(run: StoredRun, format_name: str, output: Path | None = None) -> Exported:
    """Write a run in another form.

    Args:
        run: What is written, as far as it got.
        format_name: A key of `FORMATS`.
        output: Directory, which is made; None: `export/<format>` of the run.

    Raises:
        ConfigurationError: There is no such form.
        StoreError: The run cannot be read, a file cannot be written, or there was nothing to write.
    """
    form = FORMATS.get(format_name)
    if form is None:
        raise ConfigurationError(
            f"unknown format {format_name!r}{did_you_mean(format_name, FORMATS)}"
        )
    directory = output or run.paths.run_dir / "export" / format_name
    with explained("make", directory):
        make_directory(directory)
    exported = form.write(run, directory)
    if exported.files == 0:
        reasons = sorted({missing.reason for missing in exported.missing})
        why = f": {'; '.join(reasons[:3])}" if reasons else ": no attempt is finished"
        raise StoreError(f"{run.paths.run_dir} has nothing to export as {format_name}{why}")
    return exported
