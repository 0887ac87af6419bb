"""Files that somebody edited or a disk damaged: every field of every file takes every type, and nobody dies of it."""

import contextlib
import copy
import json
from pathlib import Path

import attrs
import pytest

from agentcompass.cli.render import result_text
from agentcompass.errors import ConfigurationError, StoreError
from agentcompass.plan.reuse import find_reusable
from agentcompass.records import Lease, Metric, Usage
from agentcompass.store import codec, jsonl
from agentcompass.store.analysis import findings_line, read_findings
from agentcompass.store.leases import LeaseBook
from agentcompass.store.request import written_request
from agentcompass.store.summary import result_dict, summarize
from agentcompass.store.summary_page import summary_page
from support.requests import component, model_config, orchestration, request
from support.storage import ACCURACY, graded, infra, lease, run_info, run_plan, write_run

ODD = (None, True, -1, 1.5, 1e308, 10**400, "x", "", [], ["x"], [[1]], {}, {"x": {"y": []}})
SCALAR = Metric(name="speed", kind="scalar", best=None)
RECORD = graded(
    "odd",
    usage=Usage(calls=1, input_tokens=2, cost_usd=0.5),
    phase_seconds={"run": 1.0},
    details={"why": ["because"]},
    stopped_by="timeout",
    wall_seconds=1.5,
)
REQUEST = request(
    component("benchmark", "humaneval"), component("harness", "oracle"), model=model_config()
)
LAUNCH = attrs.evolve(
    orchestration(Path("results"), REQUEST, provider_limits={"host_process": 3}),
    given_runtime=("provider_limits", "task_concurrency", "timeout_seconds", "recipe_dirs"),
)


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else ()
    for key, item in [*items, *(enumerate(value) if isinstance(value, list) else ())]:
        yield from places(item, (*path, key))


def damaged(value):
    """The value with each of its places in turn replaced by each odd value, or removed."""
    for path in places(value):
        if not path:
            yield from ODD
            continue
        for odd in (*ODD, KeyError):
            copied = copy.deepcopy(value)
            inner = copied
            for key in path[:-1]:
                inner = inner[key]
            if odd is KeyError:
                del inner[path[-1]]
            else:
                inner[path[-1]] = odd
            yield copied


def line(value):
    return json.dumps(value) + "\n"


def everything(run_dir):
    """All that reads a run; returns what was summed up."""
    found = find_reusable(
        run_dir.parents[1], None, "ns", "f" * 64, {"model": {"id": "m"}}, reuse_run_id=None
    )
    assert found is None or all(record.metrics for record in found.graded.values())
    report = summarize(run_dir, write=False)
    json.dumps(report.as_json(), allow_nan=False)
    summary_page(report)
    result_text(result_dict(run_dir, report))
    return report


@pytest.fixture
def run_dir(tmp_path):
    info = run_info(
        request=written_request(REQUEST, LAUNCH),
        status="completed",
        finished_at="2026-01-01T00:01:00Z",
    )
    plan = run_plan(("good", "easy"), "odd", metrics=(ACCURACY,))
    return write_run(tmp_path / "ns" / "r1", [graded("good")], info=info, plan=plan).run_dir


@pytest.mark.parametrize("record", [RECORD, infra("odd")], ids=["graded", "infra"])
def test_a_damaged_line_of_the_journal_is_counted_and_hides_no_other(run_dir, record):
    journal = run_dir / "attempts.jsonl"
    good = journal.read_text()
    cases = list(damaged(json.loads(codec.encode_record(record, lambda text: text))))
    assert len(cases) > 300
    corrupt = 0
    for case in cases:
        journal.write_text(good + line(case) + good)
        try:
            report = everything(run_dir)
        except Exception as error:
            raise AssertionError(f"{case}") from error
        counted = report.executions + report.reused + report.unplanned
        assert counted + len(report.corrupt_lines) == 3, case
        assert report.counts["graded"] >= 1
        corrupt += len(report.corrupt_lines)
    assert 0.5 < corrupt / len(cases) < 1
    journal.write_text(good + "".join(map(line, cases)) + good)
    assert len(everything(run_dir).corrupt_lines) == corrupt


