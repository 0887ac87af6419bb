import json
import re
import time
import tracemalloc

import attrs
import pytest

from agentcompass.records import Metric, Usage
from agentcompass.store.codec import encode_record
from agentcompass.store.identity import this_process
from agentcompass.store.summary import result_dict, summarize, write_report
from support.storage import ACCURACY, Disk, graded, infra, run_info, run_plan, write_run


def page(paths):
    return paths.summary_file.read_text()


def test_scores_come_from_the_journal_and_missing_from_the_plan(tmp_path):
    paths = write_run(
        tmp_path / "ns/r1",
        [
            graded("t1"),
            infra("t2", will_retry=True),
            graded("t2", value=0.0, execution=2),
            infra("t3"),
        ],
        plan=run_plan("t1", "t2", "t3", "t4"),
    )
    report = summarize(paths.run_dir)
    assert report.counts == {
        "tasks": 4,
        "planned": 4,
        "graded": 2,
        "infra": 1,
        "cancelled": 0,
        "skipped": 1,
        "not_needed": 0,
        "resolved": 2,
    }
    assert report.coverage == 0.5
    assert report.primary_score.value == 0.25
    assert report.executions == 4
    written = json.loads(paths.metrics_file.read_text())
    assert written["scores"]["accuracy"]["value"] == 0.25
    assert written["scores"]["accuracy"]["bounds"] == [0.25, 0.75]


def test_half_the_evaluators_failing_never_prints_a_perfect_score(tmp_path):
    paths = write_run(tmp_path / "ns/r1", [graded("t1"), infra("t2")])
    summarize(paths.run_dir)
    headline = page(paths).splitlines()[0]
    assert "0.5000" in headline
    assert "1.0000" not in headline


def test_usage_and_time_are_summed_over_every_execution(tmp_path):
    usage = Usage(calls=2, input_tokens=100, output_tokens=10, cost_usd=0.5)
    paths = write_run(
        tmp_path / "ns/r1",
        [
            infra("t1", wall_seconds=1.0),
            graded("t1", execution=2, usage=usage, wall_seconds=2.0),
            graded("t2", usage=usage, reused_from="r0", wall_seconds=4.0),
        ],
    )
    report = summarize(paths.run_dir, write=False)
    assert report.usage.total_tokens == 15 + 110 + 110
    assert report.reused_usage.total_tokens == 110
    assert (report.executions, report.reused) == (2, 1)
    assert report.execution_seconds == 7.0
    assert not paths.metrics_file.exists()


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (119.7, "2 min 0 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h 0 min"),
        (90_061, "25 h 1 min"),
    ],
)
def test_durations_are_rounded_before_they_are_taken_apart(tmp_path, seconds, said):
    paths = write_run(tmp_path / "ns/r1", [graded("t1", wall_seconds=seconds)])
    summarize(paths.run_dir)
    assert f"on the clock, {said} in 1 execution" in page(paths)


def test_an_unknown_price_is_unknown(tmp_path):
    usage = Usage(calls=1, cost_usd=None)
    paths = write_run(tmp_path / "ns/r1", [graded("t1", usage=usage), graded("t2")])
    summarize(paths.run_dir)
    assert "Price: unknown" in page(paths)
    assert json.loads(paths.metrics_file.read_text())["usage"]["cost_usd"] is None


def test_causes_are_grouped_with_the_most_frequent_first(tmp_path):
    records = [infra(f"t{n}", code="rate-limited", message=f"429 number {n}") for n in range(3)]
    records += [infra("t3", code="oom"), infra("t4", code="x", verdict="cancelled")]
    plan = run_plan(*(f"t{n}" for n in range(6)))
    report = summarize(write_run(tmp_path / "ns/r1", records, plan=plan).run_dir)
    found = [(g.count, g.verdict, g.phase, g.code, g.task_id) for g in report.failures]
    assert found[0] == (3, "infra", "run", "rate-limited", "t0")
    assert set(found[1:]) == {
        (1, "infra", "run", "oom", "t3"),
        (1, "cancelled", "run", "x", "t4"),
        (1, "skipped", None, "not-started", "t5"),
    }


