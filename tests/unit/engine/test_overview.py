"""`orchestration.json` while the engine runs."""

import json
import logging

import trio

from agentcompass.components.base import AgentOutcome
from agentcompass.errors import PreflightError
from support.scripted import run, scripted_request, tasks


def state(results_dir):
    return json.loads((results_dir / "test" / "orchestration.json").read_text())


def refuse():
    raise PreflightError("no daemon")


async def test_it_tells_how_every_request_of_a_launch_stands_and_how_it_ended(tmp_path):
    seen = []

    async def agent(*_args):
        with trio.fail_after(5):
            while (now := state(tmp_path))["requests"]["b"]["status"] == "preparing":
                await trio.sleep(0.001)
            while (now := state(tmp_path))["requests"]["a"]["status"] == "preparing":
                await trio.sleep(0.001)
        seen.append(now)
        return AgentOutcome(answer="right")

    a = scripted_request({"load": lambda: tasks(1)}, {"run": agent}, name="a")
    b = scripted_request({"load": refuse}, name="b")
    ran = await run(tmp_path, a, b)
    (during,) = seen
    assert (during["status"], during["finished_at"]) == ("running", None)
    assert during["requests"]["a"]["status"] == "running"
    assert during["requests"]["a"]["run_dir"] == str(ran.run_dir())
    assert during["requests"]["a"]["score"] is None

    after = state(tmp_path)
    assert list(after["requests"]) == ["a", "b"]
    assert (after["id"], after["status"]) == (ran.result.id, "partial_failure")
    assert (after["started_at"], after["finished_at"]) == (
        ran.result.started_at,
        ran.result.finished_at,
    )
    done, failed = after["requests"]["a"], after["requests"]["b"]
    summary = ran.outcome().result["summary"]
    assert (done["status"], done["score"], done["ci95"]) == ("completed", 1.0, summary["ci95"])
    assert (done["coverage"], done["metric"]) == (1.0, "pass")
    assert done["paths"] == ran.outcome().paths
    assert (failed["status"], failed["error"]) == ("failed", "no daemon")
    assert failed["run_dir"] is failed["coverage"] is None


async def test_a_launch_that_is_cancelled_says_so(tmp_path):
    async def cancel(control):
        while not list(tmp_path.glob("a/*/events.jsonl")):
            await trio.sleep(0.01)
        control.request_cancel("sigint")

    slow = {"run": lambda *_args: trio.sleep(30)}
    made = [scripted_request(harness=slow, name=name) for name in ("a", "b")]
    await run(tmp_path, *made, beside=cancel)
    after = state(tmp_path)
    assert (after["status"], after["ended_by"]) == ("cancelled", "sigint")
    assert {entry["status"] for entry in after["requests"].values()} == {"cancelled"}


async def test_a_single_evaluation_has_none(tmp_path):
    await run(tmp_path, scripted_request(name="a"))
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


async def test_that_it_cannot_be_written_is_a_warning_and_no_more(tmp_path, caplog):
    (tmp_path / "test").touch()
    (tmp_path / "orchestration-1").touch()
    with caplog.at_level(logging.WARNING, "agentcompass"):
        ran = await run(tmp_path, scripted_request(name="a"), scripted_request(name="b"))
    assert ran.result.status == "completed"
    warnings = [record.message for record in caplog.records if "not recorded" in record.message]
    assert len(warnings) == 1
