"""The engine beside the floor: the same calls on trio and httpx with a client for each lane and a small file for each task.

Also the lag of the event loop, of both, and the events a second. Both write where the results of the machine's temporary
directory go, so a slow file system slows both.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.server import endpoint

QUESTION = "What is six times seven?"
WARM_UP = 32


class Lag:
    """How late the event loop wakes a task that sleeps for 5 ms, in milliseconds."""

    def __init__(self) -> None:
        self.late: list[float] = []

    async def watch(self) -> None:
        import trio

        while True:
            wanted = trio.current_time() + 0.005
            await trio.sleep_until(wanted)
            self.late.append(1000 * (trio.current_time() - wanted))

    def figures(self) -> dict[str, float]:
        late = sorted(self.late) or [0.0]
        return {"lag_p50_ms": late[len(late) // 2], "lag_p99_ms": late[int(len(late) * 0.99)]}


def floor(url: str, tasks: int, in_flight: int, folder: Path) -> dict[str, Any]:
    """What nobody can do without: the calls, and something written down for each task."""
    import httpx
    import trio

    context = httpx.create_ssl_context()
    body = {"model": "m", "messages": [{"role": "user", "content": QUESTION}]}

    async def lane(todo: Any) -> None:
        async with httpx.AsyncClient(verify=context, timeout=60, trust_env=False) as client:
            for number in todo:
                answer = (await client.post(f"{url}/chat/completions", json=body)).json()
                text = answer["choices"][0]["message"]["content"]
                line = json.dumps({"task": number, "answer": text, "usage": answer["usage"]})
                (folder / f"{number}.json").write_text(line)

    async def main() -> None:
        todo = iter(range(tasks))
        async with trio.open_nursery() as watching:
            watching.start_soon(lag.watch)
            async with trio.open_nursery() as nursery:
                for _ in range(in_flight):
                    nursery.start_soon(lane, todo)
            watching.cancel_scope.cancel()

    lag = Lag()
    trio.run(main)
    return lag.figures()


def engine(url: str, tasks: int, in_flight: int, folder: Path) -> dict[str, Any]:
    """The same by `run_evaluation`, hosted on trio so that the loop's lag can be seen."""
    import trio

    from agentcompass import async_run_evaluation

    events = 0
    file = folder / "tasks.jsonl"
    with file.open("w") as lines:
        for number in range(tasks):
            task = {"id": f"task-{number}", "prompt": QUESTION, "answer": 42, "scorer": "numeric"}
            lines.write(json.dumps(task) + "\n")

    def count(_event: object) -> None:
        nonlocal events
        events += 1

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lag.watch)
            result = await async_run_evaluation(
                benchmark="jsonl", harness="openai_chat", model="m", model_base_url=url,
                model_params={"max_connections": in_flight}, benchmark_params={"path": str(file)},
                task_concurrency=in_flight, results_dir=folder / "results", progress="none", on_progress=count,
            )  # fmt: skip
            assert result["summary"]["score"] == 1.0
            nursery.cancel_scope.cancel()

    lag = Lag()
    trio.run(main)
    return lag.figures() | {"events": events}


def child(what: str, url: str, tasks: int, in_flight: int) -> None:
    """Measure in this process, after a warm-up that loads all modules, and print the figures."""
    work = {"floor": floor, "engine": engine}[what]
    with tempfile.TemporaryDirectory() as warm:
        work(url, WARM_UP, min(in_flight, WARM_UP), Path(warm))
    with tempfile.TemporaryDirectory() as folder:
        before, started = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        figures = work(url, tasks, in_flight, Path(folder))
        wall = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": after.ru_maxrss * 1024, **figures}))


def run(*, quick: bool) -> dict[str, Any]:
    """Measure all combinations, floor and engine in turn; print the table and return the figures."""
    shapes = [(64, 100), (64, 1000)] if quick else [
        (flight, tasks) for flight in (1, 64, 256) for tasks in (100, 1000, 10_000) if (flight, tasks) != (1, 10_000)
    ]  # fmt: skip
    rows, figures = [], {}
    with endpoint() as url:
        for in_flight, tasks in shapes:
            pair = {
                what: measure.python(
                    "-m", "benchmarks.throughput", what, url, str(tasks), str(in_flight)
                ).json
                for what in ("floor", "engine")
            }
            low, own = pair["floor"], pair["engine"]
            figures[f"{in_flight} in flight, {tasks} tasks"] = pair | {
                "cpu_ratio": own["cpu"] / low["cpu"], "wall_ratio": own["wall"] / low["wall"],
            }  # fmt: skip
            rows.append([
                in_flight, tasks, f"{1000 * low['cpu'] / tasks:.2f}", f"{1000 * own['cpu'] / tasks:.2f}",
                f"{own['cpu'] / low['cpu']:.2f}", f"{own['wall'] / low['wall']:.2f}",
                f"{low['peak'] / 2**20:.0f}", f"{own['peak'] / 2**20:.0f}",
                f"{low['lag_p99_ms']:.1f}", f"{own['lag_p50_ms']:.1f}", f"{own['lag_p99_ms']:.1f}",
                f"{own['events'] / own['wall']:.0f}",
            ])  # fmt: skip
    head = [
        "in flight", "tasks", "floor CPU ms", "engine CPU ms", "CPU ratio", "wall ratio", "floor MiB", "engine MiB",
        "floor lag p99 ms", "engine lag p50 ms", "p99 ms", "events/s",
    ]  # fmt: skip
    print(measure.table(head, rows))
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["floor", "engine"])
    parser.add_argument("url")
    parser.add_argument("tasks", type=int)
    parser.add_argument("in_flight", type=int)
    sys.exit(child(**vars(parser.parse_args())))
