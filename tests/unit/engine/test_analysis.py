"""Attempts are looked at after they are durable, and nobody waits for it."""

import json
import threading

import attrs
import pytest
import trio

from agentcompass.components.base import AgentOutcome
from agentcompass.engine import analysis
from agentcompass.engine import request as engine_request
from agentcompass.engine.analysis import Analysis, analyze_again
from agentcompass.engine.analysts import (
    MAX_DETAIL,
    MAX_FINDINGS,
    MAX_LABEL,
    Analysts,
    analysts_for,
)
from agentcompass.errors import SandboxError, StoreError
from agentcompass.store import reader
from agentcompass.store.layout import RunPaths
from support import analyzers
from support.analyzers import Hanging, Nonsense, Silent
from support.plugins import importable, write_distribution
from support.scripted import Ran, run, scripted_request, tasks

HERE = "support.analyzers"


def request(count=3, *names, run=None, load=None, **fields):
    params = {f"{HERE}:{name}": {} for name in names}
    harness = {"run": run} if run is not None else {}
    benchmark = {"load": load or (lambda: tasks(count))}
    return scripted_request(benchmark, harness, **{"analysis_params": params, **fields})


def findings(ran: Ran, analyzer=None):
    lines = (ran.run_dir() / "analysis.jsonl").read_text().splitlines()
    found = [
        (line["task_id"], item) for line in map(json.loads, lines) for item in line["findings"]
    ]
    return [(task, item) for task, item in found if analyzer in (None, item["analyzer"])]


def summary(ran: Ran):
    return ran.outcome().result["summary"]["analysis"]


def rows(ran: Ran, analyzer):
    return [row for row in summary(ran)["rows"] if row["analyzer"] == analyzer]


def warnings(ran: Ran):
    return [event.text for event in ran.of("notice") if event.level == "warning"]


@pytest.fixture
def short_patience(monkeypatch):
    monkeypatch.setattr(analysis, "HANG_SECONDS", 1.0)
    Hanging.released, Hanging.calls = threading.Event(), []
    yield
    Hanging.released.set()


async def test_every_attempt_is_looked_at_and_the_findings_are_summed_up(tmp_path):
    async def answer(task_input, _session, _model, emit):
        await emit({"type": "reply", "content": "hm"})
        return AgentOutcome(answer="" if task_input.prompt == "t1" else "right")

    ran = await run(tmp_path, request(3, "Length", run=answer))
    assert sorted(findings(ran, "length")) == [
        (
            task,
            {"analyzer": "length", "label": "characters", "detail": "1 steps, False", "value": n},
        )
        for task, n in (("t0", 5), ("t1", 0), ("t2", 5))
    ]
    assert summary(ran)["analyzed"] == 3
    assert [row["detail"] for row in rows(ran, "length")] == ["10"]
    (row,) = rows(ran, "empty_output")
    assert (row["count"], row["examples"]) == (1, [{"task_id": "t1", "attempt": 1}])
    assert "empty-answer" in (ran.run_dir() / "summary.md").read_text()


async def test_an_analyzer_gets_its_own_parameters_and_can_be_switched_off(tmp_path):
    params = {f"{HERE}:Length": {"unit": "signs"}, "latency": {"enabled": False}}
    ran = await run(tmp_path, request(1, analysis_params=params))
    assert [item["label"] for _, item in findings(ran)] == ["signs"]


async def test_switched_off_it_does_nothing_at_all(tmp_path):
    ran = await run(tmp_path, request(3, "Raising", enable_analysis=False))
    assert summary(ran) is None
    assert not list(ran.run_dir().glob("analysis*"))
    assert warnings(ran) == []


async def test_executions_that_failed_and_were_tried_again_are_looked_at_too(tmp_path):
    tries = []

    def fail_once(*_args):
        tries.append(1)
        if len(tries) == 1:
            raise SandboxError("no room", code="quota")
        return AgentOutcome(answer="right")

    made = request(1, run=fail_once, max_retries=1, retry_min_delay_seconds=0.0)
    ran = await run(tmp_path, made)
    (row,) = rows(ran, "error_taxonomy")
    assert (row["label"], row["count"]) == ("infra: run: quota", 1)
    assert summary(ran)["analyzed"] == 2


# --- analyzers that misbehave


