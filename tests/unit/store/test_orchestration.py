import json

import attrs
import pytest

from agentcompass.errors import StoreError
from agentcompass.records import ProcessIdentity
from agentcompass.store.identity import this_process
from agentcompass.store.orchestration import (
    OrchestrationFile,
    OrchestrationInfo,
    RequestEntry,
    read_orchestration,
)


def info(launch_id="id-1", name="nightly", **fields):
    requests = fields.pop("requests", {"a": RequestEntry(run_id="r1")})
    return OrchestrationInfo(
        id=launch_id,
        name=name,
        started_at="2026-01-01T00:00:00+00:00",
        owner=this_process(),
        requests=requests,
        **fields,
    )


def opened(results_dir, stated):
    return OrchestrationFile(results_dir, stated, lambda text: text.replace("key-1", "[secret]"))


def read(file):
    return json.loads(file.path.read_text())


def test_it_is_there_from_the_start_and_is_replaced_whole(tmp_path):
    file = opened(tmp_path, info())
    assert file.path == tmp_path / "nightly" / "orchestration.json"
    assert read(file)["requests"]["a"]["status"] == "preparing"
    entry = RequestEntry(run_id="r1", status="completed", score=0.5, ci95=(0.25, 0.75))
    file.update(info(status="completed", requests={"a": entry}))
    assert read(file)["status"] == "completed"
    assert read(file)["requests"]["a"]["ci95"] == [0.25, 0.75]
    assert read(file)["schema"] == 1
    assert {path.name for path in file.path.parent.iterdir()} == {
        "orchestration.json",
        "orchestration.lock",
    }
    file.close()


def test_two_launches_of_one_name_have_a_file_each_while_both_run(tmp_path):
    first, second = opened(tmp_path, info()), opened(tmp_path, info("id-2"))
    assert second.path == tmp_path / "id-2" / "orchestration.json"
    assert (read(first)["id"], read(second)["id"]) == ("id-1", "id-2")
    first.close()
    third = opened(tmp_path, info("id-3"))
    assert third.path == first.path
    assert read(third)["id"] == "id-3"
    for file in (second, third):
        file.close()


def test_errors_are_free_of_secrets_and_odd_texts_are_json(tmp_path):
    entry = RequestEntry(run_id="r1", status="failed", error="refused key-1 \ud800\u2028")
    file = opened(tmp_path, info(name="../\ud800", requests={"\u2028": entry}))
    assert file.path.parent.parent == tmp_path
    assert read(file)["requests"]["\u2028"]["error"] == "refused [secret] \ud800\u2028"
    file.close()


def test_a_place_that_cannot_be_written_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot create"):
        opened(tmp_path / "file", info())


def test_what_is_written_can_be_read_while_it_runs_and_afterwards(tmp_path):
    entry = RequestEntry(run_id="r1", status="completed", score=0.5, ci95=(0.25, 0.75))
    stated = info(requests={"a": entry, "b": RequestEntry(run_id="r1")})
    file = opened(tmp_path, stated)
    found = read_orchestration(file.path.parent)
    assert (found.info, found.status, found.is_running) == (stated, "running", True)
    file.update(info(status="completed", requests={"a": entry}))
    file.close()
    assert read_orchestration(file.path.parent).status == "completed"


def test_a_launch_whose_process_is_gone_is_interrupted_unless_somebody_holds_its_lock(tmp_path):
    gone = ProcessIdentity(boot_id="another boot", pid=1, started=1)
    file = opened(tmp_path, attrs.evolve(info(), owner=gone))
    assert read_orchestration(file.path.parent).status == "running"
    file.close()
    assert read_orchestration(file.path.parent).status == "interrupted"


def test_what_cannot_be_read_is_an_error_that_names_the_file(tmp_path):
    with pytest.raises(StoreError, match=r"cannot read .*orchestration.json"):
        read_orchestration(tmp_path)
    (tmp_path / "orchestration.json").write_text("[]")
    with pytest.raises(StoreError, match=r"orchestration.json cannot be used"):
        read_orchestration(tmp_path)