def test_with_pass_attempts_that_were_not_needed_are_no_cause(tmp_path):
    plan = run_plan("t1", "t2", k=3, strategy="pass")
    paths = write_run(
        tmp_path / "ns/r1",
        [graded("t1"), graded("t2", value=0.0), graded("t2", attempt=2)],
        plan=plan,
    )
    report = summarize(paths.run_dir)
    assert report.failures == ()
    assert report.coverage == 1.0
    assert "not needed" in page(paths)
    assert "--reuse" not in page(paths)


def test_stopped_by_counts_only_what_was_graded(tmp_path):
    paths = write_run(
        tmp_path / "ns/r1",
        [graded("t1", stopped_by="timeout"), infra("t2", stopped_by="max_turns")],
    )
    assert summarize(paths.run_dir).stopped_by == {"timeout": 1}


def test_the_command_that_finishes_names_the_run_and_no_secret(tmp_path):
    request = {
        "benchmark": {"id": "humaneval", "params": {"limit": 5, "ids": None}},
        "harness": {"id": "openai_chat", "params": {}},
        "environment": {"id": "docker", "params": {"image": "it's"}},
        "model": {
            "id": "org/m",
            "base_url": "https://api.example.com/v1",
            "api_key": "${MY_KEY}",
            "api_protocol": ["openai-chat"],
            "params": {"temperature": 0},
        },
        "execution": {"k": 2, "attempt_strategy": "avg", "timeout_multiplier": 1.0},
        "run_name": None,
    }
    info = run_info("r1", request=request, status="cancelled")
    paths = write_run(tmp_path / "ns/r1", [graded("t1")], info=info)
    report = summarize(paths.run_dir)
    assert report.finish_command == (
        "agentcompass run humaneval openai_chat org/m --env docker"
        """ --benchmark-params '{"limit": 5}' --env-params '{"image": "it'"'"'s"}'"""
        " --model-base-url https://api.example.com/v1 --model-api-key '${MY_KEY}'"
        """ --model-api-protocol openai-chat --model-params '{"temperature": 0}'"""
        f" --k 2 --results-dir {tmp_path} --reuse r1"
    )
    assert report.finish_command in page(paths)


def test_a_complete_run_needs_no_such_command(tmp_path):
    paths = write_run(tmp_path / "ns/r1", [graded("t1"), graded("t2")])
    assert summarize(paths.run_dir).finish_command is None
    assert "## Finish" not in page(paths)
    assert json.loads(paths.metrics_file.read_text())["finish_command"] is None


def test_causes_of_failures_that_were_retried_with_success_are_listed(tmp_path):
    plan = run_plan("t1", "t2", "t3", k=2)
    records = [
        infra("t1", code="rate-limited", message="429", will_retry=True),
        infra("t1", code="rate-limited", message="429", execution=2, will_retry=True),
        graded("t1", execution=3),
        infra("t2", attempt=2, code="oom", will_retry=True),
        graded("t2", attempt=2, execution=2, value=0.0),
        infra("t3", code="lost", will_retry=True),
        infra("t3", code="lost", execution=2),
        infra("t3", attempt=2, code="to-come", will_retry=True),
    ]
    paths = write_run(tmp_path / "ns/r1", records, plan=plan)
    found = [(g.count, g.code, g.task_id, g.attempt) for g in summarize(paths.run_dir).retried]
    assert found == [(2, "rate-limited", "t1", 1), (1, "oom", "t2", 2)]
    table = page(paths).partition("## Retried")[2].partition("\n## ")[0]
    assert "| 2 | run | `rate-limited` | `t1` / 1 | 429 |" in table
    assert "lost" not in table
    retried = json.loads(paths.metrics_file.read_text())["retried"]
    assert [group["code"] for group in retried] == ["rate-limited", "oom"]


