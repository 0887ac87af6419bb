"""The entry points with the real engine, from every kind of program."""

import asyncio
import json
import threading

import pytest

from agentcompass import (
    OrchestrationDefaults,
    OrchestrationSpec,
    PreflightError,
    RunRequestSpec,
    async_launch,
    async_run_evaluation,
    launch,
    run_evaluation,
)
from support.hosting import ASYNC_HOSTS, run_app
from support.scripts import run_script

QUESTIONS = [
    {"id": "capital", "prompt": "Capital of France?", "answer": "Paris"},
    {"id": "sum", "prompt": "What is 1 + 1?", "answer": 2},
]


@pytest.fixture
def arguments(tmp_path):
    """Arguments of a small evaluation."""
    file = tmp_path / "questions.jsonl"
    file.write_text("".join(json.dumps(question) + "\n" for question in QUESTIONS))
    return {
        "benchmark": "jsonl",
        "harness": "oracle",
        "model": "none",
        "benchmark_params": {"path": str(file)},
        "results_dir": tmp_path / "results",
        "data_dir": tmp_path / "data",
        "progress": "none",
    }


def _spec(arguments):
    return OrchestrationSpec(
        name="both",
        defaults=OrchestrationDefaults(harness={"id": "oracle"}, model={"id": "none"}),
        requests=[
            RunRequestSpec(
                name=name, benchmark={"id": "jsonl", "path": arguments["benchmark_params"]["path"]}
            )
            for name in ("first", "second")
        ],
    )


def _directories(arguments):
    return {key: arguments[key] for key in ("results_dir", "data_dir", "progress")}


def _assert_complete(result):
    assert list(result) == ["metadata", "metrics", "summary", "paths"]
    assert result["summary"]["score"] == 1.0
    assert result["summary"]["counts"]["graded"] == len(QUESTIONS)
    assert json.dumps(result, allow_nan=False)


def test_one_evaluation_from_a_script(arguments):
    _assert_complete(run_evaluation(**arguments))


def test_two_requests_from_a_script(arguments):
    finished = []
    result = launch(
        _spec(arguments), on_request_finished=finished.append, **_directories(arguments)
    )
    assert result.status == "completed"
    assert list(result.requests) == ["first", "second"]
    assert {outcome.name for outcome in finished} == {"first", "second"}
    for outcome in result.requests.values():
        _assert_complete(dict(outcome.result))


@pytest.mark.parametrize("host", ASYNC_HOSTS)
def test_one_evaluation_from_an_asynchronous_program_tells_its_progress_in_the_callers_thread(
    host, arguments
):
    told = []

    def on_progress(event):
        told.append((event["event"], threading.current_thread()))

    async def app():
        return await async_run_evaluation(on_progress=on_progress, **arguments)

    _assert_complete(run_app(host, app))
    kinds = [kind for kind, _ in told]
    assert kinds[0] == "run_prepared"
    assert kinds.count("attempt_finished") == len(QUESTIONS)
    assert kinds[-1] == "request_finished"
    assert {thread for _, thread in told} == {threading.current_thread()}


@pytest.mark.parametrize("host", ["asyncio", "uvloop", "trio-asyncio"])
def test_an_evaluation_and_an_orchestration_side_by_side(host, arguments):
    async def app():
        return await asyncio.gather(
            async_run_evaluation(**arguments),
            async_launch(_spec(arguments), **_directories(arguments)),
        )

    single, several = run_app(host, app)
    _assert_complete(single)
    assert several.status == "completed"


def test_a_callback_that_fails_changes_nothing(arguments, caplog):
    def on_progress(event):
        raise ZeroDivisionError("the application's bug")

    _assert_complete(run_evaluation(on_progress=on_progress, **arguments))
    assert "the application's bug" in caplog.text


SCRIPT = """
import signal, sys, time
from agentcompass import run_evaluation
from agentcompass.components.base import AgentOutcome, Harness
import trio

class Slow(Harness):
    id = "slow"
    needs_model = False

    async def run(self, task_input, session, model, emit):
        print("ready", flush=True)
        await trio.sleep(60)
        return AgentOutcome(answer="")

sys.modules["slow"] = sys.modules["__main__"]
try:
    run_evaluation(benchmark="jsonl", harness="slow:Slow", model="none", progress="none",
        benchmark_params={{"path": {path!r}, "limit": 1}}, results_dir={results!r}, data_dir={results!r})
except KeyboardInterrupt:
    print("interrupted", flush=True)
except SystemExit as exit:
    print("exit", exit.code, flush=True)
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@pytest.mark.parametrize(
    ("number", "line"), [(2, "interrupted"), (15, "exit 143")], ids=["sigint", "sigterm"]
)
def test_a_signal_in_a_script_is_raised_after_the_cleanup_and_its_handler_is_back(
    arguments, tmp_path, number, line
):
    script = SCRIPT.format(
        path=arguments["benchmark_params"]["path"], results=str(tmp_path / "results")
    )
    ended = run_script(script, interrupts=1, number=number)
    assert ended.lines == ["ready", line, "True"], ended.stderr
    (record,) = (tmp_path / "results").rglob("run.json")
    assert json.loads(record.read_text())["status"] == "cancelled"


def test_a_log_file_that_cannot_be_written_is_told_before_anything_is_made(arguments, tmp_path):
    with pytest.raises(PreflightError, match="log_file cannot be written"):
        run_evaluation(log_file=tmp_path / "missing" / "all.log", **arguments)
    assert not (tmp_path / "results").exists()
