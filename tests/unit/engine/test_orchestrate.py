"""A whole run of the engine on scripted components: limits, retries, attempts, cancellation, cleanup, reuse."""

import os
import shutil
import stat
from collections import Counter

import attrs
import pytest
import trio

from agentcompass.components.base import AgentOutcome, Evaluation, Where
from agentcompass.engine.control import Control
from agentcompass.errors import ConfigurationError, PreflightError, SandboxError
from support.scripted import (
    ScriptedEnvironment,
    path,
    run,
    scripted_request,
    tasks,
)


def right(*_args):
    return AgentOutcome(answer="right")


class Meter:
    """Counts how many run at once."""

    def __init__(self, seconds=0.02):
        self.now, self.most, self.seconds, self.total = 0, 0, seconds, 0

    async def __call__(self, *_args):
        self.now += 1
        self.total += 1
        self.most = max(self.most, self.now)
        try:
            await trio.sleep(self.seconds)
        finally:
            self.now -= 1
        return AgentOutcome(answer="right")


# --- the ordinary way


async def test_every_planned_attempt_ends_in_one_graded_record(tmp_path):
    ran = await run(tmp_path, scripted_request({"load": lambda: tasks(20)}))
    outcome = ran.outcome()
    assert outcome.status == ran.result.status == "completed"
    assert sorted(r.task_id for r in ran.records()) == sorted(t.id for t in tasks(20))
    assert outcome.result["summary"]["counts"]["graded"] == 20
    assert outcome.result["summary"]["score"] == 1.0
    assert ran.result.ended_by is None


async def test_events_come_in_order_and_finished_ones_only_when_durable(tmp_path):
    made = scripted_request({"load": lambda: tasks(5)})
    ran = await run(tmp_path, made)
    kinds = [event.kind for event in ran.events]
    assert kinds[0] == "run_prepared"
    assert kinds[-1] == "request_finished"
    for task in tasks(5):
        mine = [e.kind for e in ran.events if getattr(e, "task", None) == task.id]
        assert mine[0] == "attempt_started"
        assert mine[-1] == "attempt_finished"


async def test_as_many_run_at_once_as_the_setting_says(tmp_path):
    meter = Meter()
    made = scripted_request({"load": lambda: tasks(30)}, {"run": meter})
    await run(tmp_path, made, task_concurrency=7)
    assert meter.most == 7
    assert meter.total == 30


async def test_provider_places_bind_only_who_needs_them(tmp_path):
    in_sandbox, without = Meter(), Meter()
    ran = await run(
        tmp_path,
        scripted_request(
            {"load": lambda: tasks(12)}, {"run": in_sandbox, "sandbox": True}, name="a"
        ),
        scripted_request({"load": lambda: tasks(12)}, {"run": without}, name="b"),
        task_concurrency=6,
        provider_limits={path(ScriptedEnvironment): 2},
    )
    assert ran.result.status == "completed"
    assert in_sandbox.most == 2
    assert ScriptedEnvironment.most == [2]
    assert without.most >= 4


async def test_a_fresh_evaluation_gets_the_artifacts_and_nothing_else(tmp_path):
    async def agent(_input, session, _model, _emit):
        await session.write_bytes("answer.txt", b"42")
        await session.write_bytes("junk.txt", b"x")
        return AgentOutcome()

    async def evaluate(_task, _outcome, session):
        return Evaluation(metrics={"pass": session.files == {"answer.txt": b"42"}})

    made = scripted_request(
        {
            "load": lambda: tasks(2),
            "where": Where.FRESH,
            "evaluate": evaluate,
            "plan": lambda _task, plan: attrs.evolve(plan, artifacts=("answer.txt", "missing.txt")),
        },
        {"run": agent, "sandbox": True},
    )
    ran = await run(tmp_path, made)
    assert [r.metrics for r in ran.records()] == [{"pass": 1.0}] * 2
    opened = [name for what, name in ScriptedEnvironment.log if what == "open"]
    assert len(set(opened)) == 4


async def test_the_agent_is_stopped_before_it_is_evaluated(tmp_path):
    order = []

    async def evaluate(_task, _outcome, session):
        order.append([what for what, name in ScriptedEnvironment.log if name == session.lease.name])
        return Evaluation(metrics={"pass": 1})

    made = scripted_request(
        {"load": lambda: tasks(1), "where": Where.REUSE, "evaluate": evaluate}, {"sandbox": True}
    )
    await run(tmp_path, made)
    assert order == [["open", "ended"]]


# --- retries and attempts