def test_one_of_a_kind_is_in_the_singular(tmp_path):
    usage = Usage(calls=1, unmetered_calls=1)
    paths = write_run(tmp_path / "ns/r1", [graded("t1", usage=usage)], plan=run_plan("t1"))
    summarize(paths.run_dir)
    assert not re.search(r"\b1 (attempts|tasks|calls|executions|tokens|lines)\b", page(paths))


def test_hostile_text_changes_nothing_of_the_page(tmp_path):
    evil = (
        "x\n# Score: 1.0\n| a | b |\n```\n<script>alert(1)</script> [l](http://e) \x1b[2J\u202e`|"
    )
    plan = run_plan((evil, evil), ("t2", None), metrics=(Metric(name="acc|`#", primary=True),))
    records = [infra(evil, code=evil, message=evil)]
    info = run_info(
        "r1", name=evil, error=evil, request={"benchmark": {"id": evil}}, reused_from=evil
    )
    tame = write_run(
        tmp_path / "ns/r0",
        [infra("t1", code="c", message="m")],
        plan=run_plan(("t1", "c"), ("t2", None), metrics=(Metric(name="acc", primary=True),)),
        info=run_info(
            "r1", name="n", error="e", request={"benchmark": {"id": "b"}}, reused_from="r"
        ),
    )
    paths = write_run(tmp_path / "ns/r1", records, plan=plan, info=info)
    summarize(paths.run_dir)
    summarize(tame.run_dir)
    text = page(paths)

    def shape(page):
        """What each line begins with, and its unescaped pipes."""
        return [
            (re.match(r"[#|`]*", line)[0], len(re.findall(r"(?<!\\)\|", line)))
            for line in page.splitlines()
        ]

    assert shape(text) == shape(page(tame))
    assert "<script" not in text.replace(r"\<", "")
    assert all(c.isprintable() or c == "\n" for c in text)


def test_corrupt_lines_are_told_on_the_first_page(tmp_path):
    paths = write_run(tmp_path / "ns/r1", [graded("t1"), graded("t2")])
    data = paths.journal_file.read_bytes()
    paths.journal_file.write_bytes(b"garbage\n" + data + b'{"torn')
    report = summarize(paths.run_dir)
    assert [line.number for line in report.corrupt_lines] == [1]
    assert report.coverage == 1.0
    assert "1 line of the journal cannot be read" in page(paths)


def test_records_that_nobody_planned_count_nowhere(tmp_path):
    paths = write_run(tmp_path / "ns/r1", [graded("t1"), graded("alien"), graded("t1", attempt=7)])
    report = summarize(paths.run_dir)
    assert report.unplanned == 2
    assert report.counts["graded"] == report.executions == 1


def test_what_nobody_planned_costs_nothing(tmp_path):
    alien = graded("alien", usage=Usage(calls=1), wall_seconds=5.0, reused_from="r0")
    report = summarize(write_run(tmp_path / "ns/r1", [alien]).run_dir)
    assert (report.usage, report.reused_usage) == (Usage(), Usage())
    assert (report.reused, report.execution_seconds) == (0, 0.0)


def test_tasks_with_and_without_category_are_summed_up(tmp_path):
    plan = run_plan(("t1", "math"), ("t2", None))
    paths = write_run(tmp_path / "ns/r1", [graded("t1"), graded("t2", value=0.0)], plan=plan)
    assert set(summarize(paths.run_dir).board.categories) == {"math", "(none)"}
    assert "By category" in page(paths)


