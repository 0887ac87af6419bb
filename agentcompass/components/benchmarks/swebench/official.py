"""The official package `swebench`, asked in a process of its own: its evaluation scripts, log parsers and grading."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import trio

from agentcompass.components.benchmarks.swebench.instances import Instance
from agentcompass.errors import EvaluatorError
from agentcompass.records import JSON

WALL_SECONDS: Final = 600.0
"""For one question, which takes a tenth of a second of an idle machine, and a few for a log of many megabytes."""
START_MARK: Final = ">>>>> Start Test Output"
END_MARK: Final = ">>>>> End Test Output"
"""Lines of a log between which the tests' own output stands."""

_CHILD: Final = Path(__file__).with_name("official_child.py")
_SAID: Final = 500


async def parsers() -> frozenset[str]:
    """Return the names of the log parsers that the package has.

    Raises:
        EvaluatorError: The package is not what this version knows.
    """
    answer = await _ask({"ask": "parsers"})
    return frozenset(answer["parsers"])


async def script_of(instance: Instance) -> str:
    """Return the shell script that runs the tests.

    Raises:
        EvaluatorError: The package is not what this version knows.
    """
    answer = await _ask({"ask": "script", "row": instance.official})
    return str(answer["script"])


async def report_on(instance: Instance, log: str) -> Mapping[str, JSON]:
    """Return the package's report on the output of the tests: `resolved`, `tests_status`, `infra_failure`, ...

    Raises:
        EvaluatorError: It could not be made.
    """
    answer = await _ask({"ask": "grade", "row": instance.official, "log": log})
    report = answer["report"]
    assert isinstance(report, dict)
    return report


async def _ask(question: Mapping[str, JSON]) -> Mapping[str, Any]:
    """Ask a process.

    `-P` keeps this folder, and the one we were started in, out of where it looks for modules.
    """
    text = await trio.to_thread.run_sync(json.dumps, question)
    with trio.move_on_after(WALL_SECONDS) as limit:
        done = await trio.run_process(
            [sys.executable, "-P", "-B", str(_CHILD)],
            stdin=text.encode(errors="replace"),
            capture_stdout=True,
            capture_stderr=True,
            check=False,
            env={**os.environ, "PYTHONUTF8": "1"},
            start_new_session=True,
            deliver_cancel=_kill,
        )
    if limit.cancelled_caught:
        raise EvaluatorError(
            f"the package swebench had no answer after {WALL_SECONDS:g} s", code="grader-timeout"
        )
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise EvaluatorError(
            f"the package swebench failed (exit code {done.returncode}): {lines[-1][-_SAID:] if lines else ''}",
            code="grader-failed",
            hint="Is it the version that the extra names? `pip install 'agentcompass[swebench]'`",
        )
    answer = await trio.to_thread.run_sync(json.loads, done.stdout)
    assert isinstance(answer, dict)
    return answer


async def _kill(process: trio.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