async def test_one_that_raises_is_a_note_once_and_the_others_go_on(tmp_path):
    ran = await run(tmp_path, request(5, "Raising", "Length"))
    assert ran.outcome().status == "completed"
    assert warnings(ran) == ["analyzer raising failed: SystemExit: the analyzer gave up"]
    assert summary(ran)["notes"] == warnings(ran)
    assert len(findings(ran, "length")) == 5


@pytest.mark.parametrize(
    "given",
    [
        None,
        "text",
        7,
        [7],
        [analyzers.Finding(label=b"bytes")],
        [analyzers.Finding(label="x", detail=3)],
        [analyzers.Finding(label="x", value=float("nan"))],
        [analyzers.Finding(label="x", value="3")],
    ],
    ids=repr,
)
async def test_nonsense_is_a_note_once(tmp_path, monkeypatch, given):
    monkeypatch.setattr(Nonsense, "given", given)
    ran = await run(tmp_path, request(2, "Nonsense"))
    (text,) = warnings(ran)
    assert text.startswith("analyzer nonsense failed: ")
    assert findings(ran, "nonsense") == []


async def test_an_async_one_is_told_that_it_cannot_be(tmp_path):
    ran = await run(tmp_path, request(2, "Asynchronous"))
    assert "its method is async" in warnings(ran)[0]


async def test_a_flood_of_findings_is_cut(tmp_path):
    ran = await run(tmp_path, request(1, "Endless"))
    found = findings(ran, "endless")
    assert len(found) == MAX_FINDINGS
    assert (len(found[0][1]["label"]), len(found[0][1]["detail"])) == (MAX_LABEL, MAX_DETAIL)


async def test_a_summary_that_fails_takes_no_other_with_it(tmp_path):
    ran = await run(tmp_path, request(2, "BadSummary", "Length"))
    assert warnings(ran) == ["analyzer bad_summary failed: ValueError: no summary today"]
    assert rows(ran, "length")


async def test_a_summary_that_is_no_summary_is_a_note(tmp_path):
    ran = await run(tmp_path, request(2, "TextSummary"))
    (text,) = warnings(ran)
    assert "text_summary failed: TypeError: its summary has str, not a SummaryRow" in text


async def test_one_that_has_nothing_to_say_leaves_no_line(tmp_path):
    ran, kept = await run(tmp_path, request(3, enable_analysis=False)), Kept()
    only = Analysts({"silent": Silent(Silent.Params())})
    work = Analysis(only, RunPaths(ran.run_dir()), kept, kept.lines.append)
    work.announce(3)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work.work)
        await work.finish(10)
    assert kept.lines == []
    written = json.loads((ran.run_dir() / "analysis.json").read_text())
    assert (written["analyzed"], written["rows"], written["notes"]) == (3, [], [])


async def test_one_that_cannot_be_made_or_found_is_left_out(tmp_path):
    ran = await run(tmp_path, request(1, "Unmakable", "NotThere"))
    assert ran.outcome().status == "completed"
    assert "analyzer support.analyzers:Unmakable is left out: OSError" in " ".join(warnings(ran))
    assert "NotThere is left out" in " ".join(warnings(ran))


async def test_one_that_hangs_is_asked_once_and_costs_no_attempt_anything(tmp_path, short_patience):
    ran = await run(tmp_path, request(4, "Hanging", "Length"))
    assert ran.outcome().status == "completed"
    assert len(Hanging.calls) == 1
    assert "hanging took longer than 1 seconds" in " ".join(warnings(ran))
    assert len(findings(ran, "length")) == 4


async def test_what_a_hanging_one_says_later_is_heard_by_nobody(tmp_path, short_patience):
    ran = await run(tmp_path, request(2, "Hanging"))
    Hanging.released.set()
    await trio.sleep(0.1)
    assert findings(ran, "hanging") == []


async def test_a_summary_that_hangs_is_left_out_and_the_others_are_there(tmp_path, short_patience):
    ran = await run(tmp_path, request(2, "HangingSummary", "Length"))
    assert "hanging_summary took longer than 1 seconds" in " ".join(warnings(ran))
    assert rows(ran, "hanging_summary") == []
    assert rows(ran, "length")


class Kept:
    """Keeps findings where a test can see them."""

    def __init__(self):
        self.lines = []

    def findings(self, lines, done):
        self.lines += lines
        done()


# --- a disk that fails or hangs


