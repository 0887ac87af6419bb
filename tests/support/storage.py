"""Runs on disk for tests: small real ones, written by the real store."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from agentcompass.records import ExecutionRecord, Failure, Lease, Metric, Usage
from agentcompass.secrets import Scrubber
from agentcompass.store.identity import this_process
from agentcompass.store.layout import RunPaths
from agentcompass.store.run import RunInfo, RunPlan, RunStore
from agentcompass.store.writer import Job, Writer

ACCURACY = Metric(name="accuracy", primary=True)


def graded(task="t1", attempt=1, value=1.0, execution=1, **fields) -> ExecutionRecord:
    return ExecutionRecord(
        task_id=task,
        attempt=attempt,
        execution=execution,
        verdict="graded",
        metrics={"accuracy": value},
        **fields,
    )


def infra(task="t1", attempt=1, execution=1, code="sandbox-failed", message="gone", **fields):
    return ExecutionRecord(
        task_id=task,
        attempt=attempt,
        execution=execution,
        verdict=fields.pop("verdict", "infra"),
        failure=Failure(phase="run", code=code, message=message),
        usage=Usage(calls=1, input_tokens=10, output_tokens=5),
        **fields,
    )


def run_info(run_id="r1", **fields) -> RunInfo:
    known = {
        "name": "demo",
        "status": "running",
        "started_at": "2026-01-01T00:00:00+00:00",
        "owner": this_process(),
        "fingerprint": "f" * 64,
        "identity": {"model": {"id": "m"}},
        "request": {"benchmark": {"id": "b"}, "harness": {"id": "h"}, "model": {"id": "m"}},
    }
    return RunInfo(run_id=run_id, **{**known, **fields})


def run_plan(*tasks, k=1, strategy="avg", metrics=(ACCURACY,)) -> RunPlan:
    pairs = tuple(task if isinstance(task, tuple) else (task, None) for task in tasks)
    return RunPlan(tasks=pairs, k=k, attempt_strategy=strategy, metrics=metrics, min_coverage=1.0)


def lease(lease_id="l1", **fields) -> Lease:
    return Lease(
        id=lease_id,
        run_id="r1",
        task_id="t1",
        environment="docker",
        name=f"agentcompass-{lease_id}",
        created_at="2026-01-01T00:00:00+00:00",
        expires_at="2026-01-08T00:00:00+00:00",
        owner=this_process(),
        **fields,
    )


class Disk:
    """A writer and one open run, closed with the block."""

    def __init__(self, run_dir: Path, *, plan=None, info=None, scrubber=None):
        self.paths = RunPaths(run_dir)
        self.plan = plan or run_plan("t1", "t2")
        self.info = info or run_info(run_dir.name)
        self.scrubber = scrubber or Scrubber()
        self.writer = Writer()

    def __enter__(self):
        self.writer.start()
        self.store = RunStore.create(self.writer, self.paths, self.info, self.plan, self.scrubber)
        return self

    def __exit__(self, *_exc):
        assert self.store.close(10)
        assert self.writer.close(10)

    def settle(self):
        """Wait until all that was queued is written, or has failed."""
        waited(lambda done: self.writer.submit(Job(write=lambda: None, done=done)))

    def append(self, record):
        """Append and wait: (error, record as written)."""
        return waited(lambda done: self.store.append(record, done))


def lines(path: Path) -> list:
    """The values of a file of JSON lines."""
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


def waited(submit):
    """Call with a `done` callback and return what it was given."""
    ready, given = threading.Event(), []

    def done(*args):
        given.extend(args)
        ready.set()

    submit(done)
    assert ready.wait(20), "the writer did not answer"
    return given[0] if len(given) == 1 else tuple(given)


def write_run(run_dir: Path, records=(), **parts) -> RunPaths:
    with Disk(run_dir, **parts) as disk:
        for record in records:
            error, _ = disk.append(record)
            assert error is None
    return disk.paths
