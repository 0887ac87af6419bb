"""The reading side of one run directory. Needs no lock: a run may be read while it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from agentcompass.data import frozen
from agentcompass.errors import StoreError
from agentcompass.records import JSON, ExecutionRecord, Verdict
from agentcompass.regular import open_regular, read_regular
from agentcompass.store import codec, jsonl
from agentcompass.store.files import explained
from agentcompass.store.identity import is_alive
from agentcompass.store.info import RunInfo, RunPlan, RunStatus, info_from_json, plan_from_json
from agentcompass.store.jsonl import CorruptLine
from agentcompass.store.layout import RunPaths
from agentcompass.store.lock import is_held

T = TypeVar("T")


def _ignore(_line: CorruptLine) -> None:
    """For readers who count corrupt lines elsewhere."""


class Ending(Protocol):
    """What decides which of two executions is the verdict of their attempt."""

    @property
    def verdict(self) -> Verdict:
        """Of this execution."""

    @property
    def execution(self) -> int:
        """Its number, from 1."""


@frozen(kw_only=True)
class StoredRun:
    """A run on disk. Records are read when asked for, one at a time."""

    paths: RunPaths
    info: RunInfo
    plan: RunPlan

    @property
    def is_running(self) -> bool:
        """Whether the process that executes it is at work now."""
        return self.info.status == "running" and (
            is_alive(self.info.owner) or is_held(self.paths.lock_file)
        )

    @property
    def status(self) -> RunStatus:
        """As `run.json` says, but `interrupted` when it says `running` and nobody is at work."""
        if self.info.status == "running" and not self.is_running:
            return "interrupted"
        return self.info.status

    def records(
        self, on_corrupt: Callable[[CorruptLine], None] = _ignore
    ) -> Iterator[ExecutionRecord]:
        """Yield every execution, in the order in which they finished.

        A torn last line, which a crash leaves, is dropped: it was never announced.

        Args:
            on_corrupt: Told of every other line that cannot be read, or whose metrics are not those of the plan; it is
                skipped.

        Raises:
            StoreError: The journal cannot be read at all.
        """
        with explained("read", self.paths.journal_file):
            for number, value in jsonl.read_lines(self.paths.journal_file, on_corrupt):
                try:
                    record = codec.decode_record(value)
                    self._check_metrics(record)
                except ValueError as error:
                    on_corrupt(CorruptLine(number=number, reason=str(error)[:200]))
                else:
                    yield record

    def _check_metrics(self, record: ExecutionRecord) -> None:
        if record.metrics is None:
            return
        for metric in self.plan.metrics:
            value = record.metrics.get(metric.name)
            if value is None or (metric.kind == "binary" and value not in {0.0, 1.0}):
                raise ValueError(f"metric {metric.name!r:.40} is {value}")


def records_after(path: Path, offset: int) -> Iterator[tuple[ExecutionRecord | None, int]]:
    """Yield the records of a journal from a position on, for whoever follows it while it grows.

    Args:
        path: The journal; one that is not there has no records.
        offset: Where a line begins, in bytes.

    Yields:
        The record, None for a line that cannot be read, and where the next line begins.

    Raises:
        StoreError: It cannot be read.
    """
    with explained("read", path):
        try:
            file = open_regular(path)
        except FileNotFoundError:
            return
        with file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                offset += len(line)
                try:
                    record = codec.decode_record(jsonl.decode(line))
                except ValueError:
                    record = None
                yield record, offset


def read_run(run_dir: Path) -> StoredRun:
    """Read what a run is and what it is to do; its records are not read yet.

    Raises:
        StoreError: There is no run, or it is corrupt or of a newer version.
    """
    paths = RunPaths(run_dir)
    with explained("read", paths.run_file):
        is_there = paths.run_file.exists()
    if not is_there:
        raise StoreError(
            f"{run_dir} is not a run directory: it has no {paths.run_file.name}",
            hint="Give the directory that holds run.json: <results>/<name>/<run id>.",
        )
    return StoredRun(
        paths=paths,
        info=_read(paths.run_file, info_from_json),
        plan=_read(paths.plan_file, plan_from_json),
    )


def _read(path: Path, convert: Callable[[JSON], T]) -> T:
    with explained("read", path):
        data = read_regular(path)
    try:
        return convert(jsonl.decode(data))
    except ValueError as error:
        raise StoreError(f"{path} cannot be used: {error}") from error


def final_records(
    records: Iterable[ExecutionRecord],
) -> dict[tuple[str, int], ExecutionRecord]:
    """Return the record that is the verdict of each attempt: its graded one, else its last execution.

    Args:
        records: In journal order. They are all kept in memory, answers included.
    """
    finals: dict[tuple[str, int], ExecutionRecord] = {}
    for record in records:
        known = finals.get(record.key)
        if known is None or supersedes(record, known):
            finals[record.key] = record
    return finals


def supersedes(new: Ending, known: Ending) -> bool:
    """Whether a later line of the journal replaces an earlier one as the verdict of the same attempt."""
    if known.verdict == "graded":
        return False
    return new.verdict == "graded" or new.execution >= known.execution
