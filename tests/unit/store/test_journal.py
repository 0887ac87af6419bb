"""The journal file itself."""

import shutil

import pytest

from agentcompass.errors import StoreError
from agentcompass.store.journal import Journal, JournalLostError
from agentcompass.store.leases import LeaseBook
from support.storage import Disk, graded
from support.storage import lease as make_lease


def test_lines_in_one_batch_with_the_close_are_durable_and_told_so(tmp_path):
    journal = Journal(tmp_path / "attempts.jsonl")
    journal.append(b"1\n")
    journal.close()
    journal.commit()
    assert (tmp_path / "attempts.jsonl").read_bytes() == b"1\n"


def test_a_journal_closed_twice_is_closed(tmp_path):
    journal = Journal(tmp_path / "attempts.jsonl")
    journal.append(b"1\n")
    journal.close()
    journal.close()
    with pytest.raises(StoreError, match="is closed"):
        journal.append(b"2\n")
    assert (tmp_path / "attempts.jsonl").read_bytes() == b"1\n"


def test_a_journal_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "gone" / "attempts.jsonl"
    with pytest.raises(StoreError, match=f"cannot create {path}: No such file"):
        Journal(path)


def removed(folder):
    shutil.rmtree(folder)


def moved(folder):
    folder.rename(folder.with_name("elsewhere"))


def replaced(folder):
    (folder / "attempts.jsonl").unlink()
    (folder / "attempts.jsonl").write_bytes(b"another run\n")


@pytest.mark.parametrize("vanish", [removed, moved, replaced], ids=lambda how: how.__name__)
def test_a_journal_that_is_no_longer_where_it_was_takes_no_more_lines_and_says_so(tmp_path, vanish):
    folder = tmp_path / "run"
    folder.mkdir()
    journal = Journal(folder / "attempts.jsonl")
    journal.append(b"1\n")
    journal.commit()
    vanish(folder)
    journal.append(b"2\n")
    with pytest.raises(JournalLostError, match=r"attempts\.jsonl was re"):
        journal.commit()
    with pytest.raises(StoreError, match=r"attempts\.jsonl was re"):
        journal.append(b"3\n")
    journal.close()
    if vanish is moved:
        assert (tmp_path / "elsewhere" / "attempts.jsonl").read_bytes() == b"1\n"


def test_a_run_directory_that_was_removed_does_not_come_back(tmp_path):
    with Disk(tmp_path / "ns" / "r1") as disk:
        steps = disk.store.trajectory("t1", 1, 1)
        shutil.rmtree(disk.paths.run_dir)
        steps.write({"type": "said"})
        with pytest.raises(StoreError):
            LeaseBook(disk.paths.leases_dir).write(make_lease("l1"))
        error, _record = disk.append(graded(answer="x" * 100_000))
        assert isinstance(error, StoreError)
        error, _record = disk.append(graded())
        assert isinstance(error, JournalLostError)
        assert not disk.paths.run_dir.exists()
