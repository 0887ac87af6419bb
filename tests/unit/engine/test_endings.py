"""Ends that come at a bad moment, each found by `property/test_engine.py` and kept here by name. In virtual time."""

import json
import threading

import attrs
import pytest
import trio

from agentcompass.components.base import Where
from agentcompass.engine.control import Control
from agentcompass.engine.orchestrate import orchestrate
from agentcompass.store.lock import is_held
from agentcompass.store.reader import read_run
from support.chaos import Act, Case, Moment, RequestCase, Script, leases, run_case
from support.requests import orchestration
from support.scripted import run, scripted_request, tasks


def case(acts=(), *, dies_after=None, cancel=None, again=None, grace=10.0, timeout=0.0, **request):
    """One request of one task that follows one script."""
    script = Script(acts={k: Act(*v) for k, v in dict(acts).items()}, dies_after=dies_after)
    return Case(
        requests=(RequestCase(**{"is_agent_boxed": True, "scripts": (script,)} | request),),
        cancel=cancel and Moment(cancel, "seconds"),
        cancel_again=again and Moment(again, "seconds"),
        grace_seconds=grace,
        timeout_seconds=timeout,
    )


def records(seen):
    return list(read_run(seen.paths(0).run_dir).records())


def test_a_sandbox_that_breaks_ends_the_work_before_it_is_closed(tmp_path):
    # while the environment took its time to close, the agent would have finished and been graded
    seen = run_case(case({"run": (1.0,), "close": (2.0,)}, dies_after=0.25), tmp_path)
    (record,) = records(seen)
    assert record.failure.code == "sandbox-died"
    assert record.failure.phase == "run"
    assert record.phase_seconds["run"] == pytest.approx(0.25)
    assert "OSError: the sandbox is gone" in record.failure.message


def test_a_kept_sandbox_that_broke_is_told_with_the_way_to_enter_it(tmp_path):
    seen = run_case(case({"run": (1.0,)}, dies_after=0.25, keep=True), tmp_path)
    (kept,) = seen.of("sandbox_kept")
    assert {kept.name} == set(seen.world.existing) == {lease.name for lease in leases(seen)}


def test_a_sandbox_to_be_kept_that_never_opened_and_stayed_is_told_by_name(tmp_path):
    hangs = {"open": (0.0, "hang"), "remove": (0.0, "hang")}
    seen = run_case(case(hangs, cancel=1.0, grace=1.0, keep=True), tmp_path)
    (left,) = seen.of("sandboxes_left")
    assert set(left.names) == set(seen.world.existing) == {lease.name for lease in leases(seen)}


HANGS = {"open": (0.0, "hang"), "remove": (0.0, "hang")}


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        ({"cancel": 1.0, "again": 2.0, "grace": 5.0}, "cleanup was told to end at once"),
        ({"cancel": 1.0, "grace": 4.0}, "that took longer than the 4 s of all cleanup"),
        ({}, "that took longer than 3.5 s"),
    ],
    ids=["told twice to end", "after the grace", "after its own time"],
)
def test_a_sandbox_that_was_not_removed_is_told_with_the_reason(tmp_path, caplog, ends, why):
    run_case(case(HANGS, **ends), tmp_path)
    assert f"was not removed: {why}" in caplog.text


def test_the_time_limit_of_the_run_hurries_no_cleanup_that_has_begun(tmp_path):
    seen = run_case(
        case({"run": (0.0, "hang"), "close": (2.0,)}, cancel=1.0, timeout=1.5), tmp_path
    )
    assert seen.result.ended_by == "sigint"
    assert seen.ended_at >= 3.0
    assert not seen.of("sandboxes_left")
    assert not seen.world.existing


async def test_a_store_that_fails_hurries_no_cleanup_that_has_begun():
    control = Control(10.0)
    control.cancel_now("sigint")
    deadline = control.budget.deadline
    for reason in ("store", "timeout"):
        control.cancel_now(reason)
        assert control.budget.deadline == deadline
    control.cancel_now("sigint")
    assert control.budget.deadline < deadline
    assert control.reason == "sigint"


def test_an_environments_own_error_keeps_its_code_and_is_not_retried_in_vain(tmp_path):
    seen = run_case(case({"open": (0.0, "hopeless")}, max_retries=2), tmp_path)
    (record,) = records(seen)
    assert (record.failure.phase, record.failure.code) == ("open", "hopeless")
    assert not record.failure.retryable


