"""How long until something happens: `--help`, and the first model request, beside bare Python and `import cyclopts`.

All programs are run as they are when installed: from cached bytecode, by what the installed script does. The first
request counts when its first byte has left the process, which is killed then; the *floor* does with trio, httpx and
cyclopts alone what no program on top of them can do without.
"""

from __future__ import annotations

import functools
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks import measure

TIMES: Final = 25
QUICK_TIMES: Final = 5
BAR: Final = 3.0
START_SECONDS: Final = 60.0

_SCRIPT: Final = "import sys; from agentcompass.cli.entry import main; sys.exit(main())"
_RUN: Final = ("run", "jsonl", "openai_chat", "m", "--benchmark-params", '{"path": "tasks.jsonl"}')
_SDK: Final = """
import sys
from agentcompass import run_evaluation
run_evaluation(benchmark="jsonl", harness="openai_chat", model="m", model_base_url=sys.argv[-1],
    benchmark_params={"path": "tasks.jsonl"}, progress="plain")
"""
_FLOOR: Final = """
import gc; gc.disable()
import cyclopts, httpx, trio
app = cyclopts.App()
@app.command
def run(benchmark: str, harness: str, model: str, *, benchmark_params: str, model_base_url: str):
    async def main():
        async with httpx.AsyncClient(verify=False) as client:
            await client.post(model_base_url, json={})
    trio.run(main)
app()
"""


def run(*, quick: bool) -> dict[str, Any]:
    """Measure, print the table and return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        costs = measure.cheapest(QUICK_TIMES if quick else TIMES, _programs(Path(folder)))
    bare, reference = costs["bare python"].cpu_seconds, costs["import cyclopts"].cpu_seconds
    rows = [
        [name, f"{1000 * cost.cpu_seconds:.0f}", f"{cost.cpu_seconds / bare:.2f}", f"{cost.cpu_seconds / reference:.2f}"]
        for name, cost in costs.items()
    ]  # fmt: skip
    print(measure.table(["what", "CPU ms", "x bare python", "x import cyclopts"], rows))
    for what, ratio in (
        ("--help beside bare python", costs["--help"].cpu_seconds / bare),
        ("first request beside import cyclopts", costs["first request"].cpu_seconds / reference),
    ):
        print(f"{what}: {ratio:.2f}, bar {BAR}: {'met' if ratio <= BAR else 'missed'}")
    return {name: cost.cpu_seconds for name, cost in costs.items()}


def _programs(folder: Path) -> dict[str, Callable[[], measure.Cost]]:
    work, bytecode = folder / "work", folder / "bytecode"
    work.mkdir()
    (work / "tasks.jsonl").write_text('{"id": "a", "prompt": "x", "answer": 42}\n')
    environ = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(bytecode)}

    def whole(*arguments: str) -> Callable[[], measure.Cost]:
        return functools.partial(measure.python, *arguments, **environ)

    def to_request(program: str, *arguments: str) -> Callable[[], measure.Cost]:
        program = f"import os; os.chdir({str(work)!r})\n{program}"
        return functools.partial(_to_first_request, (program, *arguments), environ)

    return {
        "bare python": whole("-c", "pass"),
        "--help": whole("-c", _SCRIPT, "--help"),
        "import agentcompass": whole("-c", "import agentcompass"),
        "import cyclopts": whole("-c", "import cyclopts"),
        "run --help": whole("-c", _SCRIPT, "run", "--help"),
        "floor": to_request(_FLOOR, *_RUN),
        "first request": to_request(_SCRIPT, *_RUN),
        "first request, SDK": to_request(_SDK),
    }


def _to_first_request(arguments: tuple[str, ...], environ: dict[str, str]) -> measure.Cost:
    """Run a program, which gets the URL of an endpoint, until it has sent something there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"

        def until(child: subprocess.Popen[str]) -> None:
            # its output is at an end when it has failed, which nobody need wait for
            ready, _, _ = select.select([listener, child.stdout], [], [], START_SECONDS)
            if listener in ready:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1)

        argv = [sys.executable, "-c", *arguments, "--model-base-url", url]
        return measure.run(argv, until, **environ)