async def test_findings_that_cannot_be_written_are_given_up_and_the_run_goes_on(tmp_path):
    made = request(2, "Length")
    in_the_way = tmp_path / made.name / made.run_id / "analysis.json"

    def agent(*_args):
        in_the_way.mkdir(exist_ok=True)
        return AgentOutcome(answer="right")

    made = attrs.evolve(made, harness=request(2, run=agent).harness)
    ran = await run(tmp_path, made)
    assert ran.outcome().status == "completed"
    (text,) = warnings(ran)
    assert "the analysis was given up: " in text
    assert "analysis.json" in text


class Lost:
    """Takes findings and never writes them, as on a disk that hangs."""

    def findings(self, lines, done):
        pass


async def test_results_that_cannot_be_read_in_time_are_given_up(
    tmp_path, short_patience, monkeypatch
):
    paths, told = RunPaths(tmp_path), []
    released = threading.Event()

    def waits(path):  # as opening a file of a dead network disk does
        released.wait()
        raise FileNotFoundError(path)

    monkeypatch.setattr(reader, "open_regular", waits)
    work = Analysis(analysts_for({}), paths, Lost(), told.append)
    work.announce()
    try:
        await work.work()
    finally:
        released.set()  # lets the thread go
    assert told == ["the analysis was given up: reading the results takes too long"]


async def test_findings_that_are_not_written_in_time_are_given_up(tmp_path, short_patience):
    told = []
    work = Analysis(analysts_for({}), RunPaths(tmp_path), Lost(), told.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work.work)
        await work.finish(1.0)
    assert told == ["summing up the findings took too long"]


# --- nobody waits


async def test_attempts_go_on_while_an_analyzer_hangs(tmp_path):
    Hanging.released, Hanging.calls = threading.Event(), []
    reached = trio.Event()

    async def agent(task_input, *_args):
        if task_input.prompt == "t3":
            while not Hanging.calls:
                await trio.sleep(0.01)
            reached.set()
        return AgentOutcome(answer="right")

    async def let_go(_control):
        await reached.wait()
        await trio.sleep(0.05)
        Hanging.released.set()

    made = request(6, "Hanging", run=agent)
    with trio.fail_after(10):
        ran = await run(tmp_path, made, beside=let_go, task_concurrency=1)
    assert {task for task, _ in findings(ran, "hanging")} == {f"t{n}" for n in range(6)}


async def test_the_end_of_the_run_is_bounded_and_tells_how_many_are_left(tmp_path, monkeypatch):
    Hanging.released, Hanging.calls = threading.Event(), []
    monkeypatch.setattr(engine_request, "CATCH_UP_SECONDS", 0.3)
    try:
        with trio.fail_after(8):
            ran = await run(tmp_path, request(3, "Hanging"))
    finally:
        Hanging.released.set()
    assert ran.outcome().status == "completed"
    assert (summary(ran)["analyzed"], summary(ran)["left"]) == (0, 3)
    assert "--analyze" in (ran.run_dir() / "summary.md").read_text()


async def test_a_run_that_is_cancelled_waits_for_no_analyzer_and_can_be_analysed_later(tmp_path):
    Hanging.released, Hanging.calls = threading.Event(), []

    async def agent(task_input, *_args):
        if task_input.prompt == "t1":
            await trio.sleep_forever()
        return AgentOutcome(answer="right")

    async def interrupt(control):
        while not Hanging.calls:
            await trio.sleep(0.01)
        control.request_cancel("sigint")

    made = request(2, "Hanging", "Length", run=agent)
    try:
        with trio.fail_after(5):
            ran = await run(tmp_path, made, beside=interrupt)
    finally:
        Hanging.released.set()
    assert ran.outcome().status == "cancelled"
    assert summary(ran) is None
    assert "--analyze" in (ran.run_dir() / "summary.md").read_text()
    notes = []
    await analyze_again(ran.run_dir(), notes.append)
    assert notes == []
    assert [task for task, _ in findings(ran, "length")] == ["t0"]
    assert "--analyze" not in (ran.run_dir() / "summary.md").read_text()


async def test_an_interrupt_while_the_rest_is_analysed_ends_the_waiting_not_the_verdict(tmp_path):
    Hanging.released, Hanging.calls = threading.Event(), []

    async def interrupt(control):
        while not Hanging.calls:
            await trio.sleep(0.01)
        await trio.sleep(0.1)
        control.request_cancel("sigint")

    try:
        with trio.fail_after(5):
            ran = await run(tmp_path, request(2, "Hanging"), beside=interrupt)
    finally:
        Hanging.released.set()
    assert ran.outcome().status == "completed"
    assert ran.outcome().result["summary"]["coverage"] == 1.0
    assert summary(ran) is None


