"""Which run or launch `agentcompass status` shows when it is not told."""

import os

import pytest

from agentcompass.api.newest import choose
from agentcompass.api.observe import observe
from agentcompass.errors import StoreError
from agentcompass.records import ProcessIdentity
from agentcompass.store.identity import this_process
from agentcompass.store.orchestration import OrchestrationFile, OrchestrationInfo, RequestEntry
from support.storage import run_info, write_run

GONE = ProcessIdentity(boot_id="another boot", pid=4711, started=1)


def at(minute):
    return f"2026-01-01T00:{minute:02}:00.000+00:00"


def run(results_dir, name, minute, run_id="r1", **fields):
    info = run_info(run_id, name=name, started_at=at(minute), **{"owner": GONE, **fields})
    return write_run(results_dir / name / run_id, info=info).run_dir


def launch(results_dir, name, minute, owner=GONE, status="running", **requests):
    entries = {key: RequestEntry(run_id=run_id) for key, run_id in requests.items()}
    info = OrchestrationInfo(
        id=name,
        name=name,
        started_at=at(minute),
        owner=owner,
        requests=entries,
        status=status,
    )
    file = OrchestrationFile(results_dir, info, lambda text: text)
    file.close()
    return file.path.parent


def test_a_run_directory_and_that_of_a_launch_mean_themselves(tmp_path):
    for directory in (run(tmp_path, "demo", 1), launch(tmp_path, "nightly", 2)):
        assert choose(directory).directory == directory


def test_the_newest_run_is_the_one_that_began_last(tmp_path):
    run(tmp_path, "first", 1)
    last = run(tmp_path, "second", 9)
    run(tmp_path, "third", 5)
    assert choose(tmp_path).directory == last


def test_runs_of_a_named_folder_are_found_too(tmp_path):
    run(tmp_path, "plain", 1)
    deep = run(tmp_path / "my folder", "demo", 2)
    assert choose(tmp_path).directory == deep


def test_a_run_of_a_launch_means_the_launch(tmp_path):
    run(tmp_path, "one", 3)
    directory = launch(tmp_path, "nightly", 2, one="r1")
    assert choose(tmp_path).directory == directory


def test_a_later_run_of_the_same_request_is_a_run_of_its_own(tmp_path):
    launch(tmp_path, "nightly", 2, one="r1")
    again = run(tmp_path, "one", 3, run_id="r2")
    assert choose(tmp_path).directory == again


def test_what_else_is_under_way_is_named_and_what_is_over_is_not(tmp_path):
    older = run(tmp_path, "older", 1, owner=this_process())
    busy = launch(tmp_path, "busy", 2, owner=this_process())
    run(tmp_path, "dead", 3)
    run(tmp_path, "over", 4, owner=this_process(), status="completed")
    launch(tmp_path, "done", 5, owner=this_process(), status="completed")
    newest = run(tmp_path, "newest", 6)
    chosen = choose(tmp_path)
    assert (chosen.directory, chosen.others) == (newest, (busy, older))


@pytest.mark.parametrize("kind", ["run", "launch"])
def test_one_that_cannot_be_read_counts_by_the_time_of_its_file(tmp_path, kind):
    whole = run(tmp_path, "whole", 1)
    broken = run(tmp_path, "broken", 2) if kind == "run" else launch(tmp_path, "broken", 2)
    file = broken / ("run.json" if kind == "run" else "orchestration.json")
    file.write_text("{")
    os.utime(file, (1, 1))
    assert choose(tmp_path).directory == whole
    os.utime(file)
    assert choose(tmp_path).directory == broken


def test_a_directory_that_has_leases_only_is_no_run_yet(tmp_path):
    (tmp_path / "demo" / "r0" / "leases").mkdir(parents=True)
    with pytest.raises(StoreError, match="there is no run in"):
        choose(tmp_path)


def test_no_run_at_all_is_an_error_that_says_what_to_give(tmp_path):
    with pytest.raises(StoreError) as caught:
        choose(tmp_path / "not there")
    assert "results directory" in caught.value.hint


def test_a_directory_that_cannot_be_looked_at_is_an_error_that_names_it(tmp_path):
    (tmp_path / "loop").symlink_to("x" * 300)
    for look in (choose, lambda directory: observe(directory, 0.0)):
        with pytest.raises(StoreError, match=r"cannot read .*loop"):
            look(tmp_path / "loop")
