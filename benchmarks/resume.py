"""Planning a resume: reading a journal and deciding what is missing."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import measure

_RUN = {"run_id": "old", "fingerprint": "f"}


def child(lines: int) -> None:
    """Write a run of so many records, then plan from it, and print the figures."""
    from agentcompass.plan.reuse import find_reusable
    from agentcompass.records import ExecutionRecord, Metric, Usage
    from agentcompass.secrets import Scrubber
    from agentcompass.store import layout
    from agentcompass.store.codec import encode_record
    from agentcompass.store.identity import this_process
    from agentcompass.store.run import RunInfo, RunPlan, RunStore
    from agentcompass.store.writer import Writer

    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        paths = layout.RunPaths(layout.run_dir(results, None, "bench", "old"))
        info = RunInfo(
            run_id="old", name="bench", status="completed", started_at="2026-01-01T00:00:00+00:00",
            owner=this_process(), fingerprint="f", identity={}, request={},
        )  # fmt: skip
        plan = RunPlan(
            tasks=tuple((f"task-{n}", None) for n in range(lines)), k=1, attempt_strategy="avg",
            metrics=(Metric(name="pass", primary=True),), min_coverage=1.0,
        )  # fmt: skip
        writer = Writer()
        writer.start()
        RunStore.create(writer, paths, info, plan, Scrubber()).close()
        writer.close(10)
        with paths.journal_file.open("ab") as journal:
            for n in range(lines):
                record = ExecutionRecord(
                    task_id=f"task-{n}", attempt=1, execution=1, verdict="graded", metrics={"pass": 1.0},
                    answer="The answer is 42. " * 20, usage=Usage(calls=1, input_tokens=12, output_tokens=6),
                )  # fmt: skip
                journal.write(encode_record(record, lambda text: text))
        before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        found = find_reusable(results, None, "bench", "f", {}, reuse_run_id="old")
        assert found is not None
        assert len(found.graded) == lines
        wall = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": after.ru_maxrss * 1024}))


def run(*, quick: bool) -> dict[str, Any]:
    """Measure, print the table and return the figures."""
    sizes = [1000] if quick else [10_000, 100_000]
    figures = {lines: measure.python("-m", "benchmarks.resume", str(lines)).json for lines in sizes}
    rows = [
        [lines, f"{f['wall']:.2f}", f"{f['cpu']:.2f}", f"{1e6 * f['cpu'] / lines:.0f}", f"{f['peak'] / 2**20:.0f}"]
        for lines, f in figures.items()
    ]  # fmt: skip
    print(measure.table(["journal lines", "seconds", "CPU s", "CPU us a line", "peak MiB"], rows))
    return {str(lines): figure for lines, figure in figures.items()}


if __name__ == "__main__":
    child(int(sys.argv[1]))