@pytest.mark.parametrize("name", ["run.json", "plan.json"])
def test_a_damaged_run_or_plan_is_used_or_refused_by_name(run_dir, name):
    path = run_dir / name
    refused = 0
    for case in damaged(json.loads(path.read_text())):
        path.write_text(json.dumps(case))
        try:
            everything(run_dir)
        except StoreError as error:
            refused += name in error.message
        except Exception as error:
            raise AssertionError(f"{case}") from error
        with contextlib.suppress(ConfigurationError):
            find_reusable(run_dir.parents[1], None, "ns", "f" * 64, {}, reuse_run_id="r1")
    assert refused > 50


def test_a_damaged_lease_is_reported_or_usable(tmp_path):
    written = lease(details={"root": "/x"})
    book = LeaseBook(tmp_path)
    path = tmp_path / "l1.json"
    kinds = {field.name: type(getattr(written, field.name)) for field in attrs.fields(Lease)}
    for case in damaged(json.loads(codec.encode_lease(written))):
        path.write_text(json.dumps(case))
        told = {}
        leases = book.list(told.__setitem__)
        assert len(told) + len(leases) == 1
        for read in leases:
            found = {name: type(getattr(read, name)) for name in kinds}
            assert found == kinds
            assert all(isinstance(value, str) for value in read.details.values())


def test_a_damaged_line_of_findings_is_told_and_hides_no_other(tmp_path):
    finding = {"label": "loop", "detail": "5 times", "value": 5}
    good = findings_line(graded("good"), [("repeats", finding)])
    path = tmp_path / "analysis.jsonl"
    for case in damaged(findings_line(graded("odd"), [("repeats", finding)])):
        path.write_text(line(good) + line(case) + line(good))
        corrupt = []
        found = list(read_findings(path, corrupt.append))
        assert [one.task_id for one in found if one.task_id == "good"] == [
            "good"
        ] * 2 or not corrupt
        assert all(isinstance(one.label, str) and isinstance(one.attempt, int) for one in found)
        assert [odd.number for odd in corrupt] in ([], [2])


@pytest.mark.parametrize("metrics", [{"accuracy": 0.5}, {"speed": 1.0}, {}, {"accuracy": True}])
def test_a_grade_that_is_not_one_of_the_plan_is_corrupt(run_dir, metrics):
    journal = run_dir / "attempts.jsonl"
    whole = json.loads(codec.encode_record(RECORD, lambda text: text))
    journal.write_text(line({**whole, "metrics": metrics}))
    report = everything(run_dir)
    assert report.counts["graded"] == 0
    assert [odd.number for odd in report.corrupt_lines] == [1]


def test_numbers_that_are_infinite_when_read_are_corrupt(run_dir):
    journal = run_dir / "attempts.jsonl"
    text = codec.encode_record(RECORD, lambda text: text).decode()
    journal.write_text(text.replace('"because"', "1e999") + text.replace('"because"', "-1e999"))
    assert [odd.number for odd in everything(run_dir).corrupt_lines] == [1, 2]


def test_scores_too_large_to_add_up_are_none_and_the_rest_is_there(tmp_path):
    plan = run_plan("t1", "t2", metrics=(attrs.evolve(SCALAR, primary=True), ACCURACY))
    records = [
        attrs.evolve(graded(task), metrics={"speed": 1.7e308, "accuracy": 1.0})
        for task in ("t1", "t2")
    ]
    run_dir = write_run(tmp_path / "ns" / "r1", records, plan=plan).run_dir
    report = everything(run_dir)
    assert report.primary_score.value is None
    assert report.board.scores["accuracy"].value == 1.0
    assert report.coverage == 1.0


def test_what_cannot_be_read_back_is_not_written():
    for odd in (
        attrs.evolve(RECORD, usage=Usage(calls="x")),
        attrs.evolve(RECORD, wall_seconds="x"),
        attrs.evolve(RECORD, wall_seconds=1e200),
        attrs.evolve(RECORD, answer=5),
        attrs.evolve(RECORD, phase_seconds={"run": None}),
    ):
        with pytest.raises(jsonl.NotJSONError):
            codec.encode_record(odd, lambda text: text)
