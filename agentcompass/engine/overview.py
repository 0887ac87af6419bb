"""What `orchestration.json` says of a launch, kept true while it runs. A single evaluation has none."""

from __future__ import annotations

import logging
from typing import final

import attrs

from agentcompass.errors import StoreError
from agentcompass.records import OrchestrationStatus, RequestOutcome
from agentcompass.secrets import Scrubber
from agentcompass.spec.resolved import Orchestration
from agentcompass.store.identity import this_process
from agentcompass.store.layout import RunPaths
from agentcompass.store.orchestration import OrchestrationFile, OrchestrationInfo, RequestEntry
from agentcompass.store.writer import Job, Writer

_log = logging.getLogger("agentcompass.engine")


@final
class Overview:
    """Writes the file anew when something has changed; never blocks. That it cannot be written is a warning.

    Args:
        orchestration: What is executed.
        started_at: ISO 8601, UTC.
        writer: In whose thread the file is written.
        scrubber: Knows the secrets.
    """

    def __init__(
        self, orchestration: Orchestration, started_at: str, writer: Writer, scrubber: Scrubber
    ) -> None:
        self._results_dir = orchestration.runtime.results_dir
        self._is_wanted = not orchestration.is_single
        self._writer, self._scrub = writer, scrubber.scrub
        self._info = OrchestrationInfo(
            id=orchestration.id,
            name=orchestration.name,
            started_at=started_at,
            owner=this_process(),
            requests={r.name: RequestEntry(run_id=r.run_id) for r in orchestration.requests},
        )
        self._file: OrchestrationFile | None = None
        self._written: OrchestrationInfo | None = None
        self._submit()

    def running(self, name: str, paths: RunPaths, metric: str) -> None:
        """A request has its directory, and its attempts begin."""
        known = self._info.requests[name]
        entry = attrs.evolve(known, status="running", run_dir=str(paths.run_dir), metric=metric)
        self._change(name, entry)

    def concluded(self, outcome: RequestOutcome) -> None:
        """A request is over."""
        result = outcome.result or {}
        summary = result.get("summary", {})
        ci95 = summary.get("ci95")
        known = self._info.requests[outcome.name]
        entry = attrs.evolve(
            known,
            status=outcome.status,
            run_dir=outcome.paths.get("run_dir", known.run_dir),
            score=summary.get("score"),
            ci95=None if ci95 is None else (ci95[0], ci95[1]),
            coverage=summary.get("coverage"),
            error=outcome.error,
            paths=dict(outcome.paths),
        )
        self._change(outcome.name, entry)

    def ended(self, status: OrchestrationStatus, finished_at: str, ended_by: str | None) -> None:
        """All are over: the last word."""
        self._info = attrs.evolve(
            self._info, status=status, finished_at=finished_at, ended_by=ended_by
        )
        self._submit()

    def _change(self, name: str, entry: RequestEntry) -> None:
        self._info = attrs.evolve(self._info, requests={**self._info.requests, name: entry})
        self._submit()

    def _submit(self) -> None:
        if self._is_wanted:
            self._writer.submit(Job(write=self._write, done=self._done))

    def _write(self) -> None:
        """In the writer's thread: write the newest state, once for all changes that have come together."""
        info = self._info
        if info is self._written:
            return
        if self._file is None:
            self._file = OrchestrationFile(self._results_dir, info, self._scrub)
        else:
            self._file.update(info)
        self._written = info
        if info.finished_at is not None:
            self._file.close()

    def _done(self, error: StoreError | None) -> None:
        if error is not None and self._is_wanted:
            self._is_wanted = False
            _log.warning("the state of this launch is not recorded: %s", error.message)
