import json

import pytest

from agentcompass.errors import ConfigurationError
from agentcompass.plan.reuse import MAX_DIFFERENCES, find_reusable
from agentcompass.records import Metric
from support.storage import Disk, graded, infra, run_info, run_plan, write_run

PRINT = "f" * 64
IDENTITY = {"model": {"id": "m", "temperature": 1}}


def run(root, run_id, records=(), at=0, where="ns", **info):
    info.setdefault("started_at", f"2026-01-01T00:00:{at:02}+00:00")
    return write_run(root / where / run_id, records, info=run_info(run_id, **info))


def find(root, run_id=None, run_name=None):
    return find_reusable(root, run_name, "ns", PRINT, IDENTITY, reuse_run_id=run_id)


def test_only_graded_attempts_are_taken_over(tmp_path):
    run(tmp_path, "r1", [graded("t1"), infra("t2"), graded("t2", execution=2), infra("t3")])
    found = find(tmp_path)
    assert set(found.graded) == {("t1", 1), ("t2", 1)}
    assert found.graded["t2", 1].execution == 2
    assert found.run_dir == tmp_path / "ns/r1"


def test_records_are_ready_for_a_new_journal(tmp_path):
    run(tmp_path, "r1", [graded("t1", will_retry=True)])
    record = find(tmp_path).graded["t1", 1]
    assert (record.reused_from, record.will_retry) == ("r1", False)


def test_a_run_that_itself_reused_is_fine_and_the_origin_stays_known(tmp_path):
    run(tmp_path, "r2", [graded("t1", reused_from="r1"), graded("t2")], at=2)
    found = find(tmp_path)
    assert found.run_id == "r2"
    assert {key: record.reused_from for key, record in found.graded.items()} == {
        ("t1", 1): "r1",
        ("t2", 1): "r2",
    }


def test_the_newest_compatible_run_wins_complete_or_not(tmp_path):
    run(tmp_path, "a-newest", [graded("t1")], at=9, status="cancelled")
    run(tmp_path, "z-oldest", [graded("t1"), graded("t2")], at=1, status="completed")
    assert find(tmp_path).run_id == "a-newest"


def test_an_empty_failed_newest_run_does_not_hide_an_older_one(tmp_path):
    run(tmp_path, "old", [graded("t1")], at=1)
    run(tmp_path, "new", [infra("t1")], at=2, status="failed")
    run(tmp_path, "newer", [], at=3)
    assert find(tmp_path).run_id == "old"


def test_other_settings_are_never_reused_silently(tmp_path):
    run(tmp_path, "r1", [graded("t1")], fingerprint="0" * 64)
    assert find(tmp_path) is None


def test_corrupt_runs_and_newer_ones_are_passed_over(tmp_path):
    run(tmp_path, "ok", [graded("t1")], at=1)
    for name, content in (("bad", "{"), ("foreign", "[]")):
        paths = run(tmp_path, name, [graded("t1")], at=5)
        paths.run_file.write_text(content)
    paths = run(tmp_path, "newer", [graded("t1")], at=6)
    paths.run_file.write_text(json.dumps({**json.loads(paths.run_file.read_text()), "schema": 9}))
    run(tmp_path, "gone", [graded("t1")], at=7).plan_file.unlink()
    paths = run(tmp_path, "unreadable", [graded("t1")], at=8)
    paths.journal_file.unlink()
    paths.journal_file.mkdir()
    assert find(tmp_path).run_id == "ok"


def test_a_torn_tail_costs_only_its_own_line(tmp_path):
    paths = run(tmp_path, "r1", [graded("t1"), graded("t2")])
    paths.journal_file.write_bytes(paths.journal_file.read_bytes()[:-5])
    assert set(find(tmp_path).graded) == {("t1", 1)}


def test_without_an_id_only_neighbours_are_looked_at(tmp_path):
    run(tmp_path, "r1", [graded("t1")], where="other")
    run(tmp_path, "r2", [graded("t1")], where="nightly/ns")
    assert find(tmp_path) is None
    assert find(tmp_path, run_name="nightly").run_id == "r2"


