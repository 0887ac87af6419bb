"""What the engine's own work takes for a task, and its memory, from ten thousand tasks to a million: on a virtual clock.

Twenty requests, a third of them in sandboxes of a provider with few places, a third of another's; tasks of a minute
on average, of which one in ten fails and is tried again. The *floor* is trio alone: workers that sleep so long. The
*scheduler* is lanes, slots and workers without a store. The *engine* is everything, records, events and scores on disk
included, with a sync for each record, since on a virtual clock no two end at once.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any, Final

from benchmarks import measure

SLOTS: Final = 64
REQUESTS: Final = 20
PLACES: Final = {"a": 16}
SIZES: Final = {
    "floor": (10_000, 1_000_000),
    "scheduler": (10_000, 1_000_000),
    "engine": (10_000, 100_000),
}
QUICK_SIZES: Final = {"floor": (10_000,), "scheduler": (10_000,), "engine": (1000,)}


def child(level: str, tasks: int) -> None:
    """Measure in this process, after a small run that loads all modules, and print the figures."""
    work = {"floor": _floor, "scheduler": _scheduler, "engine": _engine}[level]
    work(REQUESTS)
    before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    given = work(tasks)
    wall, peak = time.perf_counter() - started, _peak()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    figures = {
        "wall": wall,
        "cpu_us": 1e6 * cpu / given.executions,
        "peak": peak,
        "days": given.makespan / 86_400,
        "utilisation": given.utilisation(SLOTS),
    }
    if level != "floor":
        from support.ideal import list_schedule

        ideal = list_schedule(_streams(tasks), SLOTS, PLACES, {})
        figures["of_ideal"] = given.utilisation(SLOTS) / ideal.utilisation(SLOTS)
    print(json.dumps(figures))


def _peak() -> int:
    """The most memory that this program had, in bytes. `ru_maxrss` would count the one that started it, too."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def _streams(tasks: int) -> list[Any]:
    from support.ideal import Stream

    return [
        Stream(
            name=f"r{at}", tasks=tasks // REQUESTS, mean_seconds=60.0, failing=0.1, retries=2, delay_seconds=30.0,
            provider=(None, "a", "b")[at % 3], seed=at,
        )
        for at in range(REQUESTS)
    ]  # fmt: skip


def _floor(tasks: int) -> Any:
    import trio
    from trio.testing import MockClock

    from support.ideal import Schedule

    todo = ((stream, task) for stream in _streams(tasks) for task in range(stream.tasks))
    busy = 0.0

    async def work() -> None:
        nonlocal busy
        for stream, task in todo:
            seconds = stream.seconds(task, 1)
            await trio.sleep(seconds)
            busy += seconds

    async def main() -> Any:
        async with trio.open_nursery() as nursery:
            for _ in range(SLOTS):
                nursery.start_soon(work)
        return Schedule(makespan=trio.current_time(), busy_seconds=busy, executions=tasks)

    return trio.run(main, clock=MockClock(autojump_threshold=0))


def _scheduler(tasks: int) -> Any:
    from support.simulation import run_scheduler

    return run_scheduler(_streams(tasks), SLOTS, PLACES, {})


def _engine(tasks: int) -> Any:
    from support.simulation import run_engine
    from support.virtual import results

    with results() as directory:
        result, given = run_engine(_streams(tasks), SLOTS, PLACES, {}, directory)
    assert result.status == "completed"
    return given


def run(*, quick: bool) -> dict[str, Any]:
    """Measure, print the table and return the figures."""
    path = f"{measure.ROOT}:{measure.ROOT / 'tests'}"
    figures = {
        f"{level}, {tasks} tasks": measure.python(
            "-m", "benchmarks.simulation", level, str(tasks), PYTHONPATH=path
        ).json
        for level, sizes in (QUICK_SIZES if quick else SIZES).items()
        for tasks in sizes
    }
    rows = [
        [
            name, f"{f['wall']:.1f}", f"{f['days']:.1f}", f"{f['cpu_us']:.0f}",
            f"{f['peak'] / 2**20:.0f}", f"{f['utilisation']:.3f}", f"{f['of_ideal']:.3f}" if "of_ideal" in f else "",
        ]
        for name, f in figures.items()
    ]  # fmt: skip
    head = [
        "what", "seconds", "virtual days", "CPU us a run", "peak MiB", "slots busy", "of the ideal",
    ]  # fmt: skip
    print(measure.table(head, rows))
    return figures


if __name__ == "__main__":
    child(sys.argv[1], int(sys.argv[2]))
