import json
import time

import pytest

from agentcompass.secrets import Scrubber
from agentcompass.store.analysis import (
    findings_line,
    read_analysis,
    read_findings,
    write_analysis,
)
from agentcompass.store.reader import records_after
from agentcompass.store.summary import result_dict, summarize
from support.storage import Disk, graded, infra, run_info, run_plan, waited, write_run

ROW = {
    "analyzer": "truncation",
    "label": "answer-cut",
    "count": 2,
    "detail": "a | b",
    "examples": [{"task_id": "t1", "attempt": 1}],
}
SUMMARY = {"analyzed": 2, "left": 0, "rows": [ROW], "notes": []}


def store_findings(disk, *lines):
    waited(lambda done: disk.store.findings(lines, lambda: done("written")))


def test_findings_are_read_as_they_were_written_and_hold_no_secret(tmp_path):
    scrubber = Scrubber()
    scrubber.register("a-secret-key")
    with Disk(tmp_path / "ns/r1", scrubber=scrubber) as disk:
        found = [("mine", {"label": "x", "detail": "a-secret-key", "value": 2.5}), ("other", {"label": "y"})]  # fmt: skip
        store_findings(disk, findings_line(graded("t1"), found))
    first, second = read_findings(disk.paths.findings_file)
    assert (first.task_id, first.analyzer, first.label, first.value) == ("t1", "mine", "x", 2.5)
    assert first.detail == "[secret]"
    assert (second.analyzer, second.detail, second.value) == ("other", "", None)


def test_no_file_is_made_for_a_run_without_findings(tmp_path):
    with Disk(tmp_path / "ns/r1") as disk:
        store_findings(disk)
    assert not disk.paths.findings_file.exists()


def test_lines_that_are_no_findings_are_skipped(tmp_path):
    path = tmp_path / "analysis.jsonl"
    good = json.dumps(findings_line(graded("t1"), [("a", {"label": "x"})]))
    path.write_text(f'[]\n{{"findings": 3}}\nnonsense\n{good}\n{{"task_id": "t9"}}\n{{"torn": ')
    assert [found.label for found in read_findings(path)] == ["x"]


def test_a_full_disk_for_findings_is_logged_once_and_hurts_nobody(tmp_path, caplog):
    with Disk(tmp_path / "ns/r1") as disk:
        disk.paths.findings_file.mkdir()
        for _ in range(3):
            store_findings(disk, findings_line(graded("t1"), [("a", {"label": "x"})]))
        assert disk.append(graded("t1"))[0] is None
    assert caplog.text.count("no more findings are recorded") == 1


def test_the_summary_stands_in_metrics_result_and_page(tmp_path):
    paths = write_run(tmp_path / "ns/r1", [graded("t1"), graded("t2")])
    write_analysis(paths.analysis_file, SUMMARY | {"notes": ["analyzer x failed: *boom*"]})
    summarize(paths.run_dir)
    assert json.loads(paths.metrics_file.read_text())["analysis"]["rows"] == [ROW]
    assert result_dict(paths.run_dir)["summary"]["analysis"]["analyzed"] == 2
    page = paths.summary_file.read_text()
    assert r"| `truncation` | answer-cut | 2 | a \| b | `t1` |" in page
    assert r"analyzer x failed: \*boom\*" in page


def test_an_analysis_that_was_cut_short_says_how_much_is_left_and_how_to_go_on(tmp_path):
    paths = write_run(tmp_path / "ns/r1", [graded("t1"), graded("t2")])
    write_analysis(paths.analysis_file, {"analyzed": 1, "left": 1, "rows": [], "notes": []})
    summarize(paths.run_dir)
    page = paths.summary_file.read_text()
    assert "Executions looked at: 1.\n\nNot looked at in time: 1. To look at all" in page
    assert f"agentcompass summary {paths.run_dir} --analyze" in page


def test_a_run_that_ended_before_its_analysis_says_how_to_make_up_for_it(tmp_path):
    request = {"execution": {"enable_analysis": True}}
    info = run_info("r1", status="cancelled", request=request)
    paths = write_run(tmp_path / "ns/r1", [graded("t1")], info=info)
    summarize(paths.run_dir)
    assert "--analyze" in paths.summary_file.read_text()


@pytest.mark.parametrize(
    "info",
    [
        {"status": "cancelled", "request": {"execution": {"enable_analysis": False}}},
        {"status": "cancelled", "request": {}},
    ],
    ids=["switched off", "recorded before there was analysis"],
)
def test_other_runs_say_nothing_of_it(tmp_path, info):
    paths = write_run(tmp_path / "ns/r1", [graded("t1")], info=run_info("r1", **info))
    summarize(paths.run_dir)
    assert "Analysis" not in paths.summary_file.read_text()
    assert json.loads(paths.metrics_file.read_text())["analysis"] is None


def test_a_run_that_goes_on_says_nothing_of_it_either(tmp_path):
    info = run_info("r1", request={"execution": {"enable_analysis": True}})
    with Disk(tmp_path / "ns/r1", info=info) as disk:
        assert disk.append(graded("t1"))[0] is None
        summarize(disk.paths.run_dir)
        assert "Analysis" not in disk.paths.summary_file.read_text()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        '{"schema": 2, "analyzed": 1, "left": 0, "rows": [], "notes": []}',
        '{"schema": 1, "analyzed": 1, "left": 0, "rows": [{"label": 1}], "notes": []}',
        '{"schema": 1, "analyzed": 1, "left": 0, "rows": [], "notes": [1]}',
        '{"schema": 1, "analyzed": "1", "left": 0, "rows": [], "notes": []}',
    ],
)
def test_an_analysis_that_cannot_be_used_is_none(tmp_path, text):
    (tmp_path / "analysis.json").write_text(text)
    assert read_analysis(tmp_path / "analysis.json") is None


def test_the_journal_can_be_followed_from_any_line(tmp_path):
    paths = write_run(
        tmp_path / "ns/r1", [graded("t1"), infra("t2"), graded("t3")], plan=run_plan("t1", "t2", "t3")
    )  # fmt: skip
    (_, after_first), *_ = records_after(paths.journal_file, 0)
    rest = list(records_after(paths.journal_file, after_first))
    assert [record.task_id for record, _ in rest] == ["t2", "t3"]
    end = rest[-1][1]
    with paths.journal_file.open("ab") as journal:
        journal.write(b'no record\n{"torn": ')
    assert list(records_after(paths.journal_file, end)) == [(None, end + 10)]


def test_a_journal_that_is_not_there_yet_has_nothing_to_follow(tmp_path):
    assert list(records_after(tmp_path / "attempts.jsonl", 0)) == []


def test_a_hundred_thousand_findings_are_read_in_a_moment(tmp_path):
    path = tmp_path / "analysis.jsonl"
    line = json.dumps(findings_line(graded("t1"), [("a", {"label": "x"})] * 10))
    path.write_text(f"{line}\n" * 10_000)
    started = time.process_time()
    assert sum(1 for _ in read_findings(path)) == 100_000
    assert time.process_time() - started < 10
