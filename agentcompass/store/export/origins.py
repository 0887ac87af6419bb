"""Where the steps of an attempt are that was taken over from an earlier run, or evaluated again in a later one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, final

import attrs

from agentcompass.errors import StoreError
from agentcompass.records import JSON, ExecutionRecord
from agentcompass.store.layout import RunPaths, find_run_dirs, safe_name
from agentcompass.store.reader import StoredRun, final_records, read_run
from agentcompass.store.steps import steps_of

_MAX_RUNS: Final = 20
"""That an attempt went through, one after the other."""


class LostStepsError(Exception):
    """An attempt has no steps that could be found; the message says why."""


@final
class Origins:
    """Finds steps, and remembers the runs that it has looked into.

    Args:
        run: Whose attempts are asked for; earlier runs are looked for beside it.
    """

    def __init__(self, run: StoredRun) -> None:
        self._run = run
        self._runs: dict[str, StoredRun | None] = {run.info.run_id: run}
        self._records: dict[str, Mapping[tuple[str, int], ExecutionRecord]] = {}

    def steps(self, record: ExecutionRecord, left_out: str) -> Iterator[Mapping[str, JSON]]:
        """Return the steps of an execution, wherever they stand; see `steps_of`.

        Raises:
            LostStepsError: There are none to be found, or the run that has them is not there any more.
            StoreError: That run cannot be read.
        """
        run = self._run
        for _ in range(_MAX_RUNS):
            if record.reused_from is not None:
                run = self._named(record.reused_from)
                record = attrs.evolve(record, reused_from=None)
            if self._has_steps(record, run.paths):
                return steps_of(record, run.paths, left_out)
            if run.info.regraded_from is None:
                raise LostStepsError("it has no trajectory")
            run = self._named(run.info.regraded_from)
            earlier = self._records_of(run).get(record.key)
            if earlier is None:
                raise LostStepsError(f"the run {run.info.run_id} does not have it")
            record = earlier
        raise LostStepsError("it went through too many runs")

    def paths(self, record: ExecutionRecord) -> RunPaths:
        """Return the files of the run that the paths in a record are relative to.

        Raises:
            LostStepsError: It is not there any more.
        """
        run = self._run if record.reused_from is None else self._named(record.reused_from)
        return run.paths

    @staticmethod
    def _has_steps(record: ExecutionRecord, paths: RunPaths) -> bool:
        if record.steps_at is not None:
            return paths.trajectories_file.exists()
        key = (record.task_id, record.attempt, record.execution)
        return record.attempt_dir is not None and paths.trajectory_file(*key).exists()

    def _named(self, run_id: str) -> StoredRun:
        if run_id not in self._runs:
            self._runs[run_id] = self._find(run_id)
        run = self._runs[run_id]
        if run is None:
            raise LostStepsError(f"the run {run_id} that executed it is not beside this one")
        return run

    def _find(self, run_id: str) -> StoredRun | None:
        """The run of an id: a neighbour, or in another namespace of the same results root."""
        here = self._run.paths.run_dir.resolve()
        name = safe_name(run_id, keep_case=True)
        for directory in (here.parent / name, *find_run_dirs(here.parent.parent)):
            if directory.name == name and RunPaths(directory).run_file.exists():
                try:
                    found = read_run(directory)
                except StoreError:
                    continue
                if found.info.run_id == run_id:
                    return found
        return None

    def _records_of(self, run: StoredRun) -> Mapping[tuple[str, int], ExecutionRecord]:
        run_id = run.info.run_id
        if run_id not in self._records:
            self._records[run_id] = final_records(run.records())
        return self._records[run_id]