async def test_a_retry_has_a_fresh_sandbox_and_every_execution_keeps_its_record(tmp_path):
    tries = Counter()

    def agent(task_input, *_args):
        tries[task_input.prompt] += 1
        if tries[task_input.prompt] < 3:
            raise SandboxError("flaky")
        return AgentOutcome(answer="right")

    made = scripted_request(
        {"load": lambda: tasks(2)},
        {"run": agent, "sandbox": True},
        max_retries=2,
        retry_min_delay_seconds=0.0,
        retry_max_delay_seconds=0.0,
    )
    ran = await run(tmp_path, made)
    assert ran.outcome().status == "completed"
    by_task = {}
    for record in ran.records():
        by_task.setdefault(record.task_id, []).append(
            (record.execution, record.verdict, record.will_retry)
        )
    expected = [(1, "infra", True), (2, "infra", True), (3, "graded", False)]
    assert by_task == {"t0": expected, "t1": expected}
    opened = [name for what, name in ScriptedEnvironment.log if what == "open"]
    assert len(set(opened)) == 6


async def test_a_graded_failure_is_never_tried_again(tmp_path):
    made = scripted_request(
        {"load": lambda: tasks(1)}, {"run": lambda *_: AgentOutcome()}, max_retries=5
    )
    ran = await run(tmp_path, made)
    assert ran.record().metrics == {"pass": 0.0}


async def test_avg_runs_all_attempts_and_pass_stops_at_the_first_success(tmp_path):
    for strategy, expected in (("avg", 4), ("pass", 2)):
        tries = Counter()

        def agent(task_input, *_args, tries=tries):
            tries[task_input.prompt] += 1
            return AgentOutcome(answer="right" if tries[task_input.prompt] >= 2 else "wrong")

        made = scripted_request(
            {"load": lambda: tasks(3)}, {"run": agent}, k=4, attempt_strategy=strategy
        )
        ran = await run(tmp_path, made, task_concurrency=1)
        assert set(tries.values()) == {expected}
        assert ran.outcome().status == "completed", strategy
        assert ran.outcome().result["summary"]["coverage"] == 1.0


async def test_coverage_below_the_least_is_a_failed_run_with_its_result(tmp_path):
    def evaluate(task, *_args):
        if task.id == "t0":
            raise OSError("evaluator host down")
        return Evaluation(metrics={"pass": 1})

    made = scripted_request({"load": lambda: tasks(4), "evaluate": evaluate})
    outcome = (await run(tmp_path, made)).outcome()
    assert outcome.status == "failed"
    assert outcome.exception.result["summary"]["coverage"] == 0.75
    assert "--reuse" in str(outcome.exception)
    made = scripted_request({"load": lambda: tasks(4), "evaluate": evaluate}, min_coverage=0.7)
    assert (await run(tmp_path, made)).outcome().status == "completed"


# --- requests side by side


async def test_a_request_that_cannot_start_fails_alone_and_says_why(tmp_path):
    def bad(error):
        def load():
            raise error

        return {"load": load}

    ran = await run(
        tmp_path,
        scripted_request(name="good"),
        scripted_request(bad(ValueError("corrupt file")), name="raises"),
        scripted_request(bad(SystemExit(2)), name="exits"),
        scripted_request({"load": list}, name="empty"),
        scripted_request(bad(ConfigurationError("limit is 0")), name="config"),
        scripted_request(
            harness={"sandbox": True},
            environment={"preflight": lambda: (_ for _ in ()).throw(PreflightError("no daemon"))},
            name="preflight",
        ),
        scripted_request({"load": lambda: [*tasks(1), *tasks(1)]}, name="twice"),
        scripted_request({"load": lambda: [attrs.evolve(tasks(1)[0], id="../../x")]}, name="path"),
    )
    assert ran.result.status == "partial_failure"
    errors = {name: outcome.error for name, outcome in ran.result.requests.items()}
    assert errors.pop("good") is None
    for name, words in {
        "raises": "corrupt file",
        "exits": "SystemExit",
        "empty": "no task",
        "config": "limit is 0",
        "preflight": "no daemon",
        "twice": "two tasks have the id 't0'",
        "path": "'../../x'",
    }.items():
        assert words in errors[name], name
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["good", "test"]
    assert sorted(entry.name for entry in (tmp_path / "test").iterdir()) == [
        "orchestration.json",
        "orchestration.lock",
    ]


