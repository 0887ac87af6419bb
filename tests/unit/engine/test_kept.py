"""Files that harness and benchmark keep with an attempt hold no secret, however the attempt ends."""

import pytest
import trio

from agentcompass.components.base import AgentOutcome, Evaluation
from agentcompass.engine.control import Control
from agentcompass.secrets import Secret
from support.scripted import run, scripted_request, tasks

KEY = "sk-0123456789-secret"


def request(end, **fields):
    """One attempt whose agent keeps a log with the key, and ends in a certain way."""

    async def work(_task_input, _session, _model, emit):
        (emit.folder() / "log.txt").write_text(f"key {KEY} used")
        return await end()

    return scripted_request({"load": lambda: tasks(1)}, {"run": work}, **fields)


async def answers():
    return AgentOutcome(answer="right")


async def fails():
    raise OSError("the log is full")


@pytest.mark.parametrize(
    ("end", "fields", "verdict"),
    [
        (answers, {}, "graded"),
        (fails, {}, "infra"),
        (trio.sleep_forever, {"run_timeout_seconds": 0.05}, "graded"),
    ],
    ids=["answers", "fails", "out of time"],
)
async def test_what_an_agent_keeps(tmp_path, end, fields, verdict):
    ran = await run(tmp_path, request(end, **fields), secrets=(Secret(KEY),))
    assert ran.record().verdict == verdict
    (log,) = tmp_path.rglob("agent-1/log.txt")
    assert log.read_text() == "key [secret] used"


async def test_what_an_agent_keeps_of_a_run_that_is_cancelled(tmp_path):
    control, kept = Control(2.0), trio.Event()

    async def is_kept():
        kept.set()
        await trio.sleep_forever()

    async def cancel(control):
        await kept.wait()
        control.cancel_now("sigint")

    ran = await run(
        tmp_path, request(is_kept), control=control, beside=cancel, secrets=(Secret(KEY),)
    )
    assert ran.record().verdict == "cancelled"
    (log,) = tmp_path.rglob("agent-1/log.txt")
    assert log.read_text() == "key [secret] used"


async def test_what_an_evaluator_keeps(tmp_path):
    def evaluate(_task, _outcome, _session):
        return Evaluation(metrics={"pass": True}, files={"tests.log": f"\xff {KEY}".encode()})

    asked = scripted_request({"load": lambda: tasks(1), "evaluate": evaluate})
    await run(tmp_path, asked, secrets=(Secret(KEY),))
    (log,) = tmp_path.rglob("evaluation-1/tests.log")
    assert log.read_text() == "\xff [secret]"


async def test_a_file_from_which_nothing_can_be_removed_is_told(tmp_path):
    async def is_in_the_way():
        (folder,) = tmp_path.rglob("agent-1")
        (folder / ".log.txt.scrubbed").mkdir()
        return AgentOutcome(answer="right")

    ran = await run(tmp_path, request(is_in_the_way), secrets=(Secret(KEY),))
    assert ran.record().verdict == "graded"
    assert any("task t0: secrets may be left" in notice.text for notice in ran.of("notice"))