def test_rates_by_attempts_are_shown_for_several_attempts(tmp_path):
    plan = run_plan("t1", k=3)
    records = [graded("t1", attempt=n, value=float(n == 2)) for n in (1, 2, 3)]
    paths = write_run(tmp_path / "ns/r1", records, plan=plan)
    summarize(paths.run_dir)
    assert "| metric | avg@k | pass@1 | pass@2 | pass@3 | pass^3 |" in page(paths)
    scores = json.loads(paths.metrics_file.read_text())["scores"]["accuracy"]
    assert scores["pass_at_k"] == {"1": pytest.approx(1 / 3), "2": pytest.approx(2 / 3), "3": 1.0}


def test_the_result_is_plain_json_with_the_four_promised_keys(tmp_path):
    paths = write_run(tmp_path / "ns/r1", [graded("t1"), infra("t2")])
    result = result_dict(paths.run_dir)
    assert set(result) == {"metadata", "metrics", "summary", "paths"}
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert result["metrics"]["scores"]["accuracy"]["value"] == 0.5
    assert result["summary"]["coverage"] == 0.5
    assert result["paths"]["run_dir"] == str(paths.run_dir)


def test_a_concluded_report_needs_no_second_pass(tmp_path):
    with Disk(tmp_path / "ns/r1") as disk:
        disk.append(graded("t1"))
        disk.append(graded("t2"))
        report = summarize(disk.paths.run_dir, write=False)
        assert report.status == "running"
        assert report.elapsed_seconds is None
        done = attrs.evolve(
            disk.info, status="completed", finished_at="2026-01-01T00:01:30Z", counts=report.counts
        )
        disk.store.update(done)
        write_report(report.concluded(done))
    assert summarize(disk.paths.run_dir, write=False) == report.concluded(done)
    assert "**completed**" in page(disk.paths)
    assert "1 min 30 s on the clock" in page(disk.paths)


def test_a_killed_run_is_summed_up_as_interrupted(tmp_path):
    dead = attrs.evolve(this_process(), boot_id="gone")
    paths = write_run(tmp_path / "ns/r1", [graded("t1")], info=run_info(owner=dead))
    assert summarize(paths.run_dir).status == "interrupted"
    assert "**interrupted**" in page(paths)
    assert "--reuse" in page(paths)


def test_a_run_of_which_nothing_was_recorded_is_summed_up(tmp_path):
    report = summarize(write_run(tmp_path / "ns/r1").run_dir)
    assert report.coverage == 0.0
    assert report.primary_score.value == 0.0


def test_a_scalar_metric_that_is_incomplete_is_not_available(tmp_path):
    plan = run_plan("t1", "t2", metrics=(attrs.evolve(ACCURACY, kind="scalar", best=None),))
    paths = write_run(tmp_path / "ns/r1", [graded("t1")], plan=plan)
    report = summarize(paths.run_dir)
    assert report.primary_score.value is None
    assert "not available" in page(paths).splitlines()[0]


def big_run(run_dir, n, answer):
    """A finished journal of n records, every tenth without a score."""
    plan = run_plan(*((f"task-{i}", f"c{i % 50}") for i in range(n)))
    paths = write_run(run_dir, plan=plan)
    with paths.journal_file.open("wb") as file:
        for i in range(n):
            record = graded(f"task-{i}", value=float(i % 3 == 0), answer=answer)
            if i % 10 == 0:
                record = infra(f"task-{i}", message=f"failed {i % 7}")
            file.write(encode_record(record, str))
    return run_dir


def test_memory_does_not_grow_with_answers(tmp_path):
    peaks = []
    for size in (10, 50_000):
        run_dir = big_run(tmp_path / f"ns/r{size}", 500, "x" * size)
        tracemalloc.start()
        summarize(run_dir, write=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] - peaks[0] < 1_000_000, "25 MB of answers"


@pytest.mark.slow
def test_a_hundred_thousand_records_take_seconds_and_little_memory(tmp_path):
    run_dir = big_run(tmp_path / "ns/r1", 100_000, "x" * 500)
    start = time.process_time()
    report = summarize(run_dir)
    assert time.process_time() - start < 25
    assert report.counts["planned"] == 100_000
