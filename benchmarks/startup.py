"""How long until something happens: `--help`, and the first model request, beside bare Python and `import cyclopts`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from benchmarks import measure
from benchmarks.server import endpoint

TIMES = 8
_FIRST_REQUEST = """
import json, os, pathlib, sys, time
from agentcompass import run_evaluation
import httpx
class Stop(BaseException): pass
# the first byte on its way to the endpoint is what is waited for: the process ends there
import agentcompass.net.lanes as lanes
original = lanes.StackTransport.handle_async_request
async def first(self, request):
    os._exit(0)
lanes.StackTransport.handle_async_request = first
run_evaluation(benchmark="jsonl", harness="openai_chat", model="m", model_base_url=sys.argv[1],
    benchmark_params={"path": "tasks.jsonl"}, progress="none", results_dir="results")
"""


def run(*, quick: bool) -> dict[str, Any]:
    """Measure, print the table and return the figures."""
    times = 3 if quick else TIMES
    with endpoint() as url, tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tasks.jsonl").write_text('{"id": "a", "prompt": "x", "answer": 42}\n')
        script = f"import os; os.chdir({folder!r})\n{_FIRST_REQUEST}"
        costs = {
            "bare python": measure.best(times, "-c", "pass"),
            "--help": measure.best(times, "-m", "agentcompass.cli", "--help"),
            "import agentcompass": measure.best(times, "-c", "import agentcompass"),
            "import cyclopts": measure.best(times, "-c", "import cyclopts"),
            "run --help": measure.best(times, "-m", "agentcompass.cli", "run", "--help"),
            "first model request": measure.best(times, "-c", script, url),
        }
    bare, reference = costs["bare python"].cpu_seconds, costs["import cyclopts"].cpu_seconds
    rows = [
        [name, f"{1000 * cost.cpu_seconds:.0f}", f"{cost.cpu_seconds / bare:.2f}", f"{cost.cpu_seconds / reference:.2f}"]
        for name, cost in costs.items()
    ]  # fmt: skip
    print(measure.table(["what", "CPU ms", "x bare python", "x import cyclopts"], rows))
    return {name: cost.cpu_seconds for name, cost in costs.items()}
