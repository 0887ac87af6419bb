"""What the agents of an earlier run left, to be evaluated again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import final

import attrs

from agentcompass.components.base import AgentOutcome
from agentcompass.data import frozen
from agentcompass.errors import ConfigurationError, SandboxError, StoreError
from agentcompass.records import ExecutionRecord, Failure
from agentcompass.store.info import RunPlan
from agentcompass.store.layout import RunPaths, find_run_dirs
from agentcompass.store.reader import StoredRun, read_run


@final
@frozen(kw_only=True)
class Earlier:
    """An attempt whose agent has done its work."""

    record: ExecutionRecord
    run_dir: Path
    """Of the run that executed it."""

    def outcome(self) -> AgentOutcome:
        """Return what the agent left beside files; blocking.

        Raises:
            OSError: Its answer, kept in a file, cannot be read.
        """
        record = self.record
        file = RunPaths(self.run_dir).answer_file(record.task_id, record.attempt, record.execution)
        is_apart = record.answer is not None and file.is_file()
        return AgentOutcome(
            answer=file.read_text(encoding="utf-8") if is_apart else record.answer,
            stopped_by=record.stopped_by,
            is_completion=record.is_completion,
            details=record.details,
        )

    def artifacts(self) -> Iterator[tuple[str, Path]]:
        """Yield what went to the evaluator: its path in the sandbox, and the copy on this machine.

        Raises:
            SandboxError: The record names a place outside of its run (code `bad-artifact`).
        """
        for path, name in self.record.artifacts.items():
            file = self.run_dir / name
            if not file.resolve().is_relative_to(self.run_dir.resolve()):
                raise SandboxError(
                    f"artifact {name!r} is not in {self.run_dir}",
                    code="bad-artifact",
                    retryable=False,
                )
            yield path, file


@final
@frozen(kw_only=True)
class Regradable:
    """An earlier run."""

    run_id: str
    earlier: Mapping[tuple[str, int], Earlier]
    """By (task id, attempt): those whose agent has done its work."""
    others: Mapping[tuple[str, int], ExecutionRecord]
    """The rest of what it planned, as it ended; `reused_from` names the run."""

    def limited_to(self, plan: RunPlan) -> Regradable:
        """Return it with exactly the attempts that a new run plans."""
        planned = [(task, n) for task, _category in plan.tasks for n in range(1, plan.k + 1)]
        return Regradable(
            run_id=self.run_id,
            earlier={key: self.earlier[key] for key in planned if key in self.earlier},
            others={
                key: self.others.get(key) or _absent(key, self.run_id)
                for key in planned
                if key not in self.earlier
            },
        )


def find_regradable(run_dir: Path) -> Regradable:
    """Return what can be evaluated again of a run, complete or not.

    Raises:
        ConfigurationError: It cannot be read, or there is nothing.
    """
    try:
        run = read_run(run_dir)
        records = list(run.records())
    except StoreError as error:
        raise ConfigurationError(f"{run_dir} cannot be regraded: {error.message}") from error
    homes = _Homes(run)
    earlier: dict[tuple[str, int], Earlier] = {}
    others: dict[tuple[str, int], ExecutionRecord] = {}
    for record in records:
        origin = record.reused_from or run.info.run_id
        if _has_outcome(record):
            earlier[record.key] = Earlier(record=record, run_dir=homes.of(origin))
        elif record.key not in earlier:
            others[record.key] = attrs.evolve(record, reused_from=origin, will_retry=False)
    if not earlier:
        raise ConfigurationError(
            f"{run_dir} has nothing that could be evaluated again",
            hint="No agent of this run finished its work; run it again with --reuse.",
        )
    rest = {key: record for key, record in others.items() if key not in earlier}
    return Regradable(run_id=run.info.run_id, earlier=earlier, others=rest)


def copy_artifact(source: Path, target: Path) -> None:
    """Copy what an earlier run kept. Blocking.

    Raises:
        SandboxError: It is gone (code `artifact-missing`).
        OSError: It cannot be copied.
    """
    if not os.path.lexists(source):
        raise SandboxError(f"{source} is gone", code="artifact-missing", retryable=False)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _has_outcome(record: ExecutionRecord) -> bool:
    """Whether the agent came to its end: what failed then was the evaluator."""
    if record.verdict != "infra" or record.failure is None:
        return record.verdict == "graded"
    return record.failure.phase == "evaluate" or bool(record.artifacts)


def _absent(key: tuple[str, int], run_id: str) -> ExecutionRecord:
    task_id, attempt = key
    text = f"run {run_id} did not execute it"
    return ExecutionRecord(
        task_id=task_id,
        attempt=attempt,
        execution=1,
        verdict="skipped",
        failure=Failure(phase="run", code="not-executed", message=text, retryable=False),
        reused_from=run_id,
    )


@final
class _Homes:
    """Where runs stand from which another one has taken attempts over."""

    def __init__(self, run: StoredRun) -> None:
        self._known = {run.info.run_id: run.paths.run_dir}
        self._root = run.paths.run_dir.parent

    def of(self, run_id: str) -> Path:
        if run_id not in self._known:
            places = (path for path in find_run_dirs(self._root) if path.name == run_id)
            self._known[run_id] = next(places, self._root / run_id)
        return self._known[run_id]