async def test_a_benchmark_that_loads_for_ever_holds_up_nobody(tmp_path):
    finished = []

    async def end_when_the_other_is_done(control):
        while not finished:
            await trio.sleep(0.01)
        control.cancel_now("caller")

    ran = await run(
        tmp_path,
        scripted_request({"load": trio.sleep_forever}, name="slow"),
        scripted_request(
            {
                "evaluate": lambda task, *_: (
                    finished.append(task.id),
                    Evaluation(metrics={"pass": 1}),
                )[1],
                "load": lambda: tasks(1),
            },
            name="quick",
        ),
        beside=end_when_the_other_is_done,
    )
    assert ran.result.requests["slow"].status == "cancelled"
    assert finished == ["t0"]


# --- the end, asked for


async def cancel_after(control, seconds, *reasons):
    for reason in reasons:
        await trio.sleep(seconds)
        control.cancel_now(reason)


@pytest.mark.parametrize(
    ("reason", "status"),
    [
        ("sigint", "cancelled"),
        ("sigterm", "cancelled"),
        ("caller", "cancelled"),
        ("timeout", "timed_out"),
    ],
)
async def test_a_cancelled_run_cleans_up_and_keeps_what_it_has(tmp_path, reason, status):
    async def agent(task_input, *_args):
        if task_input.prompt in ("t0", "t1"):
            return AgentOutcome(answer="right")
        await trio.sleep_forever()

    made = scripted_request({"load": lambda: tasks(10)}, {"run": agent, "sandbox": True})
    ran = await run(
        tmp_path,
        made,
        beside=lambda control: cancel_after(control, 0.3, reason),
        task_concurrency=4,
    )
    assert ran.outcome().status == ran.result.status == status
    assert ran.result.ended_by == reason
    verdicts = Counter(record.verdict for record in ran.records())
    assert verdicts == {"graded": 2, "cancelled": 4}
    counts = ran.outcome().result["summary"]["counts"]
    expected = {"planned": 10, "graded": 2, "infra": 0, "cancelled": 4, "skipped": 4}
    assert {name: counts[name] for name in expected} == expected
    assert not ScriptedEnvironment.existing
    assert not ran.leases()
    assert [event.sandboxes for event in ran.of("cleanup_started")] == [4]


async def test_timeout_seconds_ends_the_run(tmp_path):
    made = scripted_request({"load": lambda: tasks(2)}, {"run": lambda *_: trio.sleep_forever()})
    ran = await run(tmp_path, made, timeout_seconds=0.2)
    assert ran.result.status == "timed_out"
    assert ran.outcome().exception.exit_code == 124


@pytest.mark.parametrize("moment", [0.0, 0.05, 0.15, 0.25])
async def test_creation_in_flight_is_awaited_and_undone(tmp_path, moment):
    made = scripted_request(
        {"load": lambda: tasks(6)},
        {"run": lambda *_: trio.sleep_forever(), "sandbox": True},
        {"opening": lambda: trio.sleep(0.2)},
    )
    ran = await run(tmp_path, made, beside=lambda control: cancel_after(control, moment, "sigint"))
    assert not ScriptedEnvironment.existing
    assert "sandboxes_left" not in {event.kind for event in ran.events}
    if ran.run_dir().exists():
        assert not ran.leases()


async def test_cleanup_that_hangs_ends_with_the_grace_and_is_told_by_name(tmp_path):
    made = scripted_request(
        {"load": lambda: tasks(2)},
        {"run": lambda *_: trio.sleep_forever(), "sandbox": True},
        {"closing": trio.sleep_forever, "removing": trio.sleep_forever},
    )
    began = trio.current_time()
    ran = await run(
        tmp_path, made, grace=0.5, beside=lambda control: cancel_after(control, 0.2, "sigint")
    )
    assert trio.current_time() - began < 2
    (left,) = ran.of("sandboxes_left")
    assert set(left.names) == ScriptedEnvironment.existing
    assert len(ran.leases()) == 2
    assert str(tmp_path) in left.hint


async def test_a_second_request_to_end_ends_cleanup_at_once(tmp_path):
    made = scripted_request(
        {"load": lambda: tasks(2)},
        {"run": lambda *_: trio.sleep_forever(), "sandbox": True},
        {"closing": trio.sleep_forever, "removing": trio.sleep_forever},
    )
    began = trio.current_time()
    ran = await run(
        tmp_path,
        made,
        grace=60,
        beside=lambda control: cancel_after(control, 0.2, "sigint", "sigint"),
    )
    assert trio.current_time() - began < 20  # far from the grace
    assert ran.result.ended_by == "sigint"
    assert len(ran.leases()) == 2


