"""Analysis follows the journal: it looks at attempts after they are durable, and nobody waits for it.

The journal itself is the queue. All that an attempt costs the run is a count; the one worker reads the lines that
were announced since its last turn, in a thread, for a fraction of a second at a time, and rests at least as long.
What it has not come to when the last attempt is done, it makes up for then, in bounded time. When the run is being
cancelled it stops at once: the journal has everything, and `analyze_again` starts from there.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar, final

import attrs
import trio

from agentcompass.components.analysis import LEFT_OUT, FinishedAttempt, Step
from agentcompass.engine.analysts import Analysts, Turn, analysts_for
from agentcompass.errors import StoreError, counted
from agentcompass.records import JSON, ExecutionRecord
from agentcompass.store.analysis import findings_line, read_findings, write_analysis
from agentcompass.store.files import explained
from agentcompass.store.journal import EventLog
from agentcompass.store.jsonl import CorruptLine
from agentcompass.store.layout import RunPaths
from agentcompass.store.lock import RunLock
from agentcompass.store.reader import read_run, records_after
from agentcompass.store.steps import steps_of
from agentcompass.store.summary import summarize

T = TypeVar("T")

HANG_SECONDS: Final = 10.0
"""When looking at one attempt takes longer, the analyzer that is at work then is given up, and its thread left behind."""
SLICE_SECONDS: Final = 0.05
"""A turn ends with the first attempt after this time."""
PAUSE_SECONDS: Final = 0.2
"""Least time between two turns while attempts run: many small attempts make one turn."""
REST: Final = 4.0
"""Rest after a turn, in times of its length: other threads have the interpreter to themselves for so long."""
CATCH_UP_SECONDS: Final = 60.0
"""For what is left when the last attempt of a run is done."""
SUM_UP_SECONDS_EACH: Final = 0.001
"""For each execution, beside `HANG_SECONDS`, when findings are summed up."""
SMALL_TRAJECTORY: Final = 512 * 1024
"""Bytes of a file whose steps are read once for all analyzers, and not once for each."""

_LOOKED_AT: Final = frozenset({"graded", "infra"})
_log = logging.getLogger("agentcompass.engine")


class Sink(Protocol):
    """Where findings go: `store.run.RunStore`."""

    def findings(self, lines: Sequence[Mapping[str, JSON]], done: Callable[[], None]) -> None:
        """Write lines in order; call `done`, in any thread, when they are written."""
        ...


@attrs.define
class _Batch:
    """What one turn gave."""

    offset: int
    """Where the next line of the journal begins."""
    seen: int = 0
    """Lines of the journal."""
    analyzed: int = 0
    lines: list[dict[str, JSON]] = attrs.field(factory=list)


@final
class Analysis:
    """The analysis of one run.

    Args:
        analysts: Who look at attempts.
        paths: Of the run.
        sink: Where findings go.
        note: Tells people something about an analyzer.
    """

    def __init__(
        self, analysts: Analysts, paths: RunPaths, sink: Sink, note: Callable[[str], None]
    ) -> None:
        self._analysts, self._paths, self._sink, self._note = analysts, paths, sink, note
        self._announced: float = 0
        self._seen = self._analyzed = self._offset = self._told = 0
        self._news = trio.Event()
        self._closing = trio.Event()
        self._over = trio.Event()
        self._following = trio.CancelScope()
        self._threads = trio.CapacityLimiter(1)

    def announce(self, lines: float = 1) -> None:
        """Say that so many more lines of the journal are durable; costs next to nothing."""
        self._announced += lines
        self._news.set()

    async def work(self) -> None:
        """Follow the journal until `finish` is called and all is done. Cancel it to stop at once."""
        try:
            with self._following:
                await self._follow()
            await self._sum_up()
        except Exception as error:  # noqa: BLE001  # analysis is an extra: whatever goes wrong in it, the run goes on
            _log.debug("analysis", exc_info=error)
            self._note(f"the analysis was given up: {error}")
        finally:
            self._tell_notes()
            self._over.set()

    async def finish(self, limit_seconds: float) -> None:
        """Wait until `work` has looked at what is left, for at most `limit_seconds`, and has summed up; or was cancelled."""
        self._following.deadline = trio.current_time() + limit_seconds
        self._closing.set()
        self._news.set()
        await self._over.wait()

    async def _follow(self) -> None:
        while True:
            while self._seen < self._announced:
                await self._take_turn()
            if self._closing.is_set():
                return
            await self._news.wait()
            self._news = trio.Event()

    async def _take_turn(self) -> None:
        started = trio.current_time()
        batch = await self._in_thread(self._look, HANG_SECONDS)
        if batch is not None:
            self._take(batch)
        self._tell_notes()
        await self._rest(trio.current_time() - started)

    async def _rest(self, worked_seconds: float) -> None:
        with trio.move_on_after(max(PAUSE_SECONDS, REST * worked_seconds)):
            await self._closing.wait()

    def _take(self, batch: _Batch) -> None:
        self._seen += batch.seen
        self._analyzed += batch.analyzed
        self._offset = batch.offset
        if batch.seen == 0:  # there is no more, whatever was announced
            self._announced = self._seen
        if batch.lines:
            self._sink.findings(batch.lines, lambda: None)

    async def _sum_up(self) -> None:
        limit = HANG_SECONDS + SUM_UP_SECONDS_EACH * self._analyzed
        with trio.move_on_after(3 * limit) as scope:
            await self._written()
            while (rows := await self._in_thread(self._rows, limit)) is None:
                pass
            left = 0 if math.isinf(self._announced) else int(self._announced - self._seen)
            data = {
                "analyzed": self._analyzed,
                "left": left,
                "rows": rows,
                "notes": self._analysts.notes,
            }
            await trio.to_thread.run_sync(
                write_analysis, self._paths.analysis_file, data, abandon_on_cancel=True
            )
        if scope.cancelled_caught:
            self._analysts.notes.append("summing up the findings took too long")

    async def _written(self) -> None:
        """Wait until all findings are in their file."""
        written = trio.Event()
        token = trio.lowlevel.current_trio_token()

        def done() -> None:
            with contextlib.suppress(trio.RunFinishedError):
                token.run_sync_soon(written.set)

        self._sink.findings([], done)
        await written.wait()

    # --- in the thread

    async def _in_thread(self, function: Callable[[Turn], T], limit_seconds: float) -> T | None:
        """Call a function in the worker thread. None if an analyzer hung: it was dismissed, and the turn was for nothing."""
        turn = Turn()
        is_back = False
        try:
            with trio.move_on_after(limit_seconds):
                result = await trio.to_thread.run_sync(
                    function, turn, abandon_on_cancel=True, limiter=self._threads
                )
                is_back = True
                return result
        finally:
            turn.is_over = True
            if not is_back:
                self._threads.total_tokens += 1  # a thread that was left behind keeps its own
        if turn.busy is None:
            raise StoreError("reading the results takes too long")
        self._analysts.dismiss(turn.busy, f"took longer than {limit_seconds:.3g} seconds")
        return None

    def _look(self, turn: Turn) -> _Batch:
        until = time.monotonic() + SLICE_SECONDS
        batch = _Batch(offset=self._offset)
        allowed = self._announced - self._seen
        for record, end in records_after(self._paths.journal_file, self._offset):
            batch.seen += 1
            batch.offset = end
            if record is not None and record.verdict in _LOOKED_AT:
                batch.analyzed += 1
                found = self._analysts.look_at(_attempt(record, self._paths), turn)
                if found:
                    batch.lines.append(findings_line(record, found))
            if batch.seen >= allowed or time.monotonic() > until:
                break
        return batch

    def _rows(self, turn: Turn) -> list[dict[str, JSON]]:
        corrupt: list[CorruptLine] = []
        findings = read_findings(self._paths.findings_file, corrupt.append)
        rows = self._analysts.sum_up(findings, turn)
        if corrupt:
            note = f"{counted(len(corrupt), 'line')} of {self._paths.findings_file.name} cannot be read"
            self._analysts.notes.append(note)
        return rows

    def _tell_notes(self) -> None:
        notes = self._analysts.notes
        for text in notes[self._told :]:
            self._note(text)
        self._told = len(notes)


def _attempt(record: ExecutionRecord, paths: RunPaths) -> FinishedAttempt:
    has_files = record.attempt_dir is not None and record.reused_from is None
    directory = paths.attempt_dir(record.task_id, record.attempt) if has_files else None
    return FinishedAttempt(record=record, directory=directory, steps=_Steps(record, paths))


@final
class _Steps:
    """Reads a trajectory for several analyzers: a small one once, a large one each time anew."""

    def __init__(self, record: ExecutionRecord, paths: RunPaths) -> None:
        self._record, self._paths = record, paths
        self._kept: list[Step] | None = None

    def __call__(self) -> Iterator[Step]:
        if self._kept is None:
            steps = steps_of(self._record, self._paths, LEFT_OUT)
            if self._is_large():
                return steps
            self._kept = list(steps)
        return iter(self._kept)

    def _is_large(self) -> bool:
        record = self._record
        if record.steps_at is not None or record.attempt_dir is None:
            return False
        path = self._paths.trajectory_file(record.task_id, record.attempt, record.execution)
        return path.exists() and path.stat().st_size > SMALL_TRAJECTORY


async def analyze_again(run_dir: Path, note: Callable[[str], None]) -> None:
    """Analyse a run that is over from its journal, replacing earlier findings, and write its summary anew.

    Args:
        run_dir: Of the run.
        note: Tells people something about an analyzer.

    Raises:
        StoreError: There is no run, somebody writes it, or it cannot be read or written.
    """
    run = read_run(run_dir)
    lock = RunLock(run.paths.lock_file)
    try:
        for path in (run.paths.analysis_file, run.paths.findings_file):
            with explained("remove", path):
                path.unlink(missing_ok=True)
        execution = run.info.request.get("execution") or {}
        analysts = analysts_for(execution.get("analysis_params") or {})
        analysis = Analysis(analysts, run.paths, _Findings(run.paths.findings_file), note)
        analysis.announce(math.inf)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(analysis.work)
            await analysis.finish(math.inf)
        summarize(run_dir)
    finally:
        lock.release()


@final
class _Findings:
    """Writes findings where nothing else is written."""

    def __init__(self, path: Path) -> None:
        self._log = EventLog(path, "findings")

    def findings(self, lines: Sequence[Mapping[str, JSON]], done: Callable[[], None]) -> None:
        """Write lines at once; they come from scrubbed records and trajectories."""
        for line in lines:
            self._log.append(line, lambda text: text)
        self._log.commit()
        done()