@pytest.mark.parametrize("how", ["raise", "exit", "group", "stray"])
def test_a_removal_that_fails_in_any_way_leaves_the_verdict_and_the_lease(tmp_path, how):
    acts = {"prepare": (0.0, "quota"), "close": (0.0, "raise"), "remove": (0.0, how)}
    seen = run_case(case(acts), tmp_path)
    (record,) = records(seen)
    assert (record.failure.phase, record.failure.code) == ("prepare", "quota")
    (left,) = seen.of("sandboxes_left")
    assert set(left.names) == {lease.name for lease in leases(seen)}


@pytest.mark.parametrize("phase", ["prepare", "run", "evaluate"])
@pytest.mark.parametrize("where", [Where.NOWHERE, Where.REUSE])
def test_a_component_that_swallows_the_runs_cancellation_gets_no_grade(tmp_path, phase, where):
    acts = {phase: (2.0, "swallow")}
    seen = run_case(case(acts, cancel=1.0, where=where, is_agent_boxed=False), tmp_path)
    (record,) = records(seen)
    assert record.verdict == "cancelled"


def test_an_evaluation_that_is_unsound_is_blamed_on_the_evaluation_not_on_closing(tmp_path):
    seen = run_case(case({"evaluate": (0.0, "nan")}, where=Where.REUSE), tmp_path)
    (record,) = records(seen)
    assert (record.failure.phase, record.failure.code) == ("evaluate", "bad-evaluation")


async def test_a_run_whose_cleanup_is_cut_gives_up_its_threads_and_its_lock(tmp_path):
    before = {thread.name for thread in threading.enumerate()}
    made = scripted_request(
        {"load": lambda: tasks(1)},
        {"run": lambda *_: trio.sleep_forever(), "sandbox": True},
        {"closing": trio.sleep_forever, "removing": trio.sleep_forever},
    )

    async def twice(control):
        for _ in range(2):
            await trio.sleep(0.2)
            control.cancel_now("sigint")

    ran = await run(tmp_path, made, beside=twice, grace=60)
    assert ran.result.ended_by == "sigint"
    ours = {"agentcompass-writer", "agentcompass log"}
    with trio.fail_after(5):
        while ours & ({thread.name for thread in threading.enumerate()} - before):
            await trio.sleep(0.01)
    assert not is_held(ran.run_dir() / "lock")


def test_a_disk_that_hangs_at_the_end_leaves_a_request_without_a_summary_and_says_why(tmp_path):
    slow = attrs.evolve(case({"run": (5.0,)}, cancel=1.0, grace=2.0), writer_delays=(1000.0,))
    seen = run_case(slow, tmp_path)
    outcome = seen.result.requests["r0"]
    assert (outcome.status, outcome.result) == ("cancelled", None)
    assert "the time for cleanup was over" in outcome.error
    assert outcome.paths["run_dir"] == str(seen.paths(0).run_dir)
    assert seen.ended_at <= 1.0 + 2.0 + 5.0


async def test_an_interrupt_while_tasks_load_that_nobody_watches_for_ends_the_run(tmp_path):
    def interrupted():
        raise KeyboardInterrupt

    with pytest.RaisesGroup(KeyboardInterrupt, flatten_subgroups=True, allow_unwrapped=True):
        await run(tmp_path, scripted_request({"load": interrupted}))


async def test_a_callback_that_fails_changes_nothing_and_is_logged(tmp_path, caplog):
    def fail(outcome):
        raise ValueError(f"no pager for {outcome.name}")

    made, control = scripted_request(name="mine"), Control(1.0)
    plan = orchestration(tmp_path, made)
    result = await control.run(lambda: orchestrate(plan, control, lambda _event: None, fail))
    assert result.status == "completed"
    assert "no pager for mine" in caplog.text


async def test_when_the_process_leaves_at_once_what_was_queued_is_written_first(tmp_path):
    """A third Ctrl-C, or the watchdog, calls `sweep` and then ends the process."""
    found = []

    async def leave(control):
        while not found:
            await trio.sleep(0.01)
        control.sweep()
        lines = (run_dir / "events.jsonl").read_text().splitlines()
        found.append([json.loads(line)["event"] for line in lines])
        control.cancel_now("caller")

    async def agent(*_args):
        found.append("running")
        await trio.sleep_forever()

    made = scripted_request({"load": lambda: tasks(1)}, {"run": agent})
    run_dir = tmp_path / made.name / made.run_id
    await run(tmp_path, made, beside=leave)
    assert found[1][-3:] == ["attempt_started", "phase_started", "phase_started"]