async def test_a_run_cancelled_before_it_began_leaves_no_trace(tmp_path):
    control = Control(1.0)
    control.request_cancel("sigint")
    ran = await run(tmp_path, scripted_request(), control=control)
    assert ran.outcome().status == "cancelled"
    assert list(tmp_path.iterdir()) == []


async def test_a_kept_sandbox_stays_and_says_how_to_enter(tmp_path):
    made = scripted_request({"load": lambda: tasks(1)}, {"sandbox": True}, keep_environment=True)
    ran = await run(tmp_path, made)
    (kept,) = ran.of("sandbox_kept")
    assert ScriptedEnvironment.existing == {kept.name}
    assert kept.hint == "/work"
    assert len(ran.leases()) == 1
    assert not ran.of("sandboxes_left")


# --- reuse


async def test_a_resumed_run_executes_only_what_is_missing_and_scores_like_an_uninterrupted_one(
    tmp_path,
):
    executed = []

    def agent(task_input, *_args):
        executed.append(task_input.prompt)
        if task_input.prompt in broken:
            raise SandboxError("down")
        return AgentOutcome(answer="right" if task_input.prompt != "t2" else "wrong")

    broken = {"t1", "t3"}
    first = scripted_request({"load": lambda: tasks(5)}, {"run": agent})
    assert (await run(tmp_path, first)).outcome().status == "failed"
    broken.clear()
    executed.clear()
    second = attrs.evolve(scripted_request({"load": lambda: tasks(5)}, {"run": agent}), reuse=True)
    ran = await run(tmp_path, second)
    assert sorted(executed) == ["t1", "t3"]
    assert ran.outcome().status == "completed"
    assert ran.outcome().result["summary"]["score"] == 0.8
    assert {r.task_id: r.reused_from for r in ran.records()} == {
        "t0": first.run_id, "t2": first.run_id, "t4": first.run_id, "t1": None, "t3": None,
    }  # fmt: skip


async def test_reuse_of_a_complete_run_executes_nothing(tmp_path):
    meter = Meter()
    first = scripted_request(harness={"run": meter})
    await run(tmp_path, first)
    ran = await run(tmp_path, attrs.evolve(scripted_request(harness={"run": meter}), reuse=True))
    assert meter.total == 3
    assert ran.outcome().status == "completed"


async def test_reuse_takes_over_only_what_is_planned_now(tmp_path):
    meter = Meter()
    both = scripted_request({"load": lambda: tasks(3)}, {"run": meter}, k=1)
    await run(tmp_path, both)
    made = attrs.evolve(scripted_request({"load": lambda: tasks(1)}, {"run": meter}), reuse=True)
    ran = await run(tmp_path, made)
    summary = ran.outcome().result["summary"]
    assert meter.total == 3
    assert [r.task_id for r in ran.records()] == ["t0"]
    assert (summary["reused"], summary["unplanned_records"]) == (1, 0)
    assert [event.reused for event in ran.of("run_prepared")] == [1]
    assert "1 graded attempt is taken over" in ran.of("notice")[0].text


async def test_reuse_with_pass_goes_on_with_the_next_attempt(tmp_path):
    tries = Counter()

    def agent(task_input, *_args):
        tries[task_input.prompt] += 1
        if task_input.prompt == "t1" and tries["t1"] == 2:
            raise SandboxError("down")
        right = task_input.prompt == "t0" or tries[task_input.prompt] == 3
        return AgentOutcome(answer="right" if right else "wrong")

    def make():
        return scripted_request(
            {"load": lambda: tasks(2)}, {"run": agent}, k=2, attempt_strategy="pass"
        )

    assert (await run(tmp_path, make(), task_concurrency=1)).outcome().status == "failed"
    ran = await run(tmp_path, attrs.evolve(make(), reuse=True), task_concurrency=1)
    assert tries == {"t0": 1, "t1": 3}
    assert ran.outcome().status == "completed"
    assert ran.outcome().result["summary"]["score"] > 0


async def test_reuse_with_pass_repeats_no_later_attempt_that_was_graded(tmp_path):
    tries = []

    def agent(*_args):
        tries.append(None)
        if len(tries) == 1:
            raise SandboxError("down")
        return AgentOutcome(answer="wrong")

    def make():
        return scripted_request(
            {"load": lambda: tasks(1)}, {"run": agent}, k=3, attempt_strategy="pass"
        )

    await run(tmp_path, make())
    assert len(tries) == 3
    ran = await run(tmp_path, attrs.evolve(make(), reuse=True))
    assert len(tries) == 4
    assert sorted(r.attempt for r in ran.records() if r.verdict == "graded") == [1, 2, 3]
    assert ran.outcome().status == "completed"


# --- the disk