def test_no_results_at_all_is_nothing_to_reuse(tmp_path):
    assert find(tmp_path / "none") is None


def test_a_run_in_progress_can_be_reused_as_far_as_it_is(tmp_path):
    with Disk(tmp_path / "ns/r1") as disk:
        disk.append(graded("t1"))
        assert set(find(tmp_path).graded) == {("t1", 1)}


def test_a_named_run_is_found_anywhere_and_may_have_nothing_graded(tmp_path):
    run(tmp_path, "r1", where="nightly/other")
    found = find(tmp_path, "r1")
    assert (found.run_id, dict(found.graded)) == ("r1", {})


def test_of_two_runs_with_one_id_the_neighbour_wins(tmp_path):
    run(tmp_path, "r1", [graded("t1")], where="other", at=9)
    run(tmp_path, "r1", [graded("t2")], at=1)
    assert set(find(tmp_path, "r1").graded) == {("t2", 1)}


def test_a_named_run_with_other_settings_is_an_error_that_lists_them(tmp_path):
    run(tmp_path, "r1", [graded("t1")], fingerprint="0" * 64)
    with pytest.raises(ConfigurationError) as caught:
        find(tmp_path, "r1")
    assert "model.temperature: (absent) -> 1" in str(caught.value)
    assert "'r1'" in str(caught.value)


def test_of_many_differences_the_first_are_listed_and_the_rest_counted(tmp_path):
    many = {f"key_{n:02}": n for n in range(MAX_DIFFERENCES + 5)}
    run(tmp_path, "r1", [graded("t1")], fingerprint="0" * 64, identity={**IDENTITY, **many})
    with pytest.raises(ConfigurationError, match=r"\.\.\. and 5 more"):
        find(tmp_path, "r1")


def test_a_named_run_whose_journal_cannot_be_read_is_an_error_that_says_why(tmp_path):
    paths = run(tmp_path, "r1", [graded("t1")])
    paths.journal_file.unlink()
    paths.journal_file.mkdir()
    with pytest.raises(ConfigurationError, match="'r1' cannot be reused: cannot read"):
        find(tmp_path, "r1")


def test_other_runs_that_cannot_be_read_do_not_matter_to_the_named_one(tmp_path):
    run(tmp_path, "r1", [graded("t1")])
    run(tmp_path, "r2", [graded("t1")]).plan_file.write_text("{")
    (tmp_path / "ns/r3/leases").mkdir(parents=True)
    assert find(tmp_path, "r1").run_id == "r1"


def test_what_the_new_run_does_not_plan_is_not_taken_over(tmp_path):
    run(tmp_path, "r1", [graded("t1"), graded("t1", attempt=2), graded("t2"), graded("t3")])
    found = find(tmp_path).limited_to(run_plan("t1", "t2", "t4"))
    assert (found.run_id, set(found.graded)) == ("r1", {("t1", 1), ("t2", 1)})
    other = Metric(name="other", primary=True)
    assert find(tmp_path).limited_to(run_plan("t1", metrics=(other,))).graded == {}


def test_a_named_run_that_is_not_there_is_an_error_that_names_near_ones(tmp_path):
    run(tmp_path, "20260101-abcd", [graded("t1")])
    with pytest.raises(ConfigurationError, match="20260101-abcd"):
        find(tmp_path, "20260101-abce")


@pytest.mark.parametrize("run_id", ["../../etc", "", "ns/r1", ".."])
def test_a_path_is_not_an_id(tmp_path, run_id):
    run(tmp_path, "r1", [graded("t1")])
    with pytest.raises(ConfigurationError, match="there is no run"):
        find(tmp_path, run_id)


def test_a_named_run_that_cannot_be_read_is_an_error_that_says_why(tmp_path):
    run(tmp_path, "r1", [graded("t1")]).plan_file.write_text("{")
    with pytest.raises(ConfigurationError, match=r"plan\.json"):
        find(tmp_path, "r1")