# --- again


async def test_analysing_again_gives_the_same(tmp_path):
    ran = await run(tmp_path, request(3, "Length"))
    before = {path.name: path.read_text() for path in ran.run_dir().glob("analysis*")}
    page = (ran.run_dir() / "summary.md").read_text()
    await analyze_again(ran.run_dir(), pytest.fail)
    assert {path.name: path.read_text() for path in ran.run_dir().glob("analysis*")} == before
    assert (ran.run_dir() / "summary.md").read_text() == page


async def test_a_run_without_analysis_can_be_analysed_later(tmp_path):
    ran = await run(tmp_path, request(2, enable_analysis=False))
    await analyze_again(ran.run_dir(), pytest.fail)
    assert len({task for task, _ in findings(ran)}) == 2


async def test_findings_that_were_damaged_meanwhile_are_counted(tmp_path):
    def agent(*_args):
        (run_dir,) = (tmp_path / "test").iterdir()
        with (run_dir / "analysis.jsonl").open("a") as file:
            file.write('{"task_id": 5, "findings": [{"analyzer": "length"}]}\nnonsense\n')
        return AgentOutcome(answer="right")

    ran = await run(tmp_path, request(1, "Length", run=agent))
    assert summary(ran)["notes"] == ["2 lines of analysis.jsonl cannot be read"]
    assert rows(ran, "length")


async def test_a_run_that_goes_on_is_not_analysed_from_outside(tmp_path):
    told = []

    async def look(_task_input, *_args):
        (run_dir,) = (tmp_path / "test").iterdir()
        with pytest.raises(StoreError, match="is being written"):
            await analyze_again(run_dir, told.append)
        return AgentOutcome(answer="right")

    ran = await run(tmp_path, request(1, run=look))
    assert ran.outcome().status == "completed"
    assert summary(ran)["analyzed"] == 1


async def test_reused_attempts_are_looked_at_without_their_files(tmp_path):
    async def answer(_task_input, _session, _model, emit):
        await emit({"type": "reply", "content": "hm"})
        return AgentOutcome(answer="right")

    made = request(2, "Length", run=answer)
    await run(tmp_path, made)
    again = attrs.evolve(made, run_id="again", reuse=True)
    ran = await run(tmp_path, again)
    assert ran.of("run_prepared")[0].reused == 2
    assert {item["detail"] for _, item in findings(ran, "length")} == {"0 steps, False"}


async def test_a_line_of_40_megabytes_in_a_trajectory_is_no_trouble(tmp_path):
    async def verbose(_task_input, _session, _model, emit):
        await emit({"type": "tool", "output": "x" * 40_000_000})
        await emit({"type": "reply", "content": ""})
        return AgentOutcome(answer="right")

    ran = await run(tmp_path, request(1, run=verbose))
    assert [row["label"] for row in rows(ran, "empty_output")] == ["empty-reply"]
    assert warnings(ran) == []


def test_those_of_installed_packages_are_asked_and_a_broken_one_is_a_note(tmp_path):
    source = """
        from agentcompass.components.analysis import Finding
        from agentcompass.components.base import Analyzer, NoParams

        class Mine(Analyzer[NoParams]):
            id = "mine"

            def analyze(self, attempt):
                return [Finding(label="seen")]
    """
    points = """
        [agentcompass.analyzers]
        mine = their_analyzer:Mine
        broken = not_there_at_all:Broken
    """
    write_distribution(tmp_path, "theirs", modules={"their_analyzer": source}, entry_points=points)
    with importable(tmp_path):
        found = analysts_for({})
    assert "mine" in found.names
    (note,) = found.notes
    assert note.startswith("analyzer broken is left out: ")


def test_the_same_class_by_id_and_by_import_path_is_one_analyzer():
    path = "agentcompass.components.analyzers.latency:Latency"
    found = analysts_for({path: {"floor_seconds": 3.0}})
    assert found.names.count("latency") == 1
    assert path not in found.names
    assert found.notes == []


def test_parameters_that_are_wrong_leave_the_analyzer_out():
    found = analysts_for({"latency": {"flor_seconds": 3.0}})
    assert "latency" not in found.names
    assert "unknown key" in found.notes[0]