async def test_a_results_directory_that_cannot_be_written_is_said_before_anything_runs(tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    meter = Meter()
    ran = await run(file, scripted_request(harness={"run": meter}))
    assert isinstance(ran.outcome().exception, PreflightError)
    assert meter.total == 0


async def test_an_existing_run_id_starts_nothing(tmp_path):
    made = scripted_request()
    await run(tmp_path, made)
    before = (tmp_path / made.name / made.run_id / "attempts.jsonl").read_bytes()
    ran = await run(tmp_path, made)
    assert ran.outcome().status == "failed"
    assert made.run_id in ran.outcome().error
    assert (tmp_path / made.name / made.run_id / "attempts.jsonl").read_bytes() == before


async def test_when_records_can_no_longer_be_written_the_run_stops_and_says_so(tmp_path):
    broken = trio.Event()

    async def agent(task_input, *_args):
        if task_input.prompt not in ("t0", "t1"):
            await broken.wait()
        return AgentOutcome(answer="right")

    made = scripted_request({"load": lambda: tasks(50)}, {"run": agent})
    run_dir = tmp_path / made.name / made.run_id
    journal, events = run_dir / "attempts.jsonl", run_dir / "events.jsonl"

    async def break_journal(_control):
        # until two are on disk, and nothing is being written
        while not events.exists() or events.read_text().count('"attempt_finished"') < 2:
            await trio.sleep(0.001)
        # a file system that refuses further writes: the descriptor is made to point to a full device
        for entry in os.listdir("/proc/self/fd"):
            try:
                if os.readlink(f"/proc/self/fd/{entry}") == str(journal):
                    full = os.open("/dev/full", os.O_WRONLY)
                    os.dup2(full, int(entry))
                    os.close(full)
            except OSError:
                continue
        broken.set()

    ran = await run(tmp_path, made, beside=break_journal, task_concurrency=2)
    assert ran.result.status == "failed"
    assert "No space left" in ran.outcome().error
    assert "--reuse" in ran.outcome().error
    assert len(ran.records()) == 2
    assert stat.S_ISREG(journal.stat().st_mode)


async def test_a_run_whose_directory_is_removed_stops_and_does_not_claim_that_it_has_records(
    tmp_path,
):
    made = scripted_request({"load": lambda: tasks(50)}, {"run": Meter(0.01)})
    run_dir = tmp_path / made.name / made.run_id
    journal = run_dir / "attempts.jsonl"

    async def remove(_control):
        while not journal.exists() or not journal.stat().st_size:
            await trio.sleep(0.001)
        shutil.rmtree(run_dir.rename(tmp_path / "gone"))  # at once: else a new file may keep it

    ran = await run(tmp_path, made, beside=remove, task_concurrency=2)
    assert ran.result.ended_by == "store"
    assert ran.outcome().status == "failed"
    assert f"{journal} was removed while the run wrote it" in ran.outcome().error
    assert "on disk" not in ran.outcome().error
    assert not run_dir.exists()


async def test_a_request_that_ends_since_anothers_journal_was_removed_keeps_what_it_has(tmp_path):
    lost, kept = (
        scripted_request({"load": lambda: tasks(50)}, {"run": Meter(0.01)}, name=name)
        for name in ("lost", "kept")
    )
    journals = [tmp_path / made.name / made.run_id / "attempts.jsonl" for made in (lost, kept)]

    async def remove(_control):
        while not all(journal.exists() and journal.stat().st_size for journal in journals):
            await trio.sleep(0.001)
        journals[0].unlink()

    ran = await run(tmp_path, lost, kept, beside=remove, task_concurrency=4)
    outcomes = ran.result.requests
    assert {outcome.status for outcome in outcomes.values()} == {"failed"}
    assert "--reuse" not in outcomes["lost"].error
    assert "What had finished is on disk" in outcomes["kept"].error
    assert "--reuse" in outcomes["kept"].error


async def test_a_run_whose_journal_is_removed_says_that_its_records_are_gone(tmp_path):
    made = scripted_request({"load": lambda: tasks(50)}, {"run": Meter(0.01)})
    journal = tmp_path / made.name / made.run_id / "attempts.jsonl"

    async def remove(_control):
        while not journal.exists() or not journal.stat().st_size:
            await trio.sleep(0.001)
        journal.unlink()

    ran = await run(tmp_path, made, beside=remove, task_concurrency=2)
    assert ran.outcome().status == "failed"
    assert "was removed while the run wrote it" in ran.outcome().error
    assert "on disk" not in ran.outcome().error
    assert "--reuse" not in ran.outcome().error
